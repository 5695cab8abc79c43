//! The files under a volume: what the host forgets, what is zeroed, and which writes may wait.

use super::*;
use crate::backend::medium::whole_pages;

#[test]
fn a_forgotten_area_is_read_from_its_medium() {
    let path = std::env::temp_dir().join(format!("seekless-{}-forget", std::process::id()));
    let file =
        std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    // A file in memory is its own medium: tmpfs.
    let in_memory = rustix::fs::fstatfs(&file).unwrap().f_type == 0x0102_1994;
    let area = Disk::new(file.into(), Runs::new(&[(0, 1 << 20)]));
    let home = Disk::new(memory_file(1 << 20).unwrap(), Runs::all());
    let files = Files::of(home, area, None);
    let (mut buf, bytes) = ([0; 4096], [7; 4096]);
    files.change(Target::Area, Op::Write, Flags::NONE, 1 << 16, 4096, &bytes).unwrap();
    assert!(files.holds(Target::Area, 1 << 16, 4096));
    // A look makes the kernel read the page again: on a busy machine it may be there in time.
    let is_forgotten = |_| {
        files.forget_area();
        !files.holds(Target::Area, 1 << 16, 4096)
    };
    assert!(in_memory || (0..50).any(is_forgotten));
    files.read(Target::Area, 1 << 16, &mut buf).unwrap();
    assert_eq!(buf, bytes, "a page that waited to be written is on the medium");
    std::fs::remove_file(&path).unwrap();
}

/// The part that the file system zeroes, and the rest that is written, are the whole range.
#[test]
fn zeroes_reach_every_byte_of_a_range_and_no_other() {
    const SIZE: u64 = 3 * PAGE;
    let disk = Disk::new(memory_file(SIZE).unwrap(), Runs::all());
    let steps = || (0..=SIZE).step_by(512);
    let ranges = steps().flat_map(|at| steps().map(move |end| at..end));
    for range in ranges.filter(|range| !range.is_empty()) {
        let whole = whole_pages(range.start, range.end - range.start);
        let is_whole = |page: &u64| range.start <= page * PAGE && (page + 1) * PAGE <= range.end;
        let expected = (0..3).filter(is_whole).count() as u64 * PAGE;
        assert_eq!(whole.end - whole.start, expected, "{range:?}");
        for fast in [whole, range.start..range.start, range.clone()] {
            disk.write(0, &[0xA5; SIZE as usize], ReadWriteFlags::empty()).unwrap();
            disk.zero_piece(range.start, range.clone(), fast.clone(), Flags::NONE).unwrap();
            let mut found = [1; SIZE as usize];
            disk.read(0, &mut found).unwrap();
            let (before, rest) = found.split_at(range.start as usize);
            let (zeroes, behind) = rest.split_at((range.end - range.start) as usize);
            assert!(zeroes.iter().all(|byte| *byte == 0), "{range:?}, {fast:?} fast");
            let mut others = before.iter().chain(behind);
            assert!(others.all(|byte| *byte == 0xA5), "{range:?}, {fast:?} fast");
        }
    }
}

/// Home with direct I/O, beside an area without: only the area has a page cache that takes the write.
#[test]
fn a_write_past_the_page_cache_is_not_done_at_once() {
    let dir = std::env::temp_dir();
    let mut home = Disk::new(anonymous_file(&dir, 1 << 20).unwrap(), Runs::all());
    home.go_direct();
    if !home.own.is_direct() {
        println!("SKIPPED direct I/O: not on the file system of {}", dir.display());
        return;
    }
    let area = Disk::new(memory_file(1 << 20).unwrap(), Runs::all());
    let files = Files::of(home, area, None);
    assert!(files.write_now(Target::Home, 0, &[1; 4096]).is_none());
    files.write_now(Target::Area, 0, &[1; 4096]).unwrap().unwrap();
    let mut found = [1; 4096];
    files.read(Target::Home, 0, &mut found).unwrap();
    assert_eq!(found, [0; 4096], "a worker writes it");
}
