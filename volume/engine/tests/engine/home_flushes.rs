//! Flushes of home that fail. Linux then forgets pages that it could not write, and the next flush
//! succeeds without them.

use super::area::writeback;
use super::log::in_flight;
use super::rules::{fail, fail_first, fail_in_flight, none, pass_until, until};
use super::*;

fn flushes_home(io: &Io) -> bool {
    (io.target, io.op) == (Target::Home, Op::Flush)
}

/// Page 3 was flushed to the log's first segment, and goes home with 7 others in a drain, whose flush
/// of home is in flight. Returns home without these pages.
fn drains(world: &mut World) -> MemDevice {
    world.issue(Op::Write, home(3, 1));
    world.issue(Op::Write, home(20, 7));
    world.issue_settled(Op::Flush, Extent::default());
    let before = world.home.clone();
    world.handle(Input::Command(Command::Drain));
    until(world, none, flushes_home);
    before
}

#[test]
fn what_went_home_before_a_failed_flush_goes_home_again() {
    let mut world = World::new(writeback());
    world.home = drains(&mut world);
    assert!(world.engine.dirty() < Sectors(8 * 8));
    fail_in_flight(&mut world, flushes_home);
    assert_eq!(world.engine.dirty(), Sectors(8 * 8), "home may lack them");
    world.settle();
    assert!(world.engine.is_drained());
    world.home_is_complete();
    world.issue_settled(Op::Flush, Extent::default());
    assert_eq!(world.failed, 0, "no client's write may be missing");
}

/// A stop cut the drain short: in write-through the next engine has pages that home lacks.
#[test]
fn what_went_home_before_a_failed_flush_goes_home_again_if_another_engine_began_the_drain() {
    let mut world = World::new(writeback());
    world.issue(Op::Write, home(3, 1));
    world.issue(Op::Write, home(20, 7));
    world.issue_settled(Op::Flush, Extent::default());
    world.handle(Input::Command(Command::Drain));
    world.handle(Input::Detach { stamp: [1; 32] });
    pass_until(&mut world, |w| w.engine.is_detached());
    world.crash([1; 32]);
    assert_eq!((world.engine.mode(), world.engine.dirty()), (Mode::WriteThrough, Sectors(8 * 8)));
    let before = world.home.clone();
    world.handle(Input::Tick);
    let flush = until(&mut world, none, flushes_home);
    assert!(world.engine.dirty() < Sectors(8 * 8));
    world.home = before;
    fail(&mut world, flush);
    assert_eq!(world.engine.dirty(), Sectors(8 * 8), "home may lack them");
    world.settle();
    assert!(world.engine.is_drained());
    world.home_is_complete();
}

/// Another flush fails while the destage's own flush is in flight, and that one succeeds.
#[test]
fn the_logs_tail_does_not_pass_pages_that_another_flush_may_have_lost() {
    let mut world = World::new(writeback());
    let before = drains(&mut world);
    let own = world.waiting[in_flight(&world, flushes_home)].id;
    world.issue(Op::WriteZeroes, home(9, 1));
    world.execute(in_flight(&world, |io| io.op == Op::WriteZeroes));
    world.issue(Op::Flush, Extent::default());
    let clients = |io: &Io| flushes_home(io) && io.id != own;
    while !world.waiting.iter().any(clients) {
        world.execute(in_flight(&world, |io| io.id != own));
    }
    let page = home(3, 1);
    let mut old = [0; 4096];
    before.clone().read(page, &mut old).unwrap();
    world.home.write(page, &old).unwrap();
    fail_in_flight(&mut world, clients);
    while !world.clients.is_empty() {
        world.execute(in_flight(&world, |io| io.id != own));
    }
    assert_eq!(world.failed, 1, "the client is told");
    world.settle();
    world.home_is_complete();
    world.crash_and_read([1; 32]);
}

/// The log's tail has passed a page, and the area does not know yet: a write at home still voids the
/// log's entry of the page after a flush of home has failed.
#[test]
fn a_page_that_the_tail_has_passed_stays_void_after_a_failed_flush() {
    let mut world = World::new(writeback());
    drains(&mut world);
    world.execute(in_flight(&world, flushes_home));
    until(&mut world, none, flushes_home);
    let zeroes = |io: &Io| io.op == Op::WriteZeroes;
    world.issue(Op::WriteZeroes, home(3, 1));
    world.execute(in_flight(&world, zeroes));
    fail_in_flight(&mut world, flushes_home);
    world.failed_at = NEVER / 2;
    // The drain makes no progress meanwhile.
    for (op, extent) in [
        (Op::Flush, Extent::default()),
        (Op::WriteZeroes, home(3, 1)),
        (Op::Flush, Extent::default()),
    ] {
        world.issue(op, extent);
        while !world.clients.is_empty() {
            world.execute(in_flight(&world, |io| io.class == Class::Foreground));
        }
        assert_eq!(world.failed, 1, "the first flush tells of the failure");
    }
    world.crash_and_read([1; 32]);
}

/// The host reports the failure of an earlier write once: a write with FUA may get the report.
#[test]
fn a_write_with_fua_that_fails_is_a_failed_flush() {
    let mut world = World::new(writeback());
    world.home = drains(&mut world);
    world.issue_with(Op::Write, Extent::new(40 * 8 + 1, 1), Flags::FUA);
    fail_in_flight(&mut world, |io| io.flags.contains(Flags::FUA));
    assert_eq!(world.engine.dirty(), Sectors(8 * 8), "home may lack them");
    world.settle();
    world.home_is_complete();
}

/// Only a client's write can be missing: the log has the rest.
#[test]
fn a_flush_of_home_that_fails_in_the_background_is_told_to_one_client() {
    let mut world = World::new(writeback());
    world.issue_at_once(Op::WriteZeroes, home(9, 1));
    world.issue_at_once(Op::Write, home(3, 1));
    world.handle(Input::Command(Command::Drain));
    fail_first(&mut world, none, flushes_home);
    world.failed_at = NEVER / 2;
    for failed in [1, 1] {
        world.issue_settled(Op::Flush, Extent::default());
        assert_eq!(world.failed, failed);
    }
}

/// Linux may forget a write that was in flight when a flush failed.
#[test]
fn a_write_in_flight_at_a_failed_flush_fails_the_next_flush() {
    let mut world = World::new(writeback());
    drains(&mut world);
    let zeroes = |io: &Io| io.op == Op::WriteZeroes;
    world.issue(Op::WriteZeroes, home(9, 1));
    fail_in_flight(&mut world, flushes_home);
    world.execute(in_flight(&world, zeroes));
    world.settle();
    assert_eq!(world.failed, 0, "the log has nothing older of this page");
    for failed in [1, 1] {
        world.issue_settled(Op::Flush, Extent::default());
        assert_eq!(world.failed, failed);
    }
}

/// The log has older bytes of the page that such a write was for: these come back, and the write
/// fails.
#[test]
fn a_write_in_flight_at_a_failed_flush_fails_over_a_page_of_the_log() {
    let mut world = World::new(writeback());
    drains(&mut world);
    let zeroes = |io: &Io| io.op == Op::WriteZeroes;
    world.issue(Op::WriteZeroes, home(3, 1));
    fail_in_flight(&mut world, flushes_home);
    world.execute(in_flight(&world, zeroes));
    assert_eq!((world.clients.len(), world.failed), (0, 1), "home may have forgotten it");
    world.settle_and_read();
    world.home_is_complete();
}

/// A stop in order proves nothing about home after a failed flush.
#[test]
fn after_a_failed_flush_copies_are_compared_with_home_again() {
    for fails in [false, true] {
        let mut world = World::new(config(0));
        world.handle_settled(Input::Install(plan_of(&[(20, 4, 0)])));
        world.issue(Op::Flush, Extent::default());
        if fails {
            fail_in_flight(&mut world, flushes_home);
        }
        world.restart([1; 32]);
        assert_eq!(world.engine.in_doubt() > Sectors(0), fails);
    }
}
