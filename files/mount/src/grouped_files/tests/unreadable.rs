//! Inodes that the disk cannot read for a while: for the kernel they look like removed ones.

use rustix::fs::Mode;

use super::*;

/// Groups are formed; the store has them, and they are settled if `settled`.
fn formed(settled: bool) -> Option<TestDir> {
    let dir = prepared(&ACTIONS[1])?;
    if settled {
        dir.groups().ask(Ask::Sync { file: None }).unwrap();
    }
    Some(dir)
}

impl TestDir {
    /// The disk cannot read the inode of file 0 from the next attach on.
    fn attach_unreadable(&mut self) -> &GroupedFiles {
        self.unreadable.insert(self.handle(0));
        self.attach()
    }

    /// The disk can read all inodes again, after everything was committed.
    fn attach_readable(&mut self) -> &GroupedFiles {
        self.groups().ask(Ask::Sync { file: None }).unwrap();
        self.unreadable.clear();
        self.attach()
    }
}

#[test]
fn a_file_whose_inode_cannot_be_read_for_a_while_keeps_its_bytes() {
    for settled in [true, false] {
        let Some(mut dir) = formed(settled) else { return };
        let handle = dir.handle(0);
        let groups = dir.attach_unreadable();
        assert!(!groups.inode_exists(&handle));
        assert_eq!(groups.move_all_back(&[handle]), 0);
        groups.form_groups(&[vec![handle]], NOT_BUSY);
        assert!(
            groups.trouble().is_some_and(|t| t.contains("not found")),
            "{:?}",
            groups.trouble()
        );
        assert!(groups.peek(&handle).is_some());
        dir.attach_readable();
        dir.check_twice(&format!("settled: {settled}"));
        assert_eq!(dir.groups().move_all_back(&dir.handles(&[0])), 1);
    }
}

/// The removal of an entry from an earlier stay in the store was not committed.
#[test]
fn of_two_entries_whose_inode_cannot_be_read_neither_is_removed() {
    let Some(mut dir) = formed(true) else { return };
    let handle = dir.handle(0);
    assert_eq!(dir.groups().move_all_back(&[handle]), 1);
    assert_eq!(dir.groups().form_groups(&[dir.handles(&[0, 3])], NOT_BUSY), [Ok(2)]);
    let latest = dir.groups().peek(&handle).unwrap().number;
    let entries = |groups: &GroupedFiles| {
        let named = |name: &[u8]| groups.underlying.handle_named(name) == Some(handle);
        groups.group_store(|store| store.files().filter(|(_, f)| named(&f.name)).count())
    };
    let groups = dir.attach_unreadable();
    assert_eq!(entries(groups), 2);
    assert!(groups.peek(&handle).unwrap().has_number(latest));
    dir.attach_readable();
    dir.check_twice("two entries");
    assert_eq!(entries(dir.groups()), 1);
}

/// Removed without the mount: nobody notices before all files move back.
#[test]
fn entries_of_removed_files_are_dropped_where_all_files_move_back_and_no_others() {
    for (rename, left) in [(false, 1), (true, 2)] {
        let Some(mut dir) = formed(true) else { return };
        dir.mounted = None;
        let removed = dir.handle(1);
        fs::remove_file(dir.path(1)).unwrap();
        dir.attach_unreadable();
        let groups = dir.groups();
        assert_eq!(groups.move_all_back(&[removed, dir.handle(0)]), 0);
        assert_eq!(groups.files_where(|_, file| file.is_missing()).len(), 2);
        let end = || assert_eq!(dir.mounted().shuffler.move_all_back(groups), left);
        if rename {
            groups.renames.during(end);
        } else {
            end();
        }
        assert_eq!(groups.peek(&removed).is_some(), rename);
        dir.attach_readable();
        dir.check_twice("one of them removed");
        assert_eq!(dir.mounted().shuffler.move_all_back(dir.groups()), 0);
    }
}

/// The server has used the file since the mount. It was removed without the mount since.
#[test]
fn the_entry_of_a_used_and_then_removed_file_is_dropped_where_all_files_move_back() {
    let Some(mut dir) = formed(true) else { return };
    fs::remove_file(dir.path(1)).unwrap();
    let unreadable = dir.handle(0);
    held(dir.groups().underlying.steps.unreadable.lock()).insert(unreadable);
    let all_back = || dir.mounted().shuffler.move_all_back(dir.groups());
    assert_eq!(all_back(), 1, "file 0 has a name");
    assert!(dir.groups().peek(&unreadable).is_some());
    held(dir.groups().underlying.steps.unreadable.lock()).clear();
    assert_eq!(all_back(), 0);
    dir.check_twice("the other files");
}

/// A shrink of a file system gives files other inode numbers: their handles are stale, and their
/// markers are those of other inodes. The store has the only bytes.
#[test]
fn an_entry_that_a_marker_of_another_inode_names_is_not_dropped() {
    let Some(mut dir) = formed(true) else { return };
    dir.mounted = None;
    let old = dir.handle(1);
    let mut marker = [0; 64];
    let len = rustix::fs::getxattr(dir.path(1), underlying::MARKER, &mut marker[..]).unwrap();
    fs::remove_file(dir.path(1)).unwrap();
    let (other, flags) = (dir.path(9), rustix::fs::XattrFlags::empty());
    fs::write(&other, "").unwrap();
    rustix::fs::setxattr(&other, underlying::MARKER, &marker[..len], flags).unwrap();
    let groups = dir.attach();
    assert_eq!(groups.move_all_back(&[old]), 0);
    groups.drop_removed();
    assert_eq!(groups.peek(&old).map(|file| file.size), Some(content(1).len() as u32));
    let trouble = groups.trouble();
    assert!(trouble.as_ref().is_some_and(|t| t.contains("another inode")), "{trouble:?}");
    rustix::fs::removexattr(&other, underlying::MARKER).unwrap();
    groups.drop_removed();
    assert!(groups.peek(&old).is_none());
}

/// A user can make a path that is longer than the kernel takes.
#[test]
fn entries_of_removed_files_are_dropped_beside_a_tree_that_is_deeper_than_the_longest_path() {
    let Some(mut dir) = formed(true) else { return };
    dir.mounted = None;
    let removed = dir.handle(1);
    fs::remove_file(dir.path(1)).unwrap();
    let name = "d".repeat(255);
    let mut at = OwnedFd::from(File::open(dir.dir()).unwrap());
    for _ in 0..20 {
        rustix::fs::mkdirat(&at, &name, Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, &name, OFlags::PATH, Mode::empty()).unwrap();
    }
    let groups = dir.attach();
    assert_eq!(groups.move_all_back(&[removed]), 0);
    groups.drop_removed();
    assert!(groups.peek(&removed).is_none(), "{:?}", groups.trouble());
}

/// A kill interrupted the move home: the part of the file in its inode must not be taken for bytes
/// of another program.
#[test]
fn a_file_that_the_attach_could_not_settle_waits_for_the_next_one() {
    let Some(mut dir) = formed(true) else { return };
    let handle = dir.handle(0);
    let number = dir.groups().peek(&handle).unwrap().number;
    dir.groups().ask(Ask::Leave { files: vec![number] }).unwrap();
    dir.mounted = None;
    fs::write(dir.path(0), &content(0)[..1_000]).unwrap();
    let groups = dir.attach_unreadable();
    held(groups.underlying.steps.unreadable.lock()).clear();
    assert_eq!(groups.lookup_clean(&handle).map(|_| ()), Err(Errno::IO));
    assert!(groups.trouble().is_some_and(|t| t.contains("next mount")), "{:?}", groups.trouble());
    dir.attach_readable();
    dir.check_twice("settled later");
}
