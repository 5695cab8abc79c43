//! Files that clients write while they are in the store.

use std::os::unix::fs::MetadataExt as _;

use super::*;
use crate::grouped_files::write_in_store::REWRITES_MAX;
use crate::underlying::tests::Disk;

impl TestDir {
    /// Files 0 to 2 in two groups.
    fn formed() -> Option<Self> {
        prepared(&ACTIONS[1])
    }

    fn is_grouped(&self, name: usize) -> bool {
        self.groups().peek(&self.handle(name)).is_some()
    }

    fn size(&self, name: usize) -> u64 {
        let fd = OwnedFd::from(File::open(self.path(name)).unwrap());
        self.mounted().attributes(&fd, &self.handle(name)).unwrap().size
    }

    /// Flushes that an action waits for: of the store, and of the directory.
    fn flushes(&self, act: impl FnOnce()) -> (u64, usize) {
        let steps = &self.groups().underlying.steps;
        let count = || {
            let synced =
                |e: &&Event| matches!(e, Event::Inode(InodeStep::Synced | InodeStep::AllSynced, _));
            let of_dir = held(steps.events.lock()).iter().filter(synced).count();
            (held(steps.store.lock()).flushes, of_dir)
        };
        let before = count();
        act();
        let after = count();
        (after.0 - before.0, after.1 - before.1)
    }
}

#[test]
fn a_file_is_written_truncated_and_extended_in_the_store() {
    let Some(dir) = TestDir::formed() else { return };
    let bytes = dir.groups().bytes();
    let fh = dir.open(1, OFlags::RDWR);
    dir.write(fh, 10, b"newer").unwrap();
    assert_eq!((dir.size(1), dir.groups().bytes()), (4_000, bytes));
    dir.write(fh, 4_100, b"behind a gap").unwrap();
    assert_eq!((dir.size(1), dir.groups().bytes()), (4_112, bytes + 112));
    dir.resize(2_000).unwrap();
    assert_eq!((dir.size(1), dir.groups().bytes()), (2_000, bytes - 2_000));
    dir.resize(FILE_BYTES_MAX as usize).unwrap();
    assert_eq!(dir.size(1), u64::from(FILE_BYTES_MAX));
    dir.resize(0).unwrap();
    dir.resize(300).unwrap();
    let content = held(dir.may.lock()).last().unwrap().clone();
    assert_eq!(dir.mounted().read(fh, 0, FILE_BYTES_MAX).unwrap(), content);
    assert!(dir.is_grouped(1));
    assert_eq!(dir.groups().counts.writes.load(SeqCst), 6);
    assert_eq!(dir.path(1).metadata().unwrap().size(), 0, "its inode is empty");
    dir.mounted().release(fh);
    dir.groups().move_back(&dir.handle(1)).unwrap();
    assert_eq!(fs::read(dir.path(1)).unwrap(), content);
}

/// The directory's own flushes are those of [`UnderlyingDir`], and one of each fsync.
#[test]
fn a_synced_write_takes_two_flushes_in_the_store_and_a_move_three() {
    let Some(dir) = TestDir::formed() else { return };
    let fh = dir.open(1, OFlags::WRONLY);
    let written = dir.flushes(|| {
        dir.write(fh, 10, b"newer").unwrap();
        dir.sync(fh, true).unwrap();
    });
    assert_eq!(written, (2, 0), "a write and fdatasync");
    assert_eq!(dir.flushes(|| dir.sync(fh, true).unwrap()), (0, 0), "fdatasync again");
    let several = dir.flushes(|| {
        dir.resize(0).unwrap();
        (0..5).for_each(|i| dir.write(fh, i * 7, b"several").unwrap());
        dir.sync(fh, true).unwrap();
    });
    assert_eq!(several, (2, 0), "O_TRUNC, writes and fdatasync");
    let by_itself = dir.open(1, OFlags::WRONLY | OFlags::DSYNC);
    let each = dir.flushes(|| dir.write(by_itself, 0, b"O_DSYNC").unwrap());
    assert_eq!(each, (2, 0), "a write with O_DSYNC");
    let moved = dir.flushes(|| dir.groups().move_back(&dir.handle(1)).unwrap());
    assert_eq!(moved, (1, 2), "to the directory");
    let removed = dir.flushes(|| drop(dir.groups().ask(Ask::Sync { file: None })));
    assert_eq!(removed, (1, 1), "the removal from the store, later");
}

#[test]
fn a_file_that_grows_too_large_goes_home_while_it_is_open() {
    let Some(dir) = TestDir::formed() else { return };
    let (fh, other) = (dir.open(1, OFlags::RDWR), dir.open(1, OFlags::RDWR));
    dir.write(fh, 0, b"unsynced").unwrap();
    dir.write(other, 65_530, b"too large").unwrap();
    let content = held(dir.may.lock()).last().unwrap().clone();
    assert!(!dir.is_grouped(1));
    assert_eq!(fs::read(dir.path(1)).unwrap(), content);
    dir.write(fh, 3, b"by the first").unwrap();
    let content = held(dir.may.lock()).last().unwrap().clone();
    assert_eq!(dir.mounted().read(other, 0, 1 << 20).unwrap(), content);
    // A file without a name as well.
    let Some(dir) = TestDir::formed() else { return };
    let fh = dir.open(1, OFlags::RDWR);
    fs::remove_file(dir.path(1)).unwrap();
    for (at, data) in [(5, vec![1; 10]), (60_000, vec![2; 100_000]), (7, vec![3; 10])] {
        assert_eq!(dir.mounted().write(fh, at, &data), Ok(data.len() as u32));
        assert_eq!(dir.mounted().read(fh, at, data.len() as u32).unwrap(), data);
    }
    assert_eq!(dir.groups().len(), 2);
}

#[test]
fn a_file_written_over_and_over_goes_home_and_is_not_chosen_again() {
    let Some(dir) = TestDir::formed() else { return };
    let fh = dir.open(1, OFlags::RDWR);
    let handle = dir.handle(1);
    for i in 0..REWRITES_MAX {
        dir.write(fh, 10, &i.to_le_bytes()).unwrap();
        // Costs nothing more.
        dir.write(fh, 100, &i.to_le_bytes()).unwrap();
        dir.sync(fh, true).unwrap();
    }
    assert!(dir.is_grouped(1));
    dir.write(fh, 10, b"once too often").unwrap();
    assert!(!dir.is_grouped(1));
    dir.sync(fh, true).unwrap();
    let content = held(dir.may.lock()).last().unwrap().clone();
    assert_eq!(fs::read(dir.path(1)).unwrap(), content);
    let often = dir.groups().take_rewritten_too_often();
    assert_eq!(often.into_iter().collect::<Vec<_>>(), [handle]);
    assert!(dir.groups().take_rewritten_too_often().is_empty(), "counting starts again");
    // Where it cannot go home, it is written in the store.
    let Some(dir) = TestDir::formed() else { return };
    let fh = dir.open(1, OFlags::RDWR);
    for i in 0..2 * REWRITES_MAX {
        dir.groups().underlying.steps.fails.store(if i > 7 { 3 } else { i64::MAX }, SeqCst);
        dir.write(fh, 10, &i.to_le_bytes()).unwrap();
        dir.groups().underlying.steps.fails.store(i64::MAX, SeqCst);
        dir.sync(fh, true).unwrap();
    }
    assert!(dir.is_grouped(1));
    dir.check("after failed moves");
}

/// A file that a failed move leaves in both places takes no write: the next mount would drop it.
#[test]
fn no_write_is_accepted_after_a_move_that_left_the_file_in_both_places() {
    for (fail, failures) in (0..10).flat_map(|fail| [1, 2, 3].map(|failures| (fail, failures))) {
        let Some(mut dir) = TestDir::formed() else { return };
        let fh = dir.open(1, OFlags::RDWR);
        for i in 0..REWRITES_MAX {
            dir.write(fh, 10, &i.to_le_bytes()).unwrap();
            dir.sync(fh, true).unwrap();
        }
        let steps = &dir.groups().underlying.steps;
        steps.failures.store(failures, SeqCst);
        steps.fails.store(fail, SeqCst);
        let written = dir.write(fh, 10, b"once too often").is_ok();
        steps.fails.store(i64::MAX, SeqCst);
        if written {
            let _ = dir.sync(fh, true);
        }
        dir.attach();
        dir.check_twice(&format!("{failures} failed from step {fail} on"));
    }
}

/// The kernel takes a short write of pages of its cache for a whole one, and forgets them.
#[test]
fn pages_of_a_mapping_for_which_there_is_no_space_are_an_error() {
    let Some(disk) = Disk::new("mapped") else { return };
    let Some(mut dir) = TestDir::new_in(TempDir::new_in(&disk.ext4).unwrap()) else { return };
    dir.attach();
    let fh = dir.open(3, OFlags::RDWR);
    let (all, small) = (vec![1u8; 20 << 20], content(3));
    assert_eq!(dir.mounted().write_pages(fh, 0, &small), Ok(small.len() as u32));
    assert_eq!(dir.mounted().write_pages(fh, 0, &all), Err(Errno::NOSPC));
    let written = dir.path(3).metadata().unwrap().size() as usize;
    assert!(written > small.len() && written < all.len(), "a part of {written} bytes");
    // A client that writes by itself sees the number of bytes.
    let short = dir.mounted().write(fh, 0, &all).unwrap() as usize;
    assert!(0 < short && short < all.len(), "{short} bytes");
}

#[test]
fn a_damaged_file_cannot_be_written_and_can_be_emptied() {
    let Some(mut dir) = TestDir::formed() else { return };
    dir.mounted = None;
    let (mut store, of) = (fs::read(dir.store()).unwrap(), content(1));
    let at = store.windows(of.len()).position(|bytes| bytes == of).unwrap();
    store[at] ^= 1;
    fs::write(dir.store(), store).unwrap();
    dir.attach();
    let fh = dir.open(1, OFlags::WRONLY);
    assert_eq!(dir.mounted().write(fh, 0, b"x"), Err(Errno::IO));
    assert!(dir.is_grouped(1));
    dir.resize(0).unwrap();
    assert!(!dir.is_grouped(1));
    dir.write(fh, 0, b"new").unwrap();
    dir.sync(fh, true).unwrap();
    assert_eq!(fs::read(dir.path(1)).unwrap(), b"new");
}

/// The learner knows the group of all four files from the store.
#[test]
fn a_shuffle_leaves_out_a_file_written_too_often_once_and_keeps_the_others_together() {
    let Some(mut dir) = TestDir::new() else { return };
    let wanted = [dir.handles(&[0, 1, 2, 3])];
    assert_eq!(dir.attach().form_groups(&wanted, NOT_BUSY), [Ok(4)]);
    dir.attach();
    let grouped = |dir: &TestDir| [0, 1, 2, 3].map(|name| dir.is_grouped(name));
    let fh = dir.open(1, OFlags::RDWR);
    for i in 0..=REWRITES_MAX {
        dir.write(fh, 10, &i.to_le_bytes()).unwrap();
        dir.sync(fh, true).unwrap();
    }
    assert_eq!(grouped(&dir), [true, false, true, true]);
    dir.mounted().release(fh);
    dir.mounted().shuffle();
    assert_eq!(grouped(&dir), [true, false, true, true], "the shuffle after the writes");
    dir.mounted().shuffle();
    assert_eq!(grouped(&dir), [true; 4], "the next one");
    // A file written seldom stays, with its new size.
    let fh = dir.open(1, OFlags::RDWR);
    dir.resize(7).unwrap();
    dir.mounted().release(fh);
    dir.mounted().shuffle();
    assert_eq!(grouped(&dir), [true; 4], "closed by a writer");
    dir.check("at the end");
}

/// The times of a file are those of its inode, whatever has changed them.
#[test]
fn times_are_those_of_the_latest_change() {
    let Some(mut dir) = TestDir::formed() else { return };
    let fh = dir.open(1, OFlags::WRONLY);
    let times = |dir: &TestDir| {
        let fd = OwnedFd::from(File::open(dir.path(1)).unwrap());
        let seen = dir.mounted().attributes(&fd, &dir.handle(1)).unwrap();
        (seen.mtime, seen.ctime)
    };
    let first = times(&dir);
    std::thread::sleep(std::time::Duration::from_millis(20));
    dir.write(fh, 0, b"x").unwrap();
    let written = times(&dir);
    assert!(written.0 > first.0 && written.1 > first.1);
    assert_eq!(written.0, written.1);
    std::thread::sleep(std::time::Duration::from_millis(20));
    dir.resize(17).unwrap();
    let truncated = times(&dir);
    assert!(truncated.0 > written.0 && truncated.1 > written.1);
    // Set by the client: the move keeps them, and so does a crash during the move.
    let node = dir.groups().underlying.open_handle(&dir.handle(1), OFlags::PATH).unwrap();
    let ino = dir.mounted().enter(node).unwrap().0.ino.0;
    let at = std::time::UNIX_EPOCH + std::time::Duration::new(77, 5);
    let set = Some(fuser::TimeOrNow::SpecificTime(at));
    let file = dir.groups().peek(&dir.handle(1)).unwrap();
    dir.groups().ask(Ask::Leave { files: vec![file.number] }).unwrap();
    dir.mounted().setattr(ino, &Changes { modified: set, ..Changes::default() }).unwrap();
    dir.sync(fh, false).unwrap();
    dir.attach();
    assert_eq!(times(&dir).0, at);
    dir.groups().move_back(&dir.handle(1)).unwrap();
    assert_eq!(times(&dir).0, at);
    assert_eq!(dir.path(1).metadata().unwrap().modified().unwrap(), at);
}

/// The marker of a lost file names no entry of this store. The emptied file needs no bytes.
#[test]
fn a_lost_file_can_be_emptied() {
    let Some(mut dir) = TestDir::new() else { return };
    dir.attach();
    fs::write(dir.path(1), b"").unwrap();
    let file = OwnedFd::from(File::open(dir.path(1)).unwrap());
    let stat = rustix::fs::fstat(&file).unwrap();
    let groups = dir.groups();
    groups.underlying.set_marker(&file, &groups.marker(FileNumber(99), &stat)).unwrap();
    assert_eq!(groups.check_ungrouped(&file, &stat), Err(Errno::IO));
    // A client has opened it for reading and writing, perhaps to empty it.
    let fd = groups.underlying.open_handle(&dir.handle(1), OFlags::RDWR).unwrap();
    let how = OpenIntent { lost: true, ..OpenIntent::of(OFlags::RDWR) };
    let none = |_: &OwnedFd| None::<BackingId>;
    let (mounted, handle) = (dir.mounted(), dir.handle(1));
    let admitted = mounted.add_open(handle, fd, (false, how), none);
    assert!(admitted.direct, "the kernel must not end a read at the size 0");
    let fh = admitted.fh;
    assert_eq!(mounted.read(fh, 0, 9), Err(Errno::IO));
    assert_eq!(mounted.write(fh, 0, b"part"), Err(Errno::IO));
    assert_eq!(mounted.write_pages(fh, 0, b"part"), Err(Errno::IO));
    assert_eq!(mounted.allocate(fh, 0, 9, 0), Err(Errno::IO));
    assert_eq!(mounted.seek(fh, 0, libc::SEEK_HOLE), Err(Errno::IO));
    let other = dir.open(3, OFlags::RDWR);
    assert_eq!(mounted.copy((other, 0), (fh, 0), 9), Err(Errno::IO));
    assert_eq!(mounted.copy((fh, 0), (other, 0), 9), Err(Errno::IO));
    assert_eq!(dir.resize(9), Err(Errno::IO));
    dir.resize(0).unwrap();
    assert_eq!(groups.check_ungrouped(&file, &stat), Ok(()));
    assert_eq!(mounted.write(fh, 0, b"new"), Ok(3));
    assert_eq!(mounted.read(fh, 0, 9), Ok(b"new".to_vec()));
    // The cache of another client would keep its bytes beside writes that bypass the cache.
    let fd = groups.underlying.open_handle(&handle, OFlags::RDONLY).unwrap();
    let second = mounted.add_open(handle, fd, (false, OpenIntent::of(OFlags::RDONLY)), none);
    assert!(second.direct);
    [fh, second.fh].into_iter().for_each(|fh| mounted.release(fh));
    let fd = groups.underlying.open_handle(&handle, OFlags::RDONLY).unwrap();
    let later = mounted.add_open(handle, fd, (false, OpenIntent::of(OFlags::RDONLY)), none);
    assert!(!later.direct, "after the last close");
}

/// An open with O_TRUNC is an open, and then a truncation.
#[test]
fn a_file_that_moves_between_an_open_and_its_truncation_is_emptied() {
    for grouped in [true, false] {
        let Some(mut dir) = TestDir::formed() else { return };
        let handle = dir.handle(1);
        if !grouped {
            dir.groups().move_back(&handle).unwrap();
        }
        let fh = dir.open(1, OFlags::WRONLY);
        if grouped {
            assert_eq!(dir.groups().move_all_back(&[handle]), 1);
        } else {
            let wanted = [dir.handles(&[1, 3])];
            let came = dir.groups().form_groups(&wanted, |h| dir.mounted().is_open(h));
            assert_eq!(came, [Ok(1)], "an open file does not move to the store");
        }
        dir.resize(0).unwrap();
        assert_eq!(dir.size(1), 0);
        dir.write(fh, 0, b"new").unwrap();
        dir.sync(fh, true).unwrap();
        dir.attach();
        dir.check_twice(&format!("grouped: {grouped}"));
    }
}
