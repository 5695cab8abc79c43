//! A store and directories that do not belong together: a store that two directories were bound to,
//! where neither may drop the files of the other, and an older copy of a store.

use std::path::Path;

use rustix::fs::XattrFlags;

use super::*;
use crate::error::MountError;

impl TestDir {
    /// Attaches the store to another directory, where these inodes are not found.
    fn attach_to(&self, other: &Path, missing: &[InodeHandle]) -> Result<GroupedFiles, MountError> {
        let underlying = UnderlyingDir::open(other).unwrap();
        held(underlying.steps.unreadable.lock()).extend(missing);
        let device = FileDevice::new(Opened::path(&self.store(), false).unwrap());
        GroupedFiles::attach(underlying, device, Config::default(), &self.store())
    }

    /// Another directory, bound to the store of this one as earlier versions did.
    fn bound_by_an_earlier_version(&mut self) -> PathBuf {
        let other = self.temp.path().join("other");
        fs::create_dir(&other).unwrap();
        let uuid = self.groups().uuid();
        self.mounted = None;
        UnderlyingDir::open(&other).unwrap().bind(Some(uuid)).unwrap();
        rustix::fs::removexattr(&other, underlying::ALONE).unwrap();
        other
    }
}

/// Both have mounted the empty store.
#[test]
fn a_store_that_got_files_of_one_directory_is_refused_for_an_earlier_one() {
    let Some(mut dir) = TestDir::new() else { return };
    let other = dir.temp.path().join("other");
    fs::create_dir(&other).unwrap();
    drop(dir.attach_to(&other, &[]).unwrap());
    dir.attach();
    assert_eq!(dir.form(), [Ok(2), Ok(1)]);
    dir.mounted = None;
    let refused = dir.attach_to(&other, &[]).map(|_| ()).map_err(|e| e.to_string());
    assert!(refused.as_ref().is_err_and(|e| e.contains("another group store")), "{refused:?}");
    dir.attach();
    dir.check_twice("after the refusal");
    assert_eq!(dir.mounted().shuffler.move_all_back(dir.groups()), 0);
}

/// A store has the files of one directory, and another one is bound to it, too. `unmount --return`
/// of that one finds none of them: with two file systems, their handles lead nowhere there.
#[test]
fn files_that_may_belong_to_another_directory_are_not_dropped() {
    let Some(mut dir) = prepared(&ACTIONS[1]) else { return };
    dir.groups().ask(Ask::Sync { file: None }).unwrap();
    let all = dir.handles(&[0, 1, 2]);
    let other = dir.bound_by_an_earlier_version();
    let groups = dir.attach_to(&other, &all).unwrap();
    assert_eq!(groups.len(), 3);
    assert_eq!(groups.move_all_back(&all), 0);
    groups.drop_removed();
    assert_eq!(groups.len(), 0, "they are no files of this directory");
    assert_eq!(groups.counts.kept.load(Relaxed), 3);
    assert!(
        groups.trouble().is_some_and(|t| t.contains("keeps 3 files")),
        "{:?}",
        groups.trouble()
    );
    groups.end(true).unwrap();
    let uuid = groups.uuid();
    assert_eq!(groups.underlying.binding(), Ok(Some((uuid, true))), "the store is not empty");
    drop(groups);
    dir.attach();
    dir.check_twice("after the end of the other");
    assert_eq!(dir.mounted().shuffler.move_all_back(dir.groups()), 0);
}

/// The handle leads to another inode there, as on two Btrfs: an inode without the marker.
#[test]
fn an_entry_that_may_belong_to_another_directory_outlives_an_inode_without_its_marker() {
    for settled in [true, false] {
        let Some(mut dir) = prepared(&ACTIONS[1]) else { return };
        if settled {
            dir.groups().ask(Ask::Sync { file: None }).unwrap();
        }
        let (path, handle) = (dir.path(0), dir.handle(0));
        let other = dir.bound_by_an_earlier_version();
        let mut marker = [0; 64];
        let len = rustix::fs::getxattr(&path, underlying::MARKER, &mut marker[..]).unwrap();
        rustix::fs::removexattr(&path, underlying::MARKER).unwrap();
        let groups = dir.attach_to(&other, &[]).unwrap();
        assert_eq!(groups.lookup(&handle).map(|file| file.is_some()), Ok(false));
        groups.end(false).unwrap();
        drop(groups);
        rustix::fs::setxattr(&path, underlying::MARKER, &marker[..len], XattrFlags::empty())
            .unwrap();
        dir.attach();
        dir.check_twice(&format!("settled: {settled}"));
    }
}

/// Restored from a backup, while the directory is that of today.
#[test]
fn an_older_copy_of_the_store_is_refused() {
    let Some(mut dir) = prepared(&ACTIONS[1]) else { return };
    dir.groups().end(false).unwrap();
    dir.mounted = None;
    let older = fs::read(dir.store()).unwrap();
    dir.attach();
    let fh = dir.open(1, OFlags::WRONLY);
    dir.write(fh, 0, b"newer").unwrap();
    dir.groups().end(false).unwrap();
    dir.mounted = None;
    let newest = fs::read(dir.store()).unwrap();
    fs::write(dir.store(), &older).unwrap();
    let at = dir.dir();
    let refused = dir.attach_to(&at, &[]).map(|_| ()).map_err(|e| e.to_string());
    assert!(refused.as_ref().is_err_and(|e| e.contains("an older copy")), "{refused:?}");
    let checked = crate::check(&at, &dir.store(), &mut |_| {}).map_err(|e| e.to_string());
    assert!(checked.as_ref().is_err_and(|e| e.contains("an older copy")), "{checked:?}");
    fs::write(dir.store(), &newest).unwrap();
    dir.attach();
    dir.check_twice("with the newest store");
    // The owner has nothing else.
    dir.mounted = None;
    fs::write(dir.store(), &older).unwrap();
    rustix::fs::removexattr(&at, underlying::GENERATION).unwrap();
    dir.attach();
    dir.check_twice("with the older store");
}
