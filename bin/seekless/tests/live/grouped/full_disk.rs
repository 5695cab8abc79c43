//! A sparse group store on a disk without space.

use super::*;

/// Otherwise a script would go on after an unmount that lost writes.
#[test]
fn an_unmount_fails_and_the_mount_stays_if_the_store_cannot_be_saved() {
    need!("a store on a full disk", "fuse root umount timeout");
    let mut place = place();
    let small = place.dir.with_extension("small");
    fs::create_dir(&small).unwrap();
    host::run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", text(&small)]);
    let disk = Mount::at(&small);
    place.store = small.join("store");
    File::create(&place.store).unwrap().set_len(64 << 20).unwrap();
    rustix::fs::chmod(&place.store, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    host::run([crate::PROGRAM, "files", "format", text(&place.store)]);
    let (mounted, mut contents) = grouped(&place);
    // Nothing waits to be written when the disk becomes full.
    mounted.unmount(&[]);
    let mounted = place.mount();
    let mut filler = File::create(small.join("filler")).unwrap();
    while filler.write_all(&[1; 4096]).is_ok() {}
    let file = File::options().write(true).open(mounted.path("d")).unwrap();
    file.write_all_at(b"unsynced", 0).unwrap();
    drop(file);
    contents[3][..8].copy_from_slice(b"unsynced");
    let refused = host::attempt([crate::PROGRAM, "files", "unmount", text(&mounted.point)]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("cannot be saved"), "{words}");
    are_in(&mounted.point, NAMES.into_iter().zip(&contents));
    drop(mounted);
    drop((filler, disk));
}
