//! The rule on small cases, and its promises on random ones.

use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
use seekless_block::{Bytes, Extent, Op, Request, SimTime};

use super::*;
use crate::{Pages, Planning, Reach, Strategy};

const CAPACITY: Sectors = Sectors(1 << 20);

fn graph() -> AccessGraph {
    AccessGraph::new(Pages::new(Sectors(0), CAPACITY), Bytes(0), 1 << 16)
}

fn observe(graph: &mut AccessGraph, op: Op, page: u64, pages: u64) {
    graph.observe(&Request::new(SimTime(0), op, Extent::new(page * 8, pages * 8)));
}

/// Reads these pages one after the other, so often.
fn read(graph: &mut AccessGraph, pages: &[u64], times: u32) {
    for _ in 0..times {
        pages.iter().for_each(|&p| observe(graph, Op::Read, p, 1));
    }
}

fn config(area: u64) -> PlanConfig {
    PlanConfig {
        area: Sectors(area),
        min_weight: 0,
        strategy: Strategy::default(),
        planning: Planning::Revise,
        reach: Reach::new(Bytes(1 << 16), Bytes(1 << 16)),
    }
}

fn homes(plan: &Plan) -> Vec<u64> {
    plan.copies.iter().map(|c| c.home.start.0 / 8).collect()
}

#[test]
fn nothing_moves_before_it_pays() {
    let (far, mut graph) = ([0, 1000, 2000, 3000], graph());
    let plan = |graph: &AccessGraph| revise(&Plan::default(), graph, &config(1 << 12));
    // Four accesses to read them, and 8 of 64 parts of one to transfer them, against 3, 4, ...
    // passages.
    read(&mut graph, &far, 1);
    assert_eq!(plan(&graph), Plan::default(), "three passages");
    observe(&mut graph, Op::Read, 0, 1);
    assert_eq!(plan(&graph), Plan::default(), "four: less than the move");
    observe(&mut graph, Op::Read, 1000, 1);
    assert_eq!(plan(&graph).copies.len(), 4, "five");
}

#[test]
fn what_read_ahead_brings_anyway_stays_home() {
    let mut graph = graph();
    for _ in 0..50 {
        (0..8).for_each(|i| observe(&mut graph, Op::Read, i * 16, 16));
    }
    // Only the way back to the start is an access, and it stays one.
    assert_eq!(revise(&Plan::default(), &graph, &config(1 << 12)), Plan::default());
}

#[test]
fn a_new_habit_is_added_and_the_old_one_does_not_move() {
    let mut graph = graph();
    read(&mut graph, &[0, 1000, 2000, 3000], 20);
    let first = revise(&Plan::default(), &graph, &config(1 << 12));
    read(&mut graph, &[10_000, 500, 20_000], 20);
    let second = revise(&first, &graph, &config(1 << 12));
    assert_eq!(second.copies[..4], first.copies[..]);
    let mut added = homes(&second)[4..].to_vec();
    added.sort_unstable();
    assert_eq!(added, [500, 10_000, 20_000]);
}

#[test]
fn where_there_is_no_room_everything_is_laid_anew_if_that_pays() {
    // Space for four pages, taken by what is read no more.
    let (old, new) = ([0, 1000, 2000, 3000], [10_000, 500, 20_000, 700]);
    let mut graph = graph();
    read(&mut graph, &old, 10);
    let first = revise(&Plan::default(), &graph, &config(32));
    assert_eq!(first.copies.len(), 4);
    (0..3).for_each(|_| graph.age());
    read(&mut graph, &new, 20);
    let mut second = homes(&revise(&first, &graph, &config(32)));
    second.sort_unstable();
    assert_eq!(second, [500, 700, 10_000, 20_000]);
}

#[test]
fn copies_written_more_than_read_are_dropped() {
    let mut graph = graph();
    read(&mut graph, &[0, 1000, 2000, 3000], 20);
    let first = revise(&Plan::default(), &graph, &config(1 << 12));
    (0..20).for_each(|_| observe(&mut graph, Op::Write, 1000, 1));
    let second = revise(&first, &graph, &config(1 << 12));
    let left: Vec<Copy> =
        first.copies.iter().copied().filter(|c| c.home.start != Lba(8000)).collect();
    assert_eq!(second.copies, left);
}

#[test]
fn a_long_copy_is_found_again_in_pieces() {
    let vertices = [(0, 8), (8, 8), (16, 16), (40, 8)].map(|(start, len)| Vertex {
        extent: Extent::new(start, len),
        reads: 1,
        writes: 0,
    });
    let copy = |start, len, place| Copy { home: Extent::new(start, len), place: Lba(place) };
    let plan = Plan { copies: vec![copy(0, 16, 64), copy(16, 8, 80), copy(40, 8, 96)] };
    assert_eq!(places(&plan, &vertices), [64, 72, HOME, 96]);
}

proptest! {
    #[test]
    fn a_revision_can_be_carried_out_and_is_final(
        raw in prop::collection::vec((0u64..60, 1u64..6, 0u8..10), 1..120),
        more in prop::collection::vec((0u64..60, 1u64..6, 0u8..10), 0..120),
        area in 0u64..1500,
        many in any::<bool>(),
        spread in 1u64..40,
    ) {
        let strategy = if many { Strategy::ManyStarts } else { Strategy::MostConnected };
        let config = PlanConfig { strategy, ..config(area) };
        let mut graph = graph();
        let mut plan = Plan::default();
        for part in [raw, more] {
            for (page, len, op) in part {
                let op = if op == 0 { Op::Write } else { Op::Read };
                observe(&mut graph, op, page * spread, len);
            }
            plan = revise(&plan, &graph, &config);
            prop_assert_eq!(plan.check(CAPACITY, config.area, Sectors(0)), Ok(()));
            prop_assert_eq!(&revise(&plan, &graph, &config), &plan);
        }
        prop_assert!(plan.sectors() <= config.area);
    }
}
