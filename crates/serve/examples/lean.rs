//! A lean NBD client for measurements: `lean SOCKET read|write|seqread|seqwrite DEPTH SECONDS [sleep|poll]
//! [EXPORT] [CONNECTIONS]`. Keeps DEPTH requests in flight on each connection, of 4 KiB at random places or of
//! 1 MiB one after another (`seq`), sends all that a round allows in one call, takes all replies that wait in
//! one call, copies no data; prints requests per second. Waiting for replies it sleeps, as most clients do,
//! or polls, so that its own waking up is not measured. Connections have a thread each and begin together.
#![allow(clippy::print_stdout, reason = "a program")]
#![allow(clippy::print_stderr, reason = "a program")]

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use seekless_nbd::{ClientEvent, ClientSession, Command, CommandFlags, Options};

type Error = Box<dyn std::error::Error>;

/// xorshift64*: a fixed stream of addresses for a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % n
    }
}

/// What every connection does.
struct Load {
    socket: String,
    command: Command,
    sequential: bool,
    /// Of each request.
    bytes: u32,
    depth: usize,
    time: Duration,
    poll: bool,
    export: String,
    begin: Barrier,
}

/// Sends all, polling where the socket is full.
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

/// One connection, the `index`th: requests per second.
fn run(load: &Load, index: u64) -> Result<f64, Error> {
    let Load { command, sequential, bytes, depth, time, .. } = *load;
    // Each connection asks in an order of its own.
    let mut random = Random(0x5EED + index);
    let mut next = random.below(1 << 16);
    let mut stream = UnixStream::connect(&load.socket)?;
    let options = Options { export: load.export.clone(), structured: false, allocation: false };
    let mut session = ClientSession::new(options);
    let mut out = Vec::with_capacity(depth * (4096 + 28));
    let mut buf = vec![0u8; 1 << 20];
    let (mut start, mut end) = (0, 0);
    let payload = vec![0x5Au8; if command == Command::Write { bytes as usize } else { 0 }];
    let (mut done, mut begun) = (0u64, None);
    let (mut took, mut counted) = (None, None);
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
                    // No more; the rest comes in, then goodbye.
                    wanted = 0;
                    took.get_or_insert_with(|| begun.map_or(time, |b| b.elapsed()));
                    counted.get_or_insert(done);
                    if session.in_flight() == 0 {
                        break;
                    }
                }
                let blocks = (session.size() / u64::from(bytes)).max(1);
                for _ in 0..wanted {
                    next = if sequential { (next + 1) % blocks } else { random.below(blocks) };
                    let offset = next * u64::from(bytes);
                    session.request(command, offset, bytes, CommandFlags::NONE, &mut out);
                    if sequential {
                        // Copying as much as this would be measured, too.
                        send(&mut stream, &out)?;
                        out.clear();
                        send(&mut stream, &payload)?;
                    } else {
                        out.extend_from_slice(&payload);
                    }
                }
                wanted = 0;
                if !out.is_empty() {
                    send(&mut stream, &out)?;
                    out.clear();
                }
                buf.copy_within(start..end, 0);
                end -= start;
                start = 0;
                let n = loop {
                    match stream.read(buf.get_mut(end..).unwrap_or_default()) {
                        Err(e) if e.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                        other => break other?,
                    }
                };
                if n == 0 {
                    return Err("the server hung up".into());
                }
                end += n;
            }
            _ => {}
        }
    }
    session.request(Command::Disconnect, 0, 0, CommandFlags::NONE, &mut out);
    send(&mut stream, &out)?;
    Ok(counted.unwrap_or(done) as f64 / took.unwrap_or(time).as_secs_f64())
}

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().collect();
    let [_, socket, op, depth, seconds, rest @ ..] = args.as_slice() else {
        return Err("usage: lean SOCKET read|write|seqread|seqwrite DEPTH SECONDS [sleep|poll] \
                    [EXPORT] [CONNECTIONS]"
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
        time: Duration::from_secs_f64(seconds.parse()?),
        poll: rest.first().is_some_and(|w| w == "poll"),
        export: rest.get(1).cloned().unwrap_or_default(),
        begin: Barrier::new(usize::try_from(connections)?),
    };
    let rates = std::thread::scope(|scope| {
        let load = &load;
        let runs: Vec<_> = (0..connections)
            .map(|index| {
                scope.spawn(move || {
                    run(load, index).unwrap_or_else(|e| {
                        // The others would wait for it to begin.
                        eprintln!("connection {index}: {e}");
                        std::process::exit(1)
                    })
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap_or_default()).sum::<f64>()
    });
    println!("{rates:.0}");
    Ok(())
}
