//! Times of sending: the replies sent during a turn, and at its end.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use rustix::event::{EventfdFlags, eventfd};
use seekless_block::Sectors;
use seekless_engine::{Config, Engine};
use seekless_nbd::{ClientEvent, ClientSession, Options};

use super::*;
use crate::backend::files::{Disk, Files};
use crate::backend::runs::Runs;
use crate::backend::unnamed::opened_memory;
use crate::listen::Accepted;
use crate::memory_shares::Shares;
use crate::volume::{Clock, VolumeParts};

const PAGE: u32 = 4096;
/// A simple reply's header.
const HEADER: usize = 16;

/// A volume in memory of this length.
pub(crate) fn volume(bytes: u64, shares: Shares, bell: Arc<OwnedFd>) -> Volume<Owner> {
    let home = Disk::new(opened_memory(bytes).unwrap().fd, Runs::all());
    volume_of(Config::new(Sectors(bytes / SECTOR_BYTES)), Files::new(home, 0, None), shares, bell)
}

/// A volume of these files.
pub(crate) fn volume_of<O>(
    config: Config,
    files: Result<Files, seekless_host::HostError>,
    shares: Shares,
    bell: Arc<OwnedFd>,
) -> Volume<O> {
    Volume::new(VolumeParts {
        engine: Engine::new(config),
        lasting: false,
        scrub_every: std::time::Duration::MAX,
        drain: false,
        files: Arc::new(files.unwrap()),
        waits: Arc::new(seekless_host::reserve::Waits::new(1)),
        bell,
        emulated: None,
        clock: Clock::new(1.0),
        observer: None,
        tap: None,
        shares,
    })
    .unwrap()
}

/// Bytes sent to a client and not yet read.
fn unread(client: &mut UnixStream) -> usize {
    let (mut all, mut buf) = (0, vec![0; 1 << 20]);
    loop {
        match client.read(&mut buf) {
            Ok(n) => all += n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return all,
            Err(e) => panic!("{e}"),
        }
    }
}

/// Bytes of replies sent during a turn of this number of page requests, and at its end.
fn sent_in_a_turn(command: Command, requests: usize, alone: bool) -> (usize, usize) {
    let bell = Arc::new(eventfd(0, EventfdFlags::empty()).unwrap());
    let mut volume = volume(1 << 20, Shares::UNBOUND, bell);
    let (ours, mut client) = UnixStream::pair().unwrap();
    client.set_nonblocking(true).unwrap();
    let mut conn = Conn::new(
        Accepted { fd: ours.into(), peer: None, tls: None },
        1,
        [Export::new("", 1 << 20)].into(),
        Shares::UNBOUND.client,
    );
    let options =
        Options { export: String::new(), structured: false, allocation: false, tls: false };
    let mut session = ClientSession::new(options);
    let (mut input, mut out) = (Vec::new(), Vec::new());
    loop {
        conn.receive(&mut volume, alone).unwrap();
        conn.flush(&mut volume).unwrap();
        let mut buf = [0; 4096];
        if let Ok(n) = client.read(&mut buf) {
            input.extend_from_slice(&buf[..n]);
        }
        let (taken, event) = session.step(&input, &mut out).unwrap();
        input.drain(..taken);
        client.write_all(&out).unwrap();
        out.clear();
        if matches!(event, ClientEvent::Ready) {
            break;
        }
    }
    for i in 0..requests {
        session.request(command, i as u64 * u64::from(PAGE), PAGE, CommandFlags::NONE, &mut out);
        if command == Command::Write {
            out.extend_from_slice(&[0x5A; PAGE as usize]);
        }
    }
    client.write_all(&out).unwrap();
    conn.receive(&mut volume, alone).unwrap();
    let early = unread(&mut client);
    conn.flush(&mut volume).unwrap();
    (early, unread(&mut client))
}

#[test]
fn a_client_alone_has_its_first_replies_early() {
    let reply = HEADER + PAGE as usize;
    assert_eq!(sent_in_a_turn(Command::Read, 12, true), (2 * reply, 10 * reply));
    assert_eq!(sent_in_a_turn(Command::Write, 12, true), (2 * HEADER, 10 * HEADER));
    // The first two, then each sixteen.
    assert_eq!(sent_in_a_turn(Command::Read, 20, true), (18 * reply, 2 * reply));
    assert_eq!(sent_in_a_turn(Command::Write, 20, true), (18 * HEADER, 2 * HEADER));
}

#[test]
fn clients_that_share_the_server_have_their_replies_at_once() {
    let reply = HEADER + PAGE as usize;
    assert_eq!(sent_in_a_turn(Command::Read, 20, false), (0, 20 * reply));
    assert_eq!(sent_in_a_turn(Command::Write, 20, false), (0, 20 * HEADER));
    assert_eq!(sent_in_a_turn(Command::Read, 40, false), (32 * reply, 8 * reply));
}
