//! Reading ahead.

use seekless_block::StreamId;
use seekless_store::GroupConfig;

use super::*;
use crate::shuffle::{Observed, Shuffler};

/// Files 0 and 2 lead to each other. They are in two groups, neither of which is in memory. Both
/// were opened just now.
fn leading_to_each_other() -> Option<(TestDir, Shuffler)> {
    let mut dir = TestDir::new()?;
    let wanted = [dir.handles(&[0, 1]), dir.handles(&[2, 3])];
    let came = dir.attach().form_groups(&wanted, NOT_BUSY);
    assert_eq!(came, [Ok(2), Ok(2)]);
    let groups = dir.attach();
    let shuffler = Shuffler::new(GroupConfig::default(), u64::MAX, None, groups).unwrap();
    for handle in dir.handles(&[0, 2]).into_iter().cycle().take(8) {
        shuffler.observe(Observed::Opened { stream: StreamId(1), handle, size: 1_000 });
    }
    shuffler.learn();
    Some((dir, shuffler))
}

impl TestDir {
    fn groups_read(&self) -> u64 {
        self.groups().group_store(|g| g.stats().groups_read)
    }
}

#[test]
fn groups_are_read_ahead_once_and_not_while_the_disk_sleeps() {
    let Some((dir, shuffler)) = leading_to_each_other() else { return };
    let groups = dir.groups();
    shuffler.read_ahead(groups, DiskPhase::Asleep);
    assert_eq!((shuffler.read_ahead.load(SeqCst), dir.groups_read()), (0, 0), "it was woken");
    shuffler.read_ahead(groups, DiskPhase::Drowsy);
    assert_eq!(
        (shuffler.read_ahead.load(SeqCst), dir.groups_read()),
        (2, 2),
        "the waiting files are read ahead"
    );
    for name in 0..4 {
        let kept = groups.lookup_clean(&dir.handle(name)).unwrap().unwrap();
        assert_eq!(groups.read(&kept, 0, FILE_BYTES_MAX).unwrap(), content(name));
    }
    assert_eq!(dir.groups_read(), 2, "a client waited for a group that was read ahead");
    shuffler.read_ahead(groups, DiskPhase::Turning);
    assert_eq!(
        (shuffler.read_ahead.load(SeqCst), dir.groups_read()),
        (2, 2),
        "a group is read ahead once"
    );
}

/// A file that moved back is not read ahead. After its next move to the store it has its new bytes.
#[test]
fn a_file_written_meanwhile_is_read_ahead_with_its_new_bytes() {
    let Some((dir, shuffler)) = leading_to_each_other() else { return };
    let groups = dir.groups();
    let handle = dir.handle(2);
    groups.move_back(&handle).unwrap();
    let read = dir.groups_read();
    fs::write(dir.path(2), b"newer").unwrap();
    shuffler.read_ahead(groups, DiskPhase::Turning);
    // Only the group of the other file: this file is not in the store.
    assert_eq!((shuffler.read_ahead.load(SeqCst), dir.groups_read()), (1, read + 1));
    assert_eq!(groups.form_groups(&[dir.handles(&[2])], NOT_BUSY), [Ok(1)]);
    for handle in dir.handles(&[0, 2]) {
        shuffler.observe(Observed::Opened { stream: StreamId(1), handle, size: 5 });
    }
    shuffler.learn();
    shuffler.read_ahead(groups, DiskPhase::Turning);
    let kept = groups.lookup_clean(&handle).unwrap().unwrap();
    assert_eq!(groups.read(&kept, 0, FILE_BYTES_MAX).unwrap(), b"newer");
}

/// Groups that are neighbours in the store were not used one after the other.
#[test]
fn groups_of_the_store_do_not_lead_to_each_other() {
    let Some(mut dir) = TestDir::new() else { return };
    let wanted = [dir.handles(&[0, 1]), dir.handles(&[2, 3])];
    assert_eq!(dir.attach().form_groups(&wanted, NOT_BUSY), [Ok(2), Ok(2)]);
    let all = dir.handles(&[0, 1, 2, 3]);
    let groups = dir.attach();
    let config = GroupConfig { needed: 1, least: 2, ..GroupConfig::default() };
    let read = all.into_iter().map(|handle| {
        let shuffler = Shuffler::new(config, u64::MAX, None, groups).unwrap();
        shuffler.observe(Observed::Opened { stream: StreamId(1), handle, size: 1_000 });
        shuffler.learn();
        shuffler.read_ahead(groups, DiskPhase::Turning);
        shuffler.read_ahead.load(SeqCst)
    });
    // The first file of each group causes a read, and the second finds the group in memory.
    assert_eq!(read.collect::<Vec<_>>(), [1, 0, 1, 0]);
}
