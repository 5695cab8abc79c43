//! Bad input: exit code 2, and words that name what is wrong. Nothing is left behind.

use std::fs;
use std::os::unix::net::UnixListener;

use crate::host::seekless;

/// Runs `seekless serve` in a directory of its own; it must fail, and say `words`.
fn refused(prepare: impl FnOnce(&std::path::Path), args: &[&str], words: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    prepare(dir.path());
    let before = fs::read_dir(dir.path()).unwrap().count();
    let output = seekless().arg("serve").args(args).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{args:?} does not say '{word}': {said}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), before, "{args:?} left something");
}

fn disk(bytes: usize) -> impl FnOnce(&std::path::Path) {
    move |dir| fs::write(dir.join("disk.img"), vec![0; bytes]).unwrap()
}

const NBD: &str = "--nbd=unix:s.sock";

#[test]
fn bad_backings() {
    refused(|_| (), &["missing.img", NBD], &["missing.img", "--size"]);
    refused(disk(1000), &["disk.img", NBD], &["disk.img", "1000", "512"]);
    refused(disk(0), &["disk.img", NBD], &["disk.img", "empty"]);
    refused(|_| (), &[".", NBD, "--optimized", "0"], &["."]);
    refused(|_| (), &["new.img", NBD, "--size", "1000"], &["1000", "512"]);
    refused(|_| (), &["new.img", NBD, "--size", "lots"], &["lots"]);
    refused(disk(4096), &["disk.img", NBD, "--size", "1MiB"], &["disk.img", "4096", "1048576"]);
    refused(|_| (), &["no/such/dir.img", NBD, "--size", "1MiB"], &["no/such/dir.img"]);
}

#[test]
fn bad_front_ends() {
    refused(disk(4096), &["disk.img"], &["--nbd", "--fuse"]);
    refused(disk(4096), &["disk.img", "--nbd", "/tmp/x"], &["/tmp/x", "unix:PATH"]);
    refused(disk(4096), &["disk.img", "--nbd", "tcp:localhost"], &["tcp:localhost"]);
    let busy = |dir: &std::path::Path| {
        disk(4096)(dir);
        // Leaked: it must outlive the server, and goes with the process.
        std::mem::forget(UnixListener::bind(dir.join("s.sock")).unwrap());
    };
    refused(busy, &["disk.img", NBD], &["s.sock", "another server"]);
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", tcp.local_addr().unwrap());
    refused(disk(4096), &["disk.img", "--nbd", &address], &[&address, "in use"]);
    // A new backing is taken away again where it comes to nothing.
    refused(|_| (), &["new.img", "--size=1MiB", "--nbd", &address], &[&address]);
}

#[test]
fn bad_mount_points() {
    if let Some(missing) = crate::host::fuse() {
        eprintln!("SKIPPED mount points: {missing}");
        return;
    }
    refused(disk(4096), &["disk.img", "--fuse", "."], &["not a regular file"]);
    refused(disk(4096), &["disk.img", "--fuse", "no/dir"], &["no/dir"]);
    // The mount point is made, and taken away again.
    refused(|_| (), &["missing.img", "--fuse", "volume"], &["missing.img"]);
}

#[test]
fn bad_learning_and_disks() {
    for every in ["0s", "soon", "5"] {
        refused(disk(4096), &["disk.img", NBD, "--learn-every", every], &[every]);
    }
    refused(disk(4096), &["disk.img", NBD, "--area-dir", "nowhere"], &["nowhere"]);
    refused(disk(4096), &["disk.img", NBD, "--disk", "floppy"], &["floppy", "wd800jb"]);
    refused(disk(4096), &["disk.img", NBD, "--disk", "wd800jb,warp=9"], &["warp=9", "speed=X"]);
    let huge = ["huge.img", "--size", "100GiB", NBD, "--disk", "wd800jb"];
    refused(|_| (), &huge, &["wd800jb", "huge.img", "sectors"]);
}

#[test]
fn a_backing_that_is_served_is_not_served_twice() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    let address = format!("unix:{}", dir.path().join("one.sock").display());
    let args = ["--size", "1MiB", "--nbd", &address];
    let server = crate::host::Server::start(dir.path(), &image, None, &args);
    let output = seekless().args(["serve", "disk.img", NBD]).current_dir(dir.path()).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("another process serves it"));
    server.stop();
    assert!(!dir.path().join("one.sock").exists(), "its socket is left");
}
