//! The scrub: what it finds, what it leaves alone, and when it works. And an area that fails.

use super::area::{answer_failing, spoil, writeback};
use super::log::{execute_all, flushes_area, in_flight, record_of};
use super::rules::{fail_first, none, until};
use super::*;
use seekless_engine::format::read_superblock;
use seekless_engine::{GuardStep, Guarding, Trouble};

/// Ten pages in two runs, all in place.
fn copied() -> World {
    let mut world = World::new(config(0));
    world.handle_settled(Input::Install(plan_of(&[(0, 6, 0), (20, 4, 0)])));
    world
}

fn pass(world: &mut World) {
    world.handle_settled(Input::Scrub);
}

/// The first page of the checkpoint that the superblock names, and its superblocks.
fn metadata(world: &mut World) -> (u64, [u64; 3]) {
    let s = read_superblock(&mut world.area, Lba(0)).unwrap().superblock;
    let geometry = s.geometry().unwrap();
    (geometry.checkpoint_at(s.checkpoint_slot), s.places())
}

#[test]
fn a_pass_reads_every_copy_and_all_metadata_once_and_finds_nothing_in_a_sound_area() {
    let mut world = copied();
    assert_eq!(world.engine.scrubbed(), Default::default());
    pass(&mut world);
    let done = world.engine.scrubbed();
    // Three superblocks, the checkpoint's header and its one page of entries.
    assert_eq!((done.passes, done.pages, done.damaged, done.lost), (1, 10 + 3 + 2, 0, 0));
    assert!(!done.running && world.engine.trouble().is_none());
    pass(&mut world);
    assert_eq!((world.engine.scrubbed().passes, world.engine.scrubbed().pages), (2, 30));
}

/// Home serves what a damaged copy held, and no client had to meet the damage.
#[test]
fn a_damaged_clean_copy_is_dropped_before_anybody_reads_it() {
    let mut world = copied();
    // Behind the first segment's map: the third page of the first run.
    spoil(&mut world, 8 + 1 + 2);
    pass(&mut world);
    let done = world.engine.scrubbed();
    assert_eq!((done.damaged, done.lost, world.engine.copied()), (1, 0, Sectors(72)));
    world.issue(Op::Read, home(2, 1));
    assert_eq!(world.waiting[0].target, Target::Home);
    world.settle_and_read();
    assert_eq!(world.engine.stats().damaged, 1, "no read met it");
    pass(&mut world);
    assert_eq!(world.engine.scrubbed().damaged, 1, "it is not counted again");
}

#[test]
fn a_copy_in_doubt_that_is_damaged_is_dropped_too() {
    let mut world = copied();
    world.crash([0; 32]);
    assert_eq!(world.engine.in_doubt(), Sectors(80));
    spoil(&mut world, 8 + 1 + 2);
    // Before the proof of home begins.
    world.fail_background = true;
    world.handle_settled(Input::Tick);
    world.fail_background = false;
    assert_eq!(world.engine.in_doubt(), Sectors(80), "home could not be read");
    pass(&mut world);
    assert_eq!((world.engine.scrubbed().damaged, world.engine.in_doubt()), (1, Sectors(72)));
}

/// The newest bytes of a page stand in the log alone: the engine says so until they are replaced.
#[test]
fn a_damaged_only_copy_is_named_and_never_served() {
    let mut world = World::new(writeback());
    world.issue_settled(Op::Write, home(3, 2));
    let record = record_of(&mut world, 3);
    spoil(&mut world, record + 1);
    pass(&mut world);
    let done = world.engine.scrubbed();
    assert_eq!((done.damaged, done.lost, world.engine.dirty()), (1, 1, Sectors(16)));
    assert_eq!(world.engine.trouble(), Some(Trouble::Copies));
    assert_eq!(world.engine.mode(), Mode::WriteBack, "rot is no failing device");
    pass(&mut world);
    assert_eq!(world.engine.scrubbed().lost, 1, "one page, however often it is found");
    world.issue_settled(Op::Write, home(3, 1));
    assert_eq!((world.engine.scrubbed().lost, world.engine.trouble()), (0, None));
    world.read_all();
}

/// Page 3 is at home, and its clean copy in the log is damaged; and the page of the area with this
/// copy.
fn with_a_damaged_copy_in_the_log() -> (World, u64) {
    let mut world = World::new(writeback());
    world.issue_settled(Op::Write, home(3, 1));
    // A page that is often read from the log goes home, and its segment stays in use.
    for _ in 0..64 {
        world.issue_settled(Op::Read, home(3, 1));
    }
    assert_eq!((world.engine.dirty(), world.engine.mode()), (Sectors(0), Mode::WriteBack));
    let copy = record_of(&mut world, 3) + 1;
    spoil(&mut world, copy);
    (world, copy)
}

/// The scrub finds a clean copy in the log damaged, while newer bytes of its page are on their way to
/// the log. No record behind these may say that home is newer.
#[test]
fn a_damaged_copy_in_the_log_does_not_void_newer_bytes_of_its_page() {
    let (mut world, copy) = with_a_damaged_copy_in_the_log();
    world.handle(Input::Scrub);
    let scrubs = |io: &Io| io.op == Op::Read && io.extent.start == Lba(copy * 8);
    while !world.waiting.iter().any(scrubs) {
        if world.waiting.is_empty() {
            world.now = world.engine.wakeup().expect("the pass goes on").0;
            world.handle(Input::Tick);
        }
        if !world.waiting.iter().any(scrubs) {
            world.execute(0);
        }
    }
    world.issue(Op::Write, home(3, 1));
    world.execute(in_flight(&world, scrubs));
    assert_eq!(world.engine.scrubbed().damaged, 1);
    world.issue(Op::Flush, Extent::default());
    while !world.clients.is_empty() {
        world.execute(0);
    }
    world.crash_and_read([1; 32]);
}

/// The bytes of a void page come back after a failed flush of home: not if they are damaged.
#[test]
fn a_damaged_copy_does_not_come_back_after_a_failed_flush() {
    let (mut world, _) = with_a_damaged_copy_in_the_log();
    world.handle(Input::Scrub);
    while world.engine.scrubbed().damaged == 0 {
        if world.waiting.is_empty() {
            world.now = world.engine.wakeup().expect("the pass goes on").0;
            world.handle(Input::Tick);
        } else {
            world.execute(0);
        }
    }
    let flushes_home = |io: &Io| (io.target, io.op) == (Target::Home, Op::Flush);
    world.issue(Op::Flush, Extent::default());
    fail_first(&mut world, none, flushes_home);
    assert_eq!(world.engine.dirty(), Sectors(0), "damaged bytes are nobody's newest");
    world.settle();
    world.issue_settled(Op::Read, home(3, 1));
    assert_eq!((world.failed, world.engine.trouble()), (1, None), "the flush alone fails");
    world.read_all();
}

/// The map in RAM is whole: a checkpoint is written in the other place, and superblocks again.
#[test]
fn damaged_metadata_is_written_again() {
    for which in 0..3 {
        let mut world = copied();
        let (checkpoint, superblocks) = metadata(&mut world);
        spoil(&mut world, [checkpoint + 1, superblocks[0], superblocks[2]][which]);
        pass(&mut world);
        assert_eq!(world.engine.scrubbed().damaged, 1, "{which}");
        let (now, _) = metadata(&mut world);
        assert_ne!(now, checkpoint, "{which}");
        pass(&mut world);
        assert_eq!(world.engine.scrubbed().damaged, 1, "{which}: it is whole again");
        assert!(examine(&mut world.area).is_ok());
        world.crash_and_read([0; 32]);
    }
}

/// A pass begins with a checkpoint, so that recovery does not need the headers before it.
#[test]
fn after_a_pass_no_recovery_needs_the_older_records() {
    let mut world = World::new(writeback());
    for page in [3, 20, 40] {
        world.issue(Op::Write, home(page, 1));
        world.issue_settled(Op::Flush, Extent::default());
    }
    let record = record_of(&mut world, 20);
    pass(&mut world);
    spoil(&mut world, record);
    world.crash([0; 32]);
    assert_eq!(world.engine.dirty(), Sectors(24));
    world.read_all();
}

/// A page that cannot be read costs that page.
#[test]
fn pages_that_cannot_be_read_are_dropped_one_by_one() {
    let mut world = copied();
    world.handle(Input::Scrub);
    let is_piece = |io: &Io| io.target == Target::Area && io.extent.len > Sectors(8);
    let mut failed = 0;
    while world.engine.scrubbed().running {
        if world.waiting.is_empty() {
            assert!(world.wake());
            continue;
        }
        // All long reads, and the first short one behind them.
        let io = world.waiting[0];
        let data = io.extent.start.0 > 8 * 8;
        if data && (is_piece(&io) || failed == 1) {
            failed += 1;
            world.waiting.remove(0);
            world.handle(Input::Done { io: io.id, result: Err(IoFailed) });
        } else {
            world.execute(0);
        }
    }
    assert!(failed >= 2, "{failed}");
    assert_eq!(world.engine.scrubbed().damaged, 1);
    assert_eq!(world.engine.copied(), Sectors(72));
    world.read_all();
}

/// A tenth of the idle time at most, and nothing while clients work.
#[test]
fn the_scrub_works_in_idle_time_only_and_takes_a_tenth_of_it() {
    let mut world = copied();
    let idle = 500_000_000;
    world.issue_settled(Op::Read, home(40, 1));
    let asked = world.now;
    world.handle(Input::Scrub);
    assert!(world.waiting.is_empty(), "clients were here just now");
    let at = world.engine.wakeup().unwrap();
    assert!((asked + idle - 10..=asked + idle + 10).contains(&at.0), "{at:?}, {asked}");
    // Each read takes 5 ms.
    let (mut reads, begin) = (0, at.0);
    world.now = at.0;
    world.handle(Input::Tick);
    while world.engine.scrubbed().running {
        if let Some(io) = world.waiting.first() {
            assert_eq!((io.op, io.class), (Op::Read, Class::Background));
            assert!(io.extent.len.bytes() <= Bytes(256 << 10));
            (world.now, reads) = (world.now + 5_000_000, reads + 1);
            world.execute(0);
        } else {
            assert!(world.wake());
        }
    }
    assert!(reads >= 3, "{reads}");
    let took = world.now - begin;
    assert!(took >= reads * 50_000_000 && took < reads * 51_000_000, "{took} for {reads}");
    // A client comes in the middle of a pass: the rest waits until clients are idle again.
    world.handle(Input::Scrub);
    world.handle(Input::Tick);
    assert_eq!(world.waiting.len(), 1);
    world.issue_at_once(Op::Read, home(41, 1));
    let at = world.engine.wakeup().unwrap();
    assert!(at.0 >= world.now + idle - 10, "{at:?}, now {}", world.now);
    world.settle();
}

/// A page that was written while the scrub read its slot is not taken for damaged.
#[test]
fn what_changes_meanwhile_is_not_damaged() {
    let mut world = World::new(writeback());
    world.issue_settled(Op::Write, home(3, 2));
    world.handle(Input::Scrub);
    until(&mut world, none, |io| io.op == Op::Read);
    world.issue_settled(Op::Write, home(3, 2));
    let done = world.engine.scrubbed();
    assert_eq!((done.passes, done.damaged), (1, 0));
    world.read_all();
}

/// Clean copies stand in segments of the log that are free. While the scrub reads one of them, the
/// log stops before it: a read that another write overtakes may return that write's bytes, and the
/// scrub would call a sound page damaged.
#[test]
fn a_segment_that_the_scrub_reads_is_not_overwritten() {
    let mut world = World::new(writeback());
    for page in 0..20 {
        world.issue_settled(Op::Write, home(page, 1));
    }
    // All of it comes home. Its copies in the log stay, and equal home.
    world.handle_settled(Input::Command(Command::Drain));
    world.handle_settled(Input::Command(Command::SetMode(Mode::WriteBack)));
    assert_eq!(world.engine.dirty(), Sectors(0));
    // The segments that the log writes next: eight pages each.
    let first = record_of(&mut world, 0);
    let next = Extent::new(8 * first, 8 * 16);
    world.handle(Input::Scrub);
    let reads = |io: &Io| io.target == Target::Area && io.op == Op::Read;
    let held = loop {
        if let Some(io) = world.waiting.iter().find(|io| reads(io) && next.overlaps(io.extent)) {
            break *io;
        }
        if world.waiting.is_empty() {
            assert!(world.wake(), "a pass ends early");
        } else {
            world.execute(0);
        }
    };
    // More than the log holds.
    let mut absorbed = 0;
    for i in 0..40 {
        world.issue(Op::Write, home(20 + i % 40, 1));
        while let Some(at) = world.waiting.iter().position(|io| io.id != held.id) {
            let io = world.waiting[at];
            let writes = io.target == Target::Area && io.op == Op::Write;
            absorbed += u64::from(writes);
            assert!(!writes || !io.extent.overlaps(held.extent), "write {i}: {io:?}, {held:?}");
            world.execute(at);
        }
    }
    assert!(absorbed > 0 && world.clients.is_empty());
    world.settle();
    let done = world.engine.scrubbed();
    assert_eq!((done.passes, done.damaged), (1, 0));
    world.read_all();
}

/// Writes go home as soon as the log refuses one, and what the log holds follows. No administrator
/// is needed, and write-back returns only when one asks.
#[test]
fn an_area_that_fails_leads_to_write_through_by_itself() {
    let mut world = World::new(writeback());
    world.issue(Op::Write, home(3, 2));
    world.issue_settled(Op::Flush, Extent::default());
    assert_eq!((world.engine.mode(), world.engine.has_fallen_back()), (Mode::WriteBack, false));
    world.issue(Op::Write, home(10, 1));
    answer_failing(&mut world, |target| target == Target::Area);
    assert_eq!((world.engine.mode(), world.engine.has_fallen_back()), (Mode::WriteThrough, true));
    assert!(world.engine.trouble().is_some());
    world.failed_at = NEVER / 2;
    world.issue(Op::Write, home(11, 1));
    assert_eq!(world.waiting.iter().filter(|io| io.target == Target::Home).count(), 1);
    // The area works again: all comes home, and the mode stays.
    world.settle();
    world.failed_at = 0;
    assert_eq!((world.engine.dirty(), world.engine.trouble()), (Sectors(0), None));
    assert!(world.engine.is_drained());
    world.home_is_complete();
    world.issue(Op::Write, home(12, 1));
    assert_eq!(world.waiting[0].target, Target::Home);
    world.settle();
    world.crash([0; 32]);
    assert_eq!(world.engine.mode(), Mode::WriteThrough, "a restart does not bring it back");
    world.handle_settled(Input::Command(Command::SetMode(Mode::WriteBack)));
    assert_eq!((world.engine.mode(), world.engine.has_fallen_back()), (Mode::WriteBack, false));
    world.issue_settled(Op::Write, home(12, 1));
    assert_eq!(world.engine.dirty(), Sectors(8));
}

/// A guard region stands in the area: it is not left on a device that fails.
#[test]
fn the_guard_goes_down_once_all_is_home_after_a_failure() {
    let mut world = World::new(writeback());
    let mut guarding = Guarding::new(&world.engine, false);
    world.issue_settled(Op::Write, home(3, 2));
    assert_eq!(guarding.step(&world.engine, true, || false), GuardStep::Rest);
    world.issue(Op::Write, home(10, 1));
    answer_failing(&mut world, |target| target == Target::Area);
    assert!(world.engine.has_fallen_back());
    assert_eq!(guarding.step(&world.engine, true, || false), GuardStep::Rest, "not all is home");
    world.failed_at = NEVER / 2;
    world.settle();
    assert_eq!(guarding.step(&world.engine, true, || false), GuardStep::Move(false));
    guarding.moved(true);
    // An administrator wants write-back again: the guard first.
    assert!(!guarding.want(Mode::WriteBack));
    assert_eq!(guarding.step(&world.engine, false, || false), GuardStep::Move(true));
    guarding.moved(true);
    let obey = guarding.step(&world.engine, true, || false);
    assert_eq!(obey, GuardStep::Obey(Mode::WriteBack));
}

/// The server cannot tell a guard that stands from one that was left halfway.
#[test]
fn the_engine_does_not_absorb_behind_a_guard_that_did_not_go_up() {
    let world = World::new(config(0));
    let mut guarding = Guarding::new(&world.engine, false);
    let step = |guarding: &mut Guarding, up| guarding.step(&world.engine, up, || false);
    guarding.want(Mode::WriteBack);
    assert_eq!(step(&mut guarding, false), GuardStep::Move(true));
    guarding.moved(false);
    assert_eq!(step(&mut guarding, true), GuardStep::Rest);
    guarding.want(Mode::WriteBack);
    assert_eq!(step(&mut guarding, true), GuardStep::Move(true), "the next command tries again");
    guarding.moved(true);
    assert_eq!(step(&mut guarding, true), GuardStep::Obey(Mode::WriteBack));
}

/// The failure of the area has cost no bytes.
fn is_whole_in_write_through(world: &mut World) {
    assert_eq!((world.engine.mode(), world.engine.dirty()), (Mode::WriteThrough, Sectors(0)));
    world.failed_at = 0;
    world.home_is_complete();
    world.read_all();
}

/// A client writes pages until the engine has such an I/O in flight.
fn writes_until(world: &mut World, is_under_way: impl Fn(&Io) -> bool) {
    let mut page = 10;
    while !world.waiting.iter().any(&is_under_way) {
        if world.waiting.is_empty() {
            world.issue(Op::Write, home(page, 1));
            page = 10 + (page + 1) % 40;
        } else {
            world.execute(0);
        }
    }
}

/// A failed flush of the area, and an only copy that cannot be read, count as well.
#[test]
fn a_failed_flush_or_read_of_the_area_leads_to_write_through_too() {
    for read in [false, true] {
        let mut world = World::new(writeback());
        world.issue_settled(Op::Write, home(3, 2));
        world.failed_at = NEVER / 2;
        if read {
            world.fail_area_reads = true;
            world.issue(Op::Read, home(3, 1));
        } else {
            world.issue(Op::Flush, Extent::default());
            let at = until(&mut world, none, flushes_area);
            let io = world.waiting.remove(at);
            world.handle(Input::Done { io: io.id, result: Err(IoFailed) });
        }
        execute_all(&mut world);
        assert!(world.engine.has_fallen_back(), "read: {read}");
        world.fail_area_reads = false;
        world.settle();
        is_whole_in_write_through(&mut world);
    }
}

/// A checkpoint flushes the area too, and the host reports a failed flush once. So write-back ends,
/// and the next flush of a client fails, because it may lack bytes that were written before.
#[test]
fn a_failed_flush_of_a_checkpoint_leads_to_write_through_and_a_client_is_told() {
    let mut world = World::new(writeback());
    world.settle();
    world.issue(Op::Write, home(3, 2));
    // A checkpoint after some log.
    writes_until(&mut world, flushes_area);
    assert!(world.clients.is_empty() && !world.engine.has_fallen_back());
    let io = world.waiting.remove(in_flight(&world, flushes_area));
    assert_eq!(io.class, Class::Background);
    world.failed_at = NEVER / 2;
    world.handle(Input::Done { io: io.id, result: Err(IoFailed) });
    assert!(world.engine.has_fallen_back());
    let failed = world.failed;
    world.issue_at_once(Op::Flush, Extent::default());
    assert_eq!(world.failed, failed + 1);
    world.issue_settled(Op::Flush, Extent::default());
    assert_eq!(world.failed, failed + 1, "once");
    is_whole_in_write_through(&mut world);
}

/// The host may report a failed flush to a client's flush, and drop pages of a checkpoint whose own
/// flush is under way, or begins later.
#[test]
fn a_checkpoint_beside_a_failed_flush_of_the_area_is_written_again() {
    let is_page = |io: &Io| io.class.is_background() && io.op == Op::Write;
    checkpoint_beside_a_failed_flush(flushes_area);
    checkpoint_beside_a_failed_flush(is_page);
}

/// The flush fails as soon as the checkpoint has such an I/O in flight.
fn checkpoint_beside_a_failed_flush(is_under_way: impl Fn(&Io) -> bool) {
    let mut world = World::new(writeback());
    world.settle();
    let of_client = with_a_flush_of_the_area(&mut world);
    // A checkpoint is written meanwhile.
    writes_until(&mut world, is_under_way);
    world.failed_at = NEVER / 2;
    world.handle(Input::Done { io: of_client.id, result: Err(IoFailed) });
    let before = world.engine.stats().metadata_bytes;
    // Its own flush ends well, and proves nothing.
    while world.engine.trouble().is_none() && !world.waiting.is_empty() {
        world.execute(0);
    }
    assert_eq!(world.engine.trouble(), Some(Trouble::Area));
    world.settle();
    assert!(world.engine.stats().metadata_bytes > before);
    is_whole_in_write_through(&mut world);
}

/// A client's flush of the area is in flight. Returns its I/O, which the test ends.
fn with_a_flush_of_the_area(world: &mut World) -> Io {
    world.issue_at_once(Op::Write, home(3, 2));
    world.issue(Op::Flush, Extent::default());
    let at = until(world, none, flushes_area);
    world.waiting.remove(at)
}

#[test]
fn after_a_failed_flush_of_the_area_the_next_one_does_not_wait_for_the_whole_drain() {
    let mut world = World::new(writeback());
    world.settle();
    for page in 10..40 {
        world.issue(Op::Write, home(2 * page, 1));
    }
    execute_all(&mut world);
    let flush = with_a_flush_of_the_area(&mut world);
    world.failed_at = NEVER / 2;
    world.handle(Input::Done { io: flush.id, result: Err(IoFailed) });
    let next = world.issue(Op::Flush, Extent::default());
    while world.clients.contains_key(&next) {
        world.execute(0);
    }
    assert!(world.engine.dirty() > Sectors(0), "all is at home");
    world.settle();
    world.failed_at = 0;
    world.home_is_complete();
}

/// The failed flush may have lost the records of these writes too.
#[test]
fn writes_beside_a_failed_flush_of_the_area_are_not_believed() {
    // The record has ended, or is in flight.
    let cases = [(Flags::FUA, true), (Flags::FUA, false), (Flags::NONE, false)];
    let gather = Duration::from_millis(50);
    let gathers = [(Duration::ZERO, cases.as_slice()), (gather, &cases[2..])];
    let cases =
        gathers.into_iter().flat_map(|(gather, cases)| cases.iter().map(move |c| (gather, c)));
    for (gather, &(flags, ended)) in cases {
        let mut world = World::new(Config { gather, ..writeback() });
        world.settle();
        let flush = with_a_flush_of_the_area(&mut world);
        world.issue_with(Op::Write, home(20, 1), flags);
        if ended {
            execute_all(&mut world);
        }
        world.failed_at = NEVER / 2;
        world.handle(Input::Done { io: flush.id, result: Err(IoFailed) });
        execute_all(&mut world);
        let of_write = u64::from(flags == Flags::FUA);
        assert_eq!(world.failed, 1 + of_write, "{flags:?}, ended: {ended}");
        world.issue_at_once(Op::Flush, Extent::default());
        let of_flush = u64::from(!ended);
        assert_eq!(world.failed, 1 + of_write + of_flush, "{flags:?}, ended: {ended}");
        world.settle();
        world.failed_at = 0;
        world.home_is_complete();
        world.read_all();
    }
}

/// Each I/O of the area fails, for as long as the engine tries within some seconds.
fn without_area(world: &mut World) {
    let until = world.now + 5_000_000_000;
    while world.now < until {
        if let Some(at) = world.waiting.iter().position(|io| io.target == Target::Area) {
            let io = world.waiting.remove(at);
            world.failed_at = world.step.max(1);
            world.handle(Input::Done { io: io.id, result: Err(IoFailed) });
        } else if !world.waiting.is_empty() {
            world.execute(0);
        } else if !world.wake() {
            return;
        }
    }
}

/// A client that went on writing would build on data that nobody can read.
#[test]
fn a_volume_whose_area_is_gone_with_newest_data_is_read_only_until_it_is_back() {
    let mut world = World::new(writeback());
    world.issue(Op::Write, home(3, 2));
    world.issue_settled(Op::Flush, Extent::default());
    world.issue(Op::Read, home(3, 1));
    without_area(&mut world);
    assert_eq!((world.failed, world.engine.trouble()), (1, Some(Trouble::Gone)));
    for (op, extent) in
        [(Op::Write, home(9, 1)), (Op::Discard, home(3, 2)), (Op::Write, home(3, 2))]
    {
        let failed = world.failed;
        world.issue(op, extent);
        assert_eq!(world.failed, failed + 1, "{op:?} ends at once");
        assert!(world.waiting.iter().all(|io| io.target == Target::Area), "{op:?}");
    }
    // The rest is read, and an end is refused soon.
    world.issue(Op::Read, home(9, 1));
    without_area(&mut world);
    assert!(world.clients.is_empty());
    // It is back: all comes home.
    world.failed_at = NEVER / 2;
    world.settle();
    assert_eq!((world.engine.trouble(), world.engine.dirty()), (None, Sectors(0)));
    world.issue_settled(Op::Write, home(9, 1));
    world.failed_at = 0;
    world.read_all();
    world.home_is_complete();
}

/// An area of copies alone: a flush, a write with FUA and a discard need nothing of it.
#[test]
fn in_write_through_a_volume_goes_on_without_its_area() {
    let mut world = copied();
    world.handle(Input::Install(plan_of(&[(0, 6, 8), (40, 9, 16)])));
    without_area(&mut world);
    world.failed_at = 0;
    for page in [0, 3, 20, 40, 60] {
        world.issue(Op::Read, home(page, 2));
        world.issue(Op::Write, home(page, 1));
        world.issue_with(Op::Write, home(page + 1, 1), Flags::FUA);
        world.issue(Op::Flush, Extent::default());
        without_area(&mut world);
    }
    assert_eq!((world.failed, world.clients.len()), (0, 0));
    world.handle(Input::Detach { stamp: [1; 32] });
    without_area(&mut world);
    assert!(world.engine.failed_detaches() > 2 && !world.engine.is_detached());
    // It comes back as it is, and home was written meanwhile.
    world.home_is_complete();
    world.waiting.clear();
    world.crash_and_read([1; 32]);
}
