//! Moves without faults: locks, times, caches and capabilities.

use std::time::{Duration, UNIX_EPOCH};

use rustc_hash::FxHashMap;

use super::*;

/// An fdatasync of a client covers no marker: the removal of the marker must be durable before a
/// client may write.
#[test]
fn a_marker_is_durably_gone_before_its_file_can_be_written() {
    let homes: &[Act] = &[
        |p, g| g.move_back(&p.handle(1)),
        |p, g| {
            assert_eq!(g.move_all_back(&p.handles(&[0, 1])), 2);
            Ok(())
        },
    ];
    for bring in homes {
        let Some(mut dir) = TestDir::new() else { return };
        let wanted = [dir.handles(&[0, 1])];
        assert_eq!(dir.attach().form_groups(&wanted, NOT_BUSY), [Ok(2)]);
        let (groups, handle) = (dir.groups(), dir.handle(1));
        bring(&dir, groups).unwrap();
        let events = held(groups.underlying.steps.events.lock()).clone();
        let steps = events.iter().filter_map(|e| match e {
            Event::Inode(step, of) if *of == handle => Some(*step),
            _ => None,
        });
        let last: Vec<InodeStep> = steps.collect();
        assert!(last.ends_with(&[InodeStep::Unmarked, InodeStep::Synced]), "{last:?}");
    }
}

/// No client opens or reads a file during a move.
#[test]
fn a_moving_file_is_locked() {
    let Some(mut dir) = TestDir::new() else { return };
    let all = dir.handles(&[0, 1, 2]);
    let groups = dir.attach();
    let mut free = Vec::new();
    let look = |step: InodeStep, handle: InodeHandle| {
        let lock = &groups.locks[groups.lock_of(&handle)];
        if step != InodeStep::AllSynced && lock.try_read().is_ok() {
            free.push(step);
        }
    };
    watched(groups, look, || {
        assert_eq!(groups.form_groups(std::slice::from_ref(&all), NOT_BUSY), [Ok(3)]);
        assert_eq!(groups.move_all_back(&all), 3);
    });
    assert_eq!(free, []);
}

/// Between the removal of a marker and its sync, a missing marker means nothing.
#[test]
fn no_marker_is_looked_for_during_a_move() {
    let looks: [fn(&GroupedFiles, InodeHandle); 2] = [
        |g, handle| assert!(g.inode_exists(&handle)),
        |g, handle| assert_eq!(g.form_groups(&[vec![handle]], NOT_BUSY), [Ok(0)]),
    ];
    for look in looks {
        let Some(mut dir) = prepared(&ACTIONS[1]) else { return };
        let handle = dir.handle(1);
        let groups = dir.attach();
        let (end, ended) = channel();
        std::thread::scope(|scope| {
            let lock = groups.changing(&handle);
            scope.spawn(move || {
                look(groups, handle);
                end.send(()).unwrap();
            });
            let early = ended.recv_timeout(Duration::from_millis(100));
            drop(lock);
            assert!(early.is_err(), "looked for while the file moved");
            ended.recv().unwrap();
        });
    }
}

/// Two files that share a lock move together: the lock is taken once.
#[test]
fn files_that_share_a_lock_do_not_wait_for_each_other() {
    let two_of_one_lock = |dir: &TestDir| {
        let mut seen = FxHashMap::default();
        let pair = (4..).find_map(|name| {
            fs::write(dir.path(name), content(0)).unwrap();
            let handle = dir.handle(name);
            seen.insert(handle.id() as usize % LOCKS, handle).map(|other| vec![other, handle])
        });
        pair.unwrap()
    };
    let (end, ended) = channel();
    std::thread::spawn(move || {
        let came = TestDir::new().map(|mut dir| {
            let wanted = two_of_one_lock(&dir);
            dir.attach().form_groups(&[wanted], NOT_BUSY)
        });
        let _ = end.send(came);
    });
    let came = ended.recv_timeout(Duration::from_secs(60)).expect("it waits for itself");
    assert!(came.is_none_or(|came| came == [Ok(2)]));
}

/// The kernel's cache is from an earlier stay in the store, and a move does not change times.
#[test]
fn a_move_keeps_times_and_starts_with_an_empty_cache() {
    let Some(mut dir) = TestDir::new() else { return };
    dir.attach();
    let (groups, handle) = (dir.groups(), dir.handle(1));
    let times = || {
        let stat = dir.path(1).metadata().unwrap();
        (stat.accessed().unwrap(), stat.modified().unwrap())
    };
    let (read, written) = (UNIX_EPOCH + Duration::new(77, 3), UNIX_EPOCH + Duration::new(66, 5));
    let file = File::options().write(true).open(dir.path(1)).unwrap();
    file.set_times(fs::FileTimes::new().set_accessed(read).set_modified(written)).unwrap();
    drop(file);
    for _ in 0..2 {
        assert_eq!(groups.form_groups(&[vec![handle]], NOT_BUSY), [Ok(1)]);
        assert!(!groups.is_cached(&handle));
        assert_eq!(
            groups.group_store(GroupStore::unsettled),
            [],
            "from now on, bytes in the inode were written by another program"
        );
        assert_eq!(times(), (read, written), "there");
        let kept = groups.peek(&handle).unwrap();
        groups.set_cached(&handle, &kept);
        assert!(groups.is_cached(&handle));
        groups.move_back(&handle).unwrap();
        assert_eq!(times(), (read, written), "home");
    }
}

/// After a crash during a move, the times of a file come from the store.
#[test]
fn a_file_with_a_time_that_the_store_cannot_hold_is_at_home() {
    let Some(mut dir) = TestDir::new() else { return };
    dir.attach();
    // In the year 2264.
    let far = UNIX_EPOCH + Duration::from_secs(9_300_000_000);
    let file = File::options().write(true).open(dir.path(1)).unwrap();
    file.set_modified(far).unwrap();
    if file.metadata().unwrap().modified().unwrap() != far {
        return eprintln!("SKIPPED times far from now: this file system has none");
    }
    drop(file);
    assert_eq!(dir.groups().form_groups(&[dir.handles(&[0, 1])], NOT_BUSY), [Ok(1)]);
    assert!(dir.groups().peek(&dir.handle(1)).is_none());
    let handle = dir.handle(0);
    let node = dir.groups().underlying.open_handle(&handle, OFlags::PATH).unwrap();
    let ino = dir.mounted().enter(node).unwrap().0.ino.0;
    for (time, grouped) in [(UNIX_EPOCH + Duration::from_secs(77), true), (far, false)] {
        let accessed = Some(fuser::TimeOrNow::SpecificTime(time));
        let changes = Changes { accessed, ..Changes::default() };
        let seen = dir.mounted().setattr(ino, &changes).unwrap();
        assert_eq!((seen.atime, seen.size), (time, content(0).len() as u64));
        assert_eq!(dir.groups().peek(&handle).is_some(), grouped);
    }
    dir.check_twice("at the end");
}

/// A shuffle moves up to 8,192 files each way, which takes minutes on a disk.
#[test]
fn a_shuffle_stops_soon_after_the_mount_has_ended() {
    let Some(mut dir) = TestDir::new() else { return };
    let names: Vec<usize> = (10..80).collect();
    names.iter().for_each(|name| fs::write(dir.path(*name), content(0)).unwrap());
    let wanted: Vec<_> = names.chunks(8).map(|names| dir.handles(names)).collect();
    dir.attach().form_groups(&wanted, NOT_BUSY);
    assert_eq!(dir.groups().len(), 70);
    // The shuffler knows none of the files, and wants them at home.
    let mounted = dir.mounted();
    watched(&mounted.groups, |_, _| mounted.shuffler.end(), || mounted.shuffle());
    assert_eq!(dir.groups().len(), 6, "64 files move together");
    // One at a time: each keeps other tests from starting programs.
    drop(dir);
    for (ends, grouped) in [(false, 4), (true, 0)] {
        let Some(mut dir) = TestDir::new() else { return };
        let all = dir.handles(&[0, 1, 2, 3]);
        dir.attach().form_groups(std::slice::from_ref(&all), NOT_BUSY);
        // Now the shuffler knows the group.
        assert_eq!(dir.attach().move_all_back(&all), 4);
        if ends {
            dir.mounted().shuffler.end();
        }
        dir.mounted().shuffle();
        assert_eq!(dir.groups().len(), grouped, "ends: {ends}");
    }
}

/// A move would remove capabilities.
#[test]
fn a_file_with_capabilities_stays() {
    let Some(mut dir) = TestDir::new() else { return };
    let value = [0x0200_0000u32, 1 << 10, 0, 0, 0].map(u32::to_le_bytes).concat();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(dir.path(1), underlying::CAPABILITIES, &value, flags).unwrap();
    let wanted = [dir.handles(&[0, 1])];
    assert_eq!(dir.attach().form_groups(&wanted, NOT_BUSY), [Ok(1)]);
    let file = File::open(dir.path(1)).unwrap();
    assert!(underlying::has_capabilities(&file));
    assert_eq!(fs::read(dir.path(1)).unwrap(), content(1));
}

/// A sync of the directory takes minutes if much of the directory waits to be written.
#[test]
fn the_store_is_read_while_the_directory_is_synced() {
    let Some(dir) = prepared(&ACTIONS[1]) else { return };
    let groups = dir.groups();
    let other = groups.peek(&dir.handle(2)).unwrap();
    // The store must forget the file, after a sync.
    groups.move_back(&dir.handle(1)).unwrap();
    let mut reads = Vec::new();
    let look = |step: InodeStep, _: InodeHandle| {
        if step == InodeStep::AllSynced {
            let is_free = groups.store.try_lock().is_ok();
            reads.push(is_free && groups.read(&other, 0, FILE_BYTES_MAX) == Ok(content(2)));
        }
    };
    watched(groups, look, || groups.ask(Ask::Sync { file: None }).unwrap());
    assert_eq!(reads, [true]);
}
