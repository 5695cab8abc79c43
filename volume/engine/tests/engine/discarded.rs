//! Rules of discarded pages: what the area learns of them, and when.

use super::log::flushes_area;
use super::replicas::{fs2, replicated};
use super::rules::{
    ask, ask_settled, asked, at, discarded, execute_first, fail, fail_first, hold, is_sound, none,
    pass_until, until, waited, waits_behind_replica,
};
use super::*;

/// Opens the region of these pages.
fn opened(world: &mut World, page: u64) {
    world.issue_settled(Op::Write, home(page, 1));
}

/// After a client's flush with all its I/O, and a crash, nothing of `extent` is taken for free.
fn is_used_after_a_crash(world: &mut World, extent: Extent) {
    let id = world.issue(Op::Flush, Extent::default());
    pass_until(world, |w| !w.clients.contains_key(&id));
    world.crash([1; 32]);
    assert!(!world.engine.free_extents().any(|e| e.overlaps(extent)), "it was flushed");
    is_sound(world);
}

/// Lets I/Os take effect until every request has its answer.
fn all_answered(world: &mut World) {
    pass_until(world, |w| w.clients.is_empty());
}

/// A read of a page returns home's bytes.
fn reads_as_home(world: &mut World, page: u64) {
    let id = world.issue(Op::Read, home(page, 1));
    if world.clients.contains_key(&id) {
        assert!(world.waiting.iter().any(at(home(page, 1), Op::Read)), "{:?}", world.waiting);
    }
    world.settle();
    world.home_is_complete();
}

#[test]
fn a_page_that_is_discarded_before_it_was_told_to_be_used_is_told_so_when_it_is_written_again() {
    let mut world = replicated();
    for op in [Op::Write, Op::Discard, Op::Write] {
        world.issue(op, home(20, 1));
        until(&mut world, none, asked(home(20, 1), op));
        pass_until(&mut world, |w| !w.waiting.iter().any(asked(home(20, 1), op)));
        assert!(world.clients.is_empty());
        let stained = world.engine.stained().any(|e| e.contains(home(20, 1)));
        assert_eq!(stained, op == Op::Discard, "the area takes it for stained still");
    }
    is_used_after_a_crash(&mut world, home(20, 1));
}

#[test]
fn what_is_discarded_beside_a_write_is_as_the_device_has_it() {
    let mut world = World::new(fs2(0));
    world.issue(Op::Discard, home(5, 1));
    world.issue(Op::Write, home(5, 1));
    let discard = until(&mut world, none, asked(home(5, 1), Op::Discard));
    // It takes effect first, and its end is reported last.
    let io = world.waiting.swap_remove(discard);
    world.home.write_zeroes(io.extent).unwrap();
    execute_first(&mut world, none, asked(home(5, 1), Op::Write));
    world.handle(Input::Done { io: io.id, result: Ok(()) });
    assert!(world.clients.is_empty());
    assert_eq!(world.engine.free(), Sectors(0), "the device alone knows which came last");
    reads_as_home(&mut world, 5);
}

#[test]
fn a_write_that_fails_in_a_replicas_place_leaves_zeroes_to_be_read() {
    let mut world = replicated();
    world.issue(Op::Write, home(20, 1));
    fail_first(&mut world, none, asked(home(20, 1), Op::Write));
    // Home has the replica's bytes there.
    world.issue_settled(Op::Read, home(20, 1));
    assert!(world.engine.free_extents().any(|e| e.contains(home(20, 1))));
    assert!(world.engine.stained().any(|e| e.contains(home(20, 1))));
    is_sound(&mut world);
}

#[test]
fn what_a_failed_flush_was_to_call_used_the_next_one_does() {
    let mut world = replicated();
    world.issue(Op::Write, home(20, 1));
    execute_first(&mut world, none, asked(home(20, 1), Op::Write));
    world.issue(Op::Flush, Extent::default());
    fail_first(&mut world, none, |io| io.target == Target::Home && io.op == Op::Flush);
    assert_eq!(world.failed, 1, "the client is told");
    is_used_after_a_crash(&mut world, home(20, 1));
}

#[test]
fn what_stands_behind_a_record_that_a_failed_flush_has_lost_is_found() {
    let mut world = replicated();
    world.issue(Op::Write, home(20, 1));
    execute_first(&mut world, none, asked(home(20, 1), Op::Write));
    let before = world.area.clone();
    world.issue(Op::Flush, Extent::default());
    let at = until(&mut world, none, flushes_area);
    // The host forgets the record, and reports this once.
    world.area = before;
    fail(&mut world, at);
    assert_eq!(world.failed, 1, "the client is told");
    assert_eq!(world.engine.failed_flushes(), 1, "and so is each other one");
    is_used_after_a_crash(&mut world, home(20, 1));
}

/// The flush waits for a checkpoint. One job runs at a time, and a replica is on its way that waits
/// until its debt to clients is earned.
#[test]
fn a_flush_behind_a_lost_record_does_not_wait_until_a_replica_may_be_written() {
    let mut world = replicated();
    ask(&mut world, 30, &[(6, 1), (8, 1), (50, 1)]);
    waits_behind_replica(&mut world);
    let soon = world.now + 1_000_000;
    world.issue(Op::Write, home(20, 1));
    all_answered(&mut world);
    world.issue(Op::Flush, Extent::default());
    fail_first(&mut world, none, flushes_area);
    assert_eq!(world.failed, 1, "the client is told");
    assert!(world.now < soon, "the replica's turn has come");
    let (begun, next) = (world.now, world.issue(Op::Flush, Extent::default()));
    pass_until(&mut world, |w| !w.clients.contains_key(&next));
    let waited = world.now - begun;
    assert!(waited < 1_000_000_000, "{waited} ns");
    is_sound(&mut world);
}

/// Zeroes replaced the replicas, and the round that records this is in progress: its flush of home
/// waits.
fn called_clean() -> World {
    let mut world = replicated();
    world.handle(Input::Withdraw);
    until(&mut world, none, |io| io.class.is_background() && io.op == Op::WriteZeroes);
    until(&mut world, none, telling);
    assert_eq!(world.engine.stained().count(), 1);
    world
}

/// A round's flush of home.
fn telling(io: &Io) -> bool {
    io.target == Target::Home && io.op == Op::Flush
}

#[test]
fn what_could_not_be_called_clean_once_is_not_taken_for_stained_once_it_was() {
    let mut world = called_clean();
    fail_first(&mut world, none, telling);
    world.settle();
    assert_eq!(world.engine.stained().count(), 0);
    // Its region is opened, as for any page that never held a replica: no record calls this page
    // used.
    world.issue_settled(Op::Write, home(20, 1));
    is_used_after_a_crash(&mut world, home(20, 1));
}

#[test]
fn what_is_just_called_clean_is_not_written_before_the_area_knows() {
    let mut world = called_clean();
    world.issue(Op::Write, home(20, 1));
    let mine = asked(home(20, 1), Op::Write);
    assert!(!world.waiting.iter().any(&mine), "the area is just told of zeroes");
    // The write begins after the round, whatever the device does.
    let at = until(&mut world, &mine, &mine);
    hold(&mut world, &mine);
    assert_eq!(world.engine.stained().count(), 0);
    let at = world.waiting.iter().position(&mine).unwrap_or(at);
    world.execute(at);
    is_used_after_a_crash(&mut world, home(20, 1));
}

#[test]
fn what_is_written_after_it_was_cleaned_is_not_called_clean() {
    let mut world = replicated();
    ask_settled(&mut world, 30, &[(6, 1)]);
    world.handle(Input::Withdraw);
    // Zeroes stand there. The area learns of them, and of other zeroes in flight.
    until(&mut world, none, zeroes(30));
    assert!(!world.waiting.iter().any(telling), "{:?}", world.waiting);
    world.issue(Op::Write, home(20, 1));
    let mine = asked(home(20, 1), Op::Write);
    until(&mut world, none, &mine);
    // All news during this write.
    hold(&mut world, &mine);
    execute_first(&mut world, &mine, &mine);
    is_used_after_a_crash(&mut world, home(20, 1));
}

/// Makes the engine save a checkpoint, whatever is `held`.
fn checkpoint(world: &mut World, held: impl Fn(&Io) -> bool) {
    let before = world.engine.stats().metadata_bytes;
    world.handle(Input::Command(Command::SetMode(Mode::WriteBack)));
    let ends = |io: &Io| io.target == Target::Area && io.class.is_background();
    until(world, &held, |io| ends(io) && io.op == Op::Write);
    hold(world, held);
    assert!(world.engine.stats().metadata_bytes > before);
    assert_eq!(world.engine.mode(), Mode::WriteBack, "the superblock says so");
}

#[test]
fn a_checkpoint_leaves_open_where_a_write_waits_for_its_zeroes() {
    let mut world = discarded(fs2(0));
    opened(&mut world, 22);
    let page = home(21, 1);
    world.issue(Op::Write, Extent::new(page.start.0 + 3, 2));
    let edge = move |io: &Io| io.class == Class::Foreground && io.extent.overlaps(page);
    until(&mut world, edge, edge);
    checkpoint(&mut world, edge);
    all_answered(&mut world);
    is_used_after_a_crash(&mut world, page);
}

#[test]
fn a_checkpoint_leaves_open_what_the_area_is_just_told_is_open() {
    let mut world = discarded(fs2(0));
    world.issue(Op::Write, home(21, 1));
    // The record is written, but not flushed.
    let held = |io: &Io| io.class == Class::Foreground && flushes_area(io);
    until(&mut world, held, held);
    checkpoint(&mut world, held);
    all_answered(&mut world);
    is_used_after_a_crash(&mut world, home(21, 1));
}

#[test]
fn zeroes_that_waited_for_their_turn_do_not_go_over_a_client() {
    let pause = Duration::from_millis(50);
    let mut world = discarded(Config { background_pause: pause, ..fs2(0) });
    ask_settled(&mut world, 20, &[(0, 1), (2, 1), (4, 1)]);
    // A client has just sent a request: the jobs begin, and wait.
    world.issue(Op::Read, home(52, 1));
    execute_first(&mut world, none, asked(home(52, 1), Op::Read));
    world.handle(Input::Withdraw);
    let zeroes = |io: &Io| io.class.is_background() && io.op == Op::WriteZeroes;
    assert!(!world.waiting.iter().any(zeroes), "the pause");
    world.issue(Op::Write, home(21, 1));
    let mine = asked(home(21, 1), Op::Write);
    until(&mut world, none, &mine);
    hold(&mut world, |io| mine(io) || zeroes(io));
    let over = |io: &Io| zeroes(io) && io.extent.overlaps(home(21, 1));
    assert!(!world.waiting.iter().any(over), "they meet at the device");
    is_sound(&mut world);
    assert_eq!(world.engine.stained().count(), 0);
    world.home_is_complete();
}

#[test]
fn a_discard_beside_a_write_that_waits_for_its_zeroes_waits() {
    let mut world = discarded(fs2(0));
    // Of two regions: 15 is data, 16 free and its region open.
    world.issue_settled(Op::Write, home(10, 6));
    opened(&mut world, 17);
    checkpoint(&mut world, none);
    world.handle_settled(Input::Command(Command::Drain));
    opened(&mut world, 18);
    let write = Extent::span(home(15, 1).start.0, home(16, 1).start.0 + 3);
    world.issue(Op::Write, write);
    let edge = |io: &Io| io.op == Op::WriteZeroes && io.extent.overlaps(home(16, 1));
    until(&mut world, edge, edge);
    world.issue(Op::Discard, home(15, 1));
    hold(&mut world, edge);
    assert!(!world.waiting.iter().any(asked(home(15, 1), Op::Discard)));
    let free = |world: &World| world.engine.free_extents().any(|e| e.overlaps(home(15, 1)));
    assert!(!free(&world), "it would be free, and written by who asked before");
    all_answered(&mut world);
    world.home_is_complete();
    is_sound(&mut world);
}

/// Zeroes for the place of a replica.
fn zeroes(page: u64) -> impl Fn(&Io) -> bool {
    move |io| {
        let place = io.extent.overlaps(home(page, 1));
        place && io.class.is_background() && io.op == Op::WriteZeroes
    }
}

fn is_withdrawn(world: &mut World) {
    world.settle();
    assert!(!world.engine.is_withdrawing());
    assert_eq!(world.engine.stained().count(), 0);
    world.home_is_complete();
    is_sound(world);
}

/// Else a drain of many replicas shows no progress until the last one is gone, and a drain that is
/// cut short begins again.
#[test]
fn the_area_learns_of_zeroes_before_all_of_them_are_written() {
    let mut world = discarded(fs2(0));
    ask(&mut world, 20, &[(0, 1), (2, 1), (4, 1), (6, 1)]);
    ask_settled(&mut world, 30, &[(8, 1)]);
    assert!(world.engine.stained().eq([home(20, 4), home(30, 1)]));
    world.handle(Input::Withdraw);
    until(&mut world, zeroes(30), zeroes(30));
    hold(&mut world, zeroes(30));
    assert!(world.engine.stained().eq([home(30, 1)]), "the area has not learned of zeroes");
    assert_eq!(world.engine.stats().zeroed_bytes, 4 * 4096);
    is_withdrawn(&mut world);
}

/// A device may fail for a moment.
#[test]
fn after_a_failed_flush_the_area_still_learns_of_zeroes_before_all_of_them_are_written() {
    let mut world = discarded(fs2(0));
    ask(&mut world, 20, &[(0, 1), (2, 1), (4, 1), (6, 1)]);
    ask(&mut world, 30, &[(8, 1)]);
    ask_settled(&mut world, 40, &[(50, 1)]);
    assert!(world.engine.stained().eq([home(20, 4), home(30, 1), home(40, 1)]));
    world.handle(Input::Withdraw);
    until(&mut world, none, zeroes(20));
    fail_first(&mut world, zeroes(30), telling);
    hold(&mut world, zeroes(30));
    assert!(world.engine.trouble().is_some());
    // Later, with others to come.
    world.now += 2_000_000_000;
    execute_first(&mut world, zeroes(30), zeroes(30));
    until(&mut world, zeroes(40), zeroes(40));
    hold(&mut world, zeroes(40));
    assert!(world.engine.stained().eq([home(40, 1)]), "the area has not learned of zeroes");
    assert_eq!(world.engine.trouble(), None);
    is_withdrawn(&mut world);
}

/// Background work reads home once, and may not read again yet.
fn the_budget_is_spent(world: &mut World) {
    let reads =
        |io: &Io| io.class.is_background() && (io.target, io.op) == (Target::Home, Op::Read);
    execute_first(world, none, reads);
    assert!(!world.waiting.iter().any(reads), "the budget");
}

/// A flush behind a write fails.
fn the_log_fails(world: &mut World) {
    world.issue(Op::Write, home(20, 1));
    execute_first(world, none, asked(home(20, 1), Op::Write));
    world.issue(Op::Flush, Extent::default());
    fail_first(world, none, flushes_area);
}

/// Another flush ends within five seconds.
fn a_flush_ends_soon(world: &mut World) {
    let flush = world.issue(Op::Flush, Extent::default());
    let took = waited(world, |world| !world.clients.contains_key(&flush));
    assert!(took.is_some_and(|nanos| nanos < 5_000_000_000), "{took:?}");
    is_sound(world);
}

/// One job runs at a time. After the log has failed, flushes wait for a checkpoint.
#[test]
fn a_flush_waits_for_no_budget_of_replicas() {
    // 100 bytes a second: each page of background work takes 41 s.
    let mut world = discarded(Config { background_rate: Bytes(100), ..fs2(0) });
    ask_settled(&mut world, 20, &[(0, 1)]);
    ask(&mut world, 30, &[(2, 1), (4, 1), (6, 1)]);
    the_budget_is_spent(&mut world);
    the_log_fails(&mut world);
    a_flush_ends_soon(&mut world);
}

/// The same after a crash, while copies in doubt wait to be compared with home.
#[test]
fn a_flush_behind_a_lost_record_waits_for_no_budget_of_copies_in_doubt() {
    // 100 bytes a second: each page of background work takes 41 s.
    let mut world = discarded(Config { background_rate: Bytes(100), ..fs2(0) });
    // Their homes are too far apart for one read.
    for (place, page) in [(20, 0), (30, 52)] {
        ask_settled(&mut world, place, &[(page, 1)]);
    }
    world.restart([1; 32]);
    world.crash([1; 32]);
    assert_eq!(world.engine.in_doubt(), Sectors(2 * 8));
    world.handle(Input::Tick);
    the_budget_is_spent(&mut world);
    assert_eq!(world.engine.in_doubt(), Sectors(8));
    the_log_fails(&mut world);
    assert_eq!(world.engine.in_doubt(), Sectors(8), "it waits no more: nothing was tested");
    a_flush_ends_soon(&mut world);
}
