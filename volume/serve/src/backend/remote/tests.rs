//! A home whose server dies, is silent or answers late. The server is made here, and notes the order
//! of the requests.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Barrier;

use seekless_engine::Target;
use seekless_nbd::{Command, Export, Request, ServerSession};
use tempfile::TempDir;

use self::other_server::serve;
use super::*;
use crate::backend::files::{Disk, Files};

#[path = "../../../tests/serve/other_server.rs"]
mod other_server;

const SIZE: usize = 1 << 20;

/// A request that came: the number of its connection, its command, and the first byte of its
/// data.
type Got = (usize, Command, u8);

#[derive(Default)]
struct Scene {
    disk: Vec<u8>,
    got: Vec<Got>,
    connections: usize,
    clients: Vec<UnixStream>,
    /// Accepts connections, and says nothing.
    is_mute: bool,
    /// A write of this byte is carried out, and gets no answer.
    swallows: Option<u8>,
    /// The first sector cannot be read.
    is_bad: bool,
    /// The next flush fails: when another one comes, or after a second.
    fails_late: bool,
    /// Sends a byte now and then.
    drips: bool,
    /// Requests of this command get no answer until this is `None`.
    holds: Option<Command>,
    /// The next request of this command fails.
    fails: Option<Command>,
}

#[derive(Default)]
struct Other {
    scene: Mutex<Scene>,
    changed: Condvar,
}

struct Home {
    other: Arc<Other>,
    remote: Remote,
    _dir: TempDir,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let other = Arc::new(Other::default());
        locked(&other.scene).disk = vec![0; SIZE];
        let shared = Arc::clone(&other);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                shared.accept(stream.unwrap());
            }
        });
        let uri = format!("nbd+unix:///?socket={}", path.display()).parse().unwrap();
        let remote = Remote::connect(uri, false).unwrap();
        Self { other, remote, _dir: dir }
    }

    /// Over connections of their own.
    fn files(&self) -> Files {
        let remote = Remote::connect(self.remote.uri.clone(), false).unwrap();
        Files::new(Disk::elsewhere(Arc::new(remote)), 0, None).unwrap()
    }

    fn write(&self, flags: Flags, at: u64, len: usize, with: u8) {
        self.remote.change(Op::Write, flags, at, len as u64, &vec![with; len]).unwrap();
    }

    fn flush(&self) -> Result<(), Errno> {
        self.remote.change(Op::Flush, Flags::NONE, 0, 0, &[])
    }

    fn read(&self, at: u64) -> Result<u8, Errno> {
        let mut sector = [9; 512];
        self.remote.read(at, &mut sector).map(|()| sector[0])
    }
}

/// A connection, to which the server may send a byte now and then.
struct Client<'a> {
    other: &'a Other,
    stream: UnixStream,
}

impl Read for Client<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.stream.read(buf)
    }
}

impl Write for Client<'_> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let drips = locked(&self.other.scene).drips;
        let most = if drips { buf.len().min(1) } else { buf.len() };
        let sent = self.stream.write(&buf[..most])?;
        if drips {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(sent)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

impl Other {
    fn accept(self: &Arc<Self>, stream: UnixStream) {
        let mut scene = locked(&self.scene);
        scene.connections += 1;
        scene.clients.push(stream.try_clone().unwrap());
        if !scene.is_mute {
            let (other, number) = (Arc::clone(self), scene.connections);
            // A death ends it.
            std::thread::spawn(move || drop(other.serve(number, stream)));
        }
    }

    fn serve(&self, number: usize, stream: UnixStream) -> std::io::Result<()> {
        let client = Client { other: self, stream };
        serve(client, Export::new("", SIZE as u64), |session, r, data, out| {
            self.carry_out(number, session, r, data, out);
            Ok(())
        })
    }

    fn carry_out(
        &self,
        number: usize,
        session: &ServerSession,
        r: &Request,
        data: &[u8],
        out: &mut Vec<u8>,
    ) {
        let mut scene = locked(&self.scene);
        let with = data.first().copied().unwrap_or(0);
        scene.got.push((number, r.command, with));
        self.changed.notify_all();
        let waits = |scene: &mut Scene| scene.holds == Some(r.command);
        scene = self.changed.wait_while(scene, waits).unwrap();
        if scene.fails == Some(r.command) {
            scene.fails = None;
            return session.error(r.cookie, NbdErrno::Io, out);
        }
        let range = r.offset as usize..r.offset as usize + r.len as usize;
        match r.command {
            Command::Write => {
                scene.disk[range].copy_from_slice(data);
                if scene.swallows == Some(with) {
                    return;
                }
            }
            Command::Read if scene.is_bad && r.offset == 0 => {
                return session.error(r.cookie, NbdErrno::Io, out);
            }
            Command::Read => {
                out.extend_from_slice(session.read_header(r).as_bytes());
                return out.extend_from_slice(&scene.disk[range]);
            }
            Command::Flush if std::mem::take(&mut scene.fails_late) => {
                let is_alone = |scene: &mut Scene| scene.count(Command::Flush) < 2;
                let second = Duration::from_secs(1);
                drop(self.changed.wait_timeout_while(scene, second, is_alone).unwrap());
                return session.error(r.cookie, NbdErrno::Io, out);
            }
            _ => {}
        }
        session.done(r.cookie, out);
    }

    /// Loses all data and all connections.
    fn die(&self) {
        let mut scene = locked(&self.scene);
        scene.disk.fill(0);
        scene.got.clear();
        for client in scene.clients.drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    fn hold_and_fail(&self, holds: Command, fails: Command) {
        let mut scene = locked(&self.scene);
        (scene.holds, scene.fails) = (Some(holds), Some(fails));
    }

    /// Sends the answers that it holds.
    fn answer(&self) {
        locked(&self.scene).holds = None;
        self.changed.notify_all();
    }

    fn wait(&self, until: impl Fn(&Scene) -> bool) {
        let scene = locked(&self.scene);
        drop(self.changed.wait_while(scene, |scene| !until(scene)).unwrap());
    }
}

impl Scene {
    fn count(&self, command: Command) -> usize {
        self.got.iter().filter(|got| got.1 == command).count()
    }

    /// The connection and the byte of each write since the last death.
    fn writes(&self) -> Vec<(usize, u8)> {
        let writes = self.got.iter().filter(|got| got.1 == Command::Write);
        writes.map(|got| (got.0, got.2)).collect()
    }
}

/// A write is on the disk of the other server, which dies before its answer; a reader has seen it.
#[test]
fn a_read_behind_a_reconnect_is_no_older_than_one_before_it() {
    let home = Home::new();
    home.write(Flags::NONE, 0, 4096, 1);
    locked(&home.other.scene).swallows = Some(2);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| home.write(Flags::NONE, 0, 4096, 2));
        home.other.wait(|scene| scene.got.last().is_some_and(|got| got.2 == 2));
        assert_eq!(home.read(0), Ok(2));
        locked(&home.other.scene).swallows = None;
        home.other.die();
        assert_eq!(home.read(0), Ok(2));
        writer.join().unwrap();
    });
    let writes = locked(&home.other.scene).writes();
    let first = writes[0].0;
    assert_eq!(writes[..2], [(first, 1), (first, 2)], "both before anything else is sent");
}

/// The server cannot carry it out: only its own thread fails.
#[test]
fn changes_that_are_never_answered_hold_up_nobody_else() {
    let mut home = Home::new();
    home.remote.patience = Duration::from_secs(3);
    home.remote.silence = Duration::from_millis(500);
    locked(&home.other.scene).swallows = Some(2);
    let write = |at| home.remote.change(Op::Write, Flags::NONE, at, 4096, &[2; 4096]);
    std::thread::scope(|scope| {
        // One after the other, they would take longer than requests wait.
        let writers: Vec<_> = (0..7).map(|i| scope.spawn(move || write(i * 4096))).collect();
        home.other.wait(|scene| scene.count(Command::Write) >= 7);
        home.other.die();
        assert_eq!(home.read(64 << 10), Ok(0));
        for writer in writers {
            assert_eq!(writer.join().unwrap(), Err(NO_ANSWER));
        }
    });
}

#[test]
fn a_change_behind_one_that_is_never_answered_fails_with_it() {
    let mut home = Home::new();
    home.remote.patience = Duration::from_secs(3);
    home.remote.silence = Duration::from_millis(500);
    locked(&home.other.scene).swallows = Some(2);
    let write = |with| home.remote.change(Op::Write, Flags::NONE, 0, 4096, &[with; 4096]);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| write(2));
        home.other.wait(|scene| scene.count(Command::Write) > 0);
        let second = write(3);
        assert_eq!((first.join().unwrap(), second), (Err(NO_ANSWER), Err(NO_ANSWER)));
    });
    assert!(locked(&home.other.scene).writes().iter().all(|write| write.1 == 2));
    home.remote.rest();
    write(4).unwrap();
}

/// The other server reports a page that it could not write once, to any client.
#[test]
fn a_durable_discard_beside_a_flush_that_failed_is_not_believed() {
    let home = Home::new();
    locked(&home.other.scene).fails_late = true;
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| home.flush());
        home.other.wait(|scene| scene.count(Command::Flush) == 1);
        let discard = home.remote.change(Op::Discard, Flags::FUA, 0, 4096, &[]);
        assert_eq!((discard, flush.join().unwrap()), (Err(Errno::IO), Err(Errno::IO)));
    });
    assert_eq!(home.remote.change(Op::Discard, Flags::FUA, 0, 4096, &[]), Ok(()));
}

/// Two clients write the same place at once. The order of the answers need not be the order in which
/// the other server carried the writes out, and that order is kept when they are sent again.
#[test]
fn overlapping_changes_are_sent_one_after_the_other() {
    let home = Home::new();
    locked(&home.other.scene).swallows = Some(1);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| home.write(Flags::NONE, 0, 8192, 1));
        home.other.wait(|scene| scene.count(Command::Write) == 1);
        let second = scope.spawn(|| home.write(Flags::NONE, 4096, 4096, 2));
        home.write(Flags::NONE, 8192, 4096, 3);
        let waits = |scene: &mut Scene| scene.writes().iter().all(|write| write.1 != 2);
        let (scene, most) = (locked(&home.other.scene), Duration::from_millis(300));
        let waited = home.other.changed.wait_timeout_while(scene, most, waits);
        let (mut scene, time) = waited.unwrap();
        assert!(time.timed_out(), "the second one was sent beside the first");
        scene.swallows = None;
        drop(scene);
        home.other.die();
        first.join().unwrap();
        second.join().unwrap();
    });
    assert_eq!(home.read(0), Ok(1));
    assert_eq!(home.read(4096), Ok(2));
}

/// 64 requests wait for a server without an answer, and 64 come right behind.
#[test]
fn a_silent_server_costs_all_requests_one_attempt() {
    let mut home = Home::new();
    home.remote.patience = Duration::from_millis(100);
    home.remote.silence = Duration::from_millis(300);
    let before = {
        let mut scene = locked(&home.other.scene);
        scene.is_mute = true;
        scene.connections
    };
    home.other.die();
    let start = Barrier::new(64);
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                start.wait();
                home.read(0).unwrap_err();
            });
        }
    });
    for _ in 0..64 {
        home.read(0).unwrap_err();
    }
    let attempts = locked(&home.other.scene).connections - before;
    // One; more only where threads stand still for a second.
    assert!(attempts < 8, "{attempts}");
    locked(&home.other.scene).is_mute = false;
    let begun = Instant::now();
    while home.read(0).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it speaks again");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// If seekless died between two of these writes, the older bytes would stay.
#[test]
fn no_older_bytes_are_sent_again_over_durable_ones() {
    let home = Home::new();
    home.write(Flags::FUA, 0, 4096, 1);
    assert_eq!(locked(&home.remote.unflushed).bytes(), 0, "nothing is kept");
    home.write(Flags::NONE, 0, 8192, 2);
    home.write(Flags::FUA, 4096, 8192, 3);
    home.write(Flags::NONE, 8192, 4096, 4);
    assert_eq!(locked(&home.other.scene).count(Command::Flush), 0);
    // This server loses durable bytes too, so reads show the bytes that were sent again.
    home.other.die();
    assert_eq!([0, 4096, 8192].map(|at| home.read(at)), [Ok(2), Ok(0), Ok(4)]);
}

#[test]
fn a_bad_first_sector_does_not_end_a_home() {
    let mut home = Home::new();
    home.remote.patience = Duration::from_secs(5);
    locked(&home.other.scene).is_bad = true;
    home.other.die();
    assert_eq!(home.read(4096), Ok(0));
    assert_eq!(home.read(0), Err(Errno::IO));
    assert_eq!(home.remote.counts().reconnects, 1);
}

/// The volume does not know of the first flush, and its failure may be about any client's writes.
#[test]
fn a_flush_beside_one_that_nobody_asked_for_fails_with_it() {
    let home = Home::new();
    locked(&home.other.scene).fails_late = true;
    std::thread::scope(|scope| {
        let discard = || home.remote.change(Op::Discard, Flags::FUA, 0, 4096, &[]);
        let unasked = scope.spawn(discard);
        home.other.wait(|scene| scene.count(Command::Flush) > 0);
        assert_eq!(home.flush(), Err(Errno::IO));
        assert_eq!(unasked.join().unwrap(), Err(Errno::IO));
    });
    home.flush().unwrap();
}

/// The answer of the durable write, which may be a report about the first write, is lost. A flush that
/// ended well beside it would forget the first write.
#[test]
fn a_flush_that_nobody_asked_for_waits_for_durable_writes_in_flight() {
    let home = Home::new();
    home.write(Flags::NONE, 0, 4096, 1);
    locked(&home.other.scene).swallows = Some(2);
    std::thread::scope(|scope| {
        let write = scope.spawn(|| home.write(Flags::FUA, 8192, 4096, 2));
        home.other.wait(|scene| scene.count(Command::Write) == 2);
        let discard = scope.spawn(|| home.remote.change(Op::Discard, Flags::FUA, 65536, 4096, &[]));
        home.other.wait(|scene| scene.count(Command::Trim) == 1);
        let waits = |scene: &mut Scene| scene.count(Command::Flush) == 0;
        let (scene, most) = (locked(&home.other.scene), Duration::from_millis(300));
        let waited = home.other.changed.wait_timeout_while(scene, most, waits);
        let (mut scene, time) = waited.unwrap();
        scene.swallows = None;
        drop(scene);
        home.other.die();
        assert!(time.timed_out(), "a flush was sent beside a durable write");
        write.join().unwrap();
        assert_eq!(discard.join().unwrap(), Ok(()));
    });
    assert_eq!([0, 8192].map(|at| home.read(at)), [Ok(1), Ok(2)]);
}

/// The other server may have given the report about another client's bytes to this write. Its next
/// flush ends well, and must not be reported first.
#[test]
fn a_durable_write_that_fails_is_reported_before_another_flush_begins() {
    let home = Home::new();
    let files = home.files();
    home.other.hold_and_fail(Command::Write, Command::Write);
    std::thread::scope(|scope| {
        let write = scope.spawn(|| {
            let failed = files.change(Target::Home, Op::Write, Flags::FUA, 0, 4096, &[1; 4096]);
            assert!(failed.is_err());
            assert!(files.home().is_busy(), "before the report");
        });
        home.other.wait(|scene| scene.count(Command::Write) == 1);
        let is_busy = files.home().is_busy();
        home.other.answer();
        write.join().unwrap();
        assert!(is_busy, "before the answer");
    });
    assert!(!files.home().is_busy());
}

/// The report about the discard went to the flush of another client, so the discard's own flush ends
/// well.
#[test]
fn a_flush_that_fails_between_a_discard_and_its_flush_fails_both() {
    let home = Home::new();
    let files = home.files();
    home.other.hold_and_fail(Command::Trim, Command::Flush);
    let change =
        |op, flags, len| files.change(Target::Home, op, flags, 0, len, &[]).map_err(Errno::from);
    std::thread::scope(|scope| {
        let discard = scope.spawn(|| change(Op::Discard, Flags::FUA, 4096));
        home.other.wait(|scene| scene.count(Command::Trim) == 1);
        let flush = change(Op::Flush, Flags::NONE, 0);
        home.other.answer();
        assert_eq!((flush, discard.join().unwrap()), (Err(Errno::IO), Err(Errno::IO)));
    });
}

/// The same if a write with FUA had the report.
#[test]
fn a_durable_write_that_fails_between_a_discard_and_its_flush_fails_both() {
    let home = Home::new();
    let files = home.files();
    home.other.hold_and_fail(Command::Trim, Command::Write);
    let change = |op, at, buf: &[u8]| {
        files.change(Target::Home, op, Flags::FUA, at, 4096, buf).map_err(Errno::from)
    };
    std::thread::scope(|scope| {
        let discard = scope.spawn(|| change(Op::Discard, 0, &[]));
        home.other.wait(|scene| scene.count(Command::Trim) == 1);
        let write = change(Op::Write, 8192, &[1; 4096]);
        home.other.answer();
        assert_eq!((write, discard.join().unwrap()), (Err(Errno::IO), Err(Errno::IO)));
    });
}

/// Byte by byte, the answer takes seconds.
#[test]
fn an_answer_has_an_end_in_time() {
    let home = Home::new();
    let (mut client, _) = dial(&home.remote.uri, None, Duration::from_secs(1)).unwrap();
    locked(&home.other.scene).drips = true;
    let error = client.read(0, 512).unwrap_err();
    assert!(error.is_silence(), "{error}");
}
