//! Replays with results that were worked out by hand.

use seekless_block::Extent;
use seekless_disk::catalogue;
use seekless_learn::Copy;

use super::*;

fn plan(copies: &[(u64, u64, u64)]) -> Plan {
    let copy = |&(home, place, pages)| Copy {
        home: Extent::new(home * 8, pages * 8),
        place: Lba(place * 8),
    };
    Plan { copies: copies.iter().map(copy).collect() }
}

#[test]
fn the_difference_of_two_plans_by_hand() {
    let before = plan(&[(10, 0, 4), (100, 4, 2)]);
    // Pages 10 and 11 stay, 12 and 13 move on by one, 100 goes, 101 takes its place, 50 is new.
    let after = plan(&[(10, 0, 2), (50, 2, 1), (12, 3, 2), (101, 5, 1)]);
    let pages = |new: u64, relocated: u64, kept: u64, removed: u64| PlanChange {
        new_bytes: new * 4096,
        relocated_bytes: relocated * 4096,
        kept_bytes: kept * 4096,
        removed_bytes: removed * 4096,
    };
    assert_eq!(PlanChange::between(&before, &after), pages(1, 2, 3, 1));
    assert_eq!(PlanChange::between(&Plan::default(), &before), pages(6, 0, 0, 0));
    assert_eq!(PlanChange::between(&before, &before), pages(0, 0, 6, 0));
    assert_eq!(PlanChange::between(&before, &Plan::default()), pages(0, 0, 0, 6));
}

/// Sixty scattered pages in the same order, round after round, a request a second; other ones
/// from `turn` on.
fn rounds(turn: u64) -> Source {
    let page = |i: u64, other: u64| (i * 7_919 + other * 104_729) % 500_000 * 8;
    let line = |n: u64| {
        let at = page(n % 60, u64::from(n >= turn));
        format!("{}.0 0 {at} 8 1\n", n * 1000)
    };
    let text: String = (0..1200).map(line).collect();
    Source::from_bytes("rounds", text.as_bytes()).unwrap()
}

fn system(area: Bytes) -> BorgSystem {
    BorgSystem {
        disk: catalogue::device("wd360gd").unwrap(),
        policy: PolicyName::Borg,
        area,
        write_buffer_percent: 0,
        gather: Duration::ZERO,
        training: Training::Cumulative,
        speed: 1,
        scheduler: Scheduler::Fcfs,
        reconfigure: Vec::new(),
    }
}

fn replayed<const N: usize>(source: &Source, systems: [BorgSystem; N]) -> [BorgRun; N] {
    let capacity = Sectors(4_000_000);
    let jobs = systems.map(|system| BorgJob { source, capacity, system });
    borg(&jobs, &|_| {}).unwrap().try_into().unwrap()
}

fn both(source: &Source, training: Training) -> [BorgRun; 2] {
    let of = |area| BorgSystem {
        training,
        // The disk always has a request to serve.
        speed: 1_000,
        reconfigure: [300, 600, 900].map(|s| SimTime(s * 1_000_000_000)).to_vec(),
        ..system(area)
    };
    replayed(source, [Bytes(0), Bytes(8 << 20)].map(of))
}

#[test]
fn repeated_requests_cost_less_and_each_phase_has_its_requests() {
    let runs = both(&rounds(u64::MAX), Training::Cumulative);
    let [vanilla, borg] = &runs;
    assert!(vanilla.reconfigurations.is_empty());
    assert_eq!(borg.reconfigurations.len(), 3);
    for run in &runs {
        assert_eq!(run.phases.iter().map(|p| p.requests).collect::<Vec<_>>(), [300; 4]);
    }
    assert_eq!(vanilla.phases[0].busy_s, borg.phases[0].busy_s, "nothing learned yet");
    for i in 1..4 {
        assert!(borg.phases[i].busy_s < vanilla.phases[i].busy_s / 4.0, "{i}");
        assert!(borg.phases[i].nonsequential_share() < 0.1);
    }
    // The same plan again moves nothing.
    let moved: Vec<u64> = borg.reconfigurations.iter().map(|r| r.moved_bytes).collect();
    assert_eq!(moved, [60 * 4096, 0, 0]);
    assert_eq!(borg.reconfigurations[1].change.kept_bytes, 60 * 4096);
    assert!(borg.reconfigurations[0].reconfigurer_s > 0.0);
    assert_eq!(borg.reconfigurations[1].reconfigurer_s, 0.0);
}

#[test]
fn partial_training_forgets_what_cumulative_training_keeps() {
    // Others from 300 on: seen in the second phase, planned for in the third.
    let of = |training| {
        let [_, borg] = both(&rounds(300), training);
        borg
    };
    let (long, short) = (of(Training::Cumulative), of(Training::Partial));
    let plan = |r: &BorgRun, i: usize| {
        let c = r.reconfigurations[i].change;
        (c.new_bytes / 4096, c.removed_bytes / 4096)
    };
    assert_eq!((plan(&long, 1), plan(&short, 1)), ((60, 0), (60, 60)));
    assert!(long.phases[1].copy_hits == 0 && long.phases[2].copy_hits > 200);
}

/// A burst of twenty writes each minute, each next to the one before.
#[test]
fn a_faster_replay_queues_requests_and_the_elevator_merges_them() {
    let line = |n: u64| {
        let at = (n / 20 * 7_919) % 400_000 * 8 + n % 20 * 8;
        format!("{}.0 0 {at} 8 0\n", n / 20 * 60_000 + n % 20 * 100)
    };
    let text: String = (0..2_000).map(line).collect();
    let source = Source::from_bytes("bursts", text.as_bytes()).unwrap();
    let of = |(speed, scheduler)| BorgSystem { speed, scheduler, ..system(Bytes(0)) };
    let (slow, fast) = (1, 168);
    let all = [(slow, Scheduler::CLook), (slow, Scheduler::Elevator)];
    let all = [all, all.map(|(_, s)| (fast, s))].concat();
    let all: [_; 4] = all.try_into().unwrap();
    let [slow, slow_merged, fast, merged] = replayed(&source, all.map(of)).map(|r| r.phases[0]);
    assert_eq!(slow, slow_merged, "nothing waits");
    assert_eq!([slow.device_ios, fast.device_ios], [2_000; 2]);
    assert!(merged.device_ios < 1_000, "{merged:?}");
    assert!(merged.busy_s <= fast.busy_s, "{merged:?} {fast:?}");
    assert_eq!(merged.nonsequential, fast.nonsequential);
}

#[test]
fn writes_are_absorbed_and_destaged_in_idle_time() {
    let line = |n: u64| {
        let at = (n * 7_919) % 400_000 * 8;
        format!("{}.0 0 {at} 32 0\n", n * 500)
    };
    let text: String = (0..4000).map(line).collect();
    let source = Source::from_bytes("writes", text.as_bytes()).unwrap();
    let of = |area| BorgSystem { write_buffer_percent: 50, ..system(area) };
    let runs = replayed(&source, [Bytes(0), Bytes(32 << 20)].map(of));
    let [vanilla, borg] = [&runs[0].phases[0], &runs[1].phases[0]];
    assert_eq!((vanilla.absorbed, vanilla.background_s), (0, 0.0));
    assert!(borg.absorbed > 3900, "{borg:?}");
    assert!(borg.busy_s < vanilla.busy_s * 0.9, "{borg:?} {vanilla:?}");
    // No page is written twice: what does not fit the log has gone home, and that was counted. The
    // rest goes home after the last phase.
    assert!(borg.destaged_bytes > 4000 * 16_384 - (16 << 20), "{borg:?}");
    assert!(borg.background_s > vanilla.busy_s / 4.0, "{borg:?} {vanilla:?}");
    let [vanilla, rest] = [&runs[0].drained, &runs[1].drained];
    assert_eq!(*vanilla, BorgPhase::default());
    assert!(rest.background_s > 0.0 && rest.requests == 0, "{rest:?}");
}

/// Sixty scattered pages, a request a second, with the plan at 300 s. `writes` says which
/// requests are writes.
fn by_both_policies(writes: fn(u64) -> bool) -> [BorgRun; 2] {
    let line = |n: u64| {
        let at = (n % 60) * 7_919 % 500_000 * 8;
        format!("{}.0 0 {at} 8 {}\n", n * 1000, u8::from(!writes(n)))
    };
    let text: String = (0..900).map(line).collect();
    let source = Source::from_bytes("both", text.as_bytes()).unwrap();
    let of = |policy| BorgSystem {
        policy,
        write_buffer_percent: 50,
        scheduler: Scheduler::CLook,
        reconfigure: vec![SimTime(300_000_000_000)],
        ..system(Bytes(32 << 20))
    };
    replayed(&source, [PolicyName::BorgPaper, PolicyName::Borg].map(of))
}

#[test]
fn the_papers_rule_writes_copies_in_place_and_reads_them_afterwards() {
    // Reads alone are learned from; then a round of writes follows each round of reads.
    let [paper, ours] = by_both_policies(|n| n >= 300 && n / 60 % 2 == 1);
    let after = |run: &BorgRun| {
        let p = run.phases[1];
        (p.requests, p.in_place, p.absorbed, p.copy_hits, p.unmapped_bytes)
    };
    assert_eq!(after(&paper), (600, 300, 0, 300, 0));
    let (requests, in_place, absorbed, hits, _) = after(&ours);
    assert_eq!((requests, in_place, absorbed), (600, 0, 300));
    assert!(hits < 300, "{hits}: a page that went home is read from home");
    // Each page that was written goes home once, at the end.
    let destaged = (paper.phases[1].destaged_bytes, paper.drained.destaged_bytes);
    assert_eq!(destaged, (0, 60 * PAGE_BYTES));
}

#[test]
fn a_write_of_a_page_in_the_log_takes_new_space_and_the_plan_takes_pages_out_of_the_log() {
    // The paper overwrites in its write buffer too.
    let [paper, _] = by_both_policies(|_| true);
    let of = |p: &BorgPhase| (p.absorbed, p.in_place, p.unmapped_bytes, p.unmapped_once_bytes);
    assert_eq!(of(&paper.phases[0]), (300, 0, 300 * PAGE_BYTES, 60 * PAGE_BYTES));
    assert_eq!(of(&paper.phases[1]), (0, 600, 0, 0));
    assert_eq!(paper.reconfigurations[0].change.new_bytes, 60 * PAGE_BYTES);
}

#[test]
fn a_file_system_that_does_not_fit_its_disk_is_refused() {
    let (source, system) = (rounds(0), system(Bytes(1 << 30)));
    let job = BorgJob { source: &source, capacity: Sectors(1 << 40), system };
    assert!(matches!(borg(&[job], &|_| {}), Err(StudyError::DiskTooSmall { .. })));
}
