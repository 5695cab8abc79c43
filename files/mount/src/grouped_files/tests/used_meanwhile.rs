//! Files that clients use while they are to move to the store.

use std::os::unix::fs::FileExt as _;

use rustix::fs::Mode;

use super::*;

type Use = fn(&TestDir, &GroupedFiles);

/// A use of a file between its read and its marking keeps the file in the directory.
#[test]
fn a_file_that_is_used_meanwhile_does_not_move() {
    let uses: &[(&str, Use)] = &[
        ("touched", |p, g| g.note_write(&p.handle(1))),
        ("written, of the same length", |p, _| {
            // As the kernel does with passthrough.
            let file = File::options().write(true).open(p.path(1)).unwrap();
            file.write_all_at(b"newer", 7).unwrap();
        }),
        ("longer", |p, _| {
            let file = File::options().append(true).open(p.path(1)).unwrap();
            let modified = file.metadata().unwrap().modified().unwrap();
            std::io::Write::write_all(&mut &file, b"newer").unwrap();
            file.set_modified(modified).unwrap();
        }),
        ("removed", |p, _| fs::remove_file(p.path(1)).unwrap()),
        ("linked", |p, _| fs::hard_link(p.path(1), p.temp.path().join("outside")).unwrap()),
        ("open elsewhere", |p, _| {
            std::mem::forget(File::options().write(true).open(p.path(1)).unwrap());
        }),
    ];
    for (what, used) in uses {
        let Some(mut dir) = TestDir::new() else { return };
        dir.attach();
        let groups = dir.groups();
        let handle = dir.handle(1);
        // Asked once at the read, and again at the marking.
        let asked = AtomicI64::new(0);
        let came = groups.form_groups(&[dir.handles(&[0, 1])], |h| {
            if *h == handle && asked.fetch_add(1, SeqCst) == 0 {
                return false;
            }
            if *h == dir.handle(0) && asked.load(SeqCst) == 1 {
                used(&dir, groups);
            }
            false
        });
        assert_eq!(came, [Ok(1)], "{what}");
        assert_eq!(groups.peek(&handle).map(|k| k.size), None, "{what}");
        assert!(groups.peek(&dir.handle(0)).is_some(), "{what}: the other came");
        let counts = [&groups.counts.came, &groups.counts.given_up].map(|c| c.load(SeqCst));
        assert_eq!(counts, [1, 1], "{what}: came, given up");
        assert_eq!(groups.group_store(|g| g.files().count()), 1, "{what}: no entry is left of it");
        if let Ok(bytes) = fs::read(dir.path(1)) {
            assert!(!bytes.is_empty(), "{what}");
        }
    }
    // Open elsewhere during the read, and closed since: a memory mapping can still be written
    // without a trace.
    let Some(mut dir) = TestDir::new() else { return };
    let wanted = [dir.handles(&[0, 1])];
    let open = Mutex::new(Some(File::options().write(true).open(dir.path(1)).unwrap()));
    let asked = AtomicI64::new(0);
    let came = dir.attach().form_groups(&wanted, |_| {
        // Asked once for each file at the read; then the markings begin.
        if asked.fetch_add(1, SeqCst) == 2 {
            held(open.lock()).take();
        }
        false
    });
    assert_eq!((came, asked.load(SeqCst)), (vec![Ok(1)], 3), "open while it was read");
    // Open through the mount: from the beginning, or since the read.
    for open_since in [0, 1] {
        let Some(mut dir) = TestDir::new() else { return };
        let handle = dir.handle(1);
        let wanted = [dir.handles(&[0, 1])];
        let asked = AtomicI64::new(0);
        let busy = |h: &InodeHandle| *h == handle && asked.fetch_add(1, SeqCst) >= open_since;
        assert_eq!(dir.attach().form_groups(&wanted, busy), [Ok(1)], "open since {open_since}");
        assert_eq!(fs::read(dir.path(1)).unwrap(), content(1));
    }
}

/// The marker of a newcomer is set, and not yet durable.
#[test]
fn bytes_that_another_program_writes_while_the_marker_is_synced_are_kept() {
    let Some(mut dir) = TestDir::new() else { return };
    let wanted = [dir.handles(&[1])];
    dir.attach();
    let (groups, path) = (dir.groups(), dir.path(1));
    let look = |step: InodeStep, _: InodeHandle| {
        if step == InodeStep::Marked {
            let mut file = File::options().append(true).open(&path).unwrap();
            std::io::Write::write_all(&mut file, b"by another").unwrap();
        }
    };
    let came = watched(groups, look, || groups.form_groups(&wanted, NOT_BUSY));
    assert_eq!(came, [Ok(0)]);
    assert!(groups.peek(&wanted[0][0]).is_none());
    let all = [content(1), b"by another".to_vec()].concat();
    assert_eq!(fs::read(dir.path(1)).unwrap(), all);
}

/// Otherwise the truncation could remove bytes that the program has just written.
#[test]
fn a_program_that_opens_a_file_waits_while_its_inode_is_truncated() {
    let Some(mut dir) = TestDir::new() else { return };
    let wanted = [dir.handles(&[1])];
    dir.attach();
    let (groups, path) = (dir.groups(), dir.path(1));
    let mut opened = Vec::new();
    let look = |step: InodeStep, _: InodeHandle| {
        if step == InodeStep::Truncated {
            let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
            opened.push(rustix::fs::open(&path, flags, Mode::empty()).map(|_| ()));
        }
    };
    let came = watched(groups, look, || groups.form_groups(&wanted, NOT_BUSY));
    assert_eq!((came, opened), (vec![Ok(1)], vec![Err(Errno::AGAIN)]));
    dir.check_twice("at the end");
}

/// Another program writes to the inode of a file of the store, without the mount: before a move
/// home, or while the entry is leaving.
#[test]
fn a_move_home_overwrites_no_bytes_of_another_program() {
    type Home = fn(&TestDir, &GroupedFiles) -> Result<usize, Errno>;
    let write: fn(&TestDir) = |p| fs::write(p.path(1), b"by another").unwrap();
    let homes: [(bool, Home); 3] = [
        (true, |p, g| g.move_back(&p.handle(1)).map(|()| 1)),
        (true, |p, g| Ok(g.move_all_back(&p.handles(&[1])))),
        (false, |p, g| {
            let number = g.peek(&p.handle(1)).unwrap().number;
            g.ask(Ask::Leave { files: vec![number] }).unwrap();
            fs::write(p.path(1), b"by another").unwrap();
            g.move_prepared(&p.handle(1), (number, true), true).map(usize::from)
        }),
    ];
    for (n, (before, home)) in homes.into_iter().enumerate() {
        let Some(mut dir) = prepared(&ACTIONS[1]) else { return };
        dir.groups().ask(Ask::Sync { file: None }).unwrap();
        if before {
            write(&dir);
        }
        let moved = home(&dir, dir.groups());
        assert!([Ok(0), Err(Errno::IO)].contains(&moved), "{n}: {moved:?}");
        for when in ["now", "after the next attach"] {
            let refused = dir.groups().lookup_clean(&dir.handle(1)).map(|_| ());
            assert_eq!(refused, Err(Errno::IO), "{n}, {when}");
            let trouble = dir.groups().trouble().unwrap();
            assert!(trouble.contains("without the mount"), "{n}, {when}: {trouble}");
            assert_eq!(fs::read(dir.path(1)).unwrap(), b"by another", "{n}, {when}");
            dir.groups().ask(Ask::Sync { file: None }).unwrap();
            dir.attach();
        }
        // The owner decides for the bytes in the store.
        dir.mounted = None;
        fs::write(dir.path(1), b"").unwrap();
        dir.attach();
        dir.check_twice("after the decision");
    }
}

/// The server could not open the inode of a file whose entry was leaving: it has too many open files,
/// or the disk cannot read the inode for a while.
#[test]
fn bytes_of_another_program_are_kept_after_a_move_home_that_did_not_begin() {
    let Some(mut dir) = prepared(&ACTIONS[1]) else { return };
    let (groups, handle) = (dir.groups(), dir.handle(1));
    groups.ask(Ask::Sync { file: None }).unwrap();
    let number = groups.peek(&handle).unwrap().number;
    groups.ask(Ask::Leave { files: vec![number] }).unwrap();
    held(groups.underlying.steps.unreadable.lock()).insert(handle);
    assert_eq!(groups.move_prepared(&handle, (number, true), true), Err(Errno::STALE));
    held(groups.underlying.steps.unreadable.lock()).clear();
    fs::write(dir.path(1), b"by another").unwrap();
    assert_eq!(groups.move_all_back(&[handle]), 0);
    assert_eq!(fs::read(dir.path(1)).unwrap(), b"by another");
    dir.attach();
    assert_eq!(dir.groups().lookup_clean(&handle).map(|_| ()), Err(Errno::IO));
    assert_eq!(fs::read(dir.path(1)).unwrap(), b"by another");
}

/// Another name may be outside the directory, where an emptied inode would look like an empty file.
#[test]
fn a_file_with_two_names_does_not_move() {
    let Some(mut dir) = TestDir::new() else { return };
    let outside = dir.temp.path().join("outside");
    fs::hard_link(dir.path(1), &outside).unwrap();
    dir.attach();
    assert_eq!(dir.groups().form_groups(&[dir.handles(&[0, 1])], NOT_BUSY), [Ok(1)]);
    assert_eq!(fs::read(&outside).unwrap(), content(1));
    assert!(!dir.groups().may_be_grouped(&dir.handle(1)));
    assert!(dir.groups().may_be_grouped(&dir.handle(0)), "in the store already");
    fs::remove_file(&outside).unwrap();
    assert!(dir.groups().may_be_grouped(&dir.handle(1)));
    assert_eq!(dir.groups().form_groups(&[dir.handles(&[0, 1])], NOT_BUSY), [Ok(1)]);
    dir.check("with one name");
}
