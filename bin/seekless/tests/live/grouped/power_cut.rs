//! The power is cut under a directory with groups and its store: the file system of both is shut down, so that all unflushed data is
//! lost.

use std::collections::BTreeSet;

use super::*;

/// Reads, brings files home, and writes anew, each durable before it has its name, until something fails. `may` has what each
/// file may be; `witness` is a file of the disk beneath.
///
/// A forced shutdown of xfs takes a rename out of the log, after which the directory has nothing to sync and its fsync answers
/// success: seen without any server of ours in 4 of 300 shutdowns, on Linux 6.18. Only an fsync of a file asks whether the disk is
/// still there, so one of the witness comes behind each of the directory, and both must succeed.
fn life(
    point: &Path,
    witness: &File,
    numbers: &mut Numbers,
    may: &mut [BTreeSet<u64>],
) -> std::io::Result<()> {
    loop {
        for name in (0..16).map(|i| i % 8) {
            fs::read(point.join(name.to_string()))?;
        }
        let name = numbers.below(8) as usize;
        let path = point.join(name.to_string());
        if numbers.below(2) == 0 {
            // Goes home.
            let file = File::options().write(true).open(path)?;
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, 10)?;
            continue;
        }
        let version = may[name].last().unwrap() + 1;
        let file = File::create(point.join("new"))?;
        file.write_all_at(&content(name, version), 0)?;
        file.sync_all()?;
        may[name].insert(version);
        fs::rename(point.join("new"), path)?;
        if numbers.below(2) == 0 {
            File::open(point)?.sync_all()?;
            witness.sync_all()?;
            may[name] = BTreeSet::from([version]);
        }
    }
}

#[test]
fn what_was_synced_outlives_power_cuts_under_both_modules() {
    need!("power cuts", "fuse root umount timeout xfs mkfs.xfs xfs_io");
    let (mut place, device, mut mounted_disk) = on_disk(&["mkfs.xfs", "-q"], 400, "rw");
    let disk = mounted_disk.path().to_owned();
    place.store = disk.join("store");
    for name in 0..8 {
        fs::write(place.dir.join(name.to_string()), content(name, 0)).unwrap();
    }
    rustix::fs::syncfs(File::open(&disk).unwrap()).unwrap();
    let mut numbers = Numbers::new(23);
    let mut may = vec![BTreeSet::from([0]); 8];
    for round in 0..6 {
        let mounted = place.mount();
        for (name, may) in may.iter_mut().enumerate() {
            let path = mounted.path(name.to_string());
            let seen = version_of(name, &fs::read(path).unwrap());
            assert!(may.contains(&seen), "round {round}: file {name} is {seen} of {may:?}");
            *may = BTreeSet::from([seen]);
        }
        let witness = File::create(disk.join("witness")).unwrap();
        let cut_after = Duration::from_millis(50 + numbers.below(700));
        std::thread::scope(|scope| {
            scope.spawn(|| while do_shuffle(&mounted.point).is_ok() {});
            scope.spawn(|| {
                std::thread::sleep(cut_after);
                // Nothing that was not flushed reaches the disk from here on.
                host::run(["xfs_io", "-x", "-c", "shutdown", disk.to_str().unwrap()]);
            });
            let failed = life(&mounted.point, &witness, &mut numbers, &mut may);
            assert!(failed.is_err());
            mounted.running.signal(Signal::KILL);
        });
        drop((mounted, witness));
        mounted_disk.unmount();
        mounted_disk = Mount::new(device.device(), &disk, "rw");
        place.check();
    }
    mounted_disk.unmount();
    device.detach();
}

/// On ext4 an fdatasync covers no extended attribute, nor does a write with O_DSYNC: a marker that came back after them would bring
/// the older bytes back. Each is what a client does last before the power is cut.
#[test]
fn what_was_overwritten_and_synced_outlives_a_power_cut_on_ext4() {
    type Act = fn(&Path, &mut Vec<u8>);
    let acts: &[(&str, Act)] = &[
        ("fdatasync", |path, bytes| {
            let file = File::options().write(true).open(path).unwrap();
            file.write_all_at(&[7; 100], 50).unwrap();
            file.sync_data().unwrap();
            bytes[50..150].fill(7);
        }),
        ("O_DSYNC", |path, bytes| {
            let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::DSYNC;
            let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
            File::from(file).write_all_at(&[8; 100], 50).unwrap();
            bytes[50..150].fill(8);
        }),
        ("cut and fdatasync", |path, bytes| {
            let file = File::options().write(true).open(path).unwrap();
            file.set_len(0).unwrap();
            file.sync_data().unwrap();
            bytes.clear();
        }),
        ("O_TRUNC and fdatasync", |path, bytes| {
            File::create(path).unwrap().sync_data().unwrap();
            bytes.clear();
        }),
        ("replaced over and over, so that it goes home", |path, bytes| {
            for i in 0..12 {
                let file = File::create(path).unwrap();
                file.write_all_at(&[i; 100], 0).unwrap();
                file.sync_data().unwrap();
                *bytes = vec![i; 100];
            }
        }),
        ("synced and written on, over and over, so that it goes home", |path, bytes| {
            let file = File::options().write(true).open(path).unwrap();
            for i in 0..12 {
                file.write_all_at(&[i; 100], 100 * u64::from(i)).unwrap();
                file.sync_data().unwrap();
                bytes[100 * usize::from(i)..][..100].fill(i);
            }
        }),
        ("appended and fsync", |path, bytes| {
            let mut file = File::options().append(true).open(path).unwrap();
            file.write_all(b"more").unwrap();
            file.sync_all().unwrap();
            bytes.extend(b"more");
        }),
        ("written, grown too large, and fsync", |path, bytes| {
            let file = File::options().write(true).open(path).unwrap();
            file.write_all_at(&[9; 100], 50).unwrap();
            file.write_all_at(&[9; 100], 70_000).unwrap();
            file.sync_all().unwrap();
            bytes[50..150].fill(9);
            bytes.resize(70_000, 0);
            bytes.extend([9; 100]);
        }),
        ("mapped, written, and msync", |path, bytes| {
            let script = "import mmap,sys
f=open(sys.argv[1],'r+b'); m=mmap.mmap(f.fileno(),0); m[10:14]=b'MMAP'; m.flush()";
            host::run(["python3".as_ref(), "-c".as_ref(), script.as_ref(), path.as_os_str()]);
            bytes[10..14].copy_from_slice(b"MMAP");
        }),
        ("O_TRUNC, written, and fdatasync", |path, bytes| {
            let file = File::create(path).unwrap();
            file.write_all_at(b"new", 0).unwrap();
            file.sync_data().unwrap();
            *bytes = b"new".to_vec();
        }),
    ];
    need!("power cuts on ext4", "fuse root umount timeout ext4 mkfs.ext4 xfs_io python3");
    for (what, act) in acts {
        let (mut place, device, mounted_disk) = on_disk(&["mkfs.ext4", "-q"], 200, "rw");
        let disk = mounted_disk.path().to_owned();
        place.store = disk.join("store");
        let (mounted, mut contents) = grouped(&place);
        rustix::fs::syncfs(File::open(&disk).unwrap()).unwrap();
        act(&mounted.path(NAMES[1]), &mut contents[1]);
        // Nothing that was not flushed reaches the disk from here on.
        host::run(["xfs_io", "-x", "-c", "shutdown", disk.to_str().unwrap()]);
        mounted.kill();
        // A dead mount keeps the files that the kernel passed on open, and so their disk in use.
        host::unmount(&place.point);
        mounted_disk.unmount();
        let mounted_disk = Mount::new(device.device(), &disk, "rw");
        let mounted = place.mount();
        for (name, bytes) in NAMES.iter().zip(&contents) {
            assert!(fs::read(mounted.path(name)).unwrap() == *bytes, "{what}: {name}");
        }
        mounted.unmount(&["--return"]);
        mounted_disk.unmount();
        device.detach();
    }
}
