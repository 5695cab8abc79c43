//! Replicas in what the client has discarded: reads are linearizable whatever is replicated, discarded, written and
//! withdrawn; who gives way to whom; what a crash leaves.

use proptest::prelude::*;
use seekless_layout::Replica;

use super::*;

/// Room for four segments of replicas, of seven pages each.
const REPLICAS: u64 = 4 * 7 * 8;

fn fs2(cache_pages: u64) -> Config {
    Config { replicas: Sectors(REPLICAS), area: Sectors(8 * 96), ..config(cache_pages) }
}

/// Replicas of home pages, in this order, from a page of home on.
fn replica(place: u64, homes: &[(u64, u64)]) -> Replica {
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
        free in (0u64..40, 10u64..40),
        steps in prop::collection::vec(more(), 1..140),
    ) {
        let mut world = World::new(Config { mode, ..fs2(cache) });
        world.issue(Op::Discard, home(free.0, free.1.min(64 - free.0)));
        let flags = |fua| if fua { Flags::FUA } else { Flags::NONE };
        for step in steps {
            match step {
                More::Usual(Step::Issue(op, at, len, fua)) => {
                    let len = if op == Op::Flush { 0 } else { len };
                    world.issue_with(op, Extent::new(at, len), flags(fua));
                }
                More::Usual(Step::Page(at, n, fua)) => {
                    world.issue_with(Op::Write, home(at, n.min(64 - at)), flags(fua));
                }
                More::Usual(Step::Execute(which)) => world.execute(which),
                More::Usual(Step::Install(_)) => {}
                More::Usual(Step::Mode(mode)) => world.handle(Input::SetMode(mode)),
                More::Usual(Step::Bypass(on)) => world.handle(Input::Bypass(on)),
                More::Usual(Step::Drain) => world.handle(Input::Drain),
                More::Usual(Step::Tick) => {
                    world.now += 300_000_000;
                    world.handle(Input::Tick);
                }
                More::Usual(Step::Fail { area_reads, background }) => {
                    world.fail_area_reads = area_reads;
                    world.fail_background = background;
                }
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
        world.settle();
        world.read_all();
        world.restart([1; 32]);
        world.read_all();
        world.handle(Input::Drain);
        world.settle();
        world.home_is_complete();
        world.handle(Input::Withdraw);
        world.settle();
        prop_assert_eq!(world.engine.stained().count(), 0, "zeroes stand where replicas stood");
        prop_assert!(!world.engine.is_withdrawing());
        world.home_is_complete();
        world.read_all();
    }
}

/// Pages 10 to 49 discarded, and 0, 2, 4 replicated at page 20.
fn replicated() -> World {
    let mut world = World::new(fs2(0));
    world.issue(Op::Discard, home(10, 40));
    world.settle();
    assert_eq!(world.engine.free(), Sectors(40 * 8));
    world.handle(Input::Replicate(vec![replica(20, &[(0, 1), (2, 1), (4, 1)])]));
    world.settle();
    assert_eq!(world.engine.copied(), Sectors(24));
    world
}

/// Sends the head to a page.
fn head_at(world: &mut World, page: u64) {
    world.issue(Op::Read, home(page, 1));
    world.settle();
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
fn a_client_takes_a_replicas_place_at_once_and_leaves_zeroes_beside_a_part() {
    let mut world = replicated();
    head_at(&mut world, 51);
    // While the replica is read, the place is not overwritten.
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
    world.issue(Op::Flush, Extent::default());
    world.settle();
    world.crash([1; 32]);
    world.read_all();
    assert_eq!(world.engine.free(), Sectors(39 * 8), "told exactly, and after a crash known");
}

#[test]
fn little_free_space_stops_replication_and_takes_replicas_back() {
    let mut world = replicated();
    let suspended = |world: &World| world.engine.replicated().unwrap().suspended;
    // 37 of 64 pages are spare; 10% are 6.4, 5% are 3.2, 15% are 9.6.
    world.issue(Op::Write, home(24, 26));
    world.settle();
    world.issue(Op::Write, home(10, 4));
    world.settle();
    assert!(!suspended(&world), "{:?}", world.engine.replicated());
    world.issue(Op::Write, home(14, 1));
    world.settle();
    assert!(suspended(&world));
    assert_eq!(world.engine.copied(), Sectors(0), "the coldest, and there is no other");
    world.handle(Input::Replicate(vec![replica(16, &[(0, 1)])]));
    world.settle();
    assert_eq!((world.engine.copied(), world.engine.stats().replicas_refused), (Sectors(0), 1));
    world.issue(Op::Discard, home(30, 2));
    world.settle();
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
    // Into discarded pages that never held a replica: nothing of their region counts as free after a crash.
    let before = world.engine.free();
    world.issue_with(Op::Write, home(12, 1), Flags::FUA);
    world.settle();
    world.crash([1; 32]);
    assert!(world.engine.free() < before);
    world.read_all();
    // Somebody else may have written: nothing counts as free.
    world.handle(Input::Withdraw);
    world.settle();
    world.handle(Input::Detach { stamp: [1; 32] });
    world.settle();
    world.crash([2; 32]);
    assert_eq!((world.engine.free(), world.engine.copied()), (Sectors(0), Sectors(0)));
    world.read_all();
}
