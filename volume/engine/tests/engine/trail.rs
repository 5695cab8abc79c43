//! The trail: one rule each. The policy knows the future here: it brings to RAM the pages that a
//! test calls near, and appends the pages that a test calls ahead.

use seekless_engine::format::Header;
use seekless_engine::ram_pages;
use seekless_learn::{Foreseen, Work};

use super::area::spoil;
use super::log::flushes_area;
use super::rules::{hold, none, until};
use super::*;

fn options(cache_pages: u64) -> Config {
    let (adaptive, append_pages, cluster) = (true, 1, Bytes(0));
    Config { adaptive, append_pages, cluster, ..config(cache_pages) }
}

/// A policy that knows the future. A read of home takes a second, so that the trail pays.
pub(super) fn foreseeing(world: &mut World) {
    // Longest time of an I/O that is no stall.
    world.home_nanos = 50_000_000;
    if let Some(policy) = world.engine.adaptive() {
        policy.foresee(Foreseen::default());
    }
}

fn world(cache_pages: u64) -> World {
    foreseen(options(cache_pages))
}

fn foreseen(config: Config) -> World {
    let mut world = World::new(config);
    foreseeing(&mut world);
    world
}

pub(super) fn foresee(world: &mut World, page: u64, what: fn(&mut Foreseen, u64)) {
    let page = ram_pages(Sectors(GRID), home(page, 1)).start;
    what(world.engine.adaptive().unwrap().foreseen().unwrap(), page);
}

/// Every request ends.
fn answer(world: &mut World) {
    while !world.clients.is_empty() {
        assert!(!world.waiting.is_empty(), "a request waits for nothing");
        world.execute(0);
    }
}

/// Reads pages of home in this order, each by itself.
pub(super) fn read(world: &mut World, pages: &[u64]) {
    for &page in pages {
        world.issue(Op::Read, home(page, 1));
        answer(world);
    }
}

/// Clients read pages that are never read again: RAM of 8 pages holds nothing else afterwards.
fn forget(world: &mut World) {
    read(world, &[56, 57, 58, 59, 60, 61, 62, 63]);
}

/// The policy appends these pages, once they were read.
fn ahead(world: &mut World, pages: &[u64]) {
    pages.iter().for_each(|&page| foresee(world, page, Foreseen::is_ahead));
}

/// Appends copies of these pages to the trail, in this order; then RAM holds none of them.
fn append(world: &mut World, pages: &[u64]) {
    ahead(world, pages);
    for some in pages.chunks(4) {
        read(world, some);
        // A miss ends the run of uses, so that all of it waits to be appended.
        read(world, &[55]);
        world.settle();
    }
    forget(world);
    world.settle();
}

/// Slots of the copies of a page.
fn slots_of(world: &World, page: u64) -> Vec<u64> {
    let standing = world.engine.standing().copies;
    let places = standing.iter().flat_map(|copy| {
        (0..copy.home.len.0 / 8).map(|i| (copy.home.start.0 + i * 8, copy.place.0 / 8 + i))
    });
    let here = places.filter(|&(start, _)| start == home(page, 1).start.0);
    here.map(|(_, place)| place + place / 7 + 1).collect()
}

/// Slots of the area, behind superblocks, checkpoints and plan.
fn slots(first: u64, count: u64) -> Extent {
    Extent::new((8 + first) * 8, count * 8)
}

fn rot(world: &mut World, slot: u64) {
    world.area.write(slots(slot, 1), &[0x5A; 4096]).unwrap();
}

/// An append of copies.
fn is_append(io: &Io) -> bool {
    io.target == Target::Area && matches!(io.memory, Some(Memory::Stage { .. }))
}

fn is_sound(world: &mut World) {
    let examined = examine(&mut world.area).unwrap();
    assert_eq!(examined.check(&mut world.area, true, &mut |_| {}).unwrap(), vec![]);
}

#[test]
fn copies_stand_in_the_order_of_use_and_are_read_in_one_piece() {
    let mut world = world(8);
    append(&mut world, &[10, 30, 20]);
    let first = slots_of(&world, 10)[0];
    assert_eq!(slots_of(&world, 30), [first + 1]);
    assert_eq!(slots_of(&world, 20), [first + 2]);
    foresee(&mut world, 30, Foreseen::is_near);
    foresee(&mut world, 20, Foreseen::is_near);
    let before = world.engine.stats();
    world.issue(Op::Read, home(10, 1));
    assert_eq!(world.waiting[0].extent, slots(first, 3));
    world.settle();
    read(&mut world, &[30, 20]);
    let done = world.engine.stats() - before;
    assert_eq!((done.copy_reads, done.home_reads, done.cache_hits), (1, 0, 2));
    assert_eq!((done.prefetched, done.prefetch_used), (2, 2));
}

#[test]
fn a_window_is_no_longer_than_a_buffer() {
    let mut world = foreseen(Config { buffer_bytes: Bytes(8 * 4096), ..options(8) });
    let pages: Vec<u64> = (0..20).map(|i| 2 * i).collect();
    for some in pages.chunks(3) {
        append(&mut world, some);
    }
    pages.iter().for_each(|&page| foresee(&mut world, page, Foreseen::is_near));
    world.issue(Op::Read, home(0, 1));
    let all: u64 = world.waiting.iter().map(|io| io.extent.len.0).sum();
    assert!(world.waiting[0].target == Target::Area && (32..=64).contains(&all), "{all}");
    world.settle();
    // Nor is one of home.
    let mut world = foreseen(Config { buffer_bytes: Bytes(8 * 4096), ..options(32) });
    (0..40).for_each(|page| foresee(&mut world, page, Foreseen::is_near));
    world.issue(Op::Read, home(20, 1));
    let all: u64 = world.waiting.iter().map(|io| io.extent.len.0).sum();
    assert_eq!((all, world.waiting[0].target), (8 * 8, Target::Home));
    world.settle();
}

/// Clients read pages, and leave so many nanoseconds between two requests.
fn read_with(world: &mut World, pages: &[u64], gap: u64) {
    for &page in pages {
        world.now += gap;
        read(world, &[page]);
    }
}

/// Pages of each I/O that waits.
fn waiting(world: &World) -> Vec<u64> {
    world.waiting.iter().map(|io| io.extent.len.0 / 8).collect()
}

#[test]
fn a_window_ends_where_a_client_waits_if_clients_leave_time() {
    for (gap, first) in [(40_000_000, 16), (0, 43)] {
        let (append_pages, buffer_bytes) = (0, Bytes(64 * 4096));
        let mut world = foreseen(Config { append_pages, buffer_bytes, ..options(64) });
        read_with(&mut world, &[0, 1, 2, 3, 4, 5, 6, 7], gap);
        (16..64).for_each(|page| foresee(&mut world, page, Foreseen::is_near));
        world.now += gap;
        world.issue(Op::Read, home(20, 1));
        assert_eq!(waiting(&world), [5, first], "16 to 20, and those behind");
        world.execute(0);
        assert!(world.clients.is_empty());
        if gap > 0 {
            world.execute(0);
            assert_eq!(waiting(&world), [16], "nobody waits: it goes on");
            world.issue(Op::Read, home(10, 1));
            assert_eq!(waiting(&world)[0], 16);
            world.execute(0);
            assert!(world.waiting.iter().all(|io| io.extent.overlaps(home(10, 1))));
        }
        world.settle();
        read(&mut world, &[21, 40, 63]);
    }
}

/// Two reads would be two operations. If the read fails, the client gets its page all the same.
#[test]
fn where_operations_count_a_window_is_one_read() {
    let toll = Toll { read: Duration(5_000_000), ..Toll::default() };
    for (toll, first) in [(toll, 48), (Toll { merges: true, ..toll }, 5)] {
        let (append_pages, buffer_bytes) = (0, Bytes(64 * 4096));
        let mut world = foreseen(Config { append_pages, buffer_bytes, toll, ..options(64) });
        read_with(&mut world, &[0, 1, 2, 3, 4, 5, 6, 7], 40_000_000);
        (16..64).for_each(|page| foresee(&mut world, page, Foreseen::is_near));
        world.now += 40_000_000;
        world.issue(Op::Read, home(20, 1));
        assert_eq!(waiting(&world)[0], first, "16 to 63, or 16 to 20 and a read behind");
        world.settle();
        read(&mut world, &[21, 40, 63]);
    }
}

#[test]
fn a_batch_is_short_if_clients_leave_time() {
    let longest = |gap: u64| {
        let mut world = foreseen(Config { append_pages: 2, ..options(64) });
        let pages: Vec<u64> = (0..11).map(|i| 5 * i).collect();
        ahead(&mut world, &pages);
        read_with(&mut world, &pages, gap);
        let mut longest = 0;
        while world.engine.copied() < Sectors(8 * 8) {
            let at = until(&mut world, none, is_append);
            longest = longest.max(world.waiting[at].extent.len.0 / 8);
            world.execute(at);
        }
        longest
    };
    // A batch may begin with the map page of its segment.
    assert!((2..=3).contains(&longest(40_000_000)));
    assert!(longest(0) > 6);
}

#[test]
fn windows_end_with_the_device() {
    let mut world = world(64);
    (0..64).for_each(|page| foresee(&mut world, page, Foreseen::is_near));
    // The last sectors are a part of a page; the first ones lie before the first page.
    for extent in [Extent::new(CAPACITY - 1, 1), Extent::new(0, 2), Extent::new(CAPACITY - 9, 9)] {
        world.issue(Op::Read, extent);
        assert!(world.waiting.iter().all(|io| io.extent.end().0 <= CAPACITY));
        world.settle();
    }
    world.read_all();
}

#[test]
fn a_write_drops_every_copy_of_its_page() {
    let mut world = world(8);
    append(&mut world, &[10, 30]);
    append(&mut world, &[10]);
    append(&mut world, &[10]);
    assert_eq!(slots_of(&world, 10).len(), 3);
    world.issue(Op::Write, Extent::new(home(10, 1).start.0 + 5, 1));
    assert_eq!((slots_of(&world, 10).len(), slots_of(&world, 30).len()), (0, 1));
    world.settle();
    forget(&mut world);
    read(&mut world, &[10, 30]);
    is_sound(&mut world);
}

#[test]
fn a_write_during_an_append_overtakes_it() {
    let mut world = world(8);
    ahead(&mut world, &[10, 30, 20]);
    read(&mut world, &[10, 30, 20, 63]);
    until(&mut world, none, is_append);
    world.issue_settled(Op::Write, home(30, 1));
    assert_eq!([10, 30, 20].map(|page| slots_of(&world, page).len()), [1, 0, 1]);
    assert_eq!(world.engine.stats().overtaken, 8);
    forget(&mut world);
    read(&mut world, &[10, 30, 20]);
}

#[test]
fn a_page_that_the_write_buffer_holds_is_not_appended() {
    for gather in [Duration::ZERO, Duration::from_millis(700)] {
        let mode = Mode::WriteBack;
        let mut world = foreseen(Config { mode, gather, ..options(32) });
        append(&mut world, &[40]);
        ahead(&mut world, &[10, 30]);
        world.home_nanos = 0;
        read(&mut world, &[10, 30, 50]);
        world.issue(Op::Write, home(30, 1));
        if gather == Duration::ZERO {
            world.settle();
        } else {
            // The write is acknowledged, and stands in RAM alone.
            until(&mut world, none, is_append);
            let at = world.waiting.iter().position(is_append).unwrap();
            world.execute(at);
        }
        assert_eq!((slots_of(&world, 10).len(), slots_of(&world, 30).len()), (1, 0));
        assert_eq!(world.engine.stats().overtaken, 0);
        world.settle();
        forget(&mut world);
        read(&mut world, &[10, 30]);
    }
}

#[test]
fn a_read_of_the_write_buffer_is_none_of_the_trail() {
    let mut world = foreseen(Config { mode: Mode::WriteBack, ..options(8) });
    append(&mut world, &[40]);
    world.issue_settled(Op::Write, home(30, 1));
    forget(&mut world);
    let way = |world: &mut World| world.engine.adaptive().unwrap().way_to_trail();
    let before = way(&mut world);
    world.issue(Op::Read, home(30, 1));
    assert_eq!(world.waiting[0].target, Target::Area);
    world.settle();
    assert_eq!(way(&mut world), before);
    read(&mut world, &[40]);
    assert_ne!(way(&mut world), before, "a read of the trail");
}

/// Fills three of four segments, of seven copies each, and the fourth without its last slot.
fn full() -> World {
    let mut world = world(8);
    let pages: Vec<u64> = (0..27).collect();
    for some in pages.chunks(3) {
        append(&mut world, some);
    }
    assert_eq!(world.engine.copied(), Sectors(27 * 8));
    world
}

#[test]
fn a_segment_is_durably_void_before_it_is_written_again() {
    let mut world = full();
    ahead(&mut world, &[40, 41, 42]);
    read(&mut world, &[40, 41, 42, 63]);
    // The last slot is filled; the first segment is void, and the area may not know.
    let first = |io: &Io| is_append(io) && io.extent.overlaps(slots(0, 8));
    hold(&mut world, |io| flushes_area(io) || first(io));
    assert!(world.waiting.iter().any(flushes_area), "{:?}", world.waiting);
    assert!(!world.waiting.iter().any(first), "{:?}", world.waiting);
    assert!(slots_of(&world, 0).is_empty(), "a read may not use it any more");
    ahead(&mut world, &[43, 44, 45]);
    world.settle();
    read(&mut world, &[43, 44, 45, 63]);
    world.settle();
    assert!(slots_of(&world, 43)[0] < 8);
    assert!(slots_of(&world, 7).len() == 1 && slots_of(&world, 26).len() == 1);
    is_sound(&mut world);
}

#[test]
fn a_segment_that_is_read_is_not_written() {
    // The read begins in the first segment or in the second, and ends in the second.
    for first in [6, 7] {
        let mut world = full();
        foresee(&mut world, 8, Foreseen::is_near);
        foresee(&mut world, 7, Foreseen::is_near);
        world.issue(Op::Read, home(first, 1));
        let held = world.waiting[0].extent;
        assert_eq!(held.end(), slots(9, 2).end(), "{:?}", world.waiting);
        // Clients read so much that the ring would be in the second segment.
        let busy = |io: &Io| is_append(io) && io.extent.overlaps(slots(8, 8));
        for _ in 0..3 {
            for page in 30..56 {
                foresee(&mut world, page, Foreseen::is_ahead);
                world.issue(Op::Read, home(page, 1));
                while world.clients.len() > 1 {
                    let at = world.waiting.iter().position(|io| io.extent != held).unwrap();
                    world.execute(at);
                }
            }
            hold(&mut world, |io| io.extent == held || busy(io));
            assert!(!world.waiting.iter().any(busy), "{first}: {:?}", world.waiting);
        }
        assert!(slots_of(&world, 7).is_empty() || first == 6, "it waits to be written");
        world.settle();
        read(&mut world, &[63]);
        world.settle();
        forget(&mut world);
        read(&mut world, &[6, 7, 8, 30, 40, 50]);
        is_sound(&mut world);
    }
}

#[test]
fn a_hole_in_a_window_is_neither_delivered_nor_counted_as_damage() {
    let mut world = world(8);
    append(&mut world, &[10, 20, 30]);
    let hole = slots_of(&world, 20)[0];
    world.issue_settled(Op::Write, home(20, 1));
    forget(&mut world);
    rot(&mut world, hole);
    foresee(&mut world, 30, Foreseen::is_near);
    world.issue(Op::Read, home(10, 1));
    assert_eq!(world.waiting[0].extent, slots(hole - 1, 3));
    world.settle();
    let before = world.engine.stats();
    assert_eq!(before.damaged, 0);
    read(&mut world, &[30, 20]);
    let done = world.engine.stats() - before;
    assert_eq!((done.cache_hits, done.home_reads), (1, 1));
}

#[test]
fn a_damaged_copy_is_found_and_home_is_read() {
    let mut world = world(8);
    append(&mut world, &[10, 20]);
    let slot = slots_of(&world, 10)[0];
    rot(&mut world, slot);
    read(&mut world, &[10]);
    let done = world.engine.stats();
    assert_eq!((done.damaged, slots_of(&world, 10).len()), (1, 0));
    // A damaged copy that was read along costs nothing.
    forget(&mut world);
    append(&mut world, &[10, 30]);
    let slot = slots_of(&world, 30)[0];
    rot(&mut world, slot);
    foresee(&mut world, 30, Foreseen::is_near);
    read(&mut world, &[10, 30]);
    assert_eq!(world.engine.stats().damaged, 2);
}

#[test]
fn a_failed_append_leaves_nothing_usable() {
    let mut world = world(8);
    ahead(&mut world, &[10, 20]);
    read(&mut world, &[10, 20, 63]);
    world.fail_background = true;
    world.settle();
    world.fail_background = false;
    assert_eq!((slots_of(&world, 10).len(), slots_of(&world, 20).len()), (0, 0));
    append(&mut world, &[30]);
    assert_eq!(slots_of(&world, 30).len(), 1);
    read(&mut world, &[10, 20, 30]);
    is_sound(&mut world);
}

/// Pages 10 and 11 stand on the trail, with another page between them.
fn apart() -> World {
    let mut world = world(8);
    append(&mut world, &[10, 40, 11]);
    world.issue(Op::Read, home(10, 2));
    let first = slots_of(&world, 10)[0];
    assert_eq!(world.waiting[0].extent, slots(first, 3));
    world
}

#[test]
fn copies_out_of_order_come_to_ram_first_and_count_as_a_read_of_the_area() {
    let mut world = apart();
    let before = world.engine.stats();
    world.settle();
    let done = world.engine.stats() - before;
    assert_eq!((done.cache_hits, done.home_reads, world.waiting.len()), (0, 0, 0));
    // A client's write comes between: home has the newest bytes.
    let mut world = apart();
    world.issue_settled(Op::Write, home(11, 1));
    read(&mut world, &[10, 11]);
}

#[test]
fn a_client_is_answered_where_copies_out_of_order_cannot_be_read() {
    let mut world = apart();
    world.fail_area_reads = true;
    let ended = world.completed;
    answer(&mut world);
    assert_eq!((world.completed - ended, world.failed), (1, 0));
    assert_eq!((slots_of(&world, 10).len(), slots_of(&world, 11).len()), (0, 0));
    assert_eq!(slots_of(&world, 40).len(), 1, "nobody asked for it");
}

#[test]
fn copies_outlive_a_stop_in_order() {
    for mode in [Mode::WriteThrough, Mode::WriteBack] {
        let mut world = foreseen(Config { mode, ..options(8) });
        append(&mut world, &[10, 20]);
        append(&mut world, &[10]);
        let standing = world.engine.standing();
        assert_eq!(slots_of(&world, 10).len(), 2);
        world.restart([1; 32]);
        foreseeing(&mut world);
        assert_eq!(world.engine.standing(), standing);
        is_sound(&mut world);
        // The way home is long.
        (33..41).for_each(|page| read(&mut world, &[page]));
        world.issue(Op::Read, home(20, 1));
        assert_eq!(world.waiting[0].target, Target::Area);
        world.settle();
    }
}

#[test]
fn after_an_unclean_stop_no_copy_is_read_before_it_is_proven() {
    let mut world = world(8);
    // The first segment is the first that the next life writes.
    append(&mut world, &[40, 41, 42, 43, 44, 45, 46]);
    append(&mut world, &[10, 20]);
    append(&mut world, &[10]);
    world.restart([1; 32]);
    // Somebody kills the server.
    world.crash([2; 32]);
    foreseeing(&mut world);
    assert_eq!((world.engine.copied(), world.engine.in_doubt()), (Sectors(0), Sectors(10 * 8)));
    world.settle();
    assert_eq!(world.engine.in_doubt(), Sectors(10 * 8), "the disk does no work for it");
    read(&mut world, &[33]);
    world.issue(Op::Read, home(10, 1));
    assert_eq!(world.waiting[0].target, Target::Home);
    world.settle();
    assert_eq!(world.engine.stats().proven, 2);
    forget(&mut world);
    world.issue(Op::Read, home(10, 1));
    assert_eq!(world.waiting[0].target, Target::Area);
    world.settle();
    assert_eq!(world.engine.in_doubt(), Sectors(8));
}

#[test]
fn a_plan_gives_way_to_the_trail() {
    let plain = Config { adaptive: false, ..options(8) };
    let mut world = World::new(plain);
    world.handle_settled(Input::Install(plan_of(&[(0, 7, 0), (12, 7, 0)])));
    world.restart([1; 32]);
    let (engine, _) = attach(&mut world.area, options(8), &kept([1; 32])).unwrap();
    world.engine = engine;
    foreseeing(&mut world);
    assert_eq!(world.engine.progress(), None);
    world.handle_settled(Input::Install(plan_of(&[(30, 7, 0)])));
    assert_eq!(world.engine.stats().plans_refused, 1);
    append(&mut world, &[30, 40]);
    assert_eq!(slots_of(&world, 30), [1]);
    let map = |world: &mut World, segment: u64| {
        let mut page = [0; 4096];
        world.area.read(slots(segment * 8, 1), &mut page).unwrap();
        Header::decode(&page).is_ok()
    };
    assert!(!map(&mut world, 0), "the map of other copies must not be found again");
    assert!(map(&mut world, 1), "nothing was written there yet");
    read(&mut world, &[0, 12, 30, 40]);
    is_sound(&mut world);
}

/// The next life appends behind the newest copies, and not over them.
#[test]
fn after_a_stop_in_order_the_ring_goes_on_where_it_was() {
    let appended = |crash: bool| {
        let mut world = world(8);
        append(&mut world, &[40, 41, 42, 43, 44, 45, 46]);
        append(&mut world, &[10, 20]);
        let before = world.engine.trail().unwrap().0;
        world.restart([1; 32]);
        if crash {
            world.crash([1; 32]);
        }
        foreseeing(&mut world);
        let head = world.engine.trail().unwrap().0;
        append(&mut world, &[30]);
        (before, head, world)
    };
    let (before, head, world) = appended(false);
    assert!(head >= before && head.0 - before.0 < 8 * 4096, "{before} then {head}");
    assert_eq!(head.0 % (8 * 4096), 0, "a whole segment is made void");
    assert!(slots_of(&world, 30)[0] * 4096 >= before.0);
    assert!([40, 46, 10, 20].iter().all(|&page| !slots_of(&world, page).is_empty()));
    let (_, head, _) = appended(true);
    assert_eq!(head, Bytes(0), "after an unclean stop it begins anew");
}

/// What the policy learned outlives a stop in order. Damage of it costs only what was learned.
#[test]
fn after_a_stop_in_order_the_policy_knows_what_it_learned() {
    let taught = || {
        let area = Sectors(AREA + 3000 * 8 * 8);
        let mut world = World::new(Config { area, write_buffer_percent: 1, ..options(32) });
        world.home_nanos = 3_000_000;
        for round in 0..40 {
            (0..60).for_each(|i| read(&mut world, &[(i * 7 + round % 2) % 60]));
        }
        world.settle();
        world.handle_settled(Input::Detach { stamp: [1; 32] });
        world
    };
    let mut world = taught();
    let superblock = examine(&mut world.area).unwrap().superblock().clone();
    let most = superblock.learned_bytes as usize;
    assert!(most > 1000, "{superblock:?}");
    let knows = |world: &mut World| world.engine.adaptive().unwrap().learned(most);
    let before = knows(&mut world);
    world.crash([1; 32]);
    let again = knows(&mut world);
    let differ = again.iter().zip(&before).filter(|(a, b)| a != b).count();
    // The last I/Os of the stop count in the ledger: six sums of four bytes.
    assert!(again.len() == before.len() && differ <= 6 * 4, "{differ} bytes");
    // An unclean stop, or damage: it begins anew.
    world.crash([1; 32]);
    let anew = knows(&mut world);
    assert!(anew != before);
    let mut world = taught();
    let geometry = superblock.geometry().unwrap();
    let first = geometry.checkpoint_at(2) + u64::from(superblock.learned_bytes) / 4052;
    spoil(&mut world, first);
    world.crash([1; 32]);
    assert!(knows(&mut world) == anew);
}

/// Each search for a copy of a page walks past all of them. The oldest one goes, and the newest one
/// stands in the order of the latest use.
#[test]
fn a_page_has_sixteen_copies_at_most() {
    let mut world = world(8);
    let mut newest = Vec::new();
    for _ in 0..20 {
        let before = slots_of(&world, 10);
        append(&mut world, &[10]);
        let new = slots_of(&world, 10).into_iter().find(|slot| !before.contains(slot));
        newest.extend(new);
    }
    assert_eq!(newest.len(), 20, "each use appends a copy");
    let mut stand = slots_of(&world, 10);
    stand.sort_unstable();
    assert_eq!(stand, newest[4..]);
    is_sound(&mut world);
    world.crash([0; 32]);
    world.settle_and_read();
}

/// The policy weighs a read at home for each fourth miss while it stands aside, too. The window of
/// one of these misses is not the window of a later miss.
#[test]
fn a_read_at_home_after_standing_aside_brings_its_own_pages() {
    for (page, others) in [(10, [40, 42, 44, 46]), (50, [20, 22, 24, 26])] {
        let mut world = world(8);
        append(&mut world, &[page]);
        // This read weighs home, and takes the copy.
        world.issue(Op::Read, home(page, 1));
        assert_eq!(world.waiting[0].target, Target::Area);
        answer(&mut world);
        world.handle(Input::Bypass(true));
        read(&mut world, &others);
        world.issue(Op::Write, home(page, 1));
        answer(&mut world);
        // RAM has eight pages. Hits of the vanilla system's RAM bring one page each.
        read(&mut world, &[0, 2, 4, 6, 30, 32, 34, 36, 0, 2, 4, 6]);
        read(&mut world, &others);
        world.handle(Input::Bypass(false));
        world.issue(Op::Read, home(page, 1));
        let io = &world.waiting[0];
        assert!(io.target == Target::Home && io.extent.contains(home(page, 1)), "{io:?}");
        answer(&mut world);
    }
}

/// Reads at home count with their pages then too. Otherwise each page of the trail that was used
/// would seem to have saved all of their time.
#[test]
fn the_ledger_gains_nothing_while_the_policy_stands_aside() {
    // The time of trail writes that the ledger still allows, ms.
    let allowed = |misses: usize| {
        let mut world = world(8);
        (0..20).for_each(|_| append(&mut world, &[10]));
        world.handle(Input::Bypass(true));
        let pages: Vec<u64> = (0..20).map(|n| n * 2).cycle().take(misses).collect();
        read(&mut world, &pages);
        let policy = world.engine.adaptive().unwrap();
        let mut writes = 0;
        while policy.may_append() {
            policy.worked(Work::TrailWrite, 50.0);
            writes += 50;
            assert!(writes < 10_000_000, "without a limit");
        }
        writes
    };
    let (before, after) = (allowed(0), allowed(10_000));
    // 3% of 500 s are 15 s. The price of an access may rise: the first copies have credit on it.
    assert!(after < before + 25_000, "{before} ms, then {after} ms");
}

/// Requests need not begin where a page begins. The vanilla system has all of what it read ahead.
#[test]
fn a_policy_that_stands_aside_reads_ahead_to_the_last_sector() {
    let read_ahead = Bytes(8 * 4096);
    let mut world = World::new(Config { read_ahead, ..options(32) });
    world.handle(Input::Bypass(true));
    let start = home(8, 1).start.0 + 4;
    world.issue(Op::Read, Extent::new(start, 32));
    answer(&mut world);
    world.issue(Op::Read, Extent::new(start + 32, 32));
    assert!(world.waiting.is_empty(), "{:?}", world.waiting);
}
