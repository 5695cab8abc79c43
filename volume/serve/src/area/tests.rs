//! The words that an area is known by.

use std::os::unix::fs::FileExt as _;

use super::*;

/// Makes an area beside a disk; returns its file.
fn made_beside(dir: &Path) -> PathBuf {
    let (disk, area) = (dir.join("disk"), dir.join("area"));
    File::create(&disk).unwrap().set_len(64 << 20).unwrap();
    let options = MakeOptions {
        size: Some(Share::Bytes(Bytes(16 << 20))),
        write_buffer_percent: 50,
        ..MakeOptions::new(AreaPlacement::Beside(area.clone()))
    };
    make(&disk, &options).unwrap();
    area
}

/// With an error in place of the word, no release could end.
#[test]
fn an_end_that_cannot_be_read_has_a_word_too() {
    let dir = tempfile::tempdir().unwrap();
    let area = made_beside(dir.path());
    let opened = Opened::path(&area, false).unwrap();
    let file = File::options().write(true).open(&area).unwrap();
    let write = |byte: u8| file.write_all_at(&[byte; 512], opened.bytes - 512).unwrap();
    let known = || known_by(&opened, &area).unwrap().unwrap();
    write(1);
    let sound = known();
    // In place of a damaged sector: behind the end of a file nothing can be read.
    file.set_len(opened.bytes - PAGE_BYTES).unwrap();
    let damaged = known();
    assert_eq!(damaged[..2], sound[..2]);
    assert_eq!(damaged[2], UNREAD);
    assert!(is_left_of(&damaged, &damaged.join(" ")), "the next look finds the same");
    assert!(!is_left_of(&damaged, &sound.join(" ")));
    // Others have written there since: the sector can be read again.
    file.set_len(opened.bytes).unwrap();
    write(2);
    assert!(!is_left_of(&known(), &damaged.join(" ")));
    make_blank(&opened, &area).unwrap();
    assert_eq!(known_by(&opened, &area).unwrap(), None);
}

/// With an error in their place, no release could end.
#[test]
fn a_beginning_that_cannot_be_read_is_not_blank_and_may_be_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let area = made_beside(dir.path());
    let opened = Opened::path(&area, false).unwrap();
    let file = File::options().write(true).open(&area).unwrap();
    let known = || known_by(&opened, &area).unwrap();
    let id = known().unwrap().swap_remove(0);
    // In place of damaged sectors: behind the end of a file nothing can be read.
    file.set_len(PAGE_BYTES).unwrap();
    assert!(!is_blank(&opened, &area));
    assert_eq!(known(), Some(vec![id, UNREAD.to_owned(), UNREAD.to_owned()]));
    file.set_len(PAGE_BYTES - 512).unwrap();
    assert!(!is_blank(&opened, &area));
    assert_eq!(known(), None);
    // The sectors can be read again.
    file.set_len(0).unwrap();
    file.set_len(opened.bytes).unwrap();
    assert!(is_blank(&opened, &area));
}
