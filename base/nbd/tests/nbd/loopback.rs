//! Client and server sessions talk to each other over a connection that splits the stream anywhere.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use seekless_nbd::{
    ClientEvent, ClientSession, Command, CommandFlags, Errno, Export, Options, Request, STATE_HOLE,
    STATE_ZERO, ServerEvent, ServerSession,
};

use crate::harness;

const SIZE: usize = 64 << 10;

/// A server that keeps its data in memory and answers late and out of order.
struct Server {
    session: ServerSession,
    out: Vec<u8>,
    held: Vec<u8>,
    disk: Vec<u8>,
    write: Option<(Request, Vec<u8>)>,
    waiting: VecDeque<Request>,
}

impl Server {
    fn new() -> Self {
        Self::with(|session| session)
    }

    fn with(how: impl FnOnce(ServerSession) -> ServerSession) -> Self {
        let mut out = Vec::new();
        let exports = [Export::new("x", 512), Export::new("disk", SIZE as u64)];
        let session = how(ServerSession::new(exports.into(), &mut out));
        Self {
            session,
            out,
            held: Vec::new(),
            disk: vec![0; SIZE],
            write: None,
            waiting: VecDeque::new(),
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        loop {
            let (taken, event) =
                self.session.step(&self.held, &mut self.out).expect("an honest client");
            match event {
                ServerEvent::More(_) => return,
                ServerEvent::Request(r) if r.command == Command::Write => {
                    self.write = Some((r, Vec::new()));
                }
                ServerEvent::Request(r) => {
                    let range = r.offset as usize..r.offset as usize + r.len as usize;
                    if matches!(r.command, Command::WriteZeroes | Command::Trim) {
                        self.disk[range].fill(0);
                    }
                    self.waiting.push_back(r);
                }
                ServerEvent::Payload { last } => {
                    let (r, data) = self.write.as_mut().expect("a write");
                    data.extend_from_slice(&self.held[..taken]);
                    if last {
                        self.disk[r.offset as usize..][..data.len()].copy_from_slice(data);
                        self.waiting.push_back(*r);
                        self.write = None;
                    }
                }
                _ => {}
            }
            self.held.drain(..taken);
        }
    }

    fn answer(&mut self, newest_first: bool) {
        let next = if newest_first { self.waiting.pop_back() } else { self.waiting.pop_front() };
        let Some(r) = next else { return };
        match r.command {
            Command::Read => {
                self.out.extend_from_slice(self.session.read_header(&r).as_bytes());
                self.out.extend_from_slice(&self.disk[r.offset as usize..][..r.len as usize]);
            }
            Command::BlockStatus => {
                let half = r.len / 2 / 512 * 512;
                let runs = [(half, STATE_HOLE | STATE_ZERO), (u32::MAX, 0)];
                self.session.block_status(&r, &runs, &mut self.out);
            }
            _ => self.session.done(r.cookie, &mut self.out),
        }
    }
}

/// The client's side, with the received reads and statuses.
struct Client {
    session: ClientSession,
    out: Vec<u8>,
    held: Vec<u8>,
    ready: bool,
    refused: bool,
    encrypted: bool,
    reads: BTreeMap<u64, Vec<u8>>,
    statuses: BTreeMap<u64, Vec<(u32, u32)>>,
    done: BTreeMap<u64, Result<(), Errno>>,
}

impl Client {
    fn new(options: Options) -> Self {
        Self {
            session: ClientSession::new(options),
            out: Vec::new(),
            held: Vec::new(),
            ready: false,
            refused: false,
            encrypted: false,
            reads: BTreeMap::new(),
            statuses: BTreeMap::new(),
            done: BTreeMap::new(),
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        loop {
            let (taken, event) =
                self.session.step(&self.held, &mut self.out).expect("an honest server");
            match event {
                ClientEvent::More(_) => return,
                ClientEvent::Ready => self.ready = true,
                ClientEvent::Refused(_) => self.refused = true,
                ClientEvent::StartTls => self.encrypted = true,
                ClientEvent::Data { cookie, at } => {
                    let buf = self.reads.get_mut(&cookie).expect("a read under way");
                    buf[at as usize..at as usize + taken].copy_from_slice(&self.held[..taken]);
                }
                ClientEvent::Status { cookie, len, state } => {
                    self.statuses.entry(cookie).or_default().push((len, state));
                }
                ClientEvent::Done { cookie, result } => {
                    assert_eq!(self.done.insert(cookie, result), None, "done twice");
                }
                _ => {}
            }
            self.held.drain(..taken);
        }
    }
}

fn options(structured: bool, allocation: bool) -> Options {
    Options { export: "disk".into(), structured, allocation, tls: false }
}

/// Moves bytes in both directions, in pieces of `piece` bytes, until both sides are silent.
fn settle(client: &mut Client, server: &mut Server, piece: usize) {
    while !(client.out.is_empty() && server.out.is_empty()) {
        for part in std::mem::take(&mut server.out).chunks(piece) {
            client.take(part);
        }
        for part in std::mem::take(&mut client.out).chunks(piece) {
            server.take(part);
        }
    }
}

#[test]
fn the_client_learns_what_the_server_offers() {
    for (structured, allocation) in [(true, true), (true, false), (false, false)] {
        let (mut c, mut s) = (Client::new(options(structured, allocation)), Server::new());
        settle(&mut c, &mut s, 3);
        assert!(c.ready);
        assert_eq!(c.session.size(), SIZE as u64);
        assert_eq!(c.session.is_structured(), structured);
        assert_eq!(c.session.has_allocation(), allocation);
        assert_eq!(c.session.block_sizes().minimum, 512);
    }
    let mut c = Client::new(Options { export: "none".into(), ..Options::default() });
    settle(&mut c, &mut Server::new(), 100);
    assert!(c.refused && !c.ready);
    assert_eq!(c.session.request(Command::Flush, 0, 0, CommandFlags::NONE, &mut Vec::new()), None);
}

/// Both or neither: nothing is said in the clear to a side that asks for TLS.
#[test]
fn tls_is_for_both_sides_or_for_none() {
    for (asks, requires) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut c = Client::new(Options { tls: asks, ..options(true, true) });
        let mut s = Server::with(|s| if requires { s.with_tls() } else { s });
        settle(&mut c, &mut s, 7);
        assert_eq!((c.ready, c.refused), (asks == requires, asks != requires), "{asks} {requires}");
        assert_eq!(c.encrypted, asks && requires);
    }
}

#[test]
fn block_status_arrives_run_by_run() {
    let (mut c, mut s) = (Client::new(options(true, true)), Server::new());
    settle(&mut c, &mut s, 1000);
    let cookie =
        c.session.request(Command::BlockStatus, 1024, 4096, CommandFlags::NONE, &mut c.out);
    settle(&mut c, &mut s, 5);
    s.answer(false);
    settle(&mut c, &mut s, 5);
    let cookie = cookie.expect("ready");
    assert_eq!(c.statuses[&cookie], [(2048, 3), (2048, 0)]);
    assert_eq!(c.done[&cookie], Ok(()));
    assert_eq!(c.session.in_flight(), 0);
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        structured: bool,
        piece in 1usize..3000,
        steps in prop::collection::vec((0u8..8, 0u64..120, 1u32..8, any::<u8>()), 1..60),
    ) {
        let (mut c, mut s) = (Client::new(options(structured, false)), Server::new());
        settle(&mut c, &mut s, piece);
        let mut flat = vec![0u8; SIZE];
        let mut expected = BTreeMap::new();
        for (kind, sector, sectors, byte) in steps {
            let (offset, len) = (sector * 512, sectors * 512);
            let range = offset as usize..offset as usize + len as usize;
            let none = CommandFlags::NONE;
            match kind {
                0 | 1 => {
                    c.session.request(Command::Write, offset, len, none, &mut c.out).unwrap();
                    c.out.extend(std::iter::repeat_n(byte, len as usize));
                    flat[range].fill(byte);
                }
                2 => {
                    c.session.request(Command::WriteZeroes, offset, len, none, &mut c.out).unwrap();
                    flat[range].fill(0);
                }
                3..=5 => {
                    // Each read is answered on its own: the server answers with the present state
                    // of the disk.
                    while !s.waiting.is_empty() { s.answer(byte % 2 == 0); }
                    settle(&mut c, &mut s, piece);
                    while !s.waiting.is_empty() { s.answer(byte % 2 == 0); }
                    let cookie = c.session.request(Command::Read, offset, len, none, &mut c.out).unwrap();
                    c.reads.insert(cookie, vec![0xEE; len as usize]);
                    expected.insert(cookie, flat[range].to_vec());
                    settle(&mut c, &mut s, piece);
                    while !s.waiting.is_empty() { s.answer(byte % 2 == 0); }
                    settle(&mut c, &mut s, piece);
                    prop_assert_eq!(&c.reads[&cookie], &expected[&cookie]);
                }
                6 => { c.session.request(Command::Flush, 0, 0, none, &mut c.out).unwrap(); }
                _ => s.answer(byte % 2 == 0),
            }
        }
        settle(&mut c, &mut s, piece);
        while !s.waiting.is_empty() { s.answer(true); }
        settle(&mut c, &mut s, piece);
        prop_assert_eq!(c.session.in_flight(), 0);
        prop_assert!(c.done.values().all(Result::is_ok));
    }

    #[test]
    fn a_server_with_corrupt_replies_breaks_nothing(at in 0usize..2000, byte: u8, cut in 0usize..2000) {
        // The bytes that an honest server sends for the requests of the harness's client.
        let mut said = Vec::new();
        let mut session = ServerSession::new(harness::exports().into(), &mut said);
        let mut c = ClientSession::new(Options::default());
        let mut asked = Vec::new();
        let (mut sent, mut heard) = (0, 0);
        for _ in 0..40 {
            let (taken, event) = c.step(&said[heard..], &mut asked).unwrap();
            heard += taken;
            if event == ClientEvent::Ready {
                for command in [Command::Read, Command::BlockStatus, Command::Write] {
                    c.request(command, 4096, 1024, CommandFlags::NONE, &mut asked).unwrap();
                }
                asked.resize(asked.len() + 1024, 1);
            }
            let (taken, event) = session.step(&asked[sent..], &mut said).unwrap();
            sent += taken;
            match event {
                ServerEvent::Request(r) if r.command == Command::Read => {
                    said.extend_from_slice(session.read_header(&r).as_bytes());
                    said.resize(said.len() + r.len as usize, 0x66);
                }
                ServerEvent::Request(r) if r.command == Command::BlockStatus => {
                    session.block_status(&r, &[(512, 3)], &mut said);
                }
                ServerEvent::Request(r) => session.done(r.cookie, &mut said),
                _ => {}
            }
        }
        prop_assert_eq!(c.in_flight(), 0, "the honest conversation ended well");
        harness::client(&said);
        let mut torn = said.clone();
        let at = at % torn.len();
        torn[at] = byte;
        harness::client(&torn);
        torn.truncate(cut % said.len());
        harness::client(&torn);
    }
}
