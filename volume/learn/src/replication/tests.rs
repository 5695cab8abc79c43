//! FS2's planner against what the paper says, and against random reads.

use super::*;
use proptest::prelude::*;
use seekless_block::SimTime;

const MIB: u64 = 1 << 11;
const NONE: AnsweredReads = AnsweredReads { home: 0, replicas: 0 };

fn config() -> ReplicationConfig {
    let region = Sectors(MIB);
    ReplicationConfig { region, near: 2, ..ReplicationConfig::new(Sectors(64 * MIB), Sectors(0)) }
}

fn read(planner: &mut Replication, start: u64, pages: u64) {
    let extent = Extent::new(start, pages * PAGE_SECTORS);
    planner.observe(&Request::new(SimTime(0), Op::Read, extent));
}

/// Files 0 and 2 in region 10, file 1 far away (figure 4), and another by itself.
fn figure_4() -> Replication {
    let mut planner = Replication::new(config());
    for i in 0..6 {
        read(&mut planner, 10 * MIB + i * 64, 1);
        read(&mut planner, 50 * MIB + i * 80, 1);
        read(&mut planner, 10 * MIB + 904 + i * 64, 1);
    }
    for i in 0..10 {
        read(&mut planner, 30 * MIB + i * 160, 1);
    }
    planner
}

#[test]
fn what_lies_outside_is_replicated_beside_the_hot_region_in_order_and_nothing_else() {
    let mut planner = figure_4();
    assert_eq!(planner.hot_region(), Some(Extent::new(10 * MIB, MIB)));
    let free = [Extent::new(5, 200), Extent::new(11 * MIB, 4096), Extent::new(40 * MIB, 9000)];
    let plan = planner.plan(free, |_| false, NONE);
    let homes: Vec<Extent> = (0..6).map(|i| Extent::new(50 * MIB + i * 80, 8)).collect();
    // Two of the third file were read within two of the last read in the hot region.
    let tail: Vec<Extent> = (0..2).map(|i| Extent::new(30 * MIB + i * 160, 8)).collect();
    let place = Lba(11 * MIB);
    assert_eq!(plan, [Replica { place, homes: [homes, tail].concat() }]);
    assert!(planner.plan(free, |_| false, NONE).is_empty(), "what was observed is used up");
}

#[test]
fn the_head_is_where_most_is_read_or_written() {
    let mut planner = Replication::new(config());
    let hot = |planner: &Replication| planner.hot_region().map(|e| e.start.0 / MIB);
    let moved = |op, start: u64, pages: u64| {
        Request::new(SimTime(0), op, Extent::new(start, pages * PAGE_SECTORS))
    };
    assert_eq!(hot(&planner), None);
    for i in 0..5 {
        read(&mut planner, 10 * MIB + i * 64, 1);
    }
    planner.observe(&moved(Op::Discard, 60 * MIB, 200));
    assert_eq!(hot(&planner), Some(10), "nothing is read or written by a discard");
    // Five reads of a page each against one read of six, then one write of seven.
    read(&mut planner, 20 * MIB, 6);
    assert_eq!(hot(&planner), Some(20));
    planner.observe(&moved(Op::Write, 30 * MIB, 7));
    assert_eq!(hot(&planner), Some(30));
    // Three pages before the border, nine behind it.
    read(&mut planner, 41 * MIB - 3 * PAGE_SECTORS, 12);
    assert_eq!(hot(&planner), Some(41));
    // What is written gets no replica.
    let plan = planner.plan([Extent::new(50 * MIB, 4096)], |_| false, NONE);
    assert!(plan.iter().flat_map(|r| &r.homes).all(|e| e.start.0 / MIB != 30), "{plan:?}");
}

#[test]
fn whole_sequences_are_laid_as_they_were_read_and_what_has_a_replica_is_left_out() {
    let mut planner = figure_4();
    planner.config.whole = true;
    let plan = planner.plan([Extent::new(20 * MIB, 4096)], |page| page.0 >= 50 * MIB, NONE);
    let first: Vec<u64> = plan[0].homes.iter().take(4).map(|e| e.start.0).collect();
    assert_eq!(first, [0, 904, 64, 968].map(|at| 10 * MIB + at));
}

#[test]
fn what_lies_in_long_runs_is_left_alone() {
    let mut planner = Replication::new(ReplicationConfig { whole: true, ..config() });
    for i in 0..9 {
        read(&mut planner, 10 * MIB + i * 128, 16);
    }
    read(&mut planner, 20 * MIB, 16);
    read(&mut planner, 20 * MIB + 128, 16);
    let plan = planner.plan([Extent::new(30 * MIB, 4096)], |_| false, NONE);
    assert_eq!(plan[0].homes, [Extent::new(20 * MIB, 256)], "of 576 KiB and of 128 KiB");
}

#[test]
fn only_what_comes_again_as_often_as_its_price_is_replicated() {
    let price = ReplicationConfig::PAYS;
    let mut planner = Replication::new(ReplicationConfig { whole: true, price, ..config() });
    let free = [Extent::new(40 * MIB, 1 << 17)];
    let run = |planner: &mut Replication, from: u64| {
        (0..1200).for_each(|i| read(planner, from + i * 16, 1));
    };
    let planned = |planner: &mut Replication| -> usize {
        planner.plan(free, |_| false, NONE).iter().map(|r| r.homes.len()).sum()
    };
    // The price is another matter.
    planner.purse = 1e6;
    // The first time everything is new; then each new one comes once: less than the price.
    run(&mut planner, 0);
    assert_eq!((planner.worth(), planned(&mut planner)), (None, 0));
    run(&mut planner, 0);
    assert_eq!(
        (planner.worth(), planned(&mut planner)),
        (Some(1), 1200),
        "what is old counts half"
    );
    // More and more blocks never come again. A single sighting is no longer trusted, two sightings
    // are.
    (0..4).for_each(|i| run(&mut planner, 10 * MIB + i % 2 * 8 + i / 2 * 19_200));
    assert_eq!((planner.worth(), planned(&mut planner)), (None, 0));
    (0..2).for_each(|_| run(&mut planner, 0));
    assert_eq!(planner.worth(), Some(2));
    run(&mut planner, 30 * MIB);
    assert_eq!(planned(&mut planner), 1200, "what came twice, though it was not read just now");
    planner.purse = 10.5;
    assert_eq!(planned(&mut planner), 10, "no more than can be paid for");
}

/// A backup reads a million places once. Afterwards new places are counted again.
#[test]
fn places_that_were_read_once_give_way_to_new_ones() {
    let price = ReplicationConfig::PAYS;
    let capacity = Sectors(1 << 34);
    let mut planner = Replication::new(ReplicationConfig { price, capacity, ..config() });
    (0..COUNTED as u64 + 10).for_each(|i| read(&mut planner, i * 16, 1));
    let new = (1 << 33) + 8;
    read(&mut planner, new, 1);
    assert!(!planner.seen.contains_key(&new), "there is no space");
    planner.plan([], |_| false, NONE);
    read(&mut planner, new, 1);
    assert!(planner.seen.contains_key(&new) && planner.seen.len() < 10);
}

#[test]
fn a_read_by_chance_does_not_tear_a_sequence() {
    let price = ReplicationConfig::PAYS;
    let mut planner = Replication::new(ReplicationConfig { whole: true, price, ..config() });
    planner.purse = 1e6;
    (0..3).for_each(|_| (0..1200).for_each(|i| read(&mut planner, i * 16, 1)));
    // The fourth time, one in five is another.
    for i in 0..1200 {
        read(&mut planner, if i % 5 == 4 { 20 * MIB } else { 0 } + i * 16, 1);
    }
    let plan = planner.plan([Extent::new(40 * MIB, 1 << 17)], |_| false, NONE);
    let homes: Vec<u64> = plan.iter().flat_map(|r| &r.homes).map(|e| e.start.0).collect();
    let last = &homes[homes.len() - 1200..];
    let expected = (0..1200).map(|i| if i % 5 == 4 { 20 * MIB } else { 0 } + i * 16);
    assert!(last.iter().copied().eq(expected), "as read last: {:?}", &last[..10]);
}

#[test]
fn what_goes_on_where_the_last_read_ended_is_no_access_and_saves_none() {
    let price = ReplicationConfig::PAYS;
    let mut planner = Replication::new(ReplicationConfig { price, ..config() });
    (0..1000).for_each(|i| read(&mut planner, 10 * MIB + i * 8, 1));
    planner.plan([], |_| false, AnsweredReads { home: 200, replicas: 800 });
    assert!((planner.purse - RISKED - 0.5).abs() < 1e-9, "one run: {}", planner.purse);
    (0..1000).for_each(|i| read(&mut planner, i * 16, 1));
    planner.plan([], |_| false, AnsweredReads { home: 300, replicas: 900 });
    let expected = 201.0 * RISKED + 101.0 / 2.0;
    assert!((planner.purse - expected).abs() < 1e-9, "RAM answered 800: {}", planner.purse);
}

#[test]
fn replicas_begin_right_behind_the_hot_region_or_end_before_it() {
    let (hot, free) = (Extent::new(20 * MIB, MIB), Extent::new(0, 64 * MIB));
    let wanted = [Extent::new(30 * MIB, 64), Extent::new(40 * MIB, 64)];
    let place = |free: Extent| side_by_side(&wanted, [free], hot)[0].place.0;
    assert_eq!(place(Extent::span(0, hot.start.0 - 256)), hot.start.0 - 256 - 128);
    assert_eq!(place(Extent::span(0, hot.start.0 + 8)), hot.start.0 - 128);
    assert_eq!(place(Extent::span(hot.end().0 - 8, free.end().0)), hot.end().0);
}

/// Each region near by has 768 KiB free in six pieces, a region far away has 4 MiB in one piece.
#[test]
fn a_large_plan_stays_near_the_hot_region_though_a_longer_range_lies_far_away() {
    let hot = Extent::new(32 * MIB, MIB);
    let near = (24..41).flat_map(|r| (0..6).map(move |i| Extent::new(r * MIB + i * 320, 256)));
    let free = near.chain([Extent::new(60 * MIB, 8192)]);
    let plan = side_by_side(&[Extent::new(0, 16_384)], free, hot);
    let placed: u64 = plan.iter().flat_map(|r| &r.homes).map(|e| e.len.0).sum();
    assert_eq!(placed, 16_384);
    assert!(plan.iter().all(|r| r.place.0 / MIB < 41), "{plan:?}");
}

#[test]
fn what_comes_again_at_once_was_in_ram() {
    let mut planner = Replication::new(ReplicationConfig { price: 1.0, ..config() });
    for i in 0..600 {
        read(&mut planner, i / 2 * 16, 1);
    }
    assert_eq!((planner.sightings[0], planner.sightings[1]), (300, 0));
}

proptest! {
    /// Each replicated run of pages costs an access. A read that a replica answers saves half of
    /// one. Reads answered by RAM are no accesses, and save nothing.
    #[test]
    fn nobody_loses_more_than_is_risked(
        rounds in prop::collection::vec((0u64..4, 0u64..600, 1u64..1500, 1u64..5), 1..20),
        whole in any::<bool>(),
    ) {
        let price = ReplicationConfig::PAYS;
        let mut planner = Replication::new(ReplicationConfig { whole, price, ..config() });
        let mut placed: FxHashSet<u64> = FxHashSet::default();
        let (mut answered, mut cost) = (NONE, 0.0);
        for (place, skip, count, in_ram) in rounds {
            for i in 0..count {
                let at = place * 8 * MIB + (skip + i) * 16;
                read(&mut planner, at, 1);
                if i % in_ram > 0 {
                    continue;
                }
                if placed.contains(&at) {
                    answered.replicas += 1;
                } else {
                    answered.home += 1;
                }
            }
            let reads = (answered.home + answered.replicas) as f64;
            let saved = answered.replicas as f64 / price;
            let free = [Extent::new(40 * MIB, 1 << 17)];
            let plan = planner.plan(free, |p| placed.contains(&p.0), answered);
            for page in plan.iter().flat_map(|r| &r.homes).flat_map(|e| starts(*e)) {
                cost += 1.0;
                prop_assert!(placed.insert(page));
            }
            prop_assert!(cost <= saved + reads * RISKED + 1e-6, "{cost} for {saved} in {reads} accesses");
        }
    }

    #[test]
    fn replicas_lie_in_free_space_once(
        reads in prop::collection::vec((0u64..8000, 1u64..20), 1..200),
        gaps in prop::collection::vec((0u64..400, 1u64..900), 0..20),
        whole in any::<bool>(),
    ) {
        let mut planner = Replication::new(ReplicationConfig { whole, least: 1, ..config() });
        for (at, pages) in reads {
            read(&mut planner, at * 8, pages);
        }
        let mut free: Vec<Extent> = Vec::new();
        let mut at = 0;
        for (gap, len) in gaps {
            free.push(Extent::new((at + gap) * 8, len * 8));
            at += gap + len + 1;
        }
        let mut used: Vec<Extent> = Vec::new();
        let mut homes: FxHashSet<u64> = FxHashSet::default();
        for replica in planner.plan(free.iter().copied(), |_| false, NONE) {
            let len: u64 = replica.homes.iter().map(|e| e.len.0).sum();
            let place = Extent::new(replica.place.0, len);
            prop_assert!(len > 0 && len <= RUN);
            prop_assert!(free.iter().any(|f| f.contains(place)), "{place:?}");
            prop_assert!(used.iter().all(|u| !u.overlaps(place)));
            used.push(place);
            for page in replica.homes.iter().flat_map(|e| starts(*e)) {
                prop_assert!(homes.insert(page), "one replica a page");
            }
        }
    }
}
