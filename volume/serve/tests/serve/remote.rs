//! A home on another server. The other server is made here: it loses on purpose what it may lose.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seekless_block::{Bytes, Dice, Extent, Flags, Lba, Op};
use seekless_engine::Mode;
use seekless_learn::{Copy, Plan};
use seekless_nbd::{
    Command, CommandFlags, Errno, Export, Request, ServerSession, TransmissionFlags,
};
use seekless_serve::area::{AreaPlacement, MakeOptions, Share, make};
use seekless_serve::client::Client;
use seekless_serve::control::Administered;
use seekless_serve::{Backing, Builder, ServerHandle};

use crate::hostile::{raw, request};
use crate::other_server::serve;
use crate::{Dir, client};

const SIZE: usize = 1 << 20;

/// An NBD server whose disk has a volatile cache.
struct Faulty {
    disk: Mutex<Disk>,
    /// Requests until the next crash; none comes at 0.
    until: AtomicU64,
    crashes: AtomicU64,
    /// Flushes to come that fail.
    bad_flushes: AtomicU64,
    /// Milliseconds for each MiB of zeroes. Such a disk has nothing else.
    slow: AtomicU64,
    /// Bytes that were zeroed or discarded, and the most by one request.
    zeroed: AtomicU64,
    longest: AtomicU64,
    export: Export,
}

#[derive(Default)]
struct Disk {
    cached: Vec<u8>,
    durable: Vec<u8>,
    clients: Vec<UnixStream>,
}

impl Faulty {
    fn start(dir: &Dir, flags: TransmissionFlags) -> (Arc<Self>, PathBuf) {
        let mut export = Export::new("", SIZE as u64);
        export.flags = flags;
        Self::with(dir, "home", export)
    }

    fn with(dir: &Dir, name: &str, export: Export) -> (Arc<Self>, PathBuf) {
        let disk = Disk { cached: vec![0; SIZE], durable: vec![0; SIZE], clients: Vec::new() };
        let [until, crashes, bad_flushes, slow, zeroed, longest] = [0; 6].map(AtomicU64::new);
        let disk = Mutex::new(disk);
        let server =
            Arc::new(Self { disk, until, crashes, bad_flushes, slow, zeroed, longest, export });
        let path = dir.path(name);
        let listener = UnixListener::bind(&path).unwrap();
        let shared = Arc::clone(&server);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, server) = (stream.unwrap(), Arc::clone(&shared));
                server.disk.lock().unwrap().clients.push(stream.try_clone().unwrap());
                // A crash ends it.
                std::thread::spawn(move || drop(server.serve(stream)));
            }
        });
        (server, path)
    }

    fn serve(&self, stream: UnixStream) -> std::io::Result<()> {
        serve(stream, self.export.clone(), |session, r, payload, out| {
            self.carry_out(session, r, payload, out)
        })
    }

    fn carry_out(
        &self,
        session: &ServerSession,
        r: &Request,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> std::io::Result<()> {
        if matches!(r.command, Command::WriteZeroes | Command::Trim) {
            let len = u64::from(r.len);
            self.longest.fetch_max(len, SeqCst);
            std::thread::sleep(Duration::from_millis((len >> 20) * self.slow.load(SeqCst)));
            self.zeroed.fetch_add(len, SeqCst);
        }
        let mut disk = self.disk.lock().unwrap();
        let Disk { cached, durable, clients } = &mut *disk;
        let range = r.offset as usize..r.offset as usize + r.len as usize;
        if r.command == Command::Flush && self.bad_flushes.load(SeqCst) > 0 {
            self.bad_flushes.fetch_sub(1, SeqCst);
            session.error(r.cookie, Errno::Io, out);
            return Ok(());
        }
        match r.command {
            Command::Write => cached[range.clone()].copy_from_slice(payload),
            Command::WriteZeroes | Command::Trim if self.slow.load(SeqCst) > 0 => {}
            Command::WriteZeroes | Command::Trim => cached[range.clone()].fill(0),
            Command::Flush => durable.copy_from_slice(cached),
            _ => {}
        }
        if r.flags.contains(CommandFlags::FUA) {
            durable[range.clone()].copy_from_slice(&cached[range.clone()]);
        }
        // Before the answer: the client does not know whether the request was carried out.
        if self.until.load(SeqCst) > 0 && self.until.fetch_sub(1, SeqCst) == 1 {
            cached.copy_from_slice(durable);
            for client in clients.drain(..) {
                let _ = client.shutdown(std::net::Shutdown::Both);
            }
            self.crashes.fetch_add(1, SeqCst);
            return Err(std::io::ErrorKind::ConnectionReset.into());
        }
        if r.command == Command::Read {
            out.extend_from_slice(session.read_header(r).as_bytes());
            match cached.get(range) {
                Some(bytes) => out.extend_from_slice(bytes),
                None => out.resize(out.len() + r.len as usize, 0),
            }
        } else {
            session.done(r.cookie, out);
        }
        Ok(())
    }
}

fn all() -> TransmissionFlags {
    let most = [
        TransmissionFlags::SEND_FUA,
        TransmissionFlags::SEND_TRIM,
        TransmissionFlags::SEND_WRITE_ZEROES,
        TransmissionFlags::CAN_MULTI_CONN,
    ];
    most.into_iter().fold(least(), TransmissionFlags::union)
}

fn least() -> TransmissionFlags {
    TransmissionFlags::HAS_FLAGS.union(TransmissionFlags::SEND_FLUSH)
}

fn volume(path: &Path) -> Builder {
    let uri = format!("nbd+unix:///?socket={}", path.display());
    Builder::new(Backing::Nbd(uri.parse().unwrap()))
}

/// One random request of a client, and the same on the model.
fn step(client: &mut Client, random: &mut Dice, model: &mut [u8]) {
    let at = random.below(SIZE as u64 / 512) * 512;
    let len = ((1 + random.below(32)) * 512).min(SIZE as u64 - at);
    let range = at as usize..(at + len) as usize;
    let bytes = vec![random.below(256) as u8; len as usize];
    match random.below(10) {
        0..=3 => {
            client.write(at, &bytes).unwrap();
            model[range].copy_from_slice(&bytes);
        }
        4 => {
            client.write_fua(at, &bytes).unwrap();
            model[range].copy_from_slice(&bytes);
        }
        5 => {
            client.write_zeroes(at, len as u32, CommandFlags::NONE).unwrap();
            model[range].fill(0);
        }
        6 => client.flush().unwrap(),
        _ => assert!(client.read(at, len as u32).unwrap() == model[range], "{len} at {at}"),
    }
}

/// The other server crashes 30 times (100 with SEEKLESS_LONG=1), and loses all that was not flushed.
/// Clients notice nothing.
fn outlives_crashes(name: &str, flags: TransmissionFlags, seed: u64) {
    println!("seed {seed}");
    let dir = Dir::new(name);
    let (faulty, path) = Faulty::start(&dir, flags);
    let server = volume(&path).engine(|c| c.cache_bytes = Bytes(64 << 10)).spawn().unwrap();
    let (mut front, mut random, mut model) = (client(&server), Dice::new(seed), vec![0; SIZE]);
    let crashes = if std::env::var_os("SEEKLESS_LONG").is_some() { 100 } else { 30 };
    while faulty.crashes.load(SeqCst) < crashes {
        if faulty.until.load(SeqCst) == 0 {
            faulty.until.store(1 + random.below(40), SeqCst);
        }
        step(&mut front, &mut random, &mut model);
    }
    faulty.until.store(0, SeqCst);
    assert!(front.read(0, SIZE as u32).unwrap() == model);
    front.flush().unwrap();
    assert!(faulty.disk.lock().unwrap().durable == model, "a flush promises all");
    server.stop().unwrap();
}

#[test]
fn a_home_elsewhere_outlives_crashes_of_its_server() {
    outlives_crashes("remote-all", all(), 5);
    outlives_crashes("remote-least", least(), 6);
}

/// Many clients at once, each in its own part: requests of all connections meet each crash.
#[test]
fn several_clients_outlive_crashes_too() {
    let dir = Dir::new("remote-many");
    let (faulty, path) = Faulty::start(&dir, all());
    let server: ServerHandle = volume(&path).spawn().unwrap();
    std::thread::scope(|scope| {
        for part in 0..4u64 {
            let (server, faulty) = (&server, &faulty);
            scope.spawn(move || {
                let (mut front, mut random) = (client(server), Dice::new(part));
                let (from, len) = (part * (SIZE as u64 / 4), SIZE as u64 / 4);
                let mut model = vec![0; len as usize];
                for turn in 0..300u64 {
                    if part == 0 && faulty.until.load(SeqCst) == 0 {
                        faulty.until.store(1 + random.below(60), SeqCst);
                    }
                    let at = random.below(len / 4096) * 4096;
                    let range = at as usize..at as usize + 4096;
                    if random.below(2) == 0 {
                        let bytes = [turn as u8; 4096];
                        front.write(from + at, &bytes).unwrap();
                        model[range].copy_from_slice(&bytes);
                    } else {
                        assert!(
                            front.read(from + at, 4096).unwrap() == model[range],
                            "turn {turn}"
                        );
                    }
                }
            });
        }
    });
    assert!(faulty.crashes.load(SeqCst) > 5, "{}", faulty.crashes.load(SeqCst));
    server.stop().unwrap();
}

/// A host reports a failed flush once, and any client's writes may be lost: each client hears of it
/// at its next flush.
#[test]
fn every_client_hears_of_a_failed_flush() {
    let dir = Dir::new("remote-flush");
    let (faulty, path) = Faulty::start(&dir, all());
    let server = volume(&path).spawn().unwrap();
    let (mut one, mut other) = (client(&server), client(&server));
    one.write(0, &[1; 4096]).unwrap();
    other.write(4096, &[2; 4096]).unwrap();
    faulty.bad_flushes.store(1, SeqCst);
    assert!(one.flush().is_err() && other.flush().is_err());
    let mut late = client(&server);
    for client in [&mut late, &mut one, &mut other] {
        client.flush().unwrap();
    }
    // Behind many writes without a flush, there is a flush that no client has asked for.
    faulty.bad_flushes.store(1, SeqCst);
    let block = [3; 64 << 10];
    let failed = (0..1000).find(|i| one.write(i % 16 * (64 << 10), &block).is_err());
    assert!(failed.is_some() && faulty.bad_flushes.load(SeqCst) == 0, "no flush came");
    assert!(one.flush().is_err() && other.flush().is_err());
    one.flush().unwrap();
    server.stop().unwrap();
}

/// In write-back, a flush may find nothing to flush, and end at once: because a flush of another
/// client failed, and the next one succeeded without the lost writes.
#[test]
fn every_client_hears_of_a_failed_flush_in_write_back_too() {
    let dir = Dir::new("remote-flush-back");
    let (faulty, path) = Faulty::start(&dir, all());
    let area = dir.path("area");
    area_beside(&path, &area, Mode::WriteBack);
    let server = volume(&path).area_path(area).spawn().unwrap();
    let (mut one, mut other, way_in) = (client(&server), client(&server), server.injector());
    let inject = |op, extent, data| way_in.call(op, extent, Flags::NONE, data);
    // Parts of pages go home, in write-back too.
    other.write((512 << 10) + 512, &[2; 512]).unwrap();
    inject(Op::Write, Extent::new(1041, 1), vec![3; 512]).unwrap();
    faulty.bad_flushes.store(1, SeqCst);
    assert!(one.flush().is_err());
    one.flush().unwrap();
    // Nothing is unflushed now.
    assert!(other.flush().is_err(), "its write may be lost");
    let flushed = inject(Op::Flush, Extent::default(), Vec::new());
    assert!(flushed.is_err(), "the write of another front end may be lost");
    other.flush().unwrap();
    inject(Op::Flush, Extent::default(), Vec::new()).unwrap();
    server.stop().unwrap();
}

/// 4 GiB of zeroes, on a disk that writes them slowly. The other server gets them in parts, and
/// reads of another client come in between.
#[test]
fn zeroes_hold_no_short_request_up() {
    let one = least().union(TransmissionFlags::SEND_WRITE_ZEROES);
    for (name, flags, slow) in [("zeroes-one", one, 1), ("zeroes-many", all(), 2)] {
        let dir = Dir::new(name);
        let export = Export { flags, ..Export::new("", SIZE as u64 + (4 << 30)) };
        let (faulty, path) = Faulty::with(&dir, "home", export);
        faulty.slow.store(slow, SeqCst);
        let server = volume(&path).spawn().unwrap();
        let mut front = client(&server);
        let mut hostile = raw(&server);
        for cookie in 0..64 {
            let at = SIZE as u64 + cookie * (64 << 20);
            hostile.write_all(&request(Command::WriteZeroes, cookie, at, 64 << 20)).unwrap();
        }
        // Some of them are on their way.
        while faulty.zeroed.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        for i in 0..4 {
            assert_eq!(front.read(i * (256 << 10), 4096).unwrap(), [0; 4096]);
        }
        let zeroed = faulty.zeroed.load(SeqCst);
        assert!(zeroed < (2u64 << 30), "{name}: the reads waited for {zeroed} bytes of zeroes");
        let mut replies = [0; 64 * 16];
        hostile.read_exact(&mut replies).unwrap();
        assert!(replies.chunks(16).all(|r| r[..8] == [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]));
        assert_eq!(faulty.zeroed.load(SeqCst), 4u64 << 30);
        assert_eq!(
            faulty.longest.load(SeqCst),
            32u64 << 20,
            "{name}: within the server's patience"
        );
        server.stop().unwrap();
    }
}

#[test]
fn a_home_that_cannot_be_served_is_refused() {
    let dir = Dir::new("remote-refused");
    let none = volume(&dir.path("none")).spawn().err().unwrap().to_string();
    assert!(none.contains("cannot connect to nbd+unix"), "{none}");
    let no_flush = TransmissionFlags::HAS_FLAGS;
    let (_faulty, path) = Faulty::start(&dir, no_flush);
    let error = volume(&path).spawn().err().unwrap().to_string();
    assert!(error.contains("has no flush") && error.contains("--read-only"), "{error}");
    // A hostile server says what it likes.
    for (name, size, most, why) in [
        ("tiny", 1 << 20, 0, "takes no request of 512 bytes"),
        ("short", 1 << 20, 100, "takes no request of 512 bytes"),
        ("huge", u64::MAX - 511, 1 << 20, "more than any disk"),
        ("odd", 1000, 1 << 20, "no disk of 512-byte sectors"),
    ] {
        let mut export = Export::new("", size);
        export.flags = all();
        export.block.maximum = most;
        let (_faulty, path) = Faulty::with(&dir, name, export);
        let error = volume(&path).spawn().err().unwrap().to_string();
        assert!(error.contains(why), "{name}: {error}");
    }
    let server = volume(&path).read_only(true).spawn().unwrap();
    assert_eq!(client(&server).read(0, 512).unwrap(), [0; 512]);
}

/// An area here, for a home behind this socket.
fn area_beside(path: &Path, area: &Path, mode: Mode) -> PathBuf {
    let uri = PathBuf::from(format!("nbd+unix:///?socket={}", path.display()));
    let options = MakeOptions {
        size: Some(Share::Bytes(Bytes(16 << 20))),
        write_buffer_percent: 50,
        mode,
        ..MakeOptions::new(AreaPlacement::Beside(area.to_owned()))
    };
    make(&uri, &options).unwrap();
    uri
}

/// Seven lives of a volume with an area here, whose home crashes again and again, during attaches
/// too. The home loses all that was not flushed.
fn an_area_outlives_crashes(name: &str, mode: Mode, seed: u64) {
    println!("seed {seed}");
    let dir = Dir::new(name);
    let (faulty, path) = Faulty::start(&dir, all());
    let area = dir.path("area");
    let uri = area_beside(&path, &area, mode);
    let (mut random, mut model) = (Dice::new(seed), vec![0; SIZE]);
    let copies =
        (0..16).map(|i| Copy { home: Extent::new(i * 128, 64), place: Lba(i * 64) }).collect();
    let plan = Plan { copies };
    for life in 0..7 {
        faulty.until.store(1 + random.below(40), SeqCst);
        let open = || volume(&path).area_path(area.clone());
        let server = open().engine(|c| c.cache_bytes = Bytes(64 << 10)).spawn().unwrap();
        let found = *server.attached().unwrap();
        assert!(!found.trusted, "another server proves nothing");
        let mut front = client(&server);
        server.install(plan.clone()).unwrap();
        let most = faulty.crashes.load(SeqCst) + 8;
        while faulty.crashes.load(SeqCst) < most {
            if faulty.until.load(SeqCst) == 0 {
                faulty.until.store(1 + random.below(40), SeqCst);
            }
            step(&mut front, &mut random, &mut model);
        }
        assert!(front.read(0, SIZE as u32).unwrap() == model, "life {life}");
        let elsewhere = server.stats().unwrap().elsewhere.unwrap();
        // A crash in the middle of a reconnect is none of its own.
        assert!(elsewhere.reconnects >= 4 && elsewhere.sent_again > 0, "{elsewhere:?}");
        let bare = faulty.disk.lock().unwrap().cached.starts_with(b"SEEKLESS");
        assert_eq!(bare, mode == Mode::WriteBack, "nobody mounts it while the area is newer");
        if mode == Mode::WriteBack {
            let error = volume(&path).spawn().err().unwrap().to_string();
            assert!(error.contains("newest data are in another area"), "{error}");
        }
        server.stop().unwrap();
    }
    faulty.until.store(0, SeqCst);
    Administered::reach(&uri, Some(&area), false).unwrap().detach(false, &mut |_| {}).unwrap();
    assert!(faulty.disk.lock().unwrap().durable == model, "all is at home");
}

#[test]
fn an_area_here_outlives_crashes_of_a_home_elsewhere() {
    an_area_outlives_crashes("remote-through", Mode::WriteThrough, 7);
    an_area_outlives_crashes("remote-back", Mode::WriteBack, 8);
}

/// No server says whether somebody wrote its disk meanwhile: each copy is compared before its use.
#[test]
fn a_home_elsewhere_that_was_written_meanwhile_is_what_is_read() {
    let dir = Dir::new("remote-stamp");
    let (faulty, path) = Faulty::start(&dir, all());
    let area = dir.path("area");
    area_beside(&path, &area, Mode::WriteThrough);
    let open = || volume(&path).area_path(area.clone()).engine(|c| c.cache_bytes = Bytes(0));
    let server = open().spawn().unwrap();
    client(&server).write(0, &[1; 256 << 10]).unwrap();
    let copies = vec![Copy { home: Extent::new(0, 512), place: Lba(0) }];
    server.install(Plan { copies }).unwrap();
    assert!(server.wait_settled(Duration::from_secs(20)).unwrap());
    server.stop().unwrap();
    faulty.disk.lock().unwrap().cached[4096..8192].fill(2);
    let server = open().spawn().unwrap();
    let found = *server.attached().unwrap();
    assert!(
        found.clean && !found.trusted && found.copies == 0 && found.suspects == 64,
        "{found:?}"
    );
    let mut front = client(&server);
    assert_eq!(front.read(4096, 4096).unwrap(), [2; 4096]);
    assert_eq!(front.read(8192, 4096).unwrap(), [1; 4096]);
    server.stop().unwrap();
    // Another home, and an area within a home.
    let other = Export { flags: all(), ..Export::new("", SIZE as u64) };
    let (_other, elsewhere) = Faulty::with(&dir, "other", other);
    let error = volume(&elsewhere).area_path(area.clone()).spawn().err().unwrap().to_string();
    assert!(error.contains("was made for 'nbd ") && error.contains("--moved"), "{error}");
    let uri = format!("nbd+unix:///?socket={}", path.display());
    let inside = MakeOptions::new(AreaPlacement::Middle);
    let error = make(Path::new(&uri), &inside).unwrap_err().to_string();
    assert!(error.contains("must be on this machine"), "{error}");
}
