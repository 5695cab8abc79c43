//! Addresses in use and bad mount points: exit code 2, and words that name what is wrong. Nothing is
//! left behind. The tests of the command line have the other bad inputs.

use std::fs;
use std::os::unix::net::UnixListener;

use crate::host::{self, seekless};
use crate::need;

/// Runs `seekless serve` in a directory of its own; it must fail, and say `words`.
fn refused(prepare: impl FnOnce(&std::path::Path), args: &[&str], words: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    prepare(dir.path());
    let before = fs::read_dir(dir.path()).unwrap().count();
    host::refused(seekless().arg("serve").args(args).current_dir(dir.path()), words);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before, "{args:?} left something");
}

fn disk(dir: &std::path::Path) {
    fs::write(dir.join("disk.img"), vec![0; 4096]).unwrap();
}

const NBD: &str = "--nbd=unix:s.sock";

#[test]
fn busy_addresses() {
    let busy = |dir: &std::path::Path| {
        disk(dir);
        // Leaked: it must outlive the server, and goes with the process.
        std::mem::forget(UnixListener::bind(dir.join("s.sock")).unwrap());
    };
    refused(busy, &["disk.img", NBD], &["s.sock", "another server"]);
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", tcp.local_addr().unwrap());
    refused(disk, &["disk.img", "--nbd", &address], &[&address, "in use"]);
    // A new backing is taken away again where it comes to nothing.
    refused(|_| (), &["new.img", "--size=1MiB", "--nbd", &address], &[&address]);
}

#[test]
fn bad_mount_points() {
    need!("mount points", "fuse");
    refused(disk, &["disk.img", "--fuse", "."], &["not a regular file"]);
    refused(disk, &["disk.img", "--fuse", "no/dir"], &["no/dir"]);
    // The mount point is made, and taken away again.
    refused(|_| (), &["missing.img", "--fuse", "volume"], &["missing.img"]);
}

#[test]
fn a_backing_that_is_served_is_not_served_twice() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    let address = format!("unix:{}", dir.path().join("one.sock").display());
    let args = ["--size", "1MiB", "--nbd", &address];
    let server = host::Server::start(dir.path(), &image, None, &args);
    let mut second = seekless();
    second.args(["serve", "disk.img", NBD]).current_dir(dir.path());
    host::refused(&mut second, &["another process serves it"]);
    server.stop();
    assert!(!dir.path().join("one.sock").exists(), "its socket is left");
}
