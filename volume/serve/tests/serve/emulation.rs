//! The emulated disk: its time passes, its counters agree, and learning shortens its seeks.

use std::time::{Duration, Instant};

use seekless_block::{Bytes, Dice, Lba};
use seekless_disk::{Disk, Scheduler, SpinDown, catalogue};
use seekless_nbd::{Command, CommandFlags};
use seekless_serve::{Backing, Builder, Emulation, HostQueue, Learning, ServeError};

use crate::client;

const SIZE: u64 = 64 << 20;

pub(crate) fn emulation(speed: f64) -> Emulation {
    let disk = Disk::new(&catalogue::get("wd800jb").unwrap()).unwrap();
    Emulation {
        disk: disk.into(),
        scheduler: Scheduler::Fcfs,
        host: None,
        spin_down: SpinDown::None,
        speed,
        path_max: 10_000,
    }
}

/// Scattered places, always in the same order.
fn scattered() -> Vec<u64> {
    let mut random = Dice::new(5);
    (0..60).map(|_| random.below(SIZE / 4096) * 4096).collect()
}

#[test]
fn reads_take_the_disks_time_and_the_books_balance() {
    let server =
        Builder::new(Backing::Memory(Bytes(SIZE))).emulate(emulation(10.0)).spawn().unwrap();
    let mut c = client(&server);
    let start = Instant::now();
    for &at in &scattered() {
        c.read(at, 4096).unwrap();
    }
    let wall = start.elapsed();
    let disk = server.stats().unwrap().disk.unwrap();
    assert_eq!(disk.ios, 60);
    assert!(disk.busy.0 >= (disk.seek + disk.rotation + disk.transfer).0);
    assert!(disk.seek.0 > 0 && disk.rotation.0 > 0 && disk.transfer.0 > 0);
    assert!(disk.elapsed.0 >= disk.busy.0);
    // Ten times as fast, so a tenth of the busy time at the least.
    assert!(wall.as_nanos() as u64 >= disk.busy.0 / 10, "{wall:?} {disk:?}");
    // 7200 rpm: half a turn on average, 4.2 ms, within generous bounds.
    let rotation_ms = disk.rotation.as_millis_f64() / 60.0;
    assert!((2.0..7.0).contains(&rotation_ms), "{rotation_ms}");
    assert!(disk.energy_total().0 > 0);
    assert_eq!((disk.sectors, disk.nonsequential), (60 * 8, 60));
    let drive = Disk::new(&catalogue::get("wd800jb").unwrap()).unwrap();
    let cylinder = |at: u64| drive.geometry().place(Lba(at / 512)).unwrap().cylinder;
    let ends = std::iter::once(0).chain(scattered().into_iter().map(|at| at + 4095));
    let ways =
        scattered().into_iter().zip(ends).map(|(at, end)| cylinder(at).abs_diff(cylinder(end)));
    assert_eq!(disk.seek_cylinders, ways.map(u64::from).sum::<u64>());
    let late = disk.lateness;
    assert!(late.total >= late.max && late.total <= late.max * 60, "{late:?}");
    let path = server.head_path().unwrap();
    assert_eq!(path.len(), 60);
    assert!(path.iter().zip(scattered()).all(|(s, at)| s.lba.0 * 512 == at));
    assert!(path.is_sorted_by_key(|s| s.time));
    server.reset_disk_stats().unwrap();
    let fresh = server.stats().unwrap().disk.unwrap();
    assert_eq!((fresh.ios, fresh.busy.0), (0, 0));
    // A discard moves no head.
    c.submit(Command::Trim, CommandFlags::NONE, 0, 4096, &[]).unwrap();
    c.next_end().unwrap().result.unwrap();
    let disk = server.stats().unwrap().disk.unwrap();
    assert_eq!((disk.nonsequential, disk.busy.0), (0, 0));
}

#[test]
fn at_infinite_speed_the_disks_time_passes_and_nobody_waits_for_it() {
    let start = Instant::now();
    let server = Builder::new(Backing::Memory(Bytes(SIZE))).emulate(emulation(f64::INFINITY));
    let server = server.spawn().unwrap();
    let mut c = client(&server);
    // Five minutes of reads: nobody waits that long.
    let mut random = Dice::new(6);
    let mut asked = 0;
    while server.stats().unwrap().disk.unwrap().busy
        < seekless_block::Duration::from_millis(300_000)
    {
        asked += 10_000;
        for _ in 0..10_000 {
            c.read(random.below(SIZE / 4096) * 4096, 4096).unwrap();
        }
    }
    let disk = server.stats().unwrap().disk.unwrap();
    let wall = start.elapsed();
    assert_eq!(disk.ios, asked);
    // Time outside the disk is real time, and is not scaled.
    let beyond = disk.elapsed.0 - disk.busy.0;
    assert!(beyond <= wall.as_nanos() as u64, "{beyond} ns beside the disk's in {wall:?}");
    let each_ms = disk.busy.as_millis_f64() / disk.ios as f64;
    assert!((2.0..20.0).contains(&each_ms), "{each_ms}");
}

#[test]
fn a_disk_too_small_or_of_no_speed_is_refused() {
    for speed in [0.0, -1.0, f64::NAN] {
        let builder = Builder::new(Backing::Memory(Bytes(4096))).emulate(emulation(speed));
        assert!(matches!(builder.spawn().err(), Some(ServeError::Speed(_))));
    }
    let builder = Builder::new(Backing::Memory(Bytes(100 << 30))).emulate(emulation(1.0));
    assert!(matches!(builder.spawn().err(), Some(ServeError::DiskTooSmall { .. })));
}

#[test]
fn what_the_disk_does_not_take_yet_is_chosen_by_the_host() {
    // Six reads at once, on a disk so slow that all arrive before the first ends.
    let places = [9, 3, 12, 1, 7, 5].map(|p: u64| p << 22);
    let order = |host| {
        let emulation = Emulation { host, ..emulation(0.2) };
        let backing = Backing::Memory(Bytes(SIZE));
        let server = Builder::new(backing).emulate(emulation).spawn().unwrap();
        let mut c = client(&server);
        for at in places {
            c.submit(Command::Read, CommandFlags::NONE, at, 4096, &[]).unwrap();
        }
        for _ in places {
            c.next_end().unwrap().result.unwrap();
        }
        let path = server.head_path().unwrap();
        path.iter().map(|s| (s.lba.0 * 512) >> 22).collect::<Vec<_>>()
    };
    assert_eq!(order(None), [9, 3, 12, 1, 7, 5]);
    // The disk's own scheduler is first come, first served. With one command at a time it has no
    // choice; with three it takes the first three before the host can choose.
    let host = |depth| Some(HostQueue { depth, scheduler: Scheduler::CLook });
    assert_eq!(order(host(1)), [9, 12, 1, 3, 5, 7]);
    assert_eq!(order(host(3)), [9, 3, 12, 1, 5, 7]);
}

#[test]
fn learning_shortens_the_ways() {
    let server = Builder::new(Backing::Memory(Bytes(SIZE)))
        .area(Bytes(8 << 20))
        .emulate(emulation(50.0))
        .learning(Learning::default().policy("borg:planning=anew:min-weight=1".parse().unwrap()))
        .spawn()
        .unwrap();
    let mut c = client(&server);
    for &at in &scattered() {
        c.write(at, &[(at >> 12) as u8; 4096]).unwrap();
    }
    let mut round = || {
        server.reset_disk_stats().unwrap();
        for &at in &scattered() {
            assert_eq!(c.read(at, 4096).unwrap(), [(at >> 12) as u8; 4096]);
        }
        server.stats().unwrap().disk.unwrap()
    };
    round();
    let before = round();
    let copied = server.plan().recv().unwrap();
    assert!(copied >= 50 * 8, "{copied}");
    assert!(server.wait_settled(Duration::from_secs(30)).unwrap());
    assert_eq!(server.stats().unwrap().copied_sectors, copied);
    // The area's metadata follows the move: until then, the disk has other work.
    let ios = || server.stats().unwrap().disk.unwrap().ios;
    let mut last = 0;
    while ios() != last {
        last = ios();
        std::thread::sleep(Duration::from_millis(200));
    }
    let after = round();
    assert_eq!((before.ios, after.ios), (60, 60));
    assert!(after.seek.0 * 2 < before.seek.0, "{:?} {:?}", after.seek, before.seek);
    // Busy time is not compared: at this speed milliseconds of the disk depend on the client's own
    // time.
    assert!(server.stats().unwrap().engine.copy_reads >= 50);
}
