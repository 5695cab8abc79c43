//! Batches that go home from the write buffer, and what does not wait for their end.

use super::area::writeback;
use super::log::{execute_all, flushes_area, in_flight};
use super::rules::{fail, fail_first, none, pass, pass_until, until};
use super::*;

/// A write of a batch.
fn goes_home(io: &Io) -> bool {
    io.class.is_background() && (io.target, io.op) == (Target::Home, Op::Write)
}

/// The write buffer has eight pages, whose homes lie apart. No flush has covered them. The staging
/// memory has `stage` pages, half of them for the pages of a batch.
fn with_pages_apart(stage: u64) -> World {
    let mut world = World::new(Config { stage_bytes: Bytes(stage * 4096), ..writeback() });
    world.settle();
    for page in 1..=8 {
        world.issue(Op::Write, home(4 * page, 1));
    }
    execute_all(&mut world);
    assert_eq!(world.engine.dirty(), Sectors(8 * 8));
    world
}

/// A client's flush waits for a checkpoint that leaves a hole of the log behind, and for no more.
#[test]
fn a_batch_on_its_way_home_gives_way_to_a_checkpoint_that_a_flush_waits_for() {
    let mut world = with_pages_apart(64);
    world.handle(Input::Command(Command::Drain));
    world.issue(Op::Flush, Extent::default());
    until(&mut world, |io| io.op == Op::Flush, goes_home);
    let flush = in_flight(&world, flushes_area);
    fail(&mut world, flush);
    let next = world.issue(Op::Flush, Extent::default());
    pass_until(&mut world, |w| !w.clients.contains_key(&next));
    assert!(world.engine.dirty() > Sectors(0), "the whole batch went home first");
    world.settle();
    assert_eq!(world.failed, 1, "the flush that failed");
    assert!(world.engine.is_drained());
    world.home_is_complete();
    world.crash_and_read([0; 32]);
}

/// A client's write of a part of a page waits for this page, and not for the batch on its way home.
#[test]
fn a_batch_on_its_way_home_gives_way_to_a_page_that_a_client_waits_for() {
    let mut world = with_pages_apart(64);
    world.handle(Input::Command(Command::Drain));
    until(&mut world, none, goes_home);
    // The last page of the batch.
    let Extent { start, .. } = home(4 * 8, 1);
    let write = world.issue(Op::Write, Extent { start, len: Sectors(2) });
    pass_until(&mut world, |w| !w.clients.contains_key(&write));
    assert!(world.engine.dirty() > Sectors(0), "the whole batch went home first");
    world.settle();
    assert!(world.engine.is_drained());
    world.home_is_complete();
    world.read_all();
}

/// The first checkpoint after a failed flush fails too, as on a disk that home and area share.
#[test]
fn after_a_checkpoint_that_failed_a_flush_does_not_wait_for_all_pages_on_their_way_home() {
    let mut world = with_pages_apart(64);
    world.handle(Input::Command(Command::Drain));
    world.issue(Op::Flush, Extent::default());
    fail_first(&mut world, none, flushes_area);
    fail_first(&mut world, none, |io| (io.target, io.op) == (Target::Home, Op::Flush));
    let next = world.issue(Op::Flush, Extent::default());
    while world.clients.contains_key(&next) {
        // A write home is slow.
        if world.waiting.iter().any(goes_home) {
            world.now += 400_000_000;
            world.handle(Input::Tick);
        }
        assert!(pass(&mut world, none));
    }
    assert!(world.engine.dirty() > Sectors(0), "all pages went home first");
}

/// The area takes no flush, so no checkpoint: each try would end the batch before a page is at home.
#[test]
fn a_batch_from_an_area_without_flushes_gives_way_once() {
    let mut world = with_pages_apart(64);
    world.handle(Input::Command(Command::Drain));
    world.issue(Op::Flush, Extent::default());
    let end = world.now + 60_000_000_000;
    while world.engine.dirty() > Sectors(0) {
        assert!(world.now < end, "{:?} stay in an area that can be read", world.engine.dirty());
        if let Some(at) = world.waiting.iter().position(flushes_area) {
            fail(&mut world, at);
            continue;
        }
        // The two reads of a batch take longer than the pause between two tries of a checkpoint,
        // which is a second.
        let reads = |io: &Io| (io.target, io.op) == (Target::Area, Op::Read);
        if world.waiting.iter().any(reads) {
            world.now += 600_000_000;
            world.handle(Input::Tick);
        }
        assert!(pass(&mut world, none));
    }
    world.home_is_complete();
}

/// The pages stay in the write buffer, whether they are one batch or several.
#[test]
fn a_stop_in_a_drain_waits_for_no_batch_and_the_next_server_goes_on_with_the_drain() {
    for stage in [16, 64] {
        let mut world = with_pages_apart(stage);
        world.handle(Input::Command(Command::Drain));
        until(&mut world, none, goes_home);
        world.handle(Input::Detach { stamp: [1; 32] });
        pass_until(&mut world, |w| w.engine.is_detached());
        let dirty = world.engine.dirty();
        assert!(dirty > Sectors(0), "all went home first, through {stage} pages");
        world.crash([1; 32]);
        assert_eq!((world.engine.mode(), world.engine.dirty()), (Mode::WriteThrough, dirty));
        world.settle();
        assert!(world.engine.is_drained());
        world.home_is_complete();
        world.read_all();
    }
}
