//! Layouts: copies are served, moved and dropped, RAM is filled from them, and background work
//! keeps its budget.

use super::*;

#[test]
fn a_learned_layout_is_served_from_the_area_and_a_write_sends_reads_home() {
    let mut world = World::new(config(0));
    world.handle_settled(Input::Install(plan_of(&[(25, 2, 0), (5, 1, 0)])));
    assert_eq!(world.engine.copied(), Sectors(24));
    assert_eq!(world.engine.stats().moved_bytes, 24 * 512);
    world.issue(Op::Read, home(25, 2));
    let io = world.waiting[0];
    // Behind superblocks, checkpoints and plan, behind the first segment's map.
    assert_eq!((io.target, io.extent), (Target::Area, Extent::new((8 + 1) * 8, 16)));
    world.settle();
    world.issue(Op::Read, Extent::new(GRID + 25 * 8 + 5, 9));
    assert_eq!(world.waiting[0].extent.len, Sectors(16), "whole pages: checksums are a page's");
    world.settle();
    // Partly copied: all of it comes from home (BORG 4.5).
    world.issue(Op::Read, home(24, 2));
    assert_eq!(world.waiting[0].target, Target::Home);
    world.settle();
    world.issue(Op::Write, Extent::new(GRID + 25 * 8 + 3, 1));
    world.issue(Op::Read, home(25, 1));
    assert!(world.waiting.iter().all(|io| io.target == Target::Home));
    world.settle();
    world.issue(Op::Read, home(26, 1));
    assert_eq!(world.waiting[0].target, Target::Area, "the rest of the copy is still good");
    world.settle();
}

#[test]
fn the_same_plan_again_moves_nothing() {
    let mut world = World::new(config(0));
    let plan = plan_of(&[(25, 2, 0), (5, 1, 1), (12, 4, 0)]);
    world.handle_settled(Input::Install(plan.clone()));
    let moved = world.engine.stats().moved_bytes;
    world.handle(Input::Install(plan.clone()));
    assert!(world.waiting.is_empty(), "no plan change, no motion");
    world.restart([1; 32]);
    world.handle(Input::Install(plan));
    assert!(world.waiting.is_empty(), "nor after a restart");
    assert_eq!(world.engine.stats().moved_bytes + moved, 7 * 4096);
    assert_eq!(world.engine.copied(), Sectors(56));
}

#[test]
fn copies_that_only_change_places_are_read_from_the_area() {
    let mut world = World::new(config(0));
    world.handle_settled(Input::Install(plan_of(&[(0, 4, 0), (10, 4, 0)])));
    // A cycle: each takes the other's place.
    world.handle(Input::Install(plan_of(&[(10, 4, 0), (0, 4, 0)])));
    let mut home_reads = 0;
    while !world.waiting.is_empty() {
        home_reads += world
            .waiting
            .iter()
            .filter(|io| (io.target, io.op) == (Target::Home, Op::Read))
            .count();
        world.execute(0);
    }
    assert_eq!(home_reads, 0);
    assert_eq!(world.engine.copied(), Sectors(64));
    for page in (0..4).chain(10..14) {
        world.issue_settled(Op::Read, home(page, 1));
    }
    assert_eq!(world.engine.stats().copy_reads, 8);
}

#[test]
fn plans_in_quick_succession_do_not_stop_each_other() {
    let mut world = World::new(config(0));
    let plan = plan_of(&[(0, 2, 0), (12, 2, 0), (25, 2, 0)]);
    // Each plan comes during a window of the plan before.
    for round in 0..200 {
        if world.engine.progress().is_none() && round > 0 {
            break;
        }
        world.handle(Input::Install(plan.clone()));
        world.execute(0);
        world.execute(0);
    }
    assert_eq!(world.engine.copied(), Sectors(48));
}

#[test]
fn read_ahead_and_clusters_fill_the_same_ram() {
    let mut world = World::new(config(64));
    world.issue(Op::Read, Extent::new(11, 8));
    assert_eq!(world.waiting[0].extent, Extent::new(11, 16), "8 KiB of read-ahead");
    world.settle();
    world.issue(Op::Read, Extent::new(19, 8));
    assert!(world.waiting.is_empty(), "it was read ahead");
    assert_eq!(world.engine.stats().cache_hits, 1);
    world.issue(Op::Read, Extent::new(20, 12));
    assert_eq!(world.waiting[0].extent, Extent::new(27, 16), "the front was in RAM");
    world.settle();
    // Slots 1 to 3 are of the first segment; clusters are of two pages.
    world.handle_settled(Input::Install(plan_of(&[(30, 1, 0), (12, 1, 0), (20, 1, 0)])));
    world.issue(Op::Read, home(12, 1));
    assert_eq!(world.waiting[0].extent, Extent::new((8 + 2) * 8, 16), "the whole cluster");
    world.settle();
    world.issue(Op::Read, home(20, 1));
    assert!(world.waiting.is_empty(), "its neighbour in the layout came with it");
    assert_eq!(world.engine.stats().cache_hits, 2);
}

#[test]
fn what_is_on_its_way_to_ram_is_waited_for_and_not_read_twice() {
    let mut world = World::new(config(64));
    world.issue(Op::Read, Extent::new(11, 4));
    world.issue(Op::Read, Extent::new(15, 8));
    world.issue(Op::Read, Extent::new(23, 8));
    let extents: Vec<Extent> = world.waiting.iter().map(|io| io.extent).collect();
    assert_eq!(extents, vec![Extent::new(11, 16)]);
    world.execute(0);
    assert_eq!(world.completed, 2, "23..31 ends past it");
    assert_eq!(world.waiting[0].extent, Extent::new(27, 16), "only what is missing");
    world.settle();
    // A write overtakes: waiting reads read for themselves, and so does each read after a fault.
    world.issue(Op::Read, Extent::new(100, 8));
    world.issue(Op::Read, Extent::new(108, 4));
    world.issue(Op::Write, Extent::new(108, 4));
    let read = world.waiting.remove(0);
    world.waiting.push(read);
    world.settle();
    world.issue(Op::Read, Extent::new(200, 4));
    world.issue(Op::Read, Extent::new(204, 4));
    let io = world.waiting.remove(0);
    world.handle(Input::Done { io: io.id, result: Err(IoFailed) });
    assert_eq!(world.waiting.len(), 2);
    world.settle();
}

#[test]
fn a_cluster_overtaken_by_a_write_or_a_plan_leaves_no_old_bytes_in_ram() {
    // Neighbours in one cluster of the area.
    let mut world = World::new(config(64));
    world.handle_settled(Input::Install(plan_of(&[(1, 1, 1), (22, 1, 0)])));
    world.issue(Op::Read, home(1, 1));
    assert_eq!(world.waiting[0].extent.len, Sectors(16));
    world.issue(Op::Write, home(22, 1));
    world.execute(1);
    world.execute(0);
    world.issue(Op::Read, home(22, 1));
    world.settle(); // checks what was read
    // A new plan gives the place to another extent while a cluster read is in flight.
    let mut world = World::new(config(64));
    world.handle_settled(Input::Install(plan_of(&[(1, 1, 1), (22, 1, 0)])));
    world.issue(Op::Read, home(1, 1));
    world.handle(Input::Install(plan_of(&[(27, 1, 2), (1, 1, 0)])));
    // Everything except the client's read.
    for _ in 0..50 {
        let last = world.waiting.len() - 1;
        if last == 0 {
            break;
        }
        world.execute(last);
    }
    assert_eq!(world.waiting.len(), 1, "nothing overwrites what a client reads");
    world.settle_and_read();
}

#[test]
fn a_plan_that_does_not_fit_is_refused_and_nothing_changes() {
    let mut world = World::new(config(0));
    for bad in [
        vec![copy(63, 2, 0)],
        vec![copy(0, 2, 4 * 7 - 1)],
        vec![Copy { home: home(0, 1), place: Lba(u64::MAX - 7) }],
        vec![copy(0, 2, 0), copy(0, 2, 4)],
        vec![copy(0, 2, 0), copy(8, 2, 1)],
        vec![Copy { home: Extent::new(GRID, 4), place: Lba(0) }],
        vec![Copy { home: Extent::new(0, 8), place: Lba(0) }],
    ] {
        world.handle(Input::Install(Plan { copies: bad }));
        assert!(world.waiting.is_empty());
    }
    assert_eq!(world.engine.stats().plans_refused, 7);
    assert_eq!(world.engine.progress(), None);
}

#[test]
fn background_work_keeps_its_budget_and_pauses_under_load() {
    let rate = 4096 * 1000; // a page a millisecond
    let mut world = World::new(Config { background_rate: Bytes(rate), ..config(0) });
    world.handle(Input::Install(plan_of(&[(0, 8, 0), (20, 8, 0)])));
    let mut moved = 0;
    let mut rounds = 0;
    while world.engine.progress().is_some() {
        rounds += 1;
        assert!(rounds < 100, "it must end");
        while !world.waiting.is_empty() {
            if world.waiting[0].class.is_background() {
                moved += world.waiting[0].extent.len.0;
            }
            world.execute(0);
        }
        if let Some(at) = world.engine.wakeup() {
            assert!(at.0 > world.now, "it is woken only when there is something to do");
            world.now = at.0;
            // The moved bytes never exceed the rate by more than the I/Os in flight.
            assert!(moved <= at.0 / 125_000 + 2 * 64, "{moved} sectors by {at:?}");
            world.handle(Input::Tick);
        }
    }
    assert!(moved >= 256, "16 pages read and written: {moved}");
    assert_eq!(world.engine.copied(), Sectors(128));

    let pause = Duration(5_000_000);
    let mut world = World::new(Config { background_pause: pause, ..config(0) });
    world.now = 1_000_000_000;
    world.issue_settled(Op::Read, home(0, 1));
    let asked = world.now;
    world.handle(Input::Install(plan_of(&[(0, 8, 0)])));
    assert!(world.waiting.is_empty(), "a client was just here");
    assert!(world.engine.wakeup().is_some_and(|at| at.0 >= asked + 4_000_000));
    world.settle();
    assert_eq!(world.engine.copied(), Sectors(64));
}

#[test]
fn a_fault_in_read_ahead_is_not_the_clients() {
    let mut world = World::new(config(64));
    world.issue(Op::Read, Extent::new(8, 4));
    let io = world.waiting.pop().unwrap();
    world.handle(Input::Done { io: io.id, result: Err(IoFailed) });
    assert_eq!(world.waiting[0].extent, Extent::new(8, 4), "only what was asked");
    world.settle();
    world.issue_with(Op::Write, Extent::new(0, 1), Flags::FUA);
    assert!(world.waiting[0].flags.contains(Flags::FUA), "FUA is passed on");
}

/// A disk that waits for a reader to come back must know the stream of each I/O.
#[test]
fn what_is_sent_for_a_request_is_of_its_stream() {
    let stream = StreamId(7);
    let request =
        |op, start| Request { stream, ..Request::new(SimTime(0), op, Extent::new(start, 4)) };
    for (op, cache) in [(Op::Read, 0), (Op::Read, 64), (Op::Write, 64), (Op::Flush, 64)] {
        let mut engine = Engine::new(config(cache));
        let sent = |engine: &mut Engine| {
            std::iter::from_fn(|| engine.poll())
                .filter_map(|o| if let Output::Submit(io) = o { Some(io) } else { None })
                .collect::<Vec<_>>()
        };
        engine.handle(SimTime(0), Input::Request { id: RequestId(1), request: request(op, 8) });
        // With RAM, the second read waits for the data of the first.
        engine.handle(SimTime(0), Input::Request { id: RequestId(2), request: request(op, 9) });
        let mut all = sent(&mut engine);
        // The same if that read fails.
        engine.handle(SimTime(1), Input::Done { io: all[0].id, result: Err(IoFailed) });
        all.extend(sent(&mut engine));
        assert!(all.len() >= 2 && all.iter().all(|io| io.stream == stream), "{op:?}: {all:?}");
    }
}
