//! Replicas in discarded pages: reads are linearizable whatever is replicated, discarded, written
//! and withdrawn; which replicas give way; what a crash leaves.

use proptest::prelude::*;
use seekless_learn::Replica;

use super::log::execute_all;
use super::rules::{ask, at, discarded, execute_first, is_sound, none, pass, until};
use super::*;

/// Room for four segments of replicas, of seven pages each.
const REPLICAS: u64 = 4 * 7 * 8;

pub(crate) fn fs2(cache_pages: u64) -> Config {
    Config { replicas: Sectors(REPLICAS), area: Sectors(8 * 96), ..config(cache_pages) }
}

/// Replicas of home pages, in this order, from a page of home on.
pub(crate) fn replica(place: u64, homes: &[(u64, u64)]) -> Replica {
    let homes = homes.iter().map(|&(page, pages)| home(page, pages)).collect();
    Replica { place: Lba(GRID + place * 8), homes }
}

#[derive(Clone, Debug)]
enum More {
    Usual(Step),
    /// Whole pages.
    Discard(u64, u64, bool),
    Replicate(u64, Vec<(u64, u64)>),
    Withdraw,
    Restart,
}

fn more() -> impl Strategy<Value = More> {
    let pieces = prop::collection::vec((0u64..64, 1u64..4), 1..4);
    prop_oneof![
        20 => step().prop_map(More::Usual),
        4 => (0u64..62, 1u64..20, any::<bool>()).prop_map(|(at, n, fua)| More::Discard(at, n, fua)),
        4 => (0u64..62, pieces).prop_map(|(at, pieces)| More::Replicate(at, pieces)),
        1 => Just(More::Withdraw),
        1 => Just(More::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn replicas_change_nothing_that_is_read(
        cache in prop_oneof![Just(0u64), Just(3), Just(64)],
        mode in prop_oneof![Just(Mode::WriteBack), Just(Mode::WriteThrough)],
        gather in prop_oneof![Just(Duration::ZERO), Just(Duration::from_millis(700))],
        free in (0u64..40, 10u64..40),
        degree in 1u32..4,
        steps in prop::collection::vec(more(), 1..140),
    ) {
        let mut world = World::new(Config { mode, degree, gather, ..fs2(cache) });
        world.issue(Op::Discard, home(free.0, free.1.min(64 - free.0)));
        for step in steps {
            match step {
                More::Usual(Step::Install(_)) => {}
                More::Usual(step) => world.take(step),
                More::Discard(at, n, fua) => {
                    world.issue_with(Op::Discard, home(at, n.min(64 - at)), flags(fua));
                }
                More::Replicate(at, pieces) => {
                    let pieces: Vec<_> = pieces.iter().map(|&(p, n)| (p, n.min(64 - p))).collect();
                    world.handle(Input::Replicate(vec![replica(at, &pieces)]));
                }
                More::Withdraw => world.handle(Input::Withdraw),
                More::Restart => {
                    world.fail_area_reads = false;
                    world.fail_background = false;
                    world.restart([1; 32]);
                }
            }
        }
        world.fail_area_reads = false;
        world.fail_background = false;
        world.settle_and_read();
        world.restart([1; 32]);
        world.read_all();
        world.handle_settled(Input::Command(Command::Drain));
        world.home_is_complete();
        world.handle_settled(Input::Withdraw);
        prop_assert_eq!(world.engine.stained().count(), 0, "zeroes stand where replicas stood");
        prop_assert!(!world.engine.is_withdrawing());
        world.home_is_complete();
        world.read_all();
    }
}

/// Pages 10 to 49 discarded, and 0, 2, 4 replicated at page 20.
pub(crate) fn replicated() -> World {
    let mut world = discarded(fs2(0));
    assert_eq!(world.engine.free(), Sectors(40 * 8));
    world.handle_settled(Input::Replicate(vec![replica(20, &[(0, 1), (2, 1), (4, 1)])]));
    assert_eq!(world.engine.copied(), Sectors(24));
    world
}

/// Sends the head to a page.
pub(crate) fn head_at(world: &mut World, page: u64) {
    world.issue_settled(Op::Read, home(page, 1));
}

#[test]
fn of_several_replicas_the_nearest_is_read_and_a_write_ends_all() {
    let mut world = discarded(Config { degree: 2, ..fs2(0) });
    for place in [20, 45, 30] {
        world.handle_settled(Input::Replicate(vec![replica(place, &[(2, 1)])]));
    }
    assert_eq!(world.engine.stats().replicas_refused, 1, "no more than two");
    let mut places: Vec<_> = world.engine.replicas_of(home(2, 1).start).collect();
    places.sort_unstable();
    assert_eq!(places, [home(20, 1).start, home(45, 1).start]);
    head_at(&mut world, 51);
    world.issue(Op::Read, home(2, 1));
    assert_eq!(world.waiting[0].extent, home(45, 1));
    world.settle();
    world.issue_settled(Op::Write, home(22, 1));
    world.issue(Op::Read, home(2, 1));
    assert_eq!(world.waiting[0].extent, home(20, 1));
    world.settle();
    // After a crash each replica is proven.
    world.restart([1; 32]);
    world.settle();
    assert_eq!(world.engine.copied(), Sectors(16));
    world.issue_settled(Op::Write, home(2, 1));
    assert_eq!(world.engine.copied(), Sectors(0));
    world.read_all();
}

#[test]
fn a_replica_is_read_where_it_is_nearer_than_its_home() {
    let mut world = replicated();
    head_at(&mut world, 51);
    world.issue(Op::Read, home(2, 1));
    assert_eq!(world.waiting[0].extent, home(21, 1), "its place is nearer");
    world.settle();
    head_at(&mut world, 5);
    world.issue(Op::Read, home(2, 1));
    assert_eq!(world.waiting[0].extent, home(2, 1), "its home is");
    world.settle();
    world.issue(Op::Read, home(20, 3));
    assert!(world.waiting.is_empty(), "what was discarded is zeroes, and nobody is asked");
    head_at(&mut world, 51);
    world.issue(Op::Read, home(2, 3));
    assert_eq!(world.waiting[0].extent, home(2, 3), "not all of it has a replica");
    world.settle();
    world.issue(Op::Write, home(4, 1));
    world.issue(Op::Read, home(4, 1));
    assert!(world.waiting.iter().all(|io| io.extent == home(4, 1)), "a write sends reads home");
    world.settle();
}

#[test]
fn a_page_that_ram_holds_whole_is_not_read_again_for_its_replica() {
    let mut world = discarded(fs2(8));
    world.issue_settled(Op::Read, home(0, 1));
    // Of this page, RAM has a part.
    world.issue_settled(Op::Write, Extent::new(home(2, 1).start.0 + 2, 3));
    ask(&mut world, 20, &[(0, 1), (2, 1), (4, 1)]);
    let mut read = Vec::new();
    while !stands(&world, 4) {
        let background = |io: &&Io| io.class.is_background() && io.op == Op::Read;
        read.extend(world.waiting.first().filter(background).map(|io| io.extent));
        assert!(pass(&mut world, none));
    }
    assert_eq!(read, [home(2, 1), home(4, 1)]);
    assert!(stands(&world, 0) && stands(&world, 2));
    is_sound(&mut world);
}

#[test]
fn the_run_nearest_to_the_head_is_written_first() {
    for (head, place) in [(9, 12), (50, 45)] {
        let mut world = discarded(fs2(0));
        // The first request is under way before the others come.
        ask(&mut world, 30, &[(6, 1)]);
        for (place, page) in [(12, 0), (45, 2)] {
            ask(&mut world, place, &[(page, 1)]);
        }
        execute_first(&mut world, none, at(home(30, 1), Op::Write));
        world.issue(Op::Read, home(head, 1));
        let found = until(&mut world, none, |io| {
            io.class.is_background() && io.target == Target::Home && io.op == Op::Write
        });
        assert_eq!(world.waiting[found].extent, home(place, 1), "head at {head}");
        is_sound(&mut world);
    }
}

#[test]
fn a_client_takes_a_replicas_place_at_once_and_leaves_zeroes_beside_a_part() {
    let mut world = replicated();
    head_at(&mut world, 51);
    // Its place is not overwritten while the replica is read.
    world.issue(Op::Read, home(0, 1));
    assert_eq!(world.waiting[0].extent, home(20, 1));
    let part = Extent::new(GRID + 20 * 8 + 3, 2);
    world.issue(Op::Write, part);
    assert_eq!(world.waiting.len(), 1, "it waits for whoever reads there");
    world.execute(0);
    let written: Vec<(Op, Extent)> = world.waiting.iter().map(|io| (io.op, io.extent)).collect();
    let beside = [Extent::new(GRID + 160, 3), Extent::new(GRID + 165, 3)];
    assert_eq!(written, beside.map(|e| (Op::WriteZeroes, e)));
    world.issue(Op::Read, home(20, 1));
    assert_eq!(world.waiting.len(), 2, "zeroes until it is written");
    world.settle();
    assert_eq!(world.engine.copied(), Sectors(16), "the replica beside it still stands");
    assert_eq!(world.engine.free(), Sectors(39 * 8));
    world.read_all();
    world.issue_settled(Op::Flush, Extent::default());
    world.crash_and_read([1; 32]);
    assert_eq!(world.engine.free(), Sectors(39 * 8), "told exactly, and after a crash known");
}

#[test]
fn little_free_space_stops_replication_and_takes_replicas_back() {
    let mut world = replicated();
    let suspended = |world: &World| world.engine.replicated().unwrap().suspended;
    // 37 of 64 pages are spare; 10% are 6.4, 5% are 3.2, 15% are 9.6.
    world.issue_settled(Op::Write, home(24, 26));
    world.issue_settled(Op::Write, home(10, 4));
    assert!(!suspended(&world), "{:?}", world.engine.replicated());
    world.issue_settled(Op::Write, home(14, 1));
    assert!(suspended(&world));
    assert_eq!(world.engine.copied(), Sectors(0), "the coldest, and there is no other");
    world.handle_settled(Input::Replicate(vec![replica(16, &[(0, 1)])]));
    assert_eq!((world.engine.copied(), world.engine.stats().replicas_refused), (Sectors(0), 1));
    world.issue_settled(Op::Discard, home(30, 2));
    assert!(!suspended(&world), "{:?}", world.engine.replicated());
    world.read_all();
}

#[test]
fn replicas_outlive_a_stop_in_order_and_are_proven_after_another() {
    let mut world = replicated();
    world.restart([1; 32]);
    assert_eq!((world.engine.copied(), world.engine.free()), (Sectors(24), Sectors(40 * 8)));
    world.crash([1; 32]);
    assert_eq!((world.engine.copied(), world.engine.in_doubt()), (Sectors(0), Sectors(24)));
    world.settle();
    assert_eq!(world.engine.copied(), Sectors(24), "home proves them");
    world.read_all();
    // Into discarded pages that never held a replica: no page of their region counts as free after
    // a crash.
    let before = world.engine.free();
    world.issue_with(Op::Write, home(12, 1), Flags::FUA);
    world.settle();
    world.crash([1; 32]);
    assert!(world.engine.free() < before);
    world.read_all();
    // Somebody else may have written: no page counts as free.
    world.handle_settled(Input::Withdraw);
    world.handle_settled(Input::Detach { stamp: [1; 32] });
    world.crash_with(&open([2; 32]));
    assert_eq!((world.engine.free(), world.engine.copied()), (Sectors(0), Sectors(0)));
    world.read_all();
}

fn spare(world: &World) -> u64 {
    let bound = world.engine.replicated().unwrap().bound;
    (world.engine.free().0 - bound.0) / 8
}

pub(crate) fn stands(world: &World, page: u64) -> bool {
    world.engine.replicas_of(home(page, 1).start).count() > 0
}

/// Reads a page from far behind all replicas.
pub(crate) fn use_replica(world: &mut World, page: u64) {
    head_at(world, 51);
    let before = world.engine.stats().copy_reads;
    head_at(world, page);
    assert_eq!(world.engine.stats().copy_reads, before + 1);
}

#[test]
fn the_coldest_replica_gives_way_first_and_replication_goes_on_only_at_the_high_mark() {
    let mut world = discarded(fs2(0));
    for (place, page) in [(20, 0), (30, 2)] {
        world.handle_settled(Input::Replicate(vec![replica(place, &[(page, 1)])]));
    }
    (0..3).for_each(|_| use_replica(&mut world, 2));
    // The last one used, but only once: after 32 later uses of others it would be as cold.
    use_replica(&mut world, 0);
    for (first, pages) in [(31, 19), (10, 10), (21, 3)] {
        world.issue_settled(Op::Write, home(first, pages));
    }
    assert_eq!(spare(&world), 7, "6 of 64 were too few, and one gave way");
    assert!(!stands(&world, 0) && stands(&world, 2));
    // Between 10 and 15% no replica is written, and none gives way.
    for (page, goes) in [(31, false), (33, false), (35, true)] {
        world.issue_settled(Op::Discard, home(page, 1));
        assert_eq!(!world.engine.replicated().unwrap().suspended, goes, "{} spare", spare(&world));
        world.handle_settled(Input::Replicate(vec![replica(27, &[(4, 1)])]));
        assert_eq!(stands(&world, 4), goes);
    }
    assert!(stands(&world, 2));
    world.read_all();
}

#[test]
fn below_the_critical_mark_whole_regions_give_way_whatever_their_worth() {
    let mut world = discarded(fs2(0));
    for (place, page, pages) in [(24, 0, 7), (44, 8, 1)] {
        world.handle_settled(Input::Replicate(vec![replica(place, &[(page, pages)])]));
    }
    (0..3).for_each(|_| use_replica(&mut world, 3));
    for (first, pages) in [(10, 14), (45, 2)] {
        world.issue_settled(Op::Write, home(first, pages));
    }
    assert_eq!(spare(&world), 16);
    world.issue_settled(Op::Write, home(31, 13));
    assert_eq!(spare(&world), 10, "from 3 of 64");
    assert!(!stands(&world, 3), "the first region, although it was used");
    assert!(stands(&world, 8), "that was enough");
    world.read_all();
}

#[test]
fn replicas_stand_in_free_pages_alone_each_once_and_never_of_free_pages() {
    let mut world = replicated();
    let mut refused = |place: u64, homes: &[(u64, u64)], n: u64| {
        let before = world.engine.stats().replicas_refused;
        world.handle_settled(Input::Replicate(vec![replica(place, homes)]));
        assert_eq!(world.engine.stats().replicas_refused - before, n, "{homes:?} at {place}");
        world.engine.copied().0 / 8
    };
    assert_eq!(refused(5, &[(50, 1)], 1), 3, "the client's page");
    assert_eq!(refused(48, &[(50, 3)], 3), 3, "the last of three is");
    assert_eq!(refused(21, &[(50, 1)], 1), 3, "a replica's place");
    assert_eq!(refused(30, &[(40, 1)], 1), 3, "nothing to copy");
    assert_eq!(refused(30, &[(0, 1)], 1), 3, "has one");
    assert_eq!(refused(30, &[(50, 1), (51, 1), (50, 1)], 1), 5, "twice in one");
    world.handle(Input::Withdraw);
    world.handle(Input::Replicate(vec![replica(40, &[(52, 1)])]));
    assert_eq!(world.engine.stats().replicas_refused, 9, "none while they are withdrawn");
    world.settle();
    assert_eq!(world.engine.copied(), Sectors(0));
    world.read_all();
}

/// The record that calls a page stained may come after data absorbed since: after a crash reads
/// would return the data until its destage, and zeroes from then on.
#[test]
fn what_the_area_may_yet_call_free_is_not_absorbed() {
    for crashes in [true, false] {
        let mut world = discarded(Config { mode: Mode::WriteBack, ..fs2(0) });
        // This opens the region.
        world.issue_at_once(Op::Write, home(16, 1));
        world.handle(Input::Replicate(vec![replica(17, &[(0, 1)])]));
        // Until the round with the news of the stain has begun.
        let telling = |io: &Io| io.target == Target::Home && io.op == Op::Flush;
        until(&mut world, none, telling);
        for _ in 0..2 {
            world.issue(Op::Write, home(17, 1));
            let at = world.waiting.iter().position(|io| io.extent == home(17, 1));
            let at = at.expect("it goes home, not into the log");
            assert_eq!(world.waiting[at].op, Op::Write);
            world.execute(at);
        }
        assert!(world.waiting.iter().any(telling), "the round is still under way");
        assert!(world.clients.is_empty());
        if crashes {
            execute_all(&mut world);
            world.crash([1; 32]);
            let free = world.engine.free_extents().any(|e| e.contains(home(17, 1)));
            assert!(!free || !world.engine.has_copy(home(17, 1).start), "either, never both");
            continue;
        }
        world.issue_settled(Op::Flush, Extent::default());
        let absorbed = world.engine.stats().absorbed;
        world.issue_settled(Op::Write, home(17, 1));
        assert_eq!(world.engine.stats().absorbed, absorbed + 1, "it is known to be used");
        world.crash_and_read([1; 32]);
    }
}

/// No request needs the area to know the discarded pages. While clients are busy the area does not
/// learn of them, and a crash forgets them.
#[test]
fn the_area_learns_what_is_free_once_clients_are_idle() {
    for idle in [true, false] {
        let mut world = World::new(fs2(0));
        world.issue(Op::Discard, home(10, 40));
        let mut due = None;
        for _ in 0..3 {
            world.now += 400_000_000;
            read_at_once(&mut world);
            let at = world.engine.wakeup().expect("the area is to be told");
            assert!(at.0 > world.now && due.replace(at).is_none_or(|before| before < at));
        }
        if idle {
            world.settle();
        }
        world.crash([1; 32]);
        let free = if idle { Sectors(40 * 8) } else { Sectors(0) };
        assert_eq!(world.engine.free(), free, "told: {idle}");
    }
}

/// A mark is written behind the last flush, so that damage of it does not look like a torn write.
#[test]
fn what_was_flushed_is_marked_once_clients_are_idle() {
    let mut world = replicated();
    world.issue(Op::Write, home(20, 1));
    read_at_once(&mut world);
    world.issue(Op::Flush, Extent::default());
    read_at_once(&mut world);
    assert!(world.clients.is_empty());
    let at = world.engine.wakeup().expect("the mark is to be written");
    assert!(at.0 > world.now);
    world.now = at.0;
    world.handle(Input::Tick);
    let log = |io: &Io| io.target == Target::Area && io.op == Op::Write;
    assert!(world.waiting.iter().any(log), "{:?}", world.waiting);
    world.settle();
}

/// A read and everything in flight, while no time passes.
fn read_at_once(world: &mut World) {
    world.issue_at_once(Op::Read, home(0, 1));
}
