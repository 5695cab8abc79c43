//! One rule of replicas each, which breaks if it is left out: overtaken writes, waits, and victims.
//! The random histories find few of them.

use super::log::in_flight;
use super::replicas::{fs2, head_at, replica, replicated, stands, use_replica};
use super::*;

/// Lets time pass and all I/Os take effect, except those that are `held`, until one of these waits.
/// Returns its position.
pub(super) fn until(
    world: &mut World,
    held: impl Fn(&Io) -> bool,
    what: impl Fn(&Io) -> bool,
) -> usize {
    for _ in 0..10_000 {
        if let Some(at) = world.waiting.iter().position(&what) {
            return at;
        }
        pass(world, &held);
    }
    panic!("it never came: {:?}", world.waiting);
}

/// Lets the first I/O of this kind take effect, when it waits: see [`until`].
pub(super) fn execute_first(
    world: &mut World,
    held: impl Fn(&Io) -> bool,
    what: impl Fn(&Io) -> bool,
) {
    let at = until(world, held, what);
    world.execute(at);
}

/// Fails the first I/O of this kind, when it waits: see [`until`].
pub(super) fn fail_first(
    world: &mut World,
    held: impl Fn(&Io) -> bool,
    what: impl Fn(&Io) -> bool,
) {
    let at = until(world, held, what);
    fail(world, at);
}

/// Fails an I/O in flight.
pub(super) fn fail_in_flight(world: &mut World, which: impl Fn(&Io) -> bool) {
    let at = in_flight(world, which);
    fail(world, at);
}

/// One I/O that is not held, or the time until the engine's next wake-up.
pub(super) fn pass(world: &mut World, held: impl Fn(&Io) -> bool) -> bool {
    if let Some(at) = world.waiting.iter().position(|io| !held(io)) {
        world.execute(at);
        return true;
    }
    world.wake()
}

/// Lets I/Os take effect, and time pass, until this holds.
pub(super) fn pass_until(world: &mut World, holds: impl Fn(&World) -> bool) {
    while !holds(world) {
        assert!(pass(world, none), "{:?}", world.waiting);
    }
}

/// Everything that happens in ten seconds while these I/Os are held.
pub(super) fn hold(world: &mut World, held: impl Fn(&Io) -> bool) {
    let end = world.now + 10_000_000_000;
    for _ in 0..1000 {
        if world.now >= end || !pass(world, &held) {
            return;
        }
    }
    panic!("it goes on and on: {:?}", world.waiting);
}

pub(super) fn none(_: &Io) -> bool {
    false
}

pub(super) fn at(extent: Extent, op: Op) -> impl Fn(&Io) -> bool {
    move |io| io.target == Target::Home && io.op == op && io.extent.overlaps(extent)
}

/// A client's I/O of these sectors.
pub(super) fn asked(extent: Extent, op: Op) -> impl Fn(&Io) -> bool {
    move |io| io.class == Class::Foreground && at(extent, op)(io)
}

/// Pages 10 to 49 discarded, and no replica yet.
pub(super) fn discarded(config: Config) -> World {
    let mut world = World::new(config);
    world.issue_settled(Op::Discard, home(10, 40));
    world
}

pub(super) fn ask(world: &mut World, place: u64, homes: &[(u64, u64)]) {
    world.handle(Input::Replicate(vec![replica(place, homes)]));
}

/// The same, and all that follows.
pub(super) fn ask_settled(world: &mut World, place: u64, homes: &[(u64, u64)]) {
    ask(world, place, homes);
    world.settle();
}

/// Every valid copy stands somewhere, and every read returns the last write, near the replicas and
/// far from them.
pub(super) fn is_sound(world: &mut World) {
    world.settle();
    let standing: usize = (0..64).map(|p| world.engine.replicas_of(home(p, 1).start).count()).sum();
    // The write buffer has copies, too.
    if world.engine.config().mode == Mode::WriteThrough {
        assert_eq!(world.engine.copied(), Sectors(standing as u64 * 8), "{:?}", world.engine);
    }
    world.read_all();
    for page in 0..64 {
        head_at(world, 51);
        head_at(world, page);
    }
}

#[test]
fn a_home_that_is_written_while_its_replica_is_made_has_none() {
    // Before it is read; while it is read; and while the replica is written, of bytes from home and
    // from RAM.
    for (phase, ram) in [(0, 0), (1, 0), (2, 0), (2, 8)] {
        let mut world = discarded(fs2(ram));
        if ram > 0 {
            [0, 2, 4].into_iter().for_each(|page| head_at(&mut world, page));
        }
        let early = phase == 0;
        if early {
            world.issue(Op::Write, home(2, 1));
        }
        ask(&mut world, 20, &[(0, 1), (2, 1), (4, 1)]);
        let mine = asked(home(2, 1), Op::Write);
        match phase {
            0 => hold(&mut world, &mine),
            1 => drop(until(&mut world, none, at(home(4, 1), Op::Read))),
            _ => drop(until(&mut world, none, at(home(20, 1), Op::Write))),
        }
        if !early {
            world.issue(Op::Write, home(2, 1));
        }
        world.settle();
        assert!(!stands(&world, 2), "phase {phase}");
        assert!(stands(&world, 0) && stands(&world, 4), "phase {phase}");
        is_sound(&mut world);
    }
}

#[test]
fn a_page_that_the_write_buffer_has_gets_no_replica_of_its_old_bytes() {
    let mut world = discarded(Config { mode: Mode::WriteBack, degree: 2, ..fs2(0) });
    world.issue(Op::Write, home(2, 1));
    execute_first(&mut world, none, |io| io.target == Target::Area && io.op == Op::Write);
    ask(&mut world, 20, &[(2, 1), (4, 1)]);
    hold(&mut world, at_home_of(2));
    assert!(!stands(&world, 2));
    is_sound(&mut world);
}

/// The write buffer's page is not destaged meanwhile.
fn at_home_of(page: u64) -> impl Fn(&Io) -> bool {
    at(home(page, 1), Op::Write)
}

#[test]
fn a_place_that_the_client_takes_meanwhile_is_left_out() {
    let mut world = discarded(fs2(0));
    ask(&mut world, 20, &[(0, 1), (2, 1), (4, 1)]);
    until(&mut world, none, at(home(4, 1), Op::Read));
    world.issue(Op::Write, home(21, 1));
    // Nor later: the client's write comes first.
    let mine = world.waiting.iter().position(asked(home(21, 1), Op::Write));
    while world.clients.values().any(|c| c.request.op == Op::Write) {
        match mine.and_then(|_| world.waiting.iter().position(asked(home(21, 1), Op::Write))) {
            Some(at) => world.execute(at),
            None => assert!(pass(&mut world, none)),
        }
    }
    world.settle();
    assert!(stands(&world, 0) && !stands(&world, 2) && stands(&world, 4));
    is_sound(&mut world);
}

#[test]
fn a_client_waits_for_a_replica_that_is_just_written_where_it_writes() {
    let mut world = discarded(fs2(0));
    ask(&mut world, 20, &[(0, 1), (2, 1), (4, 1)]);
    until(&mut world, none, at(home(20, 1), Op::Write));
    world.issue(Op::Write, home(21, 1));
    assert!(!world.waiting.iter().any(asked(home(21, 1), Op::Write)), "they meet at the device");
    world.settle();
    assert!(!stands(&world, 2));
    is_sound(&mut world);
}

#[test]
fn no_replica_is_written_where_a_client_writes() {
    // A whole page, and a part, which has zeroes written beside it first.
    for part in [false, true] {
        let mut world = discarded(fs2(0));
        // Its region is open.
        world.issue_settled(Op::Write, home(22, 1));
        let page = Extent::new(GRID + 21 * 8, 8);
        world.issue(Op::Write, if part { Extent::new(page.start.0 + 3, 2) } else { page });
        let mine = move |io: &Io| io.class == Class::Foreground && io.extent.overlaps(page);
        until(&mut world, none, mine);
        ask(&mut world, 21, &[(0, 1)]);
        hold(&mut world, mine);
        assert!(!world.waiting.iter().any(|io| io.class.is_background()), "part: {part}");
        world.settle();
        assert!(!stands(&world, 0));
        is_sound(&mut world);
    }
}

#[test]
fn parts_of_a_free_page_wait_for_each_other() {
    for ends in 0..3 {
        let mut world = discarded(fs2(0));
        world.issue_settled(Op::Write, home(22, 1));
        let part = |at| Extent::new(GRID + 21 * 8 + at, 2);
        world.issue(Op::Write, part(2));
        assert_eq!(world.waiting.len(), 2, "zeroes on both sides");
        // Before its zeroes are written, half of them, and while it is written itself.
        (0..ends).for_each(|_| world.execute(0));
        let before = world.waiting.len();
        world.issue(Op::Write, part(5));
        assert_eq!(world.waiting.len(), before, "its zeroes would go over the first: {ends}");
        is_sound(&mut world);
    }
}

#[test]
fn who_reads_a_page_that_is_then_discarded_sees_no_replica() {
    let mut world = World::new(fs2(0));
    world.issue(Op::Read, home(20, 1));
    let mine = asked(home(20, 1), Op::Read);
    world.issue(Op::Discard, home(10, 40));
    execute_first(&mut world, &mine, asked(home(20, 1), Op::Discard));
    ask(&mut world, 20, &[(0, 1)]);
    hold(&mut world, &mine);
    assert!(!world.waiting.iter().any(at(home(20, 1), Op::Write)), "{:?}", world.waiting);
    assert!(!stands(&world, 0));
    world.settle();
    assert!(stands(&world, 0), "once it was read");
    is_sound(&mut world);
}

#[test]
fn zeroes_come_where_replicas_stood_and_not_over_a_client() {
    // The client writes first, or the zeroes are in flight.
    for first in [true, false] {
        let mut world = replicated();
        let zeroes = |io: &Io| io.class.is_background() && io.op == Op::WriteZeroes;
        let mine = asked(home(21, 1), Op::Write);
        if first {
            world.issue(Op::Write, home(21, 1));
            until(&mut world, none, &mine);
            world.handle(Input::Withdraw);
            hold(&mut world, &mine);
            let over = |io: &Io| zeroes(io) && io.extent.overlaps(home(21, 1));
            assert!(!world.waiting.iter().any(over));
        } else {
            world.handle(Input::Withdraw);
            until(&mut world, none, zeroes);
            world.issue(Op::Write, home(21, 1));
            assert!(!world.waiting.iter().any(&mine), "they meet at the device");
        }
        is_sound(&mut world);
        assert_eq!(world.engine.stained().count(), 0);
        world.home_is_complete();
    }
}

/// Waiting zeroes do not overwrite a client's write that came meanwhile. The end of a read of a
/// replica lets this write go on, and it ends before the next step of the background.
#[test]
fn zeroes_that_wait_for_their_turn_do_not_go_over_what_was_written_meanwhile() {
    let mut world = discarded(Config { background_pause: Duration(5_000_000_000), ..fs2(0) });
    ask(&mut world, 20, &[(0, 1), (2, 1), (4, 1)]);
    ask_settled(&mut world, 24, &[(6, 1), (8, 1)]);
    world.issue_settled(Op::Write, home(23, 1));
    assert!(stands(&world, 4) && stands(&world, 6));
    // A replica of the second run is being read. A write that covers the first run too waits for
    // the read.
    head_at(&mut world, 26);
    world.issue(Op::Read, home(6, 1));
    let read = world.waiting.iter().position(at(home(24, 1), Op::Read));
    world.issue(Op::Write, home(22, 3));
    assert!(!world.waiting.iter().any(asked(home(22, 3), Op::Write)), "it does not wait");
    world.handle(Input::Withdraw);
    world.execute(read.unwrap());
    let write = world.waiting.iter().position(asked(home(22, 3), Op::Write));
    world.execute(write.unwrap());
    assert!(world.clients.is_empty());
    world.settle();
    assert_eq!(world.engine.stained().count(), 0);
    is_sound(&mut world);
    world.home_is_complete();
}

#[test]
fn a_withdrawal_ends_replicas_that_are_on_their_way_and_those_asked_for() {
    let mut world = replicated();
    ask(&mut world, 30, &[(6, 1)]);
    ask(&mut world, 40, &[(8, 1)]);
    until(&mut world, none, at(home(30, 1), Op::Write));
    world.handle(Input::Withdraw);
    let bound = world.engine.replicated().unwrap().bound;
    assert_eq!(bound, Sectors(8), "what is just written, until it is at rest");
    let mut passed = 0;
    while world.engine.is_withdrawing() {
        assert!(!world.waiting.iter().any(at(home(40, 1), Op::Write)), "one more");
        passed += 1;
        assert!(passed < 10_000 && pass(&mut world, none), "it does not end");
    }
    world.settle();
    assert_eq!((world.engine.copied(), world.engine.stained().count()), (Sectors(0), 0));
    world.home_is_complete();
    is_sound(&mut world);
}

#[test]
fn a_run_that_is_just_written_does_not_give_way_before_it_stands() {
    let mut world = replicated();
    ask(&mut world, 30, &[(6, 1)]);
    let busy = at(home(30, 1), Op::Write);
    until(&mut world, none, &busy);
    // 3 of 64 are left.
    for (first, pages) in [(10, 10), (24, 6), (31, 17)] {
        world.issue(Op::Write, home(first, pages));
    }
    let written = |world: &World| world.engine.free().0 / 8;
    while written(&world) > 7 {
        assert!(pass(&mut world, &busy));
    }
    assert!(!stands(&world, 0), "others did");
    // A run in the same segment would stand where this one is written.
    for (first, pages) in [(31, 12), (10, 10)] {
        world.issue(Op::Discard, home(first, pages));
    }
    while written(&world) < 29 {
        assert!(pass(&mut world, &busy));
    }
    is_sound(&mut world);
    assert!(stands(&world, 6));
}

#[test]
fn a_segment_that_is_read_is_not_written_anew() {
    let mut world = discarded(fs2(0));
    let segments = world.engine.replicated().unwrap().room.0 / (7 * 8);
    assert!((2..9).contains(&segments));
    for page in 0..segments {
        ask_settled(&mut world, 20 + 2 * page, &[(page, 1)]);
    }
    // All others twice: the first is the coldest, though it is being read.
    for page in (1..segments).chain(1..segments) {
        use_replica(&mut world, page);
    }
    head_at(&mut world, 51);
    world.issue(Op::Read, home(0, 1));
    let mine = asked(home(20, 1), Op::Read);
    until(&mut world, none, &mine);
    ask(&mut world, 40, &[(9, 1)]);
    hold(&mut world, &mine);
    assert!(stands(&world, 0) && !stands(&world, 9));
    world.settle();
    assert_eq!(world.engine.stats().damaged, 0);
    ask_settled(&mut world, 40, &[(9, 1)]);
    assert!(stands(&world, 9) && !stands(&world, 0), "and then it is");
    is_sound(&mut world);
}

#[test]
fn what_would_leave_too_little_is_not_begun() {
    let mut world = discarded(fs2(0));
    world.issue_settled(Op::Write, home(10, 27));
    // 13 of 64 are spare: 20%. Seven less would be below 10%, six are not.
    ask_settled(&mut world, 40, &[(0, 7)]);
    assert_eq!((world.engine.copied(), world.engine.stats().replicas_refused), (Sectors(0), 7));
    ask_settled(&mut world, 40, &[(0, 6)]);
    assert_eq!(world.engine.copied(), Sectors(48));
    is_sound(&mut world);
}

#[test]
fn above_the_critical_mark_what_is_used_stays_however_old() {
    let mut world = discarded(fs2(0));
    for (place, page, pages) in [(24, 0, 7), (44, 52, 3)] {
        ask_settled(&mut world, place, &[(page, pages)]);
    }
    (0..3).for_each(|_| use_replica(&mut world, 3));
    assert_eq!(world.engine.copied(), Sectors(80));
    // 4 of 64 are left, which is more than 5%: the coldest goes, and that is enough.
    for (first, pages) in [(10, 14), (47, 3), (31, 9)] {
        world.issue(Op::Write, home(first, pages));
    }
    world.settle();
    assert!(stands(&world, 3) && !stands(&world, 52), "{:?}", world.engine.replicated());
    is_sound(&mut world);
}

#[test]
fn a_write_with_fua_into_a_replicas_place_is_known_before_it_is_answered() {
    let mut world = replicated();
    let id = world.issue_with(Op::Write, home(20, 1), Flags::FUA);
    pass_until(&mut world, |w| !w.clients.contains_key(&id));
    world.crash([1; 32]);
    let free = world.engine.free_extents().any(|e| e.overlaps(home(20, 1)));
    assert!(!free, "it was told that it is on stable storage, and reads as zeroes");
    is_sound(&mut world);
}

#[test]
fn what_nobody_guarded_is_not_taken_for_free() {
    for clean in [true, false] {
        let mut world = replicated();
        if clean {
            world.handle_settled(Input::Detach { stamp: [1; 32] });
        }
        let config = *world.engine.config();
        let mut area = world.area.clone();
        let guarded = attach(&mut area, config, &kept([2; 32])).unwrap().0;
        assert!(guarded.free() > Sectors(3 * 8), "clean: {clean}");
        let (engine, _) = attach(&mut world.area, config, &open([2; 32])).unwrap();
        // After a crash, pages that may hold bytes of replicas are still not the client's.
        assert_eq!(engine.free(), Sectors(if clean { 0 } else { 3 * 8 }), "clean: {clean}");
    }
}

/// Fails the waiting I/O at `at`.
pub(super) fn fail(world: &mut World, at: usize) {
    let io = world.waiting.swap_remove(at);
    world.step += 1;
    world.failed_at = world.step;
    world.handle(Input::Done { io: io.id, result: Err(IoFailed) });
}

#[test]
fn where_zeroes_could_not_be_written_they_are_written_again() {
    let mut world = replicated();
    world.handle(Input::Withdraw);
    let zeroes = |io: &Io| io.class.is_background() && io.op == Op::WriteZeroes;
    fail_first(&mut world, none, zeroes);
    assert_ne!(world.engine.stained().count(), 0);
    world.settle();
    assert_eq!(world.engine.stained().count(), 0);
    world.home_is_complete();
}

#[test]
fn the_area_hears_of_zeroes_only_after_home_has_them_for_good() {
    let mut world = replicated();
    world.issue_settled(Op::Flush, Extent::default());
    world.handle(Input::Withdraw);
    let (mut zeroes, mut flushed) = (false, false);
    while world.engine.stained().count() > 0 {
        if let Some(io) = world.waiting.first() {
            let written = io.op == Op::WriteZeroes;
            zeroes |= written;
            flushed = !written && (flushed || io.target == Target::Home && io.op == Op::Flush);
        }
        assert!(pass(&mut world, none));
    }
    assert!(zeroes && flushed, "written: {zeroes}, flushed since: {flushed}");
}

fn of_replica(io: &Io) -> bool {
    io.class.is_background() && io.target == Target::Home
}

/// A client's request arrives 5 ms after the I/O of a replica was sent, and waits for as long. Other
/// I/Os sent with it end, too.
pub(super) fn waits_behind_replica(world: &mut World) {
    until(world, none, of_replica);
    world.now += 5_000_000;
    world.issue(Op::Read, home(52, 1));
    world.now += 5_000_000;
    while let Some(at) = world.waiting.iter().position(of_replica) {
        world.execute(at);
    }
}

/// The same, and the client has its answer.
fn in_debt(world: &mut World) {
    waits_behind_replica(world);
    execute_first(world, none, asked(home(52, 1), Op::Read));
}

#[test]
fn replicas_wait_until_what_clients_waited_for_them_is_earned() {
    let mut world = discarded(fs2(0));
    ask(&mut world, 20, &[(0, 1), (2, 1), (4, 1)]);
    in_debt(&mut world);
    let end = world.now + 5_000_000_000;
    while world.now < end {
        assert!(!world.waiting.iter().any(of_replica), "{} s before it is due", end - world.now);
        assert!(pass(&mut world, none));
    }
    is_sound(&mut world);
    assert!(stands(&world, 0));
}

#[test]
fn replicas_that_somebody_waits_for_wait_for_no_others_and_for_no_such_debt() {
    let mut world = discarded(fs2(0));
    ask(&mut world, 20, &[(0, 1), (2, 1), (4, 1)]);
    ask(&mut world, 24, &[(6, 1)]);
    in_debt(&mut world);
    let begun = world.now;
    for (place, page) in [(26, 50), (28, 51)] {
        world.handle(Input::ReplicateSoon(vec![replica(place, &[(page, 1)])]));
    }
    let mut stood = Vec::new();
    while stood.len() < 4 {
        assert!(pass(&mut world, none), "{stood:?}");
        for page in [0, 6, 50, 51] {
            if stands(&world, page) && !stood.iter().any(|&(p, _)| p == page) {
                stood.push((page, world.now));
            }
        }
    }
    let pages: Vec<u64> = stood.iter().map(|s| s.0).collect();
    assert_eq!(pages, [0, 50, 51, 6], "what is under way, what is waited for, the rest");
    let waited = |i: usize| stood[i].1 - begun;
    assert!(waited(2) < 1_000_000_000, "{} ns for what somebody waits for", waited(2));
    assert!(waited(3) > 4_000_000_000, "{} ns for what is learned", waited(3));
}

/// The time until a condition holds, without a request; `None` after half an hour.
pub(super) fn waited(world: &mut World, mut until: impl FnMut(&World) -> bool) -> Option<u64> {
    let begun = world.now;
    while !until(world) {
        if world.now - begun > 1_800_000_000_000 || !pass(world, none) {
            return None;
        }
    }
    Some(world.now - begun)
}

#[test]
fn an_administrator_waits_for_no_learned_work_and_for_no_budget() {
    // 100 bytes a second: each page of background work takes 41 s.
    let slow = |config: Config| Config { background_rate: Bytes(100), ..config };
    // Two windows, all of other pages than the plan before.
    let plan = |n: u64| plan_of(&[(4 * n, 8, 0), (20 + 4 * n, 8, 0), (40 + 4 * n, 8, 0)]);
    let second = 1_000_000_000;

    // While copies move: a drain, and both changes of the mode.
    let mut world = World::new(slow(config(0)));
    for (n, (command, mode)) in (0..).zip([
        (Command::SetMode(Mode::WriteBack), Mode::WriteBack),
        (Command::SetMode(Mode::WriteThrough), Mode::WriteThrough),
        (Command::SetMode(Mode::WriteBack), Mode::WriteBack),
        (Command::Drain, Mode::WriteThrough),
    ]) {
        world.handle(Input::Install(plan(n % 2)));
        until(&mut world, none, |io| io.class.is_background() && io.op == Op::Read);
        world.handle(Input::Command(command));
        let done = |world: &World| {
            let engine = &world.engine;
            engine.mode() == mode && (mode == Mode::WriteBack || engine.is_drained())
        };
        let waited = waited(&mut world, done);
        assert!(waited.is_some_and(|w| w < 5 * second), "{command:?}: {waited:?}");
        assert!(world.engine.progress().is_some(), "the move is over: nothing was tested");
        if mode == Mode::WriteBack {
            world.issue(Op::Write, home(50, 4));
            until(&mut world, none, |io| io.target == Target::Area && io.op == Op::Write);
        }
    }
    // Then the plan goes on by itself.
    world.settle();
    assert!(world.engine.progress().is_none() && world.engine.copied() >= Sectors(20 * 8));
    world.home_is_complete();

    // While a replica waits until what clients waited for it is earned.
    let mut world = discarded(slow(fs2(0)));
    ask(&mut world, 20, &[(0, 1), (2, 1), (4, 1)]);
    until(&mut world, none, |io| io.class.is_background() && io.target == Target::Home);
    world.handle(Input::Command(Command::Drain));
    world.handle(Input::Withdraw);
    let home_is_complete = |world: &World| {
        world.engine.is_drained()
            && !world.engine.is_withdrawing()
            && world.engine.stained().count() == 0
    };
    let waited = waited(&mut world, home_is_complete);
    assert!(waited.is_some_and(|w| w < 5 * second), "{waited:?}");
    world.home_is_complete();
    is_sound(&mut world);

    // Replicas that are wanted while the mode changes come afterwards.
    world.handle(Input::Command(Command::SetMode(Mode::WriteBack)));
    ask_settled(&mut world, 20, &[(0, 1)]);
    assert!(world.engine.mode() == Mode::WriteBack && stands(&world, 0));
}
