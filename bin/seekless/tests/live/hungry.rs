//! A server holds the bound on its memory, whatever its clients do; and who asks for little is served.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use seekless_nbd::{ClientEvent, ClientSession, Command, CommandFlags, Options};
use seekless_serve::client::Client;

use crate::host::{self, Numbers, Server, seekless, status};
use crate::need;

const MIB: u64 = 1 << 20;
/// The longest request.
const LONGEST: u32 = 32 << 20;
/// Clients of each kind; with the honest ones 128, the most that a server takes.
const WRITERS: u64 = 40;
const READERS: u64 = 40;
const ASKERS: u64 = 43;
const HONEST: u64 = 4;

/// A client that begins in order, to break off later.
struct Raw {
    stream: UnixStream,
    session: ClientSession,
}

impl Raw {
    fn new(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        let mut session = ClientSession::new(Options { structured: true, ..Options::default() });
        let (mut held, mut out, mut buf) = (Vec::new(), Vec::new(), [0; 4096]);
        loop {
            let (taken, event) = session.step(&held, &mut out).unwrap();
            held.drain(..taken);
            stream.write_all(&out).unwrap();
            out.clear();
            match event {
                ClientEvent::Ready => break,
                ClientEvent::More(_) => {
                    let n = stream.read(&mut buf).unwrap();
                    assert!(n > 0, "the server hung up");
                    held.extend_from_slice(&buf[..n]);
                }
                _ => {}
            }
        }
        stream.set_nonblocking(true).unwrap();
        Self { stream, session }
    }

    /// Sends a request, and as much of these bytes as the server takes at once.
    fn ask(&mut self, command: Command, at: u64, len: u32, bytes: &[u8]) {
        let mut out = Vec::new();
        self.session.request(command, at, len, CommandFlags::NONE, &mut out).unwrap();
        out.extend_from_slice(bytes);
        // What a full socket does not take is left out: then the server waits for the rest.
        let _ = self.stream.write(&out);
    }
}

/// Most memory that the server had, in bytes.
fn peak(server: &Server) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Writes and reads the longest requests, in a range of its own.
fn long_requests(address: &str, number: u64, rounds: u64, ends: &AtomicBool) {
    let mut client = Client::connect(&address.parse().unwrap()).unwrap();
    let (at, mut numbers) = (number * u64::from(LONGEST), Numbers::new(number));
    for _ in 0..rounds {
        let bytes = numbers.bytes(LONGEST as usize);
        client.write(at, &bytes).unwrap();
        assert!(client.read(at, LONGEST).unwrap() == bytes, "client {number}");
        if ends.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Writes and reads 64 KiB and less.
fn short_requests(address: &str, rounds: u64) {
    let mut client = Client::connect(&address.parse().unwrap()).unwrap();
    let mut numbers = Numbers::new(99);
    for round in 0..rounds {
        let at = 200 * MIB + numbers.below(1000) * 4096;
        let bytes = numbers.bytes(512 << (round % 8));
        client.write(at, &bytes).unwrap();
        assert!(client.read(at, bytes.len() as u32).unwrap() == bytes, "round {round}");
    }
    client.flush().unwrap();
}

/// Clients that take all the memory that they can get, and then neither send nor read.
fn crowd(socket: &Path) -> Vec<Raw> {
    let mut numbers = Numbers::new(3);
    let page = vec![0x5A; 1 << 20];
    let mut crowd: Vec<Raw> = (0..WRITERS + READERS + ASKERS).map(|_| Raw::new(socket)).collect();
    for (i, client) in crowd.iter_mut().enumerate() {
        match i as u64 {
            n if n < WRITERS => client.ask(Command::Write, 256 * MIB, LONGEST, &page),
            n if n < WRITERS + READERS => {
                for shorter in 0..3 {
                    client.ask(Command::Read, n * MIB, LONGEST >> shorter, &[]);
                }
            }
            _ => {
                for cookie in 0..300 {
                    let at = numbers.below(100_000) * 4096;
                    let kind = [Command::Read, Command::BlockStatus, Command::Flush];
                    let kind = kind[(cookie % 3) as usize];
                    let len = if kind == Command::Flush { 0 } else { 4096 << (cookie % 5) };
                    client.ask(kind, if len > 0 { at } else { 0 }, len, &[]);
                }
            }
        }
    }
    crowd
}

/// Serves a crowd within this memory; `more`: options of the server.
fn holds(mib: u64, more: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let (image, socket) = (dir.path().join("disk.img"), dir.path().join("nbd.sock"));
    let (address, memory) = (format!("unix:{}", socket.display()), format!("{mib}MiB"));
    let args = ["--size", "1GiB", "--memory", &memory, "--nbd", &address];
    let server = Server::start(dir.path(), &image, None, &[&args[..], more].concat());
    let said = status(&image, &[]);
    assert_eq!(said["memory"]["most_bytes"], mib * MIB, "{said:#}");
    assert!(said["memory"]["pages_bytes"].as_u64().unwrap() < mib * MIB, "{said:#}");
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..HONEST {
            let (address, ends) = (&address, &ends);
            scope.spawn(move || long_requests(address, number, 1000, ends));
        }
        // While the longest requests are served.
        short_requests(&address, 50);
        let crowd = crowd(&socket);
        // While the crowd holds what it can get.
        short_requests(&address, 200);
        let waiting = status(&image, &[])["memory"]["waiting_clients"].as_u64().unwrap();
        assert!(waiting > READERS, "{waiting}");
        ends.store(true, Ordering::Relaxed);
        drop(crowd);
    });
    long_requests(&address, 5, 2, &ends);
    let peak = peak(&server);
    eprintln!("{mib} MiB: at most {} MiB", peak.div_ceil(MIB));
    assert!(peak <= mib * MIB, "{mib} MiB: {} KiB", peak >> 10);
    server.stop();
}

#[test]
fn memory_is_bounded_whatever_clients_do() {
    holds(128, &["--read-ahead", "1MiB"]);
}

#[test]
fn any_bound_holds() {
    need!("several bounds", host::long());
    for mib in [128, 160, 200, 256, 512, 1024] {
        for more in [&["--policy", "vanilla"][..], &["--policy", "borg"], &[]] {
            holds(mib, &[more, &["--optimized", "64MiB"]].concat());
        }
    }
}

#[test]
fn who_stalls_loses_what_others_wait_for() {
    need!("stalled clients", host::long());
    let dir = tempfile::tempdir().unwrap();
    let (image, socket) = (dir.path().join("disk.img"), dir.path().join("nbd.sock"));
    let address = format!("unix:{}", socket.display());
    let args = ["--size", "1GiB", "--memory", "128MiB", "--nbd", &address];
    let server = Server::start(dir.path(), &image, None, &args);
    let (mut stalled, mut idle) = (Raw::new(&socket), Raw::new(&socket));
    stalled.ask(Command::Write, 256 * MIB, LONGEST, &[1; 100_000]);
    idle.ask(Command::Read, 0, 4096, &[]);
    // It waits until the other one is dropped, and no client without such memory is.
    long_requests(&address, 1, 1, &AtomicBool::new(true));
    for (client, is_dropped) in [(&mut stalled, true), (&mut idle, false)] {
        client.stream.set_nonblocking(false).unwrap();
        client.stream.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
        let mut buf = vec![0; 8192];
        let mut ended = false;
        while let Ok(n) = client.stream.read(&mut buf) {
            ended = n == 0;
            if ended {
                break;
            }
        }
        assert_eq!(ended, is_dropped);
    }
    server.stop();
}

/// Clients of ranges of their own, past the host's page cache: reads wait for memory, and long reads
/// with a front in RAM come in pieces.
#[test]
fn bytes_are_right_while_reads_wait_for_memory() {
    need!("short memory", host::fuse());
    let dir = tempfile::tempdir().unwrap();
    let (image, socket) = (dir.path().join("disk.img"), dir.path().join("nbd.sock"));
    let address = format!("unix:{}", socket.display());
    let args =
        ["--size", "128MiB", "--memory", "256MiB", "--read-ahead", "1MiB", "--nbd", &address];
    let fuse = dir.path().join("volume");
    let server = Server::start(dir.path(), &image, Some(&fuse), &args);
    std::thread::scope(|scope| {
        for number in 0..12 {
            let address = &address;
            scope.spawn(move || range_of_its_own(address, number));
        }
    });
    let peak = peak(&server);
    assert!(peak <= 256 * MIB, "{} KiB", peak >> 10);
    server.stop();
}

fn range_of_its_own(address: &str, number: u64) {
    const RANGE: u64 = 8 << 20;
    let mut client = Client::connect(&address.parse().unwrap()).unwrap();
    let (begin, mut numbers) = (number * RANGE, Numbers::new(number));
    let mut model = vec![0; RANGE as usize];
    for round in 0..60 {
        let at = numbers.below(RANGE / 512) * 512;
        let len = (512 + numbers.below(5 << 20) / 512 * 512).min(RANGE - at);
        let range = at as usize..(at + len) as usize;
        if round % 3 == 0 {
            model[range.clone()].copy_from_slice(&numbers.bytes(len as usize));
            client.write(begin + at, &model[range.clone()]).unwrap();
        }
        // RAM has the front of the long read, and now and then its end.
        let front = client.read(begin + at, 512).unwrap();
        assert!(front == model[at as usize..at as usize + 512], "{number}, {round}");
        if round % 2 == 0 {
            client.read(begin + at + len - 512, 512).unwrap();
        }
        let read = client.read(begin + at, len as u32).unwrap();
        assert!(read == model[range], "client {number}, round {round}: {len} at {at}");
    }
}

#[test]
fn too_little_memory_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    let address = format!("unix:{}", dir.path().join("nbd.sock").display());
    let try_with = |args: &[&str]| {
        let mut command = seekless();
        command.arg("serve").arg(&image).args(["--size", "1GiB", "--nbd", &address]).args(args);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = try_with(&["--memory", "64MiB"]);
    assert!(said.contains("64 MiB of memory is too little"), "{said}");
    assert!(said.contains("give --memory"), "{said}");
    let said = try_with(&["--memory", "128MiB", "--cache", "100MiB"]);
    assert!(said.contains("or a smaller --cache"), "{said}");
    let least = said.split("give --memory ").nth(1).unwrap().split([',', ' ']).next().unwrap();
    let server = Server::start(
        dir.path(),
        &image,
        None,
        &["--size", "1GiB", "--nbd", &address, "--memory", least, "--cache", "100MiB"],
    );
    assert_eq!(status(&image, &[])["memory"]["pages_bytes"], 100 * MIB);
    server.stop();
}
