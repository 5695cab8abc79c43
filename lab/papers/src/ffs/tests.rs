//! Requests of the disk for operations on a small file system.

use super::*;

const T: SimTime = SimTime(1);

fn small() -> Ffs {
    Ffs::new(FfsConfig::new(Sectors(1 << 20), Bytes(1 << 20), 8))
}

#[test]
fn a_cold_read_needs_names_and_blocks_and_a_warm_read_nothing() {
    let mut fs = small();
    fs.place(1, 7, 20_000).unwrap();
    // The directory's inode, in one block with the file's; the directory's block; then 20,000 bytes
    // in one run.
    let names = fs.lookup(1);
    assert_eq!(names.wait.len(), 2);
    let read = fs.read(T, 1, 0, 20_000);
    assert_eq!(read.wait.len(), 1);
    // Two blocks, and four fragments of the third.
    assert_eq!(read.wait[0].1.len, Sectors(40));
    assert!(fs.lookup(1).wait.is_empty() && fs.read(T, 1, 0, 20_000).wait.is_empty());
    // The next update writes the time of access.
    assert_eq!(fs.wakeup(), Some(T + Duration::from_millis(30_000)));
    assert!(fs.update(T).later.is_empty());
    assert_eq!(fs.update(fs.wakeup().unwrap()).later.len(), 1);
    assert_eq!(fs.wakeup(), None);
}

#[test]
fn names_are_written_at_once_and_bytes_later() {
    let mut fs = small();
    let made = fs.create(T, 1, 7).unwrap();
    assert_eq!(made.wait.iter().map(|w| w.0).collect::<Vec<_>>(), [Op::Read, Op::Write, Op::Write]);
    assert!(fs.write(T, 1, 0, 3_000).unwrap().wait.is_empty());
    // A partly written block in memory needs no read; the file's sync writes block and inode.
    assert!(fs.write(T, 1, 1_000, 100).unwrap().wait.is_empty());
    assert_eq!(fs.sync(1).wait.len(), 2);
    assert!(fs.sync(1).wait.is_empty());
    assert_eq!(fs.unlink(T, 1).wait.len(), 2);
    assert!(!fs.knows(1));
}

/// 4.4BSD clusters blocks of one file, never blocks of two files, nor inodes.
#[test]
fn adjacent_blocks_of_one_file_share_a_request_and_of_two_files_do_not() {
    let mut fs = small();
    (0..2).for_each(|f| fs.place(f, 7, 30_000).unwrap());
    for at in (0..30_000).step_by(8_192) {
        let now = T + Duration::from_millis(at);
        (0..2).for_each(|f| drop(fs.write(now, f, at, 8_192.min(30_000 - at)).unwrap()));
    }
    let gone = fs.update(fs.wakeup().unwrap()).later;
    let data = |f| {
        gone.iter().filter(|w| w.2 == BlockContent::Data(f)).map(|w| w.1.len.0).collect::<Vec<_>>()
    };
    assert_eq!([data(0), data(1)], [vec![60], vec![60]], "{gone:?}");
    // Both inodes are in one block.
    assert_eq!(gone.len(), 3);
    assert_eq!(fs.wakeup(), None);
}

#[test]
fn a_sequential_read_also_reads_the_rest_of_the_file_alone() {
    let mut fs = small();
    (0..2).for_each(|f| fs.place(f, 7, 40_960).unwrap());
    let lens = |w: Work| w.wait.iter().map(|w| w.1.len.0).collect::<Vec<_>>();
    assert_eq!(lens(fs.read(T, 0, 0, 8_192)), [16]);
    assert_eq!(lens(fs.read(T, 0, 8_192, 8_192)), [64]);
    assert!((2..5).all(|i| fs.read(T, 0, i * 8_192, 8_192).wait.is_empty()));
    // A read elsewhere: one block.
    assert_eq!(lens(fs.read(T, 1, 16_384, 8_192)), [16]);
}

#[test]
fn truncation_and_writes_under_sync_write_the_inode_at_once() {
    let config = FfsConfig { sync: true, ..FfsConfig::new(Sectors(1 << 20), Bytes(1 << 20), 8) };
    let mut fs = Ffs::new(config);
    fs.place(1, 7, 30_000).unwrap();
    let parts = |w: Work| w.wait.iter().map(|w| w.2).collect::<Vec<_>>();
    // The first change of an inode reads the inode's block.
    assert_eq!(parts(fs.truncate(T, 1, 0)), [BlockContent::Inode, BlockContent::Inode]);
    assert_eq!(parts(fs.truncate(T, 1, 0)), [BlockContent::Inode]);
    let wrote = parts(fs.write(T, 1, 0, 20_000).unwrap());
    assert_eq!(wrote, [BlockContent::Data(1), BlockContent::Inode]);
}

#[test]
fn freed_blocks_are_used_again_and_a_large_file_has_an_indirect_block() {
    let mut fs = small();
    let free = |fs: &Ffs| fs.groups.iter().map(|g| g.free).sum::<u32>();
    fs.place(1, 7, 100).unwrap();
    let before = free(&fs);
    fs.place(2, 7, 1 << 20).unwrap();
    assert_eq!(before - free(&fs), 128 + 1);
    let cold = fs.read(T, 2, 1 << 19, 1);
    assert_eq!(cold.wait.len(), 2, "{cold:?}");
    let gone = fs.leave(T, 2);
    assert_eq!((gone.wait.len(), free(&fs)), (2, before));
    assert_eq!(fs.size(2), None);
    fs.come_back(T, 2, 5_000).unwrap();
    assert_eq!((fs.size(2), free(&fs)), (Some(5_000), before - 1));
}

#[test]
fn read_ahead_reads_the_blocks_behind() {
    let config = FfsConfig {
        read_ahead: Bytes(65_536),
        ..FfsConfig::new(Sectors(1 << 20), Bytes(1 << 20), 8)
    };
    let mut fs = Ffs::new(config);
    (0..8).for_each(|f| fs.place(f, 7, 8_192).unwrap());
    let first = fs.read(T, 0, 0, 8_192);
    assert_eq!(first.wait.iter().map(|w| w.1.len.0).collect::<Vec<_>>(), [128]);
    assert!((1..8).all(|f| fs.read(T, f, 0, 8_192).wait.is_empty()));
}

#[test]
fn the_cache_keeps_its_size_and_writes_dirty_blocks_it_evicts() {
    let mut fs = small();
    (0..200).for_each(|f| fs.place(f, 7, 8_192).unwrap());
    let mut written = 0;
    for f in 0..200 {
        written += fs.write(T, f, 0, 8_192).unwrap().later.len();
        assert!(fs.cached_bytes() <= 1 << 20);
        let sum: u64 = fs.cache.values().map(|b| u64::from(b.sectors)).sum();
        assert_eq!(fs.cached, sum);
    }
    assert!(written > 60, "{written}");
}
