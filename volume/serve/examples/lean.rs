//! A lean NBD client for measurements: `lean SOCKET read|write|seqread|seqwrite DEPTH SECONDS
//! [sleep|poll] [EXPORT] [CONNECTIONS] [MIB]`. Keeps DEPTH requests in flight on each connection: 4
//! KiB at random places, or 1 MiB in sequence (`seq`), in the first MIB of the device. Sends all
//! requests of a round in one call, receives all waiting replies in one call, and copies no data.
//! Prints requests per second. It sleeps while it waits for replies, like most clients, or polls,
//! so that its own wake-up is not measured. Each connection has a thread; all begin together. The
//! total counts over the time from the first start to the last end, because threads may delay each
//! other.
#![allow(clippy::print_stdout, reason = "a program")]
#![allow(clippy::print_stderr, reason = "a program")]

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use seekless_block::Dice;
use seekless_nbd::{ClientEvent, ClientSession, Command, CommandFlags, Options};

type Error = Box<dyn std::error::Error>;

/// The work of each connection.
struct Load {
    socket: String,
    command: Command,
    sequential: bool,
    /// Length of a request.
    bytes: u32,
    depth: usize,
    /// Bytes of the device in use.
    span: u64,
    time: Duration,
    poll: bool,
    export: String,
    begin: Barrier,
}

/// Sends everything; polls if the socket is full.
fn send(stream: &mut UnixStream, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads the bytes that have arrived. Polls if the socket is empty.
fn receive(stream: &mut UnixStream, into: &mut [u8]) -> Result<usize, Error> {
    loop {
        match stream.read(into) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Ok(0) => return Err("the server hung up".into()),
            other => return Ok(other?),
        }
    }
}

/// Sends a request for each of these offsets.
fn ask(
    load: &Load,
    session: &mut ClientSession,
    stream: &mut UnixStream,
    out: &mut Vec<u8>,
    payload: &[u8],
    offsets: impl Iterator<Item = u64>,
) -> Result<(), Error> {
    for offset in offsets {
        session.request(load.command, offset, load.bytes, CommandFlags::NONE, out);
        if load.sequential {
            // A copy of this many bytes would be measured, too.
            send(stream, out)?;
            out.clear();
            send(stream, payload)?;
        } else {
            out.extend_from_slice(payload);
        }
    }
    send(stream, out)?;
    out.clear();
    Ok(())
}

/// One connection, the `index`th: requests done, and from when to when.
fn run(load: &Load, index: u64) -> Result<(u64, Instant, Instant), Error> {
    let Load { command, sequential, bytes, depth, time, .. } = *load;
    // Each connection has its own order.
    let mut dice = Dice::new(0x5EED + index);
    let mut next = dice.below(1 << 16);
    let mut stream = UnixStream::connect(&load.socket)?;
    let options =
        Options { export: load.export.clone(), structured: false, allocation: false, tls: false };
    let mut session = ClientSession::new(options);
    let mut out = Vec::with_capacity(depth * (4096 + 28));
    let mut buf = vec![0u8; 1 << 20];
    let (mut start, mut end) = (0, 0);
    let payload = vec![0x5Au8; if command == Command::Write { bytes as usize } else { 0 }];
    let (mut done, mut begun) = (0u64, None);
    let mut counted = None;
    let mut wanted = 0;
    loop {
        let (taken, event) = session.step(buf.get(start..end).unwrap_or_default(), &mut out)?;
        start += taken;
        match event {
            ClientEvent::Ready => {
                wanted = depth;
                stream.set_nonblocking(load.poll)?;
                load.begin.wait();
                begun = Some(Instant::now());
            }
            ClientEvent::Done { result, .. } => {
                result?;
                done += 1;
                wanted += 1;
            }
            ClientEvent::More(_) => {
                if begun.is_some_and(|b| b.elapsed() >= time) {
                    // No more requests: receives the rest, then ends the session.
                    wanted = 0;
                    counted.get_or_insert((done, Instant::now()));
                    if session.in_flight() == 0 {
                        break;
                    }
                }
                let blocks = (session.size().min(load.span) / u64::from(bytes)).max(1);
                let offsets = (0..wanted).map(|_| {
                    next = if sequential { (next + 1) % blocks } else { dice.below(blocks) };
                    next * u64::from(bytes)
                });
                ask(load, &mut session, &mut stream, &mut out, &payload, offsets)?;
                wanted = 0;
                buf.copy_within(start..end, 0);
                end -= start;
                start = 0;
                end += receive(&mut stream, buf.get_mut(end..).unwrap_or_default())?;
            }
            _ => {}
        }
    }
    session.request(Command::Disconnect, 0, 0, CommandFlags::NONE, &mut out);
    send(&mut stream, &out)?;
    let (done, end) = counted.unwrap_or((done, Instant::now()));
    Ok((done, begun.unwrap_or(end), end))
}

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().collect();
    let [_, socket, op, depth, seconds, rest @ ..] = args.as_slice() else {
        return Err("usage: lean SOCKET read|write|seqread|seqwrite DEPTH SECONDS [sleep|poll] \
                    [EXPORT] [CONNECTIONS] [MIB]"
            .into());
    };
    let (command, sequential) = match op.as_str() {
        "read" => (Command::Read, false),
        "write" => (Command::Write, false),
        "seqread" => (Command::Read, true),
        "seqwrite" => (Command::Write, true),
        _ => return Err("the second argument is read, write, seqread or seqwrite".into()),
    };
    let connections: u64 = rest.get(2).map_or(Ok(1), |n| n.parse())?;
    let load = Load {
        socket: socket.clone(),
        command,
        sequential,
        bytes: if sequential { 1 << 20 } else { 4096 },
        depth: depth.parse()?,
        span: rest.get(3).map_or(Ok(u64::MAX), |mib| mib.parse::<u64>().map(|n| n << 20))?,
        time: Duration::from_secs_f64(seconds.parse()?),
        poll: rest.first().is_some_and(|w| w == "poll"),
        export: rest.get(1).cloned().unwrap_or_default(),
        begin: Barrier::new(usize::try_from(connections)?),
    };
    let ran: Vec<(u64, Instant, Instant)> = std::thread::scope(|scope| {
        let load = &load;
        let runs: Vec<_> = (0..connections)
            .map(|index| {
                scope.spawn(move || {
                    run(load, index).unwrap_or_else(|e| {
                        // The others would wait for its start.
                        eprintln!("connection {index}: {e}");
                        std::process::exit(1)
                    })
                })
            })
            .collect();
        // A thread that panicked has reported it.
        runs.into_iter().filter_map(|run| run.join().ok()).collect()
    });
    let done: u64 = ran.iter().map(|r| r.0).sum();
    let began = ran.iter().map(|r| r.1).min().ok_or("no connection was asked for")?;
    let end = ran.iter().map(|r| r.2).max().ok_or("no connection was asked for")?;
    println!("{:.0}", done as f64 / (end - began).as_secs_f64());
    Ok(())
}
