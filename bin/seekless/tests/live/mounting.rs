//! The life of the mount: it is gone when the server is, however that ends, and never under its
//! users.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::host::{self, Server, is_mounted, unmount};
use crate::need;

fn paths() -> (TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (image, path) = (dir.path().join("disk.img"), dir.path().join("volume"));
    (dir, image, path)
}

#[test]
fn a_mount_in_use_is_served_until_it_is_released() {
    need!("release", host::fuse());
    let (dir, image, path) = paths();
    let mut server = Server::start(dir.path(), &image, Some(&path), &["--size", "1MiB"]);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    server.signal(Signal::TERM);
    server.expect_error("is in use");
    file.write_all_at(b"still here", 77).unwrap();
    assert!(server.wait(Duration::from_millis(500)).is_none(), "it left its user");
    drop(file);
    server.ended();
    assert!(!path.exists(), "the file it made is left");
    assert_eq!(&std::fs::read(image).unwrap()[77..87], b"still here");
}

#[test]
fn a_second_signal_cuts_users_off_and_leaves_no_mount() {
    need!("cut off", host::fuse());
    let (dir, image, path) = paths();
    let mut server = Server::start(dir.path(), &image, Some(&path), &["--size", "1MiB"]);
    let file = File::open(&path).unwrap();
    server.signal(Signal::INT);
    server.expect_error("is in use");
    server.signal(Signal::INT);
    server.ended();
    assert!(!is_mounted(&path) && !path.exists());
    assert!(file.read_at(&mut [0; 512], 0).is_err());
}

#[test]
fn unmounted_from_outside_it_ends_or_goes_on_with_nbd() {
    need!(
        "outside",
        host::fuse().or_else(host::root).or_else(|| host::programs(&["umount", "timeout"]))
    );
    let (dir, image, path) = paths();
    let mut server = Server::start(dir.path(), &image, Some(&path), &["--size", "1MiB"]);
    unmount(&path);
    server.ended();
    drop(server);

    let address = format!("unix:{}", dir.path().join("nbd.sock").display());
    let mut server = Server::start(dir.path(), &image, Some(&path), &["--nbd", &address]);
    unmount(&path);
    server.expect_error("NBD is still served");
    let mut client = seekless_serve::client::Client::connect(&address.parse().unwrap()).unwrap();
    client.read(0, 4096).unwrap();
    assert!(server.wait(Duration::ZERO).is_none());
    server.stop();
}

#[test]
fn the_mount_of_a_server_that_was_killed_is_replaced() {
    need!("killed", host::fuse());
    let (dir, image, path) = paths();
    let mut killed = Server::start(dir.path(), &image, Some(&path), &["--size", "1MiB"]);
    killed.signal(Signal::KILL);
    assert!(killed.wait(Duration::from_secs(5)).is_some());
    assert!(is_mounted(&path), "nobody could have unmounted it");
    let server = Server::start(dir.path(), &image, Some(&path), &[]);
    std::fs::read(&path).unwrap();
    server.stop();
    assert!(!is_mounted(&path));
}

#[test]
fn an_image_can_be_served_over_itself() {
    need!("over itself", host::fuse());
    let (dir, image, _) = paths();
    std::fs::write(&image, vec![7; 1 << 20]).unwrap();
    let server = Server::start(dir.path(), &image, Some(&image), &[]);
    let file = File::options().read(true).write(true).open(&image).unwrap();
    file.write_all_at(&[8; 512], 512).unwrap();
    assert!(is_mounted(&image));
    drop(file);
    server.stop();
    let bytes = std::fs::read(&image).unwrap();
    assert_eq!((bytes.len(), bytes[511], bytes[512], bytes[1024]), (1 << 20, 7, 8, 7));
}

#[test]
fn the_size_is_fixed_and_a_read_only_volume_takes_no_write() {
    need!("refusals", host::fuse());
    let errno = |e: std::io::Error| Errno::from_io_error(&e);
    let (dir, image, path) = paths();
    let server = Server::start(dir.path(), &image, Some(&path), &["--size", "1MiB"]);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    assert_eq!(file.set_len(1 << 21).map_err(errno), Err(Some(Errno::PERM)));
    assert_eq!(file.set_len(0).map_err(errno), Err(Some(Errno::PERM)));
    assert_eq!(file.write_at(&[1; 512], 1 << 20).map_err(errno), Err(Some(Errno::NOSPC)));
    assert_eq!(file.write_at(&[1; 512], (1 << 20) - 100).unwrap(), 100);
    assert_eq!(file.read_at(&mut [0; 512], (1 << 20) - 100).unwrap(), 100);
    assert_eq!(file.read_at(&mut [0; 512], 1 << 20).unwrap(), 0);
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    drop(file);
    server.stop();

    let server = Server::start(dir.path(), &image, Some(&path), &["--read-only"]);
    let refused = File::options().write(true).open(&path).map_err(errno);
    assert_eq!(refused.err(), Some(Some(Errno::ROFS)));
    assert_eq!(std::fs::read(&path).unwrap().last(), Some(&1));
    server.stop();
}
