//! The three systems over small made-up days: laws that hold for any numbers.

use crate::synth::{FILE_DAYS, FileDay, FilePlay};
use seekless_block::{Duration, StreamId};
use seekless_disk::catalogue;

use super::super::group_use::GroupUses;
use super::*;

fn options() -> FilesOptions {
    FilesOptions {
        disk: catalogue::get("toshiba-pccard").unwrap(),
        cache: Bytes(4 << 20),
        inodes: 128,
        store: Bytes(64 << 20),
        cluster: Bytes(65_536),
        shuffle_every: 10_000,
        groups: GroupConfig::default(),
        spin_down: SpinDown::None,
        sync: false,
    }
}

/// A part of INS's day, `slower` times as long.
fn day(system: FileSystem, options: &FilesOptions, slower: u64) -> FileOutcome {
    let mut play = FilePlay::new(FILE_DAYS[0], 0.02, 3);
    let facts: Vec<FileFacts> = play
        .files()
        .iter()
        .map(|f| FileFacts { directory: f.directory, size: f.size, existed: true })
        .collect();
    let slow = |e: FileEvent| Ok(FileEvent { time: SimTime(e.time.0 * slower), ..e });
    run_files(system, &facts, play.by_ref().map(slow), options).unwrap()
}

#[test]
fn causes_and_energy_add_up_and_groups_are_used() {
    let options = options();
    let ffs = day(FileSystem::Ffs, &options, 1);
    let ahead = day(FileSystem::FfsReadAhead, &options, 1);
    let eefs = day(FileSystem::Eefs, &options, 1);
    for o in [&ffs, &ahead, &eefs] {
        println!("{o:?}");
        assert_eq!(o.requests, ffs.requests);
        let e = o.energy;
        let sum = e.read + e.write + e.rotation + e.seek + e.idle + e.standby;
        // Every joule of the disk belongs to one activity.
        assert!((sum / e.total - 1.0).abs() < 1e-6, "{e:?}");
        assert!(o.disk_reads > 0 && o.disk_writes > 0 && o.read_ms > 0.0 && o.hits > 0.3);
    }
    let g = eefs.grouping.unwrap();
    assert!(g.shuffles >= 10 && g.arrived >= 20 && g.changes[1] >= 5.0, "{g:?}");
    assert!(g.grouped_opens > 0.1 && g.used_after_first > 0.3, "{g:?}");
    assert!(ahead.disk_reads < ffs.disk_reads);
    // A second run gives the same result.
    assert_eq!(day(FileSystem::Eefs, &options, 1), eefs);
}

/// EEFS's background work waits for a sleeping disk; the baseline's wakes the disk more often.
#[test]
fn eefs_wakes_a_sleeping_disk_less_often() {
    let options =
        FilesOptions { spin_down: SpinDown::After(Duration::from_millis(20_000)), ..options() };
    let [ffs, eefs] = [FileSystem::Ffs, FileSystem::Eefs].map(|system| day(system, &options, 100));
    let said = format!("{} and {} times", ffs.spin_downs, eefs.spin_downs);
    assert!(eefs.spin_downs * 100 < ffs.spin_downs * 95, "{said}");
}

/// Two reads, 60 seconds apart. The second write of an inode ends at about 90 seconds.
#[test]
fn idling_counts_until_the_last_request() {
    let fact = FileFacts { directory: 0, size: 8_000, existed: true };
    let idle_seconds = |spin_down| {
        let options = FilesOptions { spin_down, ..options() };
        let event = |(file, seconds): (u32, u64)| {
            let (time, stream, op) = (SimTime(seconds * 1_000_000_000), StreamId(1), FileOp::Read);
            Ok(FileEvent { time, stream, file, op, offset: 0, len: 8_000, latency: None })
        };
        let events = [(0, 0), (1, 60)].into_iter().map(event);
        let found = run_files(FileSystem::Ffs, &[fact; 2], events, &options).unwrap();
        let e = found.energy;
        assert_eq!(found.causes.inodes_written, 2, "{found:?}");
        let sum = e.read + e.write + e.rotation + e.seek + e.idle + e.standby;
        assert!((sum / e.total - 1.0).abs() < 1e-6, "{e:?}");
        e.idle / options.disk.power.idle_w
    };
    let found = idle_seconds(SpinDown::None);
    assert!((59.0..=60.0).contains(&found), "{found} seconds");
    // A disk that would sleep after five minutes is charged for two minutes more.
    let found = idle_seconds(SpinDown::After(Duration::from_millis(300_000)));
    assert!((178.0..=180.0).contains(&found), "{found} seconds");
}

#[test]
fn grown_files_move_back_and_removed_files_are_gone() {
    let options = FilesOptions { shuffle_every: 300, ..options() };
    let fact = FileFacts { directory: 0, size: 8_000, existed: true };
    let event = |i: u64, file, op, offset, len| {
        let time = SimTime(i * 50_000_000);
        Ok(FileEvent { time, stream: StreamId(1), file, op, offset, len, latency: None })
    };
    let mut events = Vec::new();
    for i in 0..2_000u64 {
        let (file, round) = ((i / 2 % 5) as u32, i / 10);
        events.push(event(i, file, FileOp::Open, 0, 0));
        match (file, round) {
            (0, 120) => events.push(event(i, 0, FileOp::Write, 70_000, 10)),
            (1, 150) => events.push(event(i, 1, FileOp::Unlink, 0, 0)),
            (2, _) => events.push(event(i, 2, FileOp::Sync, 0, 0)),
            (3, _) => events.push(event(i, 3, FileOp::Write, 0, 4_000)),
            _ => events.push(event(i, file, FileOp::Read, 0, 8_000)),
        }
    }
    let found = run_files(FileSystem::Eefs, &[fact; 5], events.into_iter(), &options).unwrap();
    let g = found.grouping.unwrap();
    assert!(g.arrived >= 5 && g.returned >= 1, "{g:?}");
}

/// What the learner alone finds on a part of a day: means over all shuffles, and the use of groups.
/// The part is stretched to the day's length, because Figure 5 has minutes.
fn learned(day: FileDay, scale: f64, seed: u64) -> Grouping {
    let every = (day.interval() as f64 * scale) as u64;
    let mut graph = seekless_store::Successors::new(GroupConfig::default()).unwrap();
    let play = FilePlay::new(day, scale, seed);
    let sizes: Vec<u64> = play.files().iter().map(|f| f.size).collect();
    let small = |f: u64| sizes[f as usize] <= u64::from(seekless_store::FILE_BYTES_MAX);
    let (mut last, mut sums, mut pairs) = (Vec::new(), [0.0; 6], 0.0);
    let mut uses = GroupUses::default();
    for (n, event) in (1u64..).zip(play) {
        let file = u64::from(event.file);
        if event.op == FileOp::Open {
            uses.note(SimTime((event.time.0 as f64 / scale) as u64), file);
            if small(file) {
                graph.observe(event.stream, file);
            }
        }
        if n % every > 0 {
            continue;
        }
        let groups = graph.groups(small);
        uses.shuffled(&groups);
        // The first shuffles find new groups only.
        if n > 3 * every {
            let s = seekless_store::Stability::between(&last, &groups);
            let counts = [s.before, s.after, s.stable].map(|n| n as f64);
            let found = [counts[0], counts[1], counts[2], s.mean_size, s.left, s.joined];
            sums.iter_mut().zip(found).for_each(|(sum, v)| *sum += v);
            pairs += 1.0;
        }
        last = groups;
    }
    uses.shares(Grouping { changes: sums.map(|sum| sum / pairs), ..Grouping::default() })
}

/// Table 2 for 100,000 requests, against means over all shuffles of a fifth of a made-up day.
#[test]
fn groups_change_between_shuffles_as_table_2_says() {
    let printed = [[28.0, 26.0, 17.0, 7.0, 0.146, 0.167], [28.0, 27.0, 15.0, 5.0, 0.112, 0.095]];
    for (day, printed) in FILE_DAYS.into_iter().zip(printed) {
        let means = learned(day, 0.2, 5).changes;
        println!("{}: {means:?}, printed {printed:?}", day.name);
        for (mean, printed) in means.into_iter().zip(printed).take(4) {
            assert!(
                (mean / printed - 1.0).abs() < 0.35,
                "{}: {means:?}, printed {printed:?}",
                day.name
            );
        }
        for (mean, printed) in means.into_iter().zip(printed).skip(4) {
            assert!((mean - printed).abs() < 0.08, "{}: {means:?}, printed {printed:?}", day.name);
        }
    }
}

/// Figure 5, to which both days are fitted: files of a used group that are used at once, and within
/// five minutes.
#[test]
fn parts_of_groups_are_used_as_figure_5_says() {
    for (day, printed) in FILE_DAYS.into_iter().zip([[0.493, 0.859], [0.723, 0.758]]) {
        let found = learned(day, 0.5, 5);
        let found = [found.at_once, found.within_five_minutes];
        println!("{}: {found:?}, printed {printed:?}", day.name);
        for (found, printed) in found.into_iter().zip(printed) {
            assert!((found - printed).abs() < 0.08, "{}: {found}, printed {printed}", day.name);
        }
    }
}
