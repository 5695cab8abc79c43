//! State that outlives the engine: the write buffer, crashes, damage, repair.

use super::device::{Ruled, fails_after};
use super::log::{execute_all, log_of, record_of};
use super::rules::{none, until, waited};
use super::*;
use seekless_engine::format::read_superblock;
use seekless_engine::{resizable, resize_area};

pub(super) fn writeback() -> Config {
    Config { mode: Mode::WriteBack, ..config(0) }
}

#[test]
fn writes_are_absorbed_in_one_sequential_write_and_survive_without_a_detach() {
    let mut world = World::new(writeback());
    // Writes of an earlier process may not be on stable storage yet.
    world.issue_settled(Op::Flush, Extent::default());
    world.issue(Op::Write, home(3, 2));
    let io = world.waiting[0];
    assert_eq!((io.target, io.op, io.extent.len), (Target::Area, Op::Write, Sectors(3 * 8)));
    world.issue(Op::Write, home(40, 1));
    world.issue(Op::Write, home(20, 1));
    world.execute(0);
    let sizes: Vec<u64> = world.waiting.iter().map(|io| io.extent.len.0 / 8).collect();
    assert_eq!(sizes, vec![2, 2], "what came while two were on their way");
    world.settle();
    assert_eq!((world.engine.dirty(), world.engine.stats().absorbed), (Sectors(32), 3));
    world.issue(Op::Flush, Extent::default());
    assert!(world.waiting.iter().all(|io| io.target == Target::Area), "home has nothing to keep");
    world.settle();
    world.crash([0; 32]);
    assert_eq!(world.engine.dirty(), Sectors(32));
    world.read_all();
}

#[test]
fn a_write_waits_for_memory_of_the_log_and_one_that_needs_more_goes_home() {
    let mut world = World::new(Config { records: 2, write_buffer_percent: 90, ..writeback() });
    world.issue_settled(Op::Flush, Extent::default());
    for page in [0, 10, 20, 30] {
        world.issue(Op::Write, home(page, 3));
    }
    let absorbed = |world: &World| world.engine.stats().absorbed;
    assert_eq!((absorbed(&world), world.waiting.len()), (2, 2), "two records");
    world.execute(0);
    assert_eq!((absorbed(&world), world.waiting.len()), (4, 2), "both in the next one");
    // It stands in no record, and waits for none.
    world.issue(Op::Write, home(40, 15));
    assert!(world.waiting.iter().any(|io| io.target == Target::Home && io.extent.len.0 == 15 * 8));
    world.settle();
    assert_eq!(absorbed(&world), 4);
    world.issue_settled(Op::Flush, Extent::default());
    world.crash_and_read([0; 32]);
}

#[test]
fn bypassed_copies_are_passed_by_unless_they_are_the_only_ones() {
    let mut world = World::new(writeback());
    let plan = plan_of(&[(25, 2, 0), (5, 1, 0)]);
    world.handle_settled(Input::Install(plan.clone()));
    world.issue_settled(Op::Write, home(40, 2));
    for (on, clean) in [(true, Target::Home), (false, Target::Area)] {
        world.handle(Input::Bypass(on));
        for (page, target) in [(25, clean), (40, Target::Area)] {
            world.issue(Op::Read, home(page, 2));
            assert_eq!(world.waiting[0].target, target, "page {page}, bypass {on}");
            world.settle();
        }
        assert_eq!(world.engine.standing(), plan);
    }
}

#[test]
fn an_overwrite_of_a_part_waits_only_for_its_page_to_come_home() {
    let mut world = World::new(writeback());
    world.issue_settled(Op::Write, home(3, 2));
    world.issue(Op::Write, Extent::new(GRID + 3 * 8, 2));
    assert!(world.waiting.iter().all(|io| io.class == Class::InTurn), "destaged first");
    world.issue(Op::Write, home(50, 1));
    assert!(world.waiting.iter().any(|io| io.class == Class::Foreground), "others do not wait");
    world.settle();
    assert_eq!(world.engine.dirty(), Sectors(16), "pages 4 and 50");
    world.read_all();
    world.issue_settled(Op::Flush, Extent::default());
    world.crash_and_read([0; 32]);
}

#[test]
fn a_plan_that_was_being_carried_out_is_carried_on_after_a_restart() {
    let mut world = World::new(config(0));
    world.handle(Input::Install(plan_of(&[(0, 10, 0), (20, 10, 0)])));
    // Until the first window is in place and the plan is saved.
    while world.engine.copied() == Sectors(0) || world.engine.progress().is_none() {
        world.execute(0);
    }
    for _ in 0..40 {
        if world.waiting.is_empty() || world.engine.stats().moved_bytes > 14 * 4096 {
            break;
        }
        world.execute(0);
    }
    world.crash([0; 32]);
    assert_eq!(world.engine.plan().sectors(), Sectors(160));
    world.handle_settled(Input::Tick);
    assert_eq!(world.engine.copied(), Sectors(160), "all of it is in place");
    let moved = world.engine.stats().moved_bytes;
    world.handle_settled(Input::Install(world.engine.plan()));
    assert_eq!(world.engine.stats().moved_bytes, moved, "its own plan is no change");
    assert!(world.engine.stats().moved_bytes < 20 * 4096, "and what was is not moved again");
    // A forgotten plan is not continued.
    world.handle_settled(Input::Install(Plan::default()));
    world.crash([0; 32]);
    world.handle_settled(Input::Tick);
    assert_eq!((world.engine.copied(), world.engine.stats().moved_bytes), (Sectors(0), 0));
}

#[test]
fn damage_is_noticed_and_never_served() {
    let damage = |world: &mut World, slot: u64| {
        world.area.write(Extent::new((8 + slot) * 8 + 3, 1), &[0x55; SECTOR]).unwrap();
    };
    // A clean copy: home is read.
    let mut world = World::new(config(0));
    world.handle_settled(Input::Install(plan_of(&[(3, 2, 0)])));
    damage(&mut world, 1);
    world.read_all();
    assert_eq!((world.engine.stats().damaged, world.engine.copied()), (1, Sectors(8)));
    // The only copy: an error, and the rest is served.
    let mut world = World::new(writeback());
    world.issue_settled(Op::Write, home(3, 2));
    // A superblock stands before the log.
    damage(&mut world, 1 + 4 * 8 + 1);
    world.failed_at = NEVER / 2;
    world.issue_settled(Op::Read, home(4, 1));
    world.clients.clear();
    let id = RequestId(9999);
    world.clients.insert(
        9999,
        Client {
            request: Request::new(SimTime(0), Op::Read, home(3, 1)),
            buffer: vec![0; 4096],
            issued: 0,
        },
    );
    let request = Request::new(SimTime(0), Op::Read, home(3, 1));
    world.engine.handle(SimTime(1 << 40), Input::Request { id, request });
    let mut result = None;
    while result.is_none() {
        match world.engine.poll() {
            Some(Output::Complete { result: r, .. }) => result = Some(r),
            Some(Output::Sum(sum)) => world.engine.summed(&vec![0; sum.pages as usize]),
            Some(Output::Submit(io)) => {
                world.engine.handle(SimTime(1 << 40), Input::Done { io: io.id, result: Ok(()) });
            }
            Some(_) => {}
            None => panic!("it never ended"),
        }
    }
    assert!(matches!(result, Some(Err(Fault::Damaged(_)))), "{result:?}");
}

/// A copy that moves within the area keeps its own checksum.
#[test]
fn a_damaged_copy_is_not_moved() {
    let mut world = World::new(config(0));
    world.handle_settled(Input::Install(plan_of(&[(0, 4, 0), (10, 4, 0)])));
    // Page 10, behind the first segment's map and four pages.
    spoil(&mut world, 8 + 1 + 4);
    world.handle_settled(Input::Install(plan_of(&[(10, 4, 0), (0, 4, 0)])));
    assert_eq!(world.engine.stats().damaged, 1);
    world.read_all();
}

/// The only copy is compared with its checksum before it goes home. A damaged one stays, and the
/// engine names its trouble.
#[test]
fn a_damaged_page_does_not_come_home() {
    let mut world = World::new(writeback());
    world.issue_settled(Op::Write, home(3, 2));
    let record = record_of(&mut world, 3);
    spoil(&mut world, record + 1);
    let stands = |world: &mut World, page: u64| {
        let mut bytes = [0; 4096];
        world.home.read(home(page, 1), &mut bytes).unwrap();
        bytes
    };
    let before = [3, 4].map(|page| stands(&mut world, page));
    world.handle(Input::Command(Command::Drain));
    execute_all(&mut world);
    let after = [3, 4].map(|page| stands(&mut world, page));
    assert_eq!([0, 1].map(|i| before[i] == after[i]), [true, false]);
    assert_eq!(world.engine.dirty(), Sectors(8));
    assert_eq!(world.engine.trouble(), Some(seekless_engine::Trouble::Copies));
}

/// A damaged page keeps the log's tail where it is, so the log fills up. A request that needs a
/// record fails then; none waits for ever.
#[test]
fn nobody_waits_for_a_log_that_a_damaged_page_keeps_full() {
    let mut world = World::new(writeback());
    world.issue_settled(Op::Write, home(3, 1));
    let record = record_of(&mut world, 3);
    spoil(&mut world, record + 1);
    let pages = 10..50;
    let writes = pages.clone().map(|page| (Op::Write, home(page, 1)));
    // Each makes an entry of the log void, of which a record tells.
    let zeroes =
        pages.flat_map(|page| [(Op::WriteZeroes, home(page, 1)), (Op::Flush, Extent::default())]);
    for (op, extent) in writes.chain(zeroes) {
        world.failed_at = world.step.max(1);
        world.issue(op, extent);
        for _ in 0..100 {
            execute_all(&mut world);
            if world.clients.is_empty() {
                break;
            }
            assert!(world.wake());
        }
        assert!(world.clients.is_empty(), "{op:?} of {extent} waits: {:?}", world.engine);
    }
    assert!(world.failed > 0, "the log never filled up");
    assert_eq!(world.engine.trouble(), Some(seekless_engine::Trouble::Copies));
}

/// A copy that only the log calls written does not hide data absorbed since.
#[test]
fn what_was_absorbed_after_a_copy_was_made_outlasts_a_crash() {
    let mut world = World::new(writeback());
    world.handle(Input::Install(plan_of(&[(0, 10, 0), (20, 10, 0)])));
    let committed = |world: &mut World| {
        let log = log_of(world).into_iter();
        log.map(|(_, h)| h).rfind(|h| matches!(h.content, Content::Committed(_)))
    };
    while committed(&mut world).is_none() {
        world.execute(0);
    }
    world.issue(Op::Write, home(0, 1));
    world.issue(Op::Flush, Extent::default());
    while !world.clients.is_empty() {
        world.execute(0);
    }
    let superblock = read_superblock(&mut world.area, Lba(0)).unwrap();
    let begins = superblock.superblock.next_sequence;
    assert!(
        committed(&mut world).is_some_and(|h| h.sequence >= begins),
        "no checkpoint knows of it"
    );
    world.crash([0; 32]);
    assert_eq!(world.engine.dirty(), Sectors(8));
    world.read_all();
}

#[test]
fn copies_in_doubt_are_not_served_until_home_proves_them() {
    let mut world = World::new(config(0));
    world.handle_settled(Input::Install(plan_of(&[(3, 4, 0)])));
    // Not detached; and somebody else wrote page 4 meanwhile.
    let mut sector = [0; SECTOR];
    fill(&mut sector, 4711);
    let at = home(4, 1).start.0;
    world.home.write(Extent::new(at, 1), &sector).unwrap();
    world.history[at as usize][0].value = 4711;
    world.crash([0; 32]);
    assert_eq!((world.engine.copied(), world.engine.in_doubt()), (Sectors(0), Sectors(32)));
    world.issue(Op::Read, home(3, 1));
    assert_eq!(world.waiting[0].target, Target::Home);
    world.settle();
    world.handle_settled(Input::Tick);
    assert_eq!((world.engine.copied(), world.engine.in_doubt()), (Sectors(24), Sectors(0)));
    assert_eq!(world.engine.stats().proven, 3);
    // Trusted at once only after a detach in order, if nobody wrote home since.
    world.restart([1; 32]);
    assert_eq!((world.engine.copied(), world.engine.in_doubt()), (Sectors(24), Sectors(0)));
    world.handle_settled(Input::Detach { stamp: [1; 32] });
    world.crash([2; 32]);
    assert_eq!((world.engine.copied(), world.engine.in_doubt()), (Sectors(0), Sectors(24)));
}

/// An area with copies and dirty pages, not detached.
pub(super) fn in_use(copies: bool) -> World {
    let mut world = World::new(writeback());
    if copies {
        world.handle_settled(Input::Install(plan_of(&[(30, 4, 0)])));
    }
    for page in [3, 9, 4] {
        for (op, extent) in [(Op::Write, home(page, 1)), (Op::Flush, Extent::default())] {
            world.issue(op, extent);
            // No time passes: an idle volume writes home.
            execute_all(&mut world);
        }
    }
    world
}

/// Damages a page in both halves: a record's header stands in each.
pub(super) fn spoil(world: &mut World, page: u64) {
    for sector in [1, 5] {
        world.area.write(Extent::new(page * 8 + sector, 1), &[0x55; SECTOR]).unwrap();
    }
}

/// Home's guard names the generation of the area that was attached last.
#[test]
fn an_area_older_than_the_guard_is_refused() {
    let mut world = World::new(writeback());
    let older = world.area.clone();
    world.restart([1; 32]);
    let config = *world.engine.config();
    let (_, report) = attach(&mut world.area, config, &kept([1; 32])).unwrap();
    let named = Proof { guard: HomeGuard::Up(report.generation), ..kept([1; 32]) };
    let mut put_back = older.clone();
    let refused = attach(&mut put_back, config, &named).unwrap_err();
    assert!(matches!(refused, AttachError::Older { .. }), "{refused}");
    (0..AREA).for_each(|s| assert_eq!(put_back.sector(Lba(s)), older.sector(Lba(s))));
    // The newest, and one whose guard was not told yet.
    assert!(attach(&mut world.area.clone(), config, &named).is_ok());
    assert!(attach(&mut world.area, config, &kept([1; 32])).is_ok());
}

#[test]
fn a_lost_checkpoint_is_rebuilt_without_loss() {
    let mut world = in_use(true);
    let before: Vec<_> = examine(&mut world.area).unwrap().copies().collect();
    // Checkpoints stand in pages 2 and 4; the superblock names the valid one.
    for page in [2, 3, 4, 5] {
        spoil(&mut world, page);
    }
    let refused = examine(&mut world.area).unwrap_err();
    assert!(refused.to_string().contains("seekless volume repair"), "{refused}");
    let Repair::Done(report) = repair(&mut world.area, false).unwrap() else {
        panic!("nothing is lost")
    };
    assert!(report.lost.is_empty() && report.mended.iter().all(|f| !f.loss), "{report:?}");
    let after: Vec<_> = examine(&mut world.area).unwrap().copies().collect();
    assert_eq!(before, after);
    world.crash_and_read([0; 32]);
}

#[test]
fn a_broken_log_is_cut_only_where_that_is_allowed_and_said() {
    let mut world = in_use(false);
    // The first record of data: later records know that it is durable.
    let slot = examine(&mut world.area).unwrap().copies().find(|c| c.1 == 3).unwrap().0;
    spoil(&mut world, u64::from(9 + slot) - 1);
    let refused = examine(&mut world.area).unwrap_err();
    assert!(refused.to_string().contains("ends at page"), "{refused}");
    let before = world.area.clone();
    let Repair::WouldLose(report) = repair(&mut world.area, false).unwrap() else {
        panic!("it is lost")
    };
    assert!(report.mended.iter().any(|f| f.loss), "{report:?}");
    for s in 0..AREA {
        assert_eq!(world.area.sector(Lba(s)), before.sector(Lba(s)), "nothing was written");
    }
    assert!(matches!(repair(&mut world.area, true).unwrap(), Repair::Done(_)));
    assert!(examine(&mut world.area).is_ok());
}

#[test]
fn check_finds_what_is_damaged_and_repair_gives_it_up() {
    let mut world = in_use(true);
    let copies: Vec<_> = examine(&mut world.area).unwrap().copies().collect();
    let at = |page| u64::from(copies.iter().find(|c| c.1 == page).unwrap().0 + 8);
    spoil(&mut world, at(31));
    spoil(&mut world, at(9) + 1);
    let found =
        examine(&mut world.area).unwrap().check(&mut world.area, true, &mut |_| ()).unwrap();
    let mut loss: Vec<bool> = found.iter().map(|f| f.loss).collect();
    loss.sort_unstable();
    assert_eq!(loss, vec![false, true], "a copy, and an only copy: {found:?}");
    let Repair::Done(report) = repair(&mut world.area, true).unwrap() else { panic!("allowed") };
    assert_eq!(report.lost, vec![home(9, 1)]);
    assert_eq!(examine(&mut world.area).unwrap().newest(9), None);
    assert!(examine(&mut world.area).unwrap().newest(4).is_some());
}

#[test]
fn an_area_that_nobody_formatted_works_like_one_that_was() {
    let mut world = World::new(config(0));
    world.engine = Engine::new(config(0));
    world.handle_settled(Input::Install(plan_of(&[(3, 4, 0)])));
    assert_eq!(world.engine.copied(), Sectors(32));
    // The repaired area is like any other.
    world.crash_and_read([0; 32]);
    assert_eq!(world.engine.in_doubt() + world.engine.copied(), Sectors(32));
}

/// Answers all I/Os in flight; writes to these targets fail.
pub(super) fn answer_failing(world: &mut World, fails: impl Fn(Target) -> bool) {
    for _ in 0..100 {
        if let Some(at) = world.waiting.iter().position(|io| io.op == Op::Write && fails(io.target))
        {
            let io = world.waiting.remove(at);
            world.handle(Input::Done { io: io.id, result: Err(IoFailed) });
        } else if !world.waiting.is_empty() {
            world.execute(0);
        }
    }
}

/// Data that the area refuses goes home, acknowledged or not. A flush ends when the area works
/// again.
#[test]
fn what_a_log_cannot_take_goes_home() {
    for gather in [Duration::ZERO, Duration::from_millis(1_000)] {
        let mut world = World::new(Config { gather, ..writeback() });
        world.issue(Op::Write, home(3, 2));
        world.issue_at_once(Op::Flush, Extent::default());
        // One of the pages is in the log already. A read takes one along with a copy, with RAM or
        // without.
        world.issue(Op::Write, home(4, 3));
        let fua = world.issue_with(Op::Write, home(20, 1), Flags::FUA);
        answer_failing(&mut world, |target| target == Target::Area);
        assert_eq!(world.clients.keys().copied().collect::<Vec<_>>(), [fua], "no promise yet");
        // Page 3 came home by itself: see scrub.rs.
        assert!(world.engine.has_fallen_back());
        world.issue(Op::Read, home(3, 6));
        let flush = world.issue(Op::Flush, Extent::default());
        answer_failing(&mut world, |target| target == Target::Area);
        assert!(world.clients.contains_key(&flush) || world.failed > 0);
        world.failed_at = NEVER / 2;
        world.settle();
        world.failed_at = 0;
        world.issue_settled(Op::Flush, Extent::default());
        world.crash_and_read([0; 32]);
    }
}

/// A write fails only if neither device takes it. Flushed data stays.
#[test]
fn what_neither_device_takes_fails_its_writer_and_nothing_else() {
    let mut world = World::new(writeback());
    world.issue(Op::Write, home(3, 1));
    world.issue_at_once(Op::Flush, Extent::default());
    world.issue(Op::Write, home(4, 1));
    world.failed_at = NEVER / 2;
    answer_failing(&mut world, |_| true);
    assert!((world.clients.is_empty(), world.failed) == (true, 1), "the writer was told");
    // New writes go home. Flushed data is served, and survives a crash.
    world.failed_at = 0;
    world.issue(Op::Write, home(5, 1));
    assert_eq!(world.waiting[0].target, Target::Home);
    execute_all(&mut world);
    world.crash([0; 32]);
    world.issue(Op::Read, home(3, 1));
    world.issue_at_once(Op::Read, home(5, 1));
    assert_eq!(world.engine.dirty(), Sectors(8));
}

/// Writes are acknowledged at once. They reach the log together, when somebody needs that or the
/// time has come.
#[test]
fn writes_gather_in_ram_until_somebody_needs_them() {
    let gather = Duration::from_millis(1_000);
    let mut world = World::new(Config { gather, ..writeback() });
    world.issue_settled(Op::Flush, Extent::default());
    let pages =
        |world: &World| world.waiting.iter().map(|io| io.extent.len.0 / 8).collect::<Vec<_>>();
    for page in [3, 40, 3, 20, 3] {
        world.issue(Op::Write, home(page, 1));
    }
    assert!(world.clients.is_empty() && world.waiting.is_empty(), "told, and nothing sent");
    world.issue(Op::Read, home(3, 1));
    assert_eq!(pages(&world), [4], "a header and three pages: the read waits for them");
    world.settle();
    assert_eq!((world.engine.dirty(), world.engine.stats().absorbed), (Sectors(24), 5));
    // A flush sends the open record, and ends after it.
    world.issue(Op::Write, home(7, 2));
    let flush = world.issue(Op::Flush, Extent::default());
    assert_eq!(pages(&world), [3]);
    world.execute(0);
    assert!(world.clients.contains_key(&flush), "the record has yet to be flushed");
    world.settle();
    world.crash([0; 32]);
    assert_eq!(world.engine.dirty(), Sectors(40), "what a flush covered is there");
    world.read_all();
    // Time does so, too.
    world.issue(Op::Write, home(9, 1));
    assert_eq!(world.engine.wakeup().map(|at| at.0 - world.now), Some(gather.0));
    world.now += gather.0;
    world.handle(Input::Tick);
    assert_eq!(pages(&world), [2]);
    world.settle();
    // A write with FUA ends when it is in the log and flushed, with all writes before it.
    world.issue(Op::Write, home(11, 1));
    let fua = world.issue_with(Op::Write, home(12, 1), Flags::FUA);
    assert_eq!(pages(&world), [3]);
    assert!(world.clients.contains_key(&fua));
    world.settle_and_read();
}

#[test]
fn what_neither_device_takes_after_its_client_was_told_is_told_at_every_flush() {
    let gather = Duration::from_millis(1_000);
    let mut world = World::new(Config { gather, ..writeback() });
    world.issue(Op::Write, home(4, 1));
    assert!(world.clients.is_empty());
    for failed in 1..3 {
        let flush = world.issue(Op::Flush, Extent::default());
        world.failed_at = NEVER / 2;
        // The engine sometimes tries again with a checkpoint.
        for _ in 0..100 {
            if let Some(io) = world.waiting.pop() {
                let result = if io.op == Op::Write { Err(IoFailed) } else { Ok(()) };
                world.handle(Input::Done { io: io.id, result });
            } else if let Some(at) = world.engine.wakeup().filter(|_| !world.clients.is_empty()) {
                world.now = world.now.max(at.0);
                world.handle(Input::Tick);
            }
        }
        assert!(!world.clients.contains_key(&flush));
        assert_eq!(world.failed, failed, "no flush says that all is well");
        // Not hidden by the failure of a device.
        assert_eq!(world.engine.trouble(), Some(seekless_engine::Trouble::Lost));
    }
    // Nor when both devices work again, and no flush needs the area.
    world.handle_settled(Input::Command(Command::SetMode(Mode::WriteThrough)));
    assert!(
        world.engine.is_drained() && world.engine.trouble() == Some(seekless_engine::Trouble::Lost)
    );
    world.issue_settled(Op::Flush, Extent::default());
    assert_eq!(world.failed, 3);
}

/// Two records are in flight, and a third one with an unfinished write waits for them.
fn with_a_write_behind_two_records() -> (World, u64) {
    let gather = Duration::from_millis(1_000);
    let mut world = World::new(Config { mode: Mode::WriteBack, gather, ..config(8) });
    world.issue_settled(Op::Flush, Extent::default());
    for page in [20, 30] {
        world.issue_with(Op::Write, home(page, 1), Flags::FUA);
    }
    let first = world.issue_with(Op::Write, home(3, 2), Flags::FUA);
    assert_eq!(world.waiting.len(), 2);
    (world, first)
}

/// A page is written while an older write of it has not ended: RAM keeps the newer bytes, whenever
/// the older write ends.
#[test]
fn a_write_that_ends_late_does_not_bring_its_bytes_back() {
    let (mut world, first) = with_a_write_behind_two_records();
    let second = world.issue(Op::Write, home(3, 1));
    while world.clients.contains_key(&first) || world.clients.contains_key(&second) {
        world.execute(0);
    }
    world.settle();
    world.issue(Op::Read, home(3, 1));
    assert!(world.clients.is_empty(), "it is in RAM");
    world.issue_settled(Op::Flush, Extent::default());
    world.crash_and_read([0; 32]);
}

/// If neither device takes the older write, the newer one is not lost.
#[test]
fn a_write_that_fails_takes_no_other_with_it() {
    let (mut world, first) = with_a_write_behind_two_records();
    let second = world.issue(Op::Write, home(3, 1));
    world.failed_at = NEVER / 2;
    answer_failing(&mut world, |_| true);
    assert!(!world.clients.contains_key(&first) && !world.clients.contains_key(&second));
    assert_eq!(world.failed, 4, "all of them are told");
    world.settle_and_read();
}

/// After a failed flush of the area, the next one voids the same pages: the log's older copy does not
/// come back.
#[test]
fn what_a_failed_flush_was_to_make_void_the_next_one_does() {
    let mut world = World::new(writeback());
    world.issue(Op::Write, home(3, 1));
    world.issue_at_once(Op::Flush, Extent::default());
    world.issue_at_once(Op::WriteZeroes, home(3, 1));
    assert_eq!(world.engine.dirty(), Sectors(0));
    world.issue(Op::Flush, Extent::default());
    let flushes = |io: &Io| (io.target, io.op) == (Target::Area, Op::Flush);
    let at = until(&mut world, none, flushes);
    let io = world.waiting.remove(at);
    world.failed_at = NEVER / 2;
    world.handle(Input::Done { io: io.id, result: Err(IoFailed) });
    execute_all(&mut world);
    assert_eq!((world.clients.len(), world.failed), (0, 1), "it was told");
    world.failed_at = 0;
    world.issue_at_once(Op::Flush, Extent::default());
    assert!(world.clients.is_empty());
    world.crash([0; 32]);
    assert_eq!(world.engine.dirty(), Sectors(0));
    world.read_all();
}

/// Without its superblock nobody knows where the parts of home stand.
#[test]
fn an_area_inside_its_disk_has_a_superblock_whenever_a_resize_is_cut_short() {
    let (mut area, capacity) = (MemDevice::new(Sectors(4096)), Sectors(20_000));
    let (inside, doubled) = (Some(Lba(8)), Sectors(40_000));
    let mut options = FormatOptions {
        capacity,
        inside,
        grid: Sectors(0),
        mode: Mode::WriteThrough,
        write_buffer_percent: 20,
        ..options_of(&config(0))
    };
    format_area(&mut area, &options).unwrap();
    let before = read_superblock(&mut area, Lba(0)).unwrap().superblock;
    let checked = resizable(&mut area, &before).unwrap();
    options.capacity = doubled;
    for left in 0.. {
        let mut area = area.clone();
        let mut cut = Ruled { area: &mut area, rule: fails_after(left) };
        let whole = resize_area(&mut cut, &options, &checked).is_ok();
        let found = read_superblock(&mut area, Lba(0)).unwrap().superblock;
        assert!(found.home_capacity == capacity && !whole || found.home_capacity == doubled);
        let at = (found.uuid, found.inside, found.area_at, found.area_size);
        assert_eq!(at, (before.uuid, true, Lba(8), Sectors(4096)), "after {left} changes");
        if whole {
            assert!(left > 4 && found.home_capacity == doubled);
            break;
        }
    }
}

/// A write over a part of a dirty page waits until the page is at home. A move that waits for its
/// budget must not hold it up.
#[test]
fn a_write_over_a_dirty_page_waits_for_no_budget_of_a_move() {
    // 100 bytes a second: each page of a move takes 41 s.
    let slow = Config { background_rate: Bytes(100), mode: Mode::WriteBack, ..config(0) };
    let mut world = World::new(slow);
    world.issue(Op::Write, home(60, 1));
    until(&mut world, none, |io| io.target == Target::Area && io.op == Op::Write);
    execute_all(&mut world);
    world.handle(Input::Install(plan_of(&[(0, 8, 0), (20, 8, 0), (40, 8, 0)])));
    until(&mut world, none, |io| io.class.is_background() && io.op == Op::Read);
    world.issue(Op::Write, Extent::new(GRID + 60 * 8, 1));
    let waited = waited(&mut world, |world| world.clients.is_empty());
    assert!(waited.is_some_and(|w| w < 5_000_000_000), "{waited:?}");
    assert!(world.engine.progress().is_some(), "the move is over: nothing was tested");
    world.settle_and_read();
}
