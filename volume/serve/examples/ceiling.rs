//! The least that a server of the protocol can do, for measurements: `ceiling FILE SOCKET
//! [static]`, until its standard input ends. Its lead over another server is the most that any
//! server of files could gain with this kernel and these clients. One thread polls all sockets and
//! sleeps only without requests. A read is one `pread`, a write one `pwrite` after its whole
//! payload. Nothing is checked, learned, mapped or bounded, so it is fit for nothing else. With
//! `static` it uses no file: only the sockets and the client remain.
#![allow(clippy::print_stdout, reason = "a program")]

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use seekless_nbd::{Command, Export, Request, ServerEvent, ServerSession};

type Error = Box<dyn std::error::Error>;

/// Replies are sent once this number of bytes was read or written for them: the first value for the
/// first replies of a client without company, the second otherwise. The server does the same.
const FLUSH_BYTES: [usize; 3] = [8 << 10, 64 << 10, 128 << 10];
/// The longest input received at once: more than the longest request of the bench.
const INPUT_BYTES: usize = 2 << 20;
/// An input of at most this length is peeked at, and taken after its reply.
const LONE_BYTES: usize = 8192;

struct Conn<'a> {
    stream: UnixStream,
    /// `None` with `static`.
    file: Option<&'a File>,
    session: ServerSession,
    input: Vec<u8>,
    /// Bytes received.
    end: usize,
    out: Vec<u8>,
    /// Pending bytes.
    filled: usize,
    /// Bytes from the session itself.
    replies: Vec<u8>,
    /// The latest input was one request: this client waits for each reply.
    lone: bool,
}

impl<'a> Conn<'a> {
    fn new(stream: UnixStream, size: u64, file: Option<&'a File>) -> Result<Self, Error> {
        stream.set_nonblocking(true)?;
        let mut replies = Vec::new();
        let session = ServerSession::new([Export::new("", size)].into(), &mut replies);
        let (input, out) = (vec![0; 2 * INPUT_BYTES], vec![0; 2 * INPUT_BYTES]);
        let mut conn =
            Self { stream, file, session, input, end: 0, out, filled: 0, replies, lone: false };
        conn.say();
        conn.send()?;
        Ok(conn)
    }

    /// Receives from the socket, or peeks at it; returns the length.
    fn recv(&mut self, to: std::ops::Range<usize>, how: RecvFlags) -> Result<usize, Errno> {
        let room = self.input.get_mut(to).unwrap_or_default();
        match recv(&self.stream, room, how) {
            Ok((_, 0)) => Err(Errno::PIPE),
            Ok((_, n)) => Ok(n),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(e) => Err(e),
        }
    }

    fn send(&mut self) -> Result<(), Errno> {
        let mut waiting = self.out.get(..self.filled).unwrap_or_default();
        while !waiting.is_empty() {
            match send(&self.stream, waiting, SendFlags::NOSIGNAL) {
                Ok(n) => waiting = waiting.get(n..).unwrap_or_default(),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(e) => return Err(e),
            }
        }
        self.filled = 0;
        Ok(())
    }

    /// Polls the socket once, and handles its input. True if there was any.
    fn turn(&mut self, alone: bool) -> Result<bool, Error> {
        let look = self.lone && self.end == 0;
        let (most, how) =
            if look { (LONE_BYTES, RecvFlags::PEEK) } else { (INPUT_BYTES, RecvFlags::empty()) };
        let got = self.recv(self.end..most, how)?;
        if got == 0 {
            return Ok(false);
        }
        self.end += got;
        let [first, then, shared] = FLUSH_BYTES;
        let mut enough = if alone { first } else { shared };
        let (mut at, mut requests, mut written) = (0, 0, 0);
        loop {
            let input = self.input.get(at..self.end).unwrap_or_default();
            // A write starts once its payload is complete.
            if self.session.is_transmitting() && input.len() < whole(input) {
                break;
            }
            let (taken, event) = self.session.step(input, &mut self.replies)?;
            at += taken;
            self.say();
            match event {
                ServerEvent::More(_) => break,
                ServerEvent::Close => return Err("goodbye".into()),
                ServerEvent::Request(request) => {
                    let payload = self.answer(&request, at)?;
                    at += payload;
                    written += payload;
                    requests += 1;
                }
                _ => {}
            }
            if self.filled.max(written) >= enough {
                self.send()?;
                (enough, written) = (enough.max(then), 0);
            }
        }
        self.send()?;
        // Taken only now, so that the client does not wake before its reply.
        let mut left = if look { got } else { 0 };
        while left > 0 {
            left -= self.recv(INPUT_BYTES..INPUT_BYTES + left, RecvFlags::empty())?;
        }
        self.lone = requests == 1 && at == self.end;
        self.input.copy_within(at..self.end, 0);
        self.end -= at;
        Ok(true)
    }

    /// Executes a request; returns the length of its payload.
    fn answer(&mut self, r: &Request, at: usize) -> Result<usize, Errno> {
        let len = r.len as usize;
        match (r.command, self.file) {
            (Command::Read, file) => {
                let header = self.session.read_header(r);
                self.push(header.as_bytes());
                let body = self.out.get_mut(self.filled..self.filled + len).unwrap_or_default();
                if let Some(file) = file {
                    file.read_exact_at(body, r.offset).map_err(|_| Errno::IO)?;
                }
                self.filled += len;
                return Ok(0);
            }
            (Command::Write, Some(file)) => {
                let body = self.input.get(at..at + len).unwrap_or_default();
                file.write_all_at(body, r.offset).map_err(|_| Errno::IO)?;
            }
            _ => {}
        }
        self.session.done(r.cookie, &mut self.replies);
        self.say();
        if r.command != Command::Write {
            return Ok(0);
        }
        self.session.payload_received(r.len);
        Ok(len)
    }

    fn push(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        if let Some(room) = self.out.get_mut(self.filled..end) {
            room.copy_from_slice(bytes);
            self.filled = end;
        }
    }

    fn say(&mut self) {
        let said = std::mem::take(&mut self.replies);
        self.push(&said);
        self.replies = said;
        self.replies.clear();
    }
}

/// Bytes of the first request with its payload.
fn whole(input: &[u8]) -> usize {
    let number = |at: std::ops::Range<usize>| {
        let bytes = input.get(at).unwrap_or_default();
        bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    };
    28 + if number(6..8) == Command::Write as usize { number(24..28) } else { 0 }
}

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, socket, rest @ ..] = args.as_slice() else {
        return Err("usage: ceiling FILE SOCKET [static]".into());
    };
    let file = File::options().read(true).write(true).open(file)?;
    let size = file.metadata()?.len();
    let file = rest.is_empty().then_some(&file);
    let listener = UnixListener::bind(socket)?;
    listener.set_nonblocking(true)?;
    std::thread::spawn(|| {
        // There is no input; its end is the signal.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    println!("ready");
    let mut conns: Vec<Conn<'_>> = Vec::new();
    let (mut latest, mut round) = (Instant::now(), 0u8);
    loop {
        let mut any = false;
        let alone = conns.len() == 1;
        conns.retain_mut(|conn| conn.turn(alone).map(|got| any |= got).is_ok());
        round = round.wrapping_add(1);
        if any {
            latest = Instant::now();
        }
        if round == 0 {
            match listener.accept() {
                Ok((stream, _)) => conns.extend(Conn::new(stream, size, file)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.into()),
            }
            // Other processes get the core while there are no requests.
            if latest.elapsed() > Duration::from_millis(20) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
