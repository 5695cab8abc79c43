//! A server holds the bound on its memory, whatever its clients do; and who asks for little is served.

use std::fs::File;
use std::io::Read as _;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use seekless_nbd::{Command, CommandFlags};
use seekless_serve::client::Client;
use seekless_serve::{NbdUri, ServeError};

use crate::certificates::certificates;
use crate::elsewhere::Nbdkit;
use crate::host::{self, Numbers, Server, seekless, status, until};
use crate::need;

const MIB: u64 = 1 << 20;
/// The longest request.
const LONGEST: u32 = 32 << 20;
/// Writers, readers and askers; with the honest clients 128, the most that a server takes.
const CROWD: [u64; 3] = [40, 40, 43];
/// The same over TCP: a server takes 32 clients of one machine.
const CROWD_OF_ONE_MACHINE: [u64; 3] = [9, 9, 9];
const HONEST: u64 = 4;

/// A way to a server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Unix,
    /// The volume is mounted too, so all memory is locked.
    Mounted,
    /// TLS, over TCP.
    Tls,
    /// A unix socket, and the backing is on another server.
    Elsewhere,
}

/// A server to be, and the address for its clients: a unix socket, or a port of TCP.
struct Front {
    backing: PathBuf,
    args: Vec<String>,
    mount: Option<PathBuf>,
    uri: NbdUri,
    socket: Result<PathBuf, u16>,
    _home: Option<Nbdkit>,
}

impl Front {
    fn new(dir: &Path, way: Way, more: &[&str]) -> Self {
        let (socket, address, uri) = if way == Way::Tls {
            certificates(dir);
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let uri = format!("nbds://localhost:{port}/?tls-certificates={}", dir.display());
            (Err(port), format!("tcp:127.0.0.1:{port}"), uri)
        } else {
            let path = dir.join("nbd.sock");
            let uri = format!("nbd+unix:///?socket={}", path.display());
            (Ok(path), format!("unix:{}", dir.join("nbd.sock").display()), uri)
        };
        let mut args = [&["--nbd", &address], more].concat();
        let (disk, mount) = (dir.join("disk.img"), dir.join("volume"));
        File::create(&disk).unwrap().set_len(1 << 30).unwrap();
        let (backing, home) = if way == Way::Elsewhere {
            let home = dir.join("home.sock");
            let kit = Nbdkit::with(&home, &disk, &[], &[]);
            args.extend(["--area-dir", "."]);
            (crate::elsewhere::uri_of(&home), Some(kit))
        } else {
            (disk, None)
        };
        if way == Way::Tls {
            args.extend(["--tls-cert", "server-cert.pem", "--tls-key", "server-key.pem"]);
        }
        Self {
            backing,
            args: args.into_iter().map(str::to_owned).collect(),
            mount: (way == Way::Mounted).then_some(mount),
            uri: uri.parse().unwrap(),
            socket,
            _home: home,
        }
    }

    /// The least memory, in MiB, that a server takes.
    fn least(&self, dir: &Path) -> u64 {
        let mut command = seekless();
        command.arg("serve").arg(&self.backing).args(&self.args).current_dir(dir);
        if let Some(path) = &self.mount {
            command.arg("--fuse").arg(path);
        }
        let output = command.args(["--memory", "1MiB"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let least = said.split("give --memory ").nth(1).and_then(|rest| rest.split("MiB").next());
        least.and_then(|mib| mib.parse().ok()).unwrap_or_else(|| panic!("{said}"))
    }

    fn serve(&self, dir: &Path, mib: u64) -> Server {
        let memory = format!("{mib}MiB");
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let args = [&args[..], &["--memory", &memory]].concat();
        Server::start(dir, &self.backing, self.mount.as_deref(), &args)
    }

    /// A client, and its own end of the connection. A greeting with TLS has ten seconds, and a busy
    /// machine may need longer. The server counts such a client until its time is over, so the next
    /// tries may be refused.
    fn client(&self) -> (Client, OwnedFd) {
        let mut connected = None;
        until("a greeting is answered", 60, || {
            connected = self.connect().ok();
            connected.is_some()
        });
        connected.unwrap()
    }

    /// Writers, readers and askers beside the honest clients.
    const fn crowd(&self) -> [u64; 3] {
        if self.socket.is_ok() { CROWD } else { CROWD_OF_ONE_MACHINE }
    }

    fn connect(&self) -> Result<(Client, OwnedFd), ServeError> {
        let stream: OwnedFd = match &self.socket {
            Ok(path) => UnixStream::connect(path).unwrap().into(),
            Err(port) => TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).unwrap().into(),
        };
        let own = stream.try_clone().unwrap();
        // Reads and writes are the same for all kinds of sockets.
        Ok((Client::over(Box::new(UnixStream::from(stream)), &self.uri)?, own))
    }
}

/// Asks, and sends as many of these bytes as the server takes at once: then it waits for the rest.
fn ask(client: &mut Client, command: Command, at: u64, len: u32, bytes: &[u8]) {
    let _ = client.submit(command, CommandFlags::NONE, at, len, bytes);
}

/// This field of the server's state, in bytes.
pub(crate) fn field(server: &Server, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Most memory that the server had.
fn peak(server: &Server) -> u64 {
    field(server, "VmHWM:")
}

/// Writes and reads the longest requests, in a range of its own.
fn long_requests(front: &Front, number: u64, rounds: u64, ends: &AtomicBool) {
    let mut client = front.client().0;
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
fn short_requests(front: &Front, rounds: u64) {
    let mut client = front.client().0;
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
fn crowd(front: &Front) -> Vec<(Client, OwnedFd)> {
    let mut numbers = Numbers::new(3);
    let page = vec![0x5A; 1 << 20];
    let [writers, readers, askers] = front.crowd();
    let mut crowd: Vec<_> = (0..writers + readers + askers).map(|_| front.client()).collect();
    for (i, (client, own)) in crowd.iter_mut().enumerate() {
        rustix::io::ioctl_fionbio(&*own, true).unwrap();
        match i as u64 {
            n if n < writers => ask(client, Command::Write, 256 * MIB, LONGEST, &page),
            n if n < writers + readers => {
                for shorter in 0..3 {
                    ask(client, Command::Read, n * MIB, LONGEST >> shorter, &[]);
                }
            }
            _ => {
                for cookie in 0..300 {
                    let at = numbers.below(100_000) * 4096;
                    let kind = [Command::Read, Command::BlockStatus, Command::Flush];
                    let kind = kind[(cookie % 3) as usize];
                    let len = if kind == Command::Flush { 0 } else { 4096 << (cookie % 5) };
                    ask(client, kind, if len > 0 { at } else { 0 }, len, &[]);
                }
            }
        }
    }
    crowd
}

/// Serves a crowd within this memory, or the least that there may be; `more`: options of the server.
fn holds(mib: u64, way: Way, more: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let front = Front::new(dir.path(), way, more);
    let mib = if mib == 0 { front.least(dir.path()) } else { mib };
    let (server, backing) = (front.serve(dir.path(), mib), &front.backing);
    let said = status(backing, &[]);
    assert_eq!(said["memory"]["most_bytes"], mib * MIB, "{said:#}");
    assert!(said["memory"]["pages_bytes"].as_u64().unwrap() < mib * MIB, "{said:#}");
    // Where it serves a mount, nothing of it goes to swap.
    assert_eq!(field(&server, "VmLck:") > 0, way == Way::Mounted);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..HONEST {
            let (front, ends) = (&front, &ends);
            scope.spawn(move || long_requests(front, number, 1000, ends));
        }
        // While the longest requests are served.
        short_requests(&front, 50);
        let crowd = crowd(&front);
        // While the crowd holds what it can get.
        short_requests(&front, 200);
        let waiting = status(backing, &[])["memory"]["waiting_clients"].as_u64().unwrap();
        assert!(waiting > front.crowd()[1], "{waiting}");
        ends.store(true, Ordering::Relaxed);
        drop(crowd);
    });
    long_requests(&front, 5, 2, &ends);
    let peak = peak(&server);
    eprintln!("{mib} MiB, {way:?} {more:?}: at most {} MiB", peak.div_ceil(MIB));
    assert!(peak <= mib * MIB, "{mib} MiB, {way:?} {more:?}: {} KiB", peak >> 10);
    server.stop();
}

#[test]
fn memory_is_bounded_whatever_clients_do() {
    holds(128, Way::Unix, &["--read-ahead", "1MiB"]);
}

#[test]
fn any_bound_holds() {
    need!("several bounds", "long");
    for mib in [128, 160, 200, 256, 512, 1024] {
        for more in [&["--policy", "vanilla"][..], &["--policy", "borg"], &[]] {
            holds(mib, Way::Unix, &[more, &["--optimized", "64MiB"]].concat());
        }
    }
}

#[test]
fn any_bound_holds_on_every_way() {
    need!("ways", "long fuse openssl nbdkit");
    for way in [Way::Mounted, Way::Tls, Way::Elsewhere] {
        for mib in [0, 256, 1024] {
            holds(mib, way, &["--optimized", "64MiB"]);
        }
    }
}

/// Clients that leave while a slow disk works for them: their requests still hold memory.
#[test]
fn who_leaves_with_requests_in_flight_takes_no_more_memory() {
    need!("clients that leave", "long");
    let dir = tempfile::tempdir().unwrap();
    let front = Front::new(dir.path(), Way::Unix, &["--disk", "wd800jb", "--cache", "4MiB"]);
    let mib = front.least(dir.path());
    let server = front.serve(dir.path(), mib);
    let (mut numbers, mut refused) = (Numbers::new(7), 0);
    for _ in 0..3000 {
        let stream = UnixStream::connect(front.socket.as_ref().unwrap()).unwrap();
        match Client::over(Box::new(stream), &front.uri) {
            Ok(mut client) => {
                ask(&mut client, Command::Read, numbers.below(1 << 14) << 16, 64 << 10, &[]);
            }
            Err(_) => refused += 1,
        }
    }
    let peak = peak(&server);
    eprintln!(
        "{mib} MiB, clients that leave, {refused} refused: at most {} MiB",
        peak.div_ceil(MIB)
    );
    assert!(refused > 0 && peak <= mib * MIB, "{refused} refused, {} KiB", peak >> 10);
    server.signal(rustix::process::Signal::KILL);
}

#[test]
fn who_stalls_loses_what_others_wait_for() {
    need!("stalled clients", "long");
    let dir = tempfile::tempdir().unwrap();
    let front = Front::new(dir.path(), Way::Unix, &[]);
    let server = front.serve(dir.path(), 128);
    let (mut stalled, mut idle) = (front.client(), front.client());
    ask(&mut stalled.0, Command::Write, 256 * MIB, LONGEST, &[1; 100_000]);
    ask(&mut idle.0, Command::Read, 0, 4096, &[]);
    // It waits until the other one is dropped, and no client without such memory is.
    long_requests(&front, 1, 1, &AtomicBool::new(true));
    for ((_client, own), is_dropped) in [(stalled, true), (idle, false)] {
        let mut own = UnixStream::from(own);
        own.set_read_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
        let mut buf = vec![0; 8192];
        let mut ended = false;
        while let Ok(n) = own.read(&mut buf) {
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
    need!("short memory", "fuse");
    let dir = tempfile::tempdir().unwrap();
    let (image, socket) = (dir.path().join("disk.img"), dir.path().join("nbd.sock"));
    let address = format!("unix:{}", socket.display());
    let args = format!("--size 128MiB --memory 256MiB --read-ahead 1MiB --nbd {address}");
    let fuse = dir.path().join("volume");
    let server = Server::line(dir.path(), &image, Some(&fuse), &args);
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
    for round in 0..host::rounds("SEEKLESS_ROUNDS", 24, 60) {
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
    let try_with = |args: &[&str], words: &[&str]| {
        let mut command = seekless();
        command.arg("serve").arg(&image).args(["--size", "1GiB", "--nbd", &address]).args(args);
        host::refused(&mut command, words)
    };
    try_with(&["--memory", "64MiB"], &["64 MiB of memory is too little", "give --memory"]);
    let said = try_with(&["--memory", "128MiB", "--cache", "100MiB"], &["or a smaller --cache"]);
    let least = said.split("give --memory ").nth(1).unwrap().split([',', ' ']).next().unwrap();
    let args = format!("--size 1GiB --nbd {address} --memory {least} --cache 100MiB");
    let server = Server::line(dir.path(), &image, None, &args);
    assert_eq!(status(&image, &[])["memory"]["pages_bytes"], 100 * MIB);
    server.stop();
}
