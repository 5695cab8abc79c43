//! Clients that flood, stall, disappear or never read. An honest client must not be affected.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use seekless_block::{Bytes, Dice};
use seekless_nbd::{Command, CommandFlags, Options};
use seekless_serve::client::Client;
use seekless_serve::{Backing, Builder, ServerHandle};

use crate::client;

fn server() -> ServerHandle {
    Builder::new(Backing::Memory(Bytes(64 << 20))).spawn().unwrap()
}

/// An honest client does its work.
fn honest(server: &ServerHandle) {
    let mut c = client(server);
    for i in 0..20u8 {
        c.write(u64::from(i) * 4096, &[i; 4096]).unwrap();
        assert_eq!(c.read(u64::from(i) * 4096, 4096).unwrap(), [i; 4096]);
    }
    c.flush().unwrap();
    c.disconnect().unwrap();
}

/// Starts a session by hand, so that later bytes may be invalid.
pub(crate) fn raw(server: &ServerHandle) -> UnixStream {
    let stream = server.connect().unwrap();
    let options = Options { structured: false, allocation: false, ..Options::default() };
    Client::new(Box::new(stream.try_clone().unwrap()), options).unwrap();
    stream
}

pub(crate) fn request(command: Command, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut out = 0x2560_9513u32.to_be_bytes().to_vec();
    out.extend(CommandFlags::NONE.bits().to_be_bytes());
    out.extend((command as u16).to_be_bytes());
    out.extend(cookie.to_be_bytes());
    out.extend(offset.to_be_bytes());
    out.extend(len.to_be_bytes());
    out
}

#[test]
fn noise_kills_nobody_but_its_maker() {
    let server = server();
    let mut random = Dice::new(7);
    for round in 0..200u64 {
        let mut stream = if round % 2 == 0 { raw(&server) } else { server.connect().unwrap() };
        let noise: Vec<u8> = (0..random.below(5000)).map(|_| random.draw() as u8).collect();
        // The server may close the connection.
        let _ = stream.write_all(&noise);
        if round % 3 == 0 {
            stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
            let _ = stream.read(&mut [0; 4096]);
        }
        if round % 50 == 0 {
            honest(&server);
        }
    }
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../base/nbd/corpus/server");
    for entry in std::fs::read_dir(corpus).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        for cut in [bytes.len(), bytes.len() / 2] {
            let _ = server.connect().unwrap().write_all(&bytes[..cut]);
        }
    }
    honest(&server);
    server.stop().unwrap();
}

#[test]
fn silent_and_half_spoken_clients_hold_nobody_up() {
    let server = server();
    let mut idle = Vec::new();
    for i in 0..60 {
        let mut stream = if i % 2 == 0 { raw(&server) } else { server.connect().unwrap() };
        // Half a header, or a header without its payload.
        let half = request(Command::Write, 1, 0, 32 << 20);
        stream.write_all(&half[..if i % 4 == 0 { 28 } else { 13 }]).unwrap();
        idle.push(stream);
    }
    honest(&server);
    drop(idle);
    honest(&server);
    server.stop().unwrap();
}

#[test]
fn who_reads_no_replies_waits_alone_and_loses_none() {
    let server = server();
    let at = 32 << 20;
    client(&server).write(at, &vec![0xC3; 1 << 20]).unwrap();
    // 300 MiB of replies in their own buffers, then the same amount built in place.
    for len in [1 << 20, 100 << 10] {
        flood(&server, at, len, (300 << 20) / u64::from(len));
    }
    server.stop().unwrap();
}

/// Asks for far more than the server may hold for a client, before reading a reply.
fn flood(server: &ServerHandle, at: u64, len: u32, asks: u64) {
    let mut deaf = raw(server);
    let mut sender = deaf.try_clone().unwrap();
    let send = std::thread::spawn(move || {
        for cookie in 0..asks {
            sender.write_all(&request(Command::Read, cookie, at, len)).unwrap();
        }
    });
    for _ in 0..5 {
        honest(server);
    }
    let mut seen = vec![false; asks as usize];
    let mut reply = vec![0; 16 + len as usize];
    for _ in 0..asks {
        deaf.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
        let cookie = u64::from_be_bytes(reply[8..16].try_into().unwrap());
        assert!(!std::mem::replace(&mut seen[cookie as usize], true));
        assert!(reply[16..].iter().all(|&b| b == 0xC3));
    }
    assert!(seen.iter().all(|&s| s));
    send.join().unwrap();
}

#[test]
fn long_and_short_writes_in_one_stream_arrive_whole() {
    let server = server();
    let mut random = Dice::new(11);
    let mut stream = raw(&server);
    let mut sender = stream.try_clone().unwrap();
    // Each has its own place and bytes.
    let lens: Vec<usize> = (0..200)
        .map(|i| {
            [512, 4096, 64 << 10, 128 << 10, 300 << 10, 1 << 20][(i + random.below(3) as usize) % 6]
        })
        .scan(0, |used, len| {
            *used += len;
            (*used <= 60 << 20).then_some(len)
        })
        .collect();
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    for (i, &len) in lens.iter().enumerate() {
        bytes.extend(request(Command::Write, i as u64, expected.len() as u64, len as u32));
        let payload: Vec<u8> = (0..len).map(|b| (b * 31 + i * 7) as u8).collect();
        bytes.extend_from_slice(&payload);
        expected.extend(payload);
    }
    let send = std::thread::spawn(move || {
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let part = rest.len().min(1 + random.below(400_000) as usize);
            sender.write_all(&rest[..part]).unwrap();
            rest = &rest[part..];
        }
    });
    let mut seen = vec![false; lens.len()];
    let mut reply = [0; 16];
    for _ in 0..lens.len() {
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
        let cookie = u64::from_be_bytes(reply[8..].try_into().unwrap());
        assert!(!std::mem::replace(&mut seen[cookie as usize], true));
    }
    send.join().unwrap();
    let mut reader = client(&server);
    for (i, part) in expected.chunks(1 << 20).enumerate() {
        assert!(reader.read((i as u64) << 20, part.len() as u32).unwrap() == part, "MiB {i}");
    }
    server.stop().unwrap();
}

#[test]
fn who_leaves_with_work_under_way_disturbs_nobody() {
    let server = server();
    for round in 0..50 {
        let mut stream = raw(&server);
        for cookie in 0..20 {
            stream.write_all(&request(Command::Flush, cookie, 0, 0)).unwrap();
            stream.write_all(&request(Command::Trim, cookie, 32 << 20, 4096)).unwrap();
            stream.write_all(&request(Command::Read, cookie, 0, 1 << 20)).unwrap();
        }
        if round % 2 == 0 {
            stream.shutdown(std::net::Shutdown::Both).unwrap();
        }
    }
    honest(&server);
    assert!(server.stats().unwrap().clients <= 50);
    server.stop().unwrap();
}

#[test]
fn too_many_clients_are_turned_away_and_room_is_found_again() {
    let server = server();
    let crowd: Vec<_> = (0..200).map(|_| server.connect().unwrap()).collect();
    let clients = server.stats().unwrap().clients;
    assert!(clients < 200, "{clients}");
    drop(crowd);
    // The server may see their end after the new client; only then is there room.
    while server.stats().unwrap().clients > 0 {
        std::thread::yield_now();
    }
    honest(&server);
}
