//! Clients that wait for memory, and clients that keep others waiting. A test drives the loop turn by
//! turn, so it knows which requests are in flight.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;

use rustix::event::{EventfdFlags, eventfd};
use seekless_block::{Bytes, Sectors};
use seekless_engine::Config;
use seekless_nbd::{Command as Ask, CommandFlags, Options};

use super::*;
use crate::backend::files::{Disk, Files};
use crate::backend::runs::Runs;
use crate::backend::unnamed::opened_memory;
use crate::backend::workers::ring;
use crate::client::Client;
use crate::conn::tests::volume_of;
use crate::listen::Access;
use crate::memory_shares::{Needs, Shares};
use crate::payload::{PayloadPool, STALL_MOST};

const BYTES: u64 = 64 << 20;
/// The longest request.
const LONGEST: u32 = 32 << 20;
/// What takes longer never happens.
const MOST: Duration = Duration::from_secs(20);
const NONE: CommandFlags = CommandFlags::NONE;

struct Rig(Server);

/// A client, and its own end of the connection.
type Ends = (Client, UnixStream);

impl Rig {
    /// A server with this memory for long requests, and a share of 64 KiB for each client.
    fn new(payload: usize) -> Self {
        let needs = Needs { clients: true, ..Needs::default() };
        let shares = Shares { payload, ..Shares::of(Bytes(128 << 20), &needs).unwrap() };
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let home = Disk::new(opened_memory(BYTES).unwrap().fd, Runs::all());
        let files = Files::new(home, 0, None).map(Files::slow);
        let config = Config::new(Sectors(BYTES / 512));
        let volume = volume_of(config, files, shares, Arc::clone(&bell));
        let clients = (Vec::new(), Duration::from_secs(3600), shares.client);
        // No commands come.
        let control = channel().1;
        let (export, path) = (Export::new("", BYTES), PathBuf::new());
        Self(Server::new(volume, export, clients, control, bell, None, path).unwrap())
    }

    /// One turn of the loop, which waits for nothing.
    fn turn(&mut self) {
        ring(&self.0.bell);
        self.0.turn(&mut Vec::with_capacity(EVENTS)).unwrap();
    }

    /// Turns until this holds.
    fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !holds(self) {
            assert!(began.elapsed() < MOST, "it never holds");
            self.turn();
        }
    }

    /// Turns while a client does this.
    fn serve<T: Send>(&mut self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let work = scope.spawn(work);
            while !work.is_finished() {
                self.turn();
            }
            work.join().unwrap()
        })
    }

    /// A new client, or `None` if the server takes none.
    fn try_client(&mut self) -> Option<Ends> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        // A client that is never answered fails.
        theirs.set_read_timeout(Some(MOST)).unwrap();
        theirs.set_write_timeout(Some(MOST)).unwrap();
        let before = self.0.conns.len();
        self.0.admit(Accepted { fd: ours.into(), peer: None, tls: None });
        let own = theirs.try_clone().unwrap();
        (self.0.conns.len() > before).then(|| {
            let begin = || Client::new(Box::new(theirs), Options::default()).unwrap();
            (self.serve(begin), own)
        })
    }

    fn client(&mut self) -> Ends {
        self.try_client().unwrap()
    }

    /// A client that has begun a write of so many bytes, and sends none of them.
    fn greedy(&mut self, len: u32) -> Ends {
        let (mut client, own) = self.client();
        let before = self.pool().used();
        client.submit(Ask::Write, NONE, 0, len, &[]).unwrap();
        self.until(|rig| rig.pool().used() > before);
        (client, own)
    }

    /// A client that waits for memory, for a read of this length.
    fn waiting(&mut self, len: u32) -> Client {
        let (mut client, _) = self.client();
        let waiting = self.pool().waiting();
        client.submit(Ask::Read, NONE, 0, len, &[]).unwrap();
        self.until(|rig| rig.pool().waiting() > waiting);
        client
    }

    /// Takes the requests that the newest client has sent, and lets none of them end.
    fn take(&mut self) -> usize {
        self.take_of(self.0.served)
    }

    fn take_of(&mut self, number: u64) -> usize {
        let (key, conn) = self.0.conns.iter_mut().find(|(_, c)| c.token() >> 32 == number).unwrap();
        conn.receive(&mut self.0.volume, false).unwrap();
        key
    }

    fn pool(&self) -> &PayloadPool {
        &self.0.volume.memories.payload
    }
}

fn is(client: &mut Client, byte: u8) {
    let ended = client.next_end().unwrap();
    ended.result.unwrap();
    assert!(!ended.data.is_empty() && ended.data.iter().all(|&b| b == byte));
}

#[test]
fn who_waits_for_memory_has_it_once_it_is_free() {
    let mut rig = Rig::new(LONGEST as usize);
    let (mut greedy, mut rest) = rig.greedy(LONGEST);
    let (mut first, mut second) = (rig.waiting(1 << 20), rig.waiting(1 << 20));
    // Short requests have memory of their own.
    let (mut short, _) = rig.client();
    rig.serve(|| {
        short.write(48 << 20, &[5; 32 << 10]).unwrap();
        assert_eq!(short.read(48 << 20, 32 << 10).unwrap(), [5; 32 << 10]);
    });
    rig.turn();
    assert!(rig.pool().waiting() == 2 && rig.0.again.is_empty(), "nobody tries again and again");
    rig.serve(|| {
        rest.write_all(&vec![7; LONGEST as usize]).unwrap();
        greedy.next_end().unwrap().result.unwrap();
    });
    rig.until(|rig| rig.pool().waiting() == 0 && rig.0.volume.is_idle());
    // Replies that nobody has taken are memory too.
    assert!(rig.pool().used() >= 1 << 20);
    rig.serve(|| [&mut first, &mut second].into_iter().for_each(|client| is(client, 7)));
    assert_eq!(rig.pool().used(), 0);
}

#[test]
fn clients_of_one_turn_do_not_get_the_same_memory() {
    let mut rig = Rig::new(LONGEST as usize);
    let mut clients = [rig.client(), rig.client()];
    for (client, _) in &mut clients {
        client.submit(Ask::Read, NONE, 0, LONGEST, &[]).unwrap();
    }
    let newest = rig.0.served;
    rig.take_of(newest - 1);
    rig.take_of(newest);
    assert_eq!(rig.pool().waiting(), 1);
    rig.serve(|| is(&mut clients[0].0, 0));
    rig.serve(|| is(&mut clients[1].0, 0));
}

#[test]
fn who_must_first_take_replies_keeps_nobody_waiting() {
    let mut rig = Rig::new(17 << 20);
    let _greedy = rig.greedy(16 << 20);
    // 1 MiB is free. Half of that is for a read in flight; the next read does not fit.
    let (mut next, _) = rig.client();
    let (mut deaf, _) = rig.client();
    for len in [512 << 10, 2 << 20] {
        deaf.submit(Ask::Read, NONE, 32 << 20, len, &[]).unwrap();
    }
    rig.take();
    assert_eq!(rig.pool().waiting(), 1);
    // It fits, and comes later.
    rig.serve(|| assert_eq!(next.read(32 << 20, 256 << 10).unwrap(), vec![0; 256 << 10]));
}

#[test]
fn memory_of_clients_that_have_gone_counts_until_their_requests_end() {
    let mut rig = Rig::new(128 << 10);
    let (mut client, own) = rig.client();
    for _ in 0..200 {
        client.submit(Ask::BlockStatus, NONE, 0, 4096, &[]).unwrap();
    }
    let key = rig.take();
    assert_eq!(rig.pool().waiting(), 1);
    rig.0.drop_conn(key);
    drop((client, own));
    assert!(rig.pool().used() > 160 << 10);
    assert!(rig.try_client().is_none(), "it would have a share of its own");
    rig.until(|rig| rig.0.volume.is_idle());
    rig.turn();
    assert_eq!(rig.pool().used(), 0);
    assert!(rig.try_client().is_some());
}

#[test]
fn who_stalls_goes_and_nobody_else() {
    let mut rig = Rig::new(LONGEST as usize);
    let (_moving, mut rest) = rig.greedy(16 << 20);
    let (_stalled, mut early) = rig.greedy(16 << 20);
    // It has carried enough, but before others wait.
    rig.serve(|| early.write_all(&vec![0; 2 << 20]).unwrap());
    let mut waiting = rig.waiting(1 << 20);
    let _idle = rig.client();
    let began = Instant::now();
    rig.serve(|| rest.write_all(&vec![0; 2 << 20]).unwrap());
    rig.0.end_stalls(began + STALL_MOST / 2);
    assert_eq!(rig.0.conns.len(), 4);
    rig.0.end_stalls(began + STALL_MOST);
    assert_eq!(rig.0.conns.len(), 3, "the stalled client has gone");
    rig.0.end_stalls(began + STALL_MOST * 2 - Duration::from_millis(1));
    assert_eq!(rig.0.conns.len(), 3);
    // It has moved in the time before, and not in this.
    rig.0.end_stalls(began + STALL_MOST * 2);
    assert_eq!(rig.0.conns.len(), 2);
    rig.serve(|| is(&mut waiting, 0));
}

#[test]
fn who_waits_for_the_server_does_not_stall() {
    let mut rig = Rig::new(LONGEST as usize);
    let (mut client, _own) = rig.client();
    for _ in 0..20 {
        client.submit(Ask::BlockStatus, NONE, 0, 4096, &[]).unwrap();
    }
    let key = rig.take();
    assert!(rig.pool().used() > 0 && !rig.0.conns[key].stalls());
}

/// Its request in flight may be slow: zeroes of some GiB.
#[test]
fn who_sends_no_payload_stalls_with_a_request_in_flight_too() {
    let mut rig = Rig::new(LONGEST as usize);
    let (mut client, _own) = rig.client();
    client.submit(Ask::BlockStatus, NONE, 0, 4096, &[]).unwrap();
    client.submit(Ask::Write, NONE, 0, 16 << 20, &[]).unwrap();
    let key = rig.take();
    rig.0.conns[key].act(&mut rig.0.volume, false).unwrap();
    assert!(!rig.0.volume.is_idle() && rig.0.conns[key].stalls());
}

/// No client leaves, and nothing happens: time alone makes it listen.
#[test]
fn who_could_not_be_accepted_comes_in_later() {
    let mut rig = Rig::new(LONGEST as usize);
    let address = "tcp:127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(&address, &Access::default()).unwrap();
    let at = listener.tcp_address().unwrap();
    rig.0.listeners.push(listener);
    let _client = std::net::TcpStream::connect(at).unwrap();
    rig.0.deaf = Some(Instant::now());
    // Without a limit, the loop would wait for this.
    let bell = Arc::clone(&rig.0.bell);
    std::thread::spawn(move || {
        std::thread::sleep(MOST);
        ring(&bell);
    });
    let began = Instant::now();
    while rig.0.conns.is_empty() {
        assert!(began.elapsed() < MOST / 2, "nobody listens");
        rig.0.turn(&mut Vec::with_capacity(EVENTS)).unwrap();
    }
    assert!(began.elapsed() >= STALL_LOOK, "it spins");
    // It may be the kernel's, with a file system on top.
    let (reply, answer) = std::sync::mpsc::sync_channel(1);
    rig.0.obey(Control::Peers(reply));
    assert_eq!(answer.recv().unwrap().1, Some(BYTES / 512));
}
