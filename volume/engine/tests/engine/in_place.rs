//! Writes in place: where they go, what they leave after a crash, and when pages go home.

use super::area::writeback;
use super::log::{execute_all, flushes_area, in_flight, log_of};
use super::rules::fail_in_flight;
use super::*;
use seekless_learn::Foreseen;

/// Copies of pages 25, 26 and 5, which may be written in place.
fn opened() -> World {
    let mut world = World::new(Config { in_place: true, ..writeback() });
    world.handle_settled(Input::Install(plan_of(&[(25, 2, 0), (5, 1, 0)])));
    assert_eq!((world.engine.copied(), world.engine.dirty()), (Sectors(24), Sectors(0)));
    world
}

/// The I/Os in flight: device, first sector, sectors.
fn sent(world: &World) -> Vec<(Target, u64, u64)> {
    world.waiting.iter().map(|io| (io.target, io.extent.start.0, io.extent.len.0)).collect()
}

/// Where the copy of page 25 stands; those of 26 and 5 follow.
const FIRST: u64 = (8 + 1) * 8;

#[test]
fn a_write_of_copied_pages_goes_to_the_copies_sector_by_sector() {
    let mut world = opened();
    world.issue(Op::Write, Extent::new(GRID + 25 * 8 + 3, 9));
    assert_eq!(sent(&world), [(Target::Area, FIRST + 3, 9)], "no log, no read, no home");
    world.settle();
    assert_eq!(world.engine.dirty(), Sectors(16));
    assert_eq!(world.engine.stats().in_place, 1);
    // 4.5: all pages mapped, and the newest bytes stand there alone.
    world.issue(Op::Read, home(25, 2));
    assert_eq!(sent(&world), [(Target::Area, FIRST, 16)]);
    world.settle_and_read();
}

/// The others are absorbed while there is room, then go home.
#[test]
fn a_write_of_more_than_copied_pages_is_split() {
    let mut world = opened();
    world.issue(Op::Write, Extent::new(GRID + 24 * 8, 4 * 8 + 2));
    let record = in_flight(&world, |io| io.extent.len == Sectors(3 * 8));
    assert_eq!(world.waiting[record].target, Target::Area, "a header and pages 24 and 27");
    let mut others = sent(&world);
    others.remove(record);
    let part = (Target::Home, GRID + 28 * 8, 2);
    assert!(others.contains(&(Target::Area, FIRST, 16)) && others.contains(&part), "{others:?}");
    assert_eq!(others.len(), 2);
    execute_all(&mut world);
    assert!(world.clients.is_empty());
    let mut absorbed = 0;
    while !sent(&world).contains(&(Target::Home, GRID + 40 * 8, 8)) {
        execute_all(&mut world);
        world.issue(Op::Write, home(40, 1));
        absorbed += 1;
        assert!(absorbed < 100, "the log is never full");
    }
    execute_all(&mut world);
    world.issue(Op::Write, home(4, 3));
    let all = [(4, 1), (6, 1)].map(|(page, n)| (Target::Home, GRID + page * 8, n * 8));
    assert!(all.iter().all(|io| sent(&world).contains(io)), "{:?}", sent(&world));
    assert!(sent(&world).contains(&(Target::Area, FIRST + 16, 8)));
    world.settle_and_read();
}

/// Twenty seconds without a client.
fn wait(world: &mut World) {
    for _ in 0..20 {
        world.now += 1_000_000_000;
        world.handle_settled(Input::Tick);
    }
}

/// 4.4: dirty pages go home in a reconfiguration that drops them, not before. The others stay dirty,
/// whether they stand in a copy or in the log.
#[test]
fn dirty_pages_go_home_when_a_new_plan_drops_them() {
    let mut world = opened();
    for page in [25, 5, 50, 51] {
        world.issue_settled(Op::Write, home(page, 1));
    }
    wait(&mut world);
    assert_eq!((world.engine.dirty(), world.engine.stats().destaged_bytes), (Sectors(32), 0));
    // Page 25 keeps its slot, but its segment is written again.
    world.handle_settled(Input::Install(plan_of(&[(25, 2, 0), (30, 1, 0), (51, 1, 0)])));
    assert_eq!(world.engine.stats().destaged_bytes, 2 * 4096, "5 and 50");
    assert_eq!(world.engine.dirty(), Sectors(16), "25 and 51");
    // 25 went to the log, and both left it.
    assert_eq!(world.engine.stats().relocated_bytes, 3 * 4096);
    for (page, place) in [(5, None), (25, Some(0)), (51, Some(3))] {
        world.issue(Op::Read, home(page, 1));
        let newest = place.map_or((Target::Home, GRID + page * 8, 8), |place| {
            (Target::Area, FIRST + place * 8, 8)
        });
        assert_eq!(sent(&world), [newest], "page {page}");
        world.settle();
    }
    // What is written afterwards stays until the next plan.
    let in_place = world.engine.stats().in_place;
    for page in [25, 50, 51, 52, 60] {
        world.issue_settled(Op::Write, home(page, 1));
    }
    wait(&mut world);
    assert_eq!(world.engine.stats().in_place, in_place + 2);
    assert_eq!(world.engine.stats().destaged_bytes, 2 * 4096);
    assert_eq!(world.engine.dirty(), Sectors(40));
    world.crash_and_read([1; 32]);
    world.handle_settled(Input::Command(Command::Drain));
    world.home_is_complete();
}

/// The mark stands in the log before the first write in place, and recovery believes it, not the
/// sum.
#[test]
fn after_a_crash_every_copy_that_may_be_written_is_newer_than_home_and_has_no_sum() {
    let mut world = opened();
    let marked = |h: &Header| matches!(&h.content, Content::Opened(e) if e.len() == 3);
    assert!(log_of(&mut world).iter().any(|(_, h)| marked(h)));
    world.issue_settled(Op::Write, Extent::new(GRID + 26 * 8 + 1, 2));
    let found = examine(&mut world.area).unwrap();
    let copies: Vec<_> = found.copies().map(|(_, home, state, sum)| (home, state, sum)).collect();
    let open = |home| (home, CopyState::Dirty, UNSUMMED);
    assert_eq!(copies, [open(25), open(26), open(5)]);
    assert_eq!(found.check(&mut world.area, true, &mut |_| {}).unwrap(), []);
    world.crash([1; 32]);
    assert_eq!(world.engine.dirty(), Sectors(24));
    world.read_all();
    // They can be written at once.
    world.issue(Op::Write, Extent::new(GRID + 5 * 8 + 1, 1));
    assert_eq!(sent(&world), [(Target::Area, FIRST + 17, 1)]);
    world.settle();
    world.handle_settled(Input::Command(Command::Drain));
    assert!(world.engine.is_drained());
    world.home_is_complete();
}

/// The volume leaves write-back, and the client gets no error.
#[test]
fn a_write_in_place_that_the_area_refuses_goes_home() {
    let mut world = opened();
    world.issue(Op::Write, home(25, 2));
    fail_in_flight(&mut world, |io| io.extent.start == Lba(FIRST));
    world.settle();
    assert_eq!((world.engine.mode(), world.failed), (Mode::WriteThrough, 0));
    world.read_all();
    world.home_is_complete();
}

/// A write goes where a copy is only if the mark is durable; a trail and replicas have no marks.
#[test]
fn without_a_mark_a_write_goes_to_the_log() {
    let mut world = World::new(Config { in_place: true, ..writeback() });
    world.handle(Input::Install(plan_of(&[(25, 2, 0)])));
    while world.engine.copied() == Sectors(0) {
        world.execute(0);
    }
    world.issue(Op::Write, home(25, 1));
    assert_eq!(world.engine.stats().in_place, 0);
    world.settle_and_read();
}

/// The log learns that home is newer before it learns that the place is void. In the other order a
/// crash between them would take home's older bytes for the newest.
#[test]
fn a_place_is_void_only_after_the_log_knows_that_home_is_newer() {
    let mut world = opened();
    world.issue(Op::Write, home(25, 1));
    world.issue_settled(Op::Flush, Extent::default());
    world.issue_at_once(Op::WriteZeroes, home(25, 1));
    assert!(world.clients.is_empty(), "it is at home, and no flush covers it");
    world.handle(Input::Install(plan_of(&[(30, 1, 0), (26, 1, 0)])));
    execute_all(&mut world);
    let log = log_of(&mut world);
    let last = |is: fn(&Content) -> bool| {
        log.iter().rfind(|(_, h)| is(&h.content)).map(|(_, h)| h.sequence)
    };
    let home_is_newer = last(|c| matches!(c, Content::Tombstones(_)));
    let place_is_void = last(|c| matches!(c, Content::Invalid(_)));
    assert!(home_is_newer.is_some() && home_is_newer < place_is_void, "{log:?}");
    world.settle_and_read();
}

/// I/Os take effect, and no time passes.
fn go_on(world: &mut World, until: impl Fn(&mut World) -> bool) {
    while !until(world) {
        assert!(!world.waiting.is_empty(), "it never comes");
        world.execute(0);
    }
}

/// A client writes these pages at home, and its flush ends as soon as it can. Then the power fails.
fn write_home_and_flush(world: &mut World, pages: &[u64]) {
    write_home_and_crash(world, pages);
    world.read_all();
}

fn write_home_and_crash(world: &mut World, pages: &[u64]) {
    let asked = world.completed;
    for (&page, n) in pages.iter().zip(1..) {
        world.issue(Op::Write, home(page, 1));
        while world.completed < asked + n {
            let client = |io: &Io| matches!(io.memory, Some(Memory::Client { .. }));
            world.execute(in_flight(world, client));
        }
    }
    flush_and_crash(world);
}

/// A client's flush ends as soon as it can. Then the power fails.
fn flush_and_crash(world: &mut World) {
    world.issue(Op::Flush, Extent::default());
    while !world.clients.is_empty() {
        assert!(!world.waiting.is_empty(), "the flush waits for nothing");
        let asked = world.waiting.iter().position(|io| !io.class.is_background());
        world.execute(asked.unwrap_or(0));
    }
    world.crash([1; 32]);
}

/// One I/O takes effect, after a wait of up to twenty seconds. False if none comes.
fn go_on_or_wait(world: &mut World) -> bool {
    for _ in 0..20 {
        if !world.waiting.is_empty() {
            world.execute(0);
            return true;
        }
        world.now += 1_000_000_000;
        world.handle(Input::Tick);
    }
    false
}

/// 4.4: a plan takes its page out of the write buffer. At any moment of this move a client writes a
/// part of the page, and the power fails after the flush: the log must not bring back its bytes.
#[test]
fn a_page_that_leaves_the_log_for_the_plan_does_not_come_back() {
    let mut in_place = 0;
    for steps in 0.. {
        let mut world = World::new(Config { in_place: true, ..writeback() });
        world.issue_settled(Op::Write, home(50, 1));
        assert_eq!(world.engine.dirty(), Sectors(8), "in the log");
        world.handle(Input::Install(plan_of(&[(50, 1, 0)])));
        let mut taken = 0;
        while taken < steps && go_on_or_wait(&mut world) {
            taken += 1;
        }
        let all = taken < steps;
        let asked = world.completed;
        world.issue(Op::Write, Extent::new(GRID + 50 * 8 + 1, 2));
        in_place += world.engine.stats().in_place;
        while world.completed == asked {
            assert!(go_on_or_wait(&mut world), "the write waits for nothing");
        }
        flush_and_crash(&mut world);
        world.read_all();
        if all {
            break;
        }
    }
    assert!(in_place > 0, "the page never had a copy of the plan");
}

/// The steps of a reconfiguration that keeps the dirty pages 25 and 26, one more each time, until
/// there are no more. Then `ends` looks at the world.
fn at_each_step(plan: &[(u64, u64, u64)], mut ends: impl FnMut(&mut World)) {
    for steps in 0.. {
        let mut world = opened();
        world.issue(Op::Write, home(25, 2));
        world.issue_settled(Op::Flush, Extent::default());
        world.handle(Input::Install(plan_of(plan)));
        let mut taken = 0;
        while taken < steps && go_on_or_wait(&mut world) {
            taken += 1;
        }
        if taken < steps {
            let destaged = world.engine.stats().destaged_bytes;
            assert_eq!((world.engine.dirty(), destaged), (Sectors(16), 0));
        }
        ends(&mut world);
        if taken < steps {
            break;
        }
    }
}

/// A client's write, and its flush, end as soon as they can. Then the power fails.
fn write_soon_and_crash(world: &mut World, extent: Extent) {
    let asked = world.completed;
    world.issue(Op::Write, extent);
    while world.completed == asked {
        let client = |io: &Io| matches!(io.memory, Some(Memory::Client { .. }));
        match world.waiting.iter().position(client) {
            Some(at) => world.execute(at),
            None => assert!(go_on_or_wait(world), "the write waits for nothing"),
        }
    }
    flush_and_crash(world);
    world.read_all();
}

/// Plans that keep pages 25 and 26: in their slots, in a segment that is written again; in another
/// order; in a segment of a later window.
const KEPT: [&[(u64, u64, u64)]; 3] =
    [&[(25, 2, 0), (30, 1, 0)], &[(26, 1, 0), (40, 3, 0), (25, 1, 0)], &[(30, 7, 0), (25, 2, 8)]];

/// 4.4: dirty pages that stay in the plan stay dirty. The power fails at any moment of the move.
#[test]
fn a_dirty_page_that_stays_in_the_plan_is_found_at_any_moment() {
    for plan in KEPT {
        at_each_step(plan, |world| world.crash_and_read([1; 32]));
    }
}

/// At any moment of the move a client writes such a page, in part or whole, and the power fails after
/// the flush.
#[test]
fn a_write_of_a_page_that_is_moved_while_it_is_dirty_is_found() {
    let parts = [Extent::new(GRID + 25 * 8 + 1, 2), home(25, 1)];
    for (plan, part) in KEPT.iter().flat_map(|plan| parts.map(|part| (plan, part))) {
        at_each_step(plan, |world| write_soon_and_crash(world, part));
    }
}

/// Clients may wait for such a page, and it is not theirs: its record takes its turn, and so does the
/// flush behind it.
#[test]
fn the_way_of_a_page_that_makes_way_for_a_plan_is_work_of_the_plan() {
    let mut world = opened();
    world.issue(Op::Write, home(25, 2));
    world.issue_settled(Op::Flush, Extent::default());
    world.handle(Input::Install(plan_of(KEPT[0])));
    let record =
        |io: &Io| (io.target, io.op, io.extent.len) == (Target::Area, Op::Write, Sectors(3 * 8));
    go_on(&mut world, |world| world.waiting.iter().any(record));
    let at = in_flight(&world, record);
    assert_eq!(world.waiting[at].class, Class::InTurn);
    world.execute(at);
    let flush = in_flight(&world, flushes_area);
    assert_eq!(world.waiting[flush].class, Class::InTurn);
    world.settle_and_read();
    assert_eq!(world.engine.stats().relocated_bytes, 4 * 4096, "to the log, and out of it");
}

/// A flush of the area fails while such pages are on their way to the log, and the host forgets them:
/// they still stand where they stood.
#[test]
fn a_page_that_makes_way_is_read_though_the_area_forgets_its_record() {
    let mut world = opened();
    world.issue(Op::Write, home(25, 2));
    world.issue_settled(Op::Flush, Extent::default());
    world.handle(Input::Install(plan_of(KEPT[0])));
    let record =
        |io: &Io| (io.target, io.op, io.extent.len) == (Target::Area, Op::Write, Sectors(3 * 8));
    go_on(&mut world, |world| world.waiting.iter().any(record));
    let at = in_flight(&world, record);
    let place = world.waiting[at].extent;
    world.execute(at);
    // The flush behind the record is on its way, and a client's fails.
    world.issue(Op::Flush, Extent::default());
    fail_in_flight(&mut world, |io| flushes_area(io) && !io.class.is_background());
    world.area.write_zeroes(place).unwrap();
    world.issue(Op::Read, home(25, 2));
    let at = in_flight(&world, |io| io.op == Op::Read);
    assert_eq!(world.waiting[at].extent, Extent::new(FIRST, 16), "not from the log");
    world.execute(at);
    world.settle_and_read();
    world.home_is_complete();
}

/// Pages that the plan keeps fill the log: some of them go home, and the move ends.
#[test]
fn a_log_full_of_pages_that_the_plan_keeps_holds_up_no_move() {
    let mut world = opened();
    world.issue_settled(Op::Write, home(25, 2));
    let mut page = 30;
    loop {
        world.issue(Op::Write, home(page, 1));
        let full = sent(&world).contains(&(Target::Home, GRID + page * 8, 8));
        execute_all(&mut world);
        if full {
            break;
        }
        page += 1;
        assert!(page < 64, "the log is never full");
    }
    let logged = (page - 30).min(24);
    world.handle_settled(Input::Install(plan_of(&[(29, 1, 0), (25, 2, 0), (30, logged, 0)])));
    assert!(world.engine.stats().destaged_bytes > 0, "what was in the way went home");
    assert!(world.engine.stats().relocated_bytes > 0, "and the log's pages left it");
    let absorbed = world.engine.stats().absorbed;
    world.issue_settled(Op::Write, home(60, 1));
    assert_eq!(world.engine.stats().absorbed, absorbed + 1, "it has space for others");
    world.read_all();
    world.crash_and_read([1; 32]);
}

/// A page that goes home after such a move, and that a client writes there: neither the log nor the
/// copy may bring back its bytes.
#[test]
fn a_dirty_page_that_was_moved_does_not_come_back() {
    for plan in KEPT {
        at_each_step(plan, |world| {
            world.handle(Input::Command(Command::Drain));
            write_soon_and_crash(world, home(25, 1));
        });
    }
}

/// The last open copy is dropped in a drain: the log must learn of that before a flush of what is
/// now at home ends. Also if an attach has opened the copies.
#[test]
fn a_flush_in_a_drain_reaches_the_area_until_no_copy_is_open_there() {
    for attached in [false, true] {
        let mut world = opened();
        world.issue(Op::Write, home(25, 2));
        world.issue_settled(Op::Flush, Extent::default());
        if attached {
            world.crash([1; 32]);
        }
        world.handle(Input::Command(Command::Drain));
        write_home_and_flush(&mut world, &[25, 26, 5]);
    }
}

/// In write-through a checkpoint finds nothing dirty, and copies that are open: a flush after it must
/// reach the area too.
#[test]
fn a_checkpoint_with_open_copies_does_not_empty_the_log() {
    let mut world = opened();
    world.issue(Op::Write, home(25, 2));
    world.issue_settled(Op::Flush, Extent::default());
    // A drain cannot go on. The log has grown: a checkpoint says where writes go now.
    world.fail_background = true;
    world.issue(Op::Write, home(50, 8));
    world.handle(Input::Command(Command::Drain));
    let superblock = |world: &mut World| examine(&mut world.area).unwrap().superblock().clone();
    go_on(&mut world, |world| superblock(world).mode == Mode::WriteThrough);
    write_home_and_crash(&mut world, &[50, 51, 52, 53, 54, 55, 56, 57]);
    assert_eq!((world.engine.mode(), world.engine.dirty()), (Mode::WriteThrough, Sectors(24)));
    world.fail_background = false;
    // All of them are in the way of a new plan.
    world.handle(Input::Install(plan_of(&[(30, 1, 0)])));
    go_on(&mut world, |world| world.engine.dirty() == Sectors(0));
    // Its checkpoint has begun, while the pages' way home is noted. The plan's next window waits for
    // an administrator, and for a checkpoint of his.
    let saves =
        |io: &Io| io.target == Target::Area && io.op == Op::Write && io.extent.start < Lba(64);
    go_on(&mut world, |world| world.waiting.iter().any(saves));
    world.handle(Input::Command(Command::SetMode(Mode::WriteBack)));
    go_on(&mut world, |world| world.engine.mode() == Mode::WriteBack);
    world.handle(Input::Command(Command::Drain));
    write_home_and_flush(&mut world, &[25]);
}

/// The bytes of a page that an attach would find.
fn newest(world: &mut World, page: u64) -> [u8; 4096] {
    let found = examine(&mut world.area).unwrap();
    let mut bytes = [0; 4096];
    match found.newest(page) {
        Some((place, _)) => world.area.read(place, &mut bytes).unwrap(),
        None => world.home.read(home(page, 1), &mut bytes).unwrap(),
    }
    bytes
}

/// Another policy serves the area after a crash: reads find the newest bytes, and the trail takes no
/// place before home has them.
#[test]
fn a_trail_takes_the_place_of_a_written_copy_only_when_home_has_its_bytes() {
    let mut world = opened();
    world.issue(Op::Write, home(25, 2));
    world.issue_settled(Op::Write, home(5, 1));
    let written = [25, 26, 5].map(|page| (page, newest(&mut world, page)));
    let (adaptive, append_pages, cache_bytes) = (true, 1, Bytes(8 * 4096));
    let config = Config { adaptive, append_pages, cache_bytes, ..*world.engine.config() };
    (world.engine, _) = attach(&mut world.area, config, &kept([1; 32])).unwrap();
    world.slots.resize(8 * 4096, 0);
    let before = log_of(&mut world).last().map_or(0, |(_, h)| h.sequence);
    trail::foreseeing(&mut world);
    trail::read(&mut world, &[25, 26, 5]);
    assert_eq!(world.engine.dirty(), Sectors(24), "no page goes home for a read");
    for page in 30..40 {
        trail::foresee(&mut world, page, Foreseen::is_ahead);
    }
    let mut records: Vec<Header> = Vec::new();
    for page in (30..40).chain(50..60) {
        world.issue(Op::Read, home(page, 1));
        for _ in 0..20 {
            world.execute(0);
            for (page, bytes) in &written {
                assert!(newest(&mut world, *page) == *bytes, "page {page} after a crash here");
            }
            let last = records.last().map_or(before, |h| h.sequence);
            let log = log_of(&mut world).into_iter().map(|(_, h)| h);
            records.extend(log.filter(|h| h.sequence > last));
        }
    }
    let first = |is: fn(&Content) -> bool| records.iter().position(|h| is(&h.content));
    let at_home = first(|c| matches!(c, Content::Tombstones(_)));
    let void = first(|c| matches!(c, Content::Invalid(_)));
    assert!(at_home.is_some() && at_home < void, "{records:?}");
    world.settle();
    assert_eq!(world.engine.dirty(), Sectors(0), "they made way");
    assert!(world.engine.stats().moved_bytes > 0);
    world.read_all();
}

/// A copy is to be closed while a write of its page is on its way to the log: the log must not learn
/// of newer bytes at home behind that write's record.
#[test]
fn a_copy_is_not_closed_while_its_page_goes_to_the_log() {
    let mut world = opened();
    world.issue(Op::Write, home(25, 1));
    world.issue_settled(Op::Flush, Extent::default());
    // Page 25 goes home first. From here on no write goes to a copy in this window.
    world.handle(Input::Install(plan_of(&[(26, 1, 0), (30, 1, 0)])));
    let goes_home = |io: &Io| (io.target, io.op) == (Target::Home, Op::Write);
    go_on(&mut world, |world| world.waiting.iter().any(goes_home));
    world.issue(Op::Write, home(26, 1));
    let record = |io: &Io| io.extent.start.0 == 368;
    assert!(world.waiting.iter().any(record), "its record is on its way: {:?}", sent(&world));
    // All else takes effect.
    while let Some(other) = world.waiting.iter().position(|io| !record(io)) {
        world.execute(other);
    }
    world.issue(Op::Flush, Extent::default());
    go_on(&mut world, |world| world.clients.is_empty());
    world.crash_and_read([1; 32]);
}
