//! `seekless serve --state`: what was learned outlives the server, however that ends; what is damaged is said and
//! left behind; and the service manager is told.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use seekless_serve::Address;
use seekless_serve::client::Client;

use crate::host::{self, Numbers, Server, seekless};

/// A server with a memory, started anew.
fn start(dir: &Path) -> Server {
    let args = "--nbd=unix:s --policy=borg --state=state --learn-every=1d --cache=0 --size=64MiB";
    Server::line(dir, &dir.join("disk.img"), None, args)
}

fn read_some(dir: &Path) {
    let mut client = Client::connect(&Address::Unix(dir.join("s"))).unwrap();
    let mut numbers = Numbers::new(5);
    let places: Vec<u64> = (0..20).map(|_| numbers.below(1 << 14) * 4096).collect();
    for _ in 0..3 {
        for at in &places {
            client.read(*at, 4096).unwrap();
        }
    }
}

#[test]
fn what_was_learned_outlives_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let server = start(dir.path());
    read_some(dir.path());
    server.stop();
    let first = fs::read(&state).unwrap();
    // It is put to use without being asked, and nothing new is nothing to write.
    let server = start(dir.path());
    let line = server.expect("learned: ");
    assert!(line.contains("copies of 80 KiB"), "{line}");
    server.stop();
    assert_eq!(fs::read(&state).unwrap()[56..], first[56..]);

    // Killed after a plan: what the plan was made of stands.
    fs::remove_file(&state).unwrap();
    let mut server = start(dir.path());
    read_some(dir.path());
    server.learn();
    server.kill();
    drop(server);
    let server = start(dir.path());
    server.expect("learned: ");
    server.stop();
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|n| n.to_string_lossy().contains(".part")), "{left:?}");
}

#[test]
fn a_damaged_memory_is_said_and_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let server = start(dir.path());
    read_some(dir.path());
    server.stop();
    let good = fs::read(&state).unwrap();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    for (bytes, word) in [
        (with(70, !good[70]), "damaged"),
        (with(8, 2), "version 2"),
        (good[..good.len() - 1].to_vec(), "bytes long"),
        (with(16, !good[16]), "damaged"),
    ] {
        fs::write(&state, &bytes).unwrap();
        let server = start(dir.path());
        server.expect_error(word);
        server.stop();
        assert!(!state.exists(), "{word}: nothing was learned since");
        assert_eq!(fs::read(dir.path().join("state.refused")).unwrap(), bytes);
    }
    // Of another disk.
    fs::write(&state, &good).unwrap();
    fs::remove_file(dir.path().join("disk.img")).unwrap();
    let args = "--size=32MiB --nbd=unix:s --policy=borg --state=state";
    let server = Server::line(dir.path(), &dir.path().join("disk.img"), None, args);
    server.expect_error("another size");
    server.stop();
    // Not ours: it is not touched.
    fs::write(&state, "precious").unwrap();
    for (file, word) in [
        ("state", "not a state file of seekless"),
        (".", "not a state file"),
        ("no/such", "cannot be written"),
    ] {
        let args = ["serve", "disk.img", "--nbd=unix:s", "--policy=borg", "--state", file];
        host::refused(seekless().args(args).current_dir(dir.path()), &[word]);
    }
    assert_eq!(fs::read(&state).unwrap(), b"precious");
}

#[test]
fn the_service_manager_hears_of_the_start_and_of_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let hear = || {
        let mut buf = [0; 4096];
        let n = manager.recv(&mut buf).unwrap();
        String::from_utf8(buf[..n].to_vec()).unwrap()
    };
    let image = dir.path().join("disk.img");
    let mut command = seekless();
    command.arg("serve").arg(&image).args(["--size=1MiB", "--nbd=unix:s"]);
    command.env("NOTIFY_SOCKET", &path);
    let server = Server::of(command, dir.path(), None);
    assert_eq!(hear(), "READY=1\nSTATUS=serving");
    Client::connect(&Address::Unix(dir.path().join("s"))).unwrap();
    let alive = hear();
    assert!(alive.starts_with("WATCHDOG=1\nSTATUS=") && alive.contains("requests"), "{alive}");
    server.signal(Signal::TERM);
    while hear() != "STOPPING=1\nSTATUS=stopping" {}
    drop(server);
    // One that cannot be told is an error: somebody waits for it.
    let mut command = seekless();
    command.arg("serve").arg(&image).arg("--nbd=unix:s").current_dir(dir.path());
    host::refused(command.env("NOTIFY_SOCKET", dir.path().join("none")), &["NOTIFY_SOCKET"]);
}
