//! The drive against a naive twin that tries every waiting command.

use proptest::prelude::*;
use seekless_block::{Duration, Extent, Op, SimTime};
use seekless_disk::{Command, Completion, Disk, Drive, Scheduler, catalogue};

use crate::toy::toy;
use crate::volume::drain;

/// (submission, command) in order of time.
type Script = Vec<(SimTime, Command)>;

/// Plays a script through the drive as an event loop would.
fn play(disk: Disk, scheduler: Scheduler, script: &Script) -> Vec<Completion> {
    play_through(Drive::new(disk, scheduler), script)
}

fn play_through(mut drive: Drive, script: &Script) -> Vec<Completion> {
    let mut out = Vec::new();
    for &(at, command) in script {
        while drive.next_event().is_some_and(|t| t <= at) {
            let t = drive.next_event().unwrap();
            out.extend(drive.poll(t));
        }
        drive.submit(at, command).unwrap();
    }
    while let Some(t) = drive.next_event() {
        out.extend(drive.poll(t));
    }
    assert!(drive.is_idle());
    out
}

/// The same by brute force: at each choice, every waiting command is tried on a copy of the disk.
fn twin(mut disk: Disk, scheduler: Scheduler, script: &Script) -> Vec<(u64, SimTime, SimTime)> {
    let mut waiting: Vec<(usize, SimTime, Command)> = Vec::new();
    let mut script = script.iter().copied().enumerate().peekable();
    let mut now = SimTime(0);
    let (mut start, mut end, mut upward) = (0u64, 0u64, true);
    let mut out = Vec::new();
    loop {
        while let Some((i, (at, c))) = script.next_if(|s| s.1.0 <= now) {
            waiting.push((i, at, c));
        }
        let yields = |c: &Command| c.background && !c.in_turn;
        let foreground = waiting.iter().any(|w| !yields(&w.2));
        let choice = waiting
            .iter()
            .enumerate()
            .filter(|(_, w)| !foreground || !yields(&w.2))
            .min_by_key(|(_, (i, submitted, c))| {
                let to = c.extent.start.0 as i64;
                let cost = disk.clone().access(now, c.op, c.extent).unwrap();
                let positioning = (cost.seek + cost.rotation).0 as i64;
                let from = start as i64;
                match scheduler {
                    Scheduler::Fcfs => (false, 0, *i),
                    Scheduler::Sstf => (false, (to - end as i64).abs(), *i),
                    Scheduler::Look if upward => (to < from, (to - from).abs(), *i),
                    Scheduler::Look => (to > from, (to - from).abs(), *i),
                    // These scripts have one stream, so the disk never waits for another.
                    Scheduler::CLook | Scheduler::Anticipatory | Scheduler::Elevator => {
                        (to < from, to, *i)
                    }
                    Scheduler::Sptf => (false, positioning, *i),
                    Scheduler::Asptf => {
                        let age = now.since(*submitted).0 as i64;
                        (false, positioning - age / 1_000 * 6, *i)
                    }
                }
            })
            .map(|(at, _)| at);
        match choice {
            Some(at) => {
                let (_, _, c) = waiting.remove(at);
                let done = now + disk.access(now, c.op, c.extent).unwrap().total();
                upward = if c.extent.start.0 == start { upward } else { c.extent.start.0 > start };
                (start, end) = (c.extent.start.0, c.extent.end().0);
                out.push((c.tag, now, done));
                now = done;
            }
            None => match script.peek() {
                Some((_, (at, _))) => now = *at,
                None => return out,
            },
        }
    }
}

fn scripts() -> impl Strategy<Value = Script> {
    let step = (0u64..30_000_000, 0u64..60, 1u64..12, any::<bool>(), 0..10);
    proptest::collection::vec(step, 1..60).prop_map(|steps| {
        let mut at = 0;
        let mut script = Script::new();
        for (i, (gap, start, len, read, class)) in steps.into_iter().enumerate() {
            // Bursts: two thirds arrive with the command before. Odd times, so that no two events
            // coincide.
            at += if gap % 3 == 0 { gap | 1 } else { 0 };
            let op = if read { Op::Read } else { Op::Write };
            let extent = Extent::new(start, len.min(60 - start));
            let (background, in_turn) = (class < 3, class == 0);
            let command = Command { background, in_turn, ..Command::new(i as u64, op, extent) };
            script.push((SimTime(at), command));
        }
        script
    })
}

proptest! {
    #[test]
    fn choices_are_those_of_brute_force(script in scripts(), which in 0usize..6) {
        let scheduler = Scheduler::ALL[which];
        // The drive serves the first of a burst before the rest arrives. With distinct times, so
        // does the twin.
        let script: Script = script.into_iter().enumerate().map(|(i, (t, c))| (SimTime(t.0 + i as u64), c)).collect();
        let ours: Vec<_> = play(toy(), scheduler, &script).iter().map(|c| (c.tag, c.started, c.finished)).collect();
        let theirs = twin(toy(), scheduler, &script);
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn late_calls_change_nothing(script in scripts(), which in 0usize..6) {
        let scheduler = Scheduler::ALL[which];
        let prompt = play(toy(), scheduler, &script);
        let mut drive = Drive::new(toy(), scheduler);
        for &(at, command) in &script {
            drive.submit(at, command).unwrap();
        }
        let mut late = Vec::new();
        while let Some(c) = drive.poll(SimTime(1 << 50)) {
            late.push(c);
        }
        prop_assert_eq!(prompt, late);
    }
}

proptest! {
    #[test]
    fn with_depth_one_the_host_chooses(script in scripts(), which in 0usize..6, other in 0usize..6) {
        let (host, own) = (Scheduler::ALL[which], Scheduler::ALL[other]);
        let one = Drive::with_host(toy(), own, 1, host);
        prop_assert_eq!(play_through(one, &script), play(toy(), host, &script));
        // A disk that takes all commands leaves no choice to the host.
        let all = Drive::with_host(toy(), own, 1_000, host);
        prop_assert_eq!(play_through(all, &script), play(toy(), own, &script));
    }
}

#[test]
fn the_disk_chooses_among_its_own_and_the_host_refills() {
    // Two at the disk under C-LOOK, first come first served at the host. 10 starts at once together
    // with 59; 20, 30, 40 wait.
    let mut drive = Drive::with_host(toy(), Scheduler::CLook, 2, Scheduler::Fcfs);
    for (tag, start) in [(0, 10), (1, 59), (2, 20), (3, 30), (4, 40)] {
        let extent = Extent::new(start, 1);
        drive.submit(SimTime(0), Command::new(tag, Op::Read, extent)).unwrap();
    }
    assert_eq!(drive.waiting(), 4);
    // When 10 ends the disk has only 59 and starts it; then 20 arrives. After 59 the disk has 20
    // alone, then 30, 40.
    let tags: Vec<_> = std::iter::from_fn(|| drive.poll(SimTime(1 << 50))).map(|c| c.tag).collect();
    assert_eq!(tags, [0, 1, 2, 3, 4]);
    // With three at the disk: 10, 59, 20. After 10 the disk picks 20 and takes 30; then 30, 40, and
    // 59 last.
    let mut drive = Drive::with_host(toy(), Scheduler::CLook, 3, Scheduler::Fcfs);
    for (tag, start) in [(0, 10), (1, 59), (2, 20), (3, 30), (4, 40)] {
        let extent = Extent::new(start, 1);
        drive.submit(SimTime(0), Command::new(tag, Op::Read, extent)).unwrap();
    }
    let tags: Vec<_> = std::iter::from_fn(|| drive.poll(SimTime(1 << 50))).map(|c| c.tag).collect();
    assert_eq!(tags, [0, 2, 3, 4, 1]);
}

/// By hand: 20 to 27 wait in three commands behind the command at 10. A write, a command of another
/// class and one that does not adjoin stay apart.
#[test]
fn the_elevator_serves_adjoining_commands_as_one() {
    let (at, read) =
        (SimTime(0), |tag, start, len| Command::new(tag, Op::Read, Extent::new(start, len)));
    let others = [
        read(1, 24, 4),
        read(2, 20, 3),
        read(3, 23, 1),
        Command { op: Op::Write, ..read(4, 28, 2) },
        Command { background: true, ..read(5, 28, 2) },
        read(6, 29, 1),
    ];
    let all = |scheduler| {
        let mut drive = Drive::new(toy(), scheduler);
        drive.submit(at, read(0, 10, 1)).unwrap();
        for command in others {
            drive.submit(at, command).unwrap();
        }
        let done: Vec<_> = std::iter::from_fn(|| drive.poll(SimTime(1 << 50))).collect();
        assert!(drive.is_idle());
        done
    };
    let done = all(Scheduler::Elevator);
    let tags: Vec<_> = done.iter().map(|c| c.tag).collect();
    assert_eq!(tags, [0, 2, 3, 1, 4, 6, 5]);
    let mut one = toy();
    let first = one.access(at, Op::Read, Extent::new(10, 1)).unwrap().total();
    let merged = one.access(at + first, Op::Read, Extent::new(20, 8)).unwrap();
    assert_eq!(done[1].access, merged);
    for c in &done[2..4] {
        assert_eq!((c.started, c.finished), (done[1].started, done[1].finished));
        assert_eq!((c.access.total(), c.sequential), (Duration(0), true));
    }
    assert_eq!(done[4].started, done[1].finished);
    // Commands that do not adjoin are served as C-LOOK serves them.
    let apart = |scheduler| {
        let mut drive = Drive::new(toy(), scheduler);
        for (tag, start) in [(0, 10), (1, 59), (2, 20), (3, 30), (4, 40)] {
            drive.submit(at, read(tag, start, 1)).unwrap();
        }
        std::iter::from_fn(|| drive.poll(SimTime(1 << 50))).collect::<Vec<_>>()
    };
    assert_eq!(apart(Scheduler::Elevator), apart(Scheduler::CLook));
}

#[test]
fn a_merged_command_has_512_kib_at_most() {
    let mut drive =
        Drive::new(Disk::new(&catalogue::get("wd800jb").unwrap()).unwrap(), Scheduler::Elevator);
    for (tag, (start, len)) in
        [(0, 8), (5_000, 600), (5_600, 424), (6_024, 8)].into_iter().enumerate()
    {
        let command = Command::new(tag as u64, Op::Read, Extent::new(start, len));
        drive.submit(SimTime(0), command).unwrap();
    }
    let done: Vec<_> = std::iter::from_fn(|| drive.poll(SimTime(1 << 50))).collect();
    let costs: Vec<_> = done.iter().map(|c| c.access.total() > Duration(0)).collect();
    assert_eq!(costs, [true, true, false, true]);
}

#[test]
fn background_waits_for_every_foreground_command() {
    let mut drive = Drive::new(toy(), Scheduler::Sptf);
    let command = |tag, start, background| Command {
        background,
        ..Command::new(tag, Op::Read, Extent::new(start, 1))
    };
    drive.submit(SimTime(0), command(0, 0, false)).unwrap();
    drive.submit(SimTime(1), command(1, 1, true)).unwrap();
    drive.submit(SimTime(2), command(2, 59, false)).unwrap();
    drive.submit(SimTime(3), command(3, 30, false)).unwrap();
    assert_eq!(drive.waiting(), 3);
    let tags: Vec<_> = drain(&mut drive).iter().map(|c| c.tag).collect();
    assert_eq!(tags.last(), Some(&1));
    assert_eq!(tags.len(), 4);
}

/// A foreground command waits at every moment, for a minute.
#[test]
fn background_does_not_wait_for_ever() {
    for scheduler in [Scheduler::Fcfs, Scheduler::Sptf] {
        let mut drive = Drive::new(toy(), scheduler);
        let command = |tag, start, background| Command {
            background,
            ..Command::new(tag, Op::Read, Extent::new(start, 1))
        };
        for tag in [0, 1] {
            drive.submit(SimTime(0), command(tag, 0, false)).unwrap();
        }
        // The command that has waited longest comes, and not the nearest one.
        drive.submit(SimTime(0), command(2, 30, true)).unwrap();
        drive.submit(SimTime(1), command(0, 0, true)).unwrap();
        let (mut now, mut tag, mut served) = (SimTime(0), 3, None);
        while now < SimTime(60_000_000_000) {
            now = drive.next_event().unwrap();
            for done in std::iter::from_fn(|| drive.poll(now)).collect::<Vec<_>>() {
                served = served.or((done.tag == 2).then_some(done.started));
                drive.submit(now, command(tag, tag % 60, false)).unwrap();
                tag += 1;
            }
        }
        let at = served.unwrap().since(SimTime(0)).as_secs_f64();
        assert!((10.0..10.2).contains(&at), "{scheduler:?}: {at} s");
    }
}

#[test]
fn completions_report_distance_and_sequence() {
    let mut drive = Drive::new(toy(), Scheduler::Fcfs);
    for (tag, start) in [(0, 10), (1, 14), (2, 4), (3, 59)] {
        let command = Command::new(tag, Op::Read, Extent::new(start, 1));
        drive
            .submit(
                SimTime(0),
                Command { extent: Extent::new(start, 4.min(60 - start)), ..command },
            )
            .unwrap();
    }
    let done: Vec<_> = std::iter::from_fn(|| drive.poll(SimTime(u64::MAX))).collect();
    let told: Vec<_> = done.iter().map(|c| (c.seek_distance_sectors, c.sequential)).collect();
    assert_eq!(told, [(10, false), (0, true), (14, false), (51, false)]);
    for pair in done.windows(2) {
        assert_eq!(pair[0].finished, pair[1].started);
        assert_eq!(pair[1].finished, pair[1].started + pair[1].access.total());
    }
}

#[test]
fn flush_and_discard_end_at_once_and_errors_leave_no_trace() {
    let mut drive = Drive::new(toy(), Scheduler::CLook);
    let at = SimTime(5);
    let command = |tag, op, extent| Command::new(tag, op, extent);
    drive.submit(at, command(1, Op::Read, Extent::new(30, 2))).unwrap();
    drive.submit(at, command(2, Op::Flush, Extent::new(0, 0))).unwrap();
    drive.submit(at, command(3, Op::Discard, Extent::new(3, 50))).unwrap();
    assert!(drive.submit(at, command(4, Op::Discard, Extent::new(3, 58))).is_err());
    assert!(drive.submit(at, command(5, Op::Read, Extent::new(60, 1))).is_err());
    assert_eq!(drive.next_event(), Some(at));
    assert_eq!(drive.poll(at).map(|c| (c.tag, c.finished)), Some((2, at)));
    assert_eq!(drive.poll(at).map(|c| (c.tag, c.finished)), Some((3, at)));
    assert_eq!(drive.poll(at), None);
    let end = drive.next_event().unwrap();
    assert_eq!(drive.poll(SimTime(end.0 - 1)), None);
    assert_eq!(drive.poll(end).map(|c| c.tag), Some(1));
    assert!(drive.is_idle());
}

#[test]
fn shortest_positioning_first_beats_the_others_on_a_deep_queue() {
    let spec = catalogue::get("wd800jb").unwrap();
    let mut mean = Vec::new();
    for scheduler in [Scheduler::Sptf, Scheduler::CLook, Scheduler::Fcfs] {
        let disk = Disk::new(&spec).unwrap();
        let capacity = disk.capacity().get();
        let script: Script = (0..400u64)
            .map(|i| {
                let start = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (capacity - 8);
                (SimTime(i), Command::new(i, Op::Read, Extent::new(start, 8)))
            })
            .collect();
        let done = play(disk, scheduler, &script);
        assert_eq!(done.len(), 400);
        mean.push(done.last().unwrap().finished.since(SimTime(0)));
    }
    assert!(
        mean[0] < Duration(mean[1].0 * 8 / 10) && mean[1] < Duration(mean[2].0 * 8 / 10),
        "{mean:?}"
    );
}

#[test]
fn names_of_schedulers_can_be_parsed() {
    for s in Scheduler::ALL {
        assert_eq!(s.to_string().parse(), Ok(s));
    }
    let error = "lift".parse::<Scheduler>().unwrap_err();
    assert!(error.to_string().contains("fcfs") && error.to_string().contains("'lift'"));
}
