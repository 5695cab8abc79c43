//! The life of the mount: it is gone when the server is, however that ends, and never under its
//! users.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::FlockOperation;
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

/// A request to end, as often as somebody is impatient.
#[test]
fn a_mount_in_use_is_never_cut_off_by_signals() {
    need!("in use", "fuse");
    let (dir, image, path) = paths();
    let mut server = Server::start(dir.path(), &image, Some(&path), &["--size", "1MiB"]);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    for signal in [Signal::TERM, Signal::INT, Signal::INT, Signal::TERM, Signal::HUP] {
        server.signal(signal);
        server.expect_error(&format!("is in use: process {} (", std::process::id()));
    }
    file.write_all_at(b"still here", 77).unwrap();
    drop(file);
    // The refused signals armed nothing.
    assert!(server.wait(Duration::from_millis(2500)).is_none(), "an old request ended it");
    server.signal(Signal::TERM);
    server.ended();
    assert!(!path.exists(), "the file it made is left");
    assert_eq!(&std::fs::read(image).unwrap()[77..87], b"still here");
}

/// The reader of its output goes once it serves; then it has something to say.
#[test]
fn words_that_nobody_reads_cut_nobody_off() {
    need!("unread", "fuse bash sed");
    let (dir, image, path) = paths();
    let mut command = Command::new("bash");
    command.args(["-c", r#"exec "$0" "$@" > >(sed -u "/^serving /q")"#, crate::PROGRAM, "serve"]);
    command.arg(&image).args(["--size", "64MiB", "--policy", "borg"]);
    let mut server = Server::of(command, dir.path(), Some(&path));
    let file = File::open(&path).unwrap();
    for at in (0..64).rev() {
        file.read_exact_at(&mut [0; 4096], at << 20).unwrap();
    }
    server.signal(Signal::USR1);
    assert!(server.wait(Duration::from_millis(2500)).is_none(), "it left its user");
    file.read_exact_at(&mut [0; 4096], 5 << 20).unwrap();
    drop(file);
    server.stop();
}

/// A server that has just taken a device over must not end for that.
#[test]
fn words_for_which_there_is_no_space_end_no_server() {
    let (dir, _, _) = paths();
    let socket = dir.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = host::seekless();
    command.args(["serve", "disk.img", "--size", "1MiB", "--nbd", "unix:nbd.sock"]);
    command.current_dir(dir.path()).env("NOTIFY_SOCKET", &socket).stdout(full);
    let mut server = command.spawn().unwrap();
    // The server says this after its first words.
    let mut said = [0; 1024];
    let len = manager.recv(&mut said).unwrap_or_default();
    let ready = String::from_utf8_lossy(&said[..len]).contains("READY=1");
    let ended = server.try_wait().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(ready && ended.is_none(), "{ended:?}");
}

/// A loop device keeps a volume whose mount is no longer visible; here a program does.
#[test]
fn a_lazy_unmount_cuts_nobody_off() {
    need!("lazy", "fuse root umount");
    let (dir, image, path) = paths();
    let mut server = Server::start(dir.path(), &image, Some(&path), &["--size", "1MiB"]);
    let file = File::options().read(true).write(true).open(&path).unwrap();
    host::run_line(&format!("umount -l {}", path.display()));
    for _ in 0..2 {
        server.signal(Signal::TERM);
        server.expect_error("The server goes on");
        file.write_all_at(b"still here", 77).unwrap();
    }
    drop(file);
    server.ended();
    assert_eq!(&std::fs::read(image).unwrap()[77..87], b"still here");
}

/// A container has the mounts of its start. An unmount outside does not reach them.
#[test]
fn a_mount_of_another_namespace_is_not_cut_off() {
    need!("namespace", "fuse root unshare sh cat umount");
    let (dir, image, path) = paths();
    let mut server = Server::start(dir.path(), &image, Some(&path), &["--size", "1MiB"]);
    // It keeps no mount of another test.
    let script = r#"
        cat /proc/self/mountinfo | while read -r id parent device root at rest; do
            case "$at" in "$1") ;; "${1%/*/*}"/*) umount -l "$at" ;; esac
        done
        echo ready
        while read -r go; do cat "$1" >/dev/null && echo works; done"#;
    let mut container = Command::new("unshare");
    container.args(["-m", "--propagation", "private", "sh", "-c", script, "sh"]).arg(&path);
    container.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut container = container.spawn().unwrap();
    let mut says = BufReader::new(container.stdout.take().unwrap()).lines();
    let mut asks = container.stdin.take().unwrap();
    assert_eq!(says.next().unwrap().unwrap(), "ready");
    for _ in 0..2 {
        server.signal(Signal::TERM);
        server.expect_error("The server goes on");
        asks.write_all(b"go\n").unwrap();
        assert_eq!(says.next().unwrap().unwrap(), "works");
    }
    assert!(server.wait(Duration::from_millis(500)).is_none(), "it left its user");
    drop(asks);
    container.wait().unwrap();
    server.ended();
}

#[test]
fn a_mount_over_the_volume_is_not_unmounted() {
    need!("over", "fuse root mount umount timeout");
    let (dir, image, path) = paths();
    let mut server = Server::start(dir.path(), &image, Some(&path), &["--size", "1MiB"]);
    let file = File::open(&path).unwrap();
    host::run_line(&format!("umount -l {}", path.display()));
    let other = dir.path().join("other");
    std::fs::write(&other, b"other").unwrap();
    host::run_line(&format!("mount --bind {} {}", other.display(), path.display()));
    for _ in 0..2 {
        server.signal(Signal::TERM);
        server.expect_error("The server goes on");
        assert_eq!(std::fs::read(&path).unwrap(), b"other");
    }
    file.read_exact_at(&mut [0; 512], 0).unwrap();
    drop(file);
    server.ended();
    assert_eq!(std::fs::read(&path).unwrap(), b"other");
    unmount(&path);
}

#[test]
fn a_service_manager_asks_once_and_waits() {
    need!("manager", "fuse");
    let (dir, image, path) = paths();
    let socket = dir.path().join("notify");
    let _manager = UnixDatagram::bind(&socket).unwrap();
    let mut command = host::seekless();
    command.arg("serve").arg(&image).args(["--size", "1MiB"]).env("NOTIFY_SOCKET", &socket);
    let mut server = Server::of(command, dir.path(), Some(&path));
    let file = File::open(&path).unwrap();
    server.signal(Signal::TERM);
    server.expect_error("ends when it is free");
    assert!(server.wait(Duration::from_millis(500)).is_none(), "it left its user");
    drop(file);
    server.ended();
}

/// A manager gives up what needs the server if its first start fails.
#[test]
fn a_server_of_a_service_manager_waits_for_the_lock_of_its_disk() {
    let (dir, image, _) = paths();
    let socket = dir.path().join("notify");
    let _manager = UnixDatagram::bind(&socket).unwrap();
    let holder = File::create_new(&image).unwrap();
    holder.set_len(1 << 20).unwrap();
    rustix::fs::flock(&holder, FlockOperation::NonBlockingLockExclusive).unwrap();
    let mut command = host::seekless();
    command.arg("serve").arg(&image).args(["--nbd", "unix:nbd.sock"]);
    // Any other server is refused after half a second.
    host::refused(command.current_dir(dir.path()), &["its lock"]);
    let holds = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        drop(holder);
    });
    command.env("NOTIFY_SOCKET", &socket);
    drop(Server::of(command, dir.path(), None));
    holds.join().unwrap();
}

#[test]
fn a_mounted_file_system_is_named_and_only_force_cuts_it_off() {
    need!("mounted", "root fuse ext4 mkfs.ext4 mount losetup timeout");
    let (dir, image, path) = paths();
    let area = dir.path().join("disk.area");
    File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let (image_name, area_name) = (image.to_str().unwrap(), area.to_str().unwrap());
    let volume = |args: &[&str]| {
        let output = host::seekless().arg("volume").args(args).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let format = volume(&["format", image_name, "--at", area_name, "--optimized", "8MiB"]);
    assert!(format.0, "{}", format.1);
    let mut server = Server::start(dir.path(), &image, Some(&path), &["--area", area_name]);
    let device = host::Loop::attach(&path, &["--direct-io=on"]);
    host::run(["mkfs.ext4", "-q", device.device()]);
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let mount = host::Mount::new(device.device(), &root, "noatime");
    std::fs::write(root.join("kept"), b"kept").unwrap();
    let mut shell = Command::new("sleep").arg("60").current_dir(&root).spawn().unwrap();
    let words = [
        format!("{} is mounted at {}", device.device(), root.display()),
        format!("the loop device {} uses it", device.device()),
        format!("process {} (sleep) uses it", shell.id()),
        format!("umount {}; losetup -d {}", root.display(), device.device()),
    ];
    for _ in 0..3 {
        let (done, said) = volume(&["detach", image_name]);
        assert!(!done && words.iter().all(|w| said.contains(w)), "{said}");
        server.signal(Signal::INT);
        let line = server.error();
        assert!(words.iter().all(|w| line.contains(w)), "{line}");
    }
    assert!(host::status(&image, &[])["served"] == true);
    // It was not even drained.
    assert!(!volume(&["detach", image_name]).1.contains("drained"));
    std::fs::write(root.join("later"), b"later").unwrap();
    host::run(["sync", "-f", root.to_str().unwrap()]);

    let (done, said) = volume(&["detach", "--force", image_name]);
    assert!(
        done && said.contains("cut off: ") && words[..3].iter().all(|w| said.contains(w)),
        "{said}"
    );
    server.ended();
    assert!(!is_mounted(&path));
    shell.kill().unwrap();
    shell.wait().unwrap();
    drop(mount);
    device.detach();
    // What was synced is there.
    let device = host::Loop::attach(&image, &[]);
    let mount = host::Mount::new(device.device(), &root, "ro");
    assert_eq!(std::fs::read(root.join("later")).unwrap(), b"later");
    mount.unmount();
}

#[test]
fn unmounted_from_outside_it_ends_or_goes_on_with_nbd() {
    need!("outside", "fuse root umount timeout");
    let (dir, image, path) = paths();
    let mut server = Server::start(dir.path(), &image, Some(&path), &["--size", "1MiB"]);
    unmount(&path);
    server.ended();
    drop(server);

    let address = format!("unix:{}", dir.path().join("nbd.sock").display());
    let mut server = Server::start(dir.path(), &image, Some(&path), &["--nbd", &address]);
    unmount(&path);
    server.expect_error("NBD clients are still served");
    let mut client = seekless_serve::client::Client::connect(&address.parse().unwrap()).unwrap();
    client.read(0, 4096).unwrap();
    assert!(server.wait(Duration::ZERO).is_none());
    server.stop();
}

#[test]
fn the_mount_of_a_server_that_was_killed_is_replaced() {
    need!("killed", "fuse");
    let (dir, image, path) = paths();
    let mut killed = Server::start(dir.path(), &image, Some(&path), &["--size", "1MiB"]);
    killed.kill();
    assert!(is_mounted(&path), "nobody could have unmounted it");
    let server = Server::start(dir.path(), &image, Some(&path), &[]);
    std::fs::read(&path).unwrap();
    server.stop();
    assert!(!is_mounted(&path));
}

#[test]
fn an_image_can_be_served_over_itself() {
    need!("over itself", "fuse");
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
    need!("refusals", "fuse");
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
