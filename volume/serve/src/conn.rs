//! One NBD client: its receive buffer, its session, its pending replies, and its requests in
//! flight.

mod memory;
mod turn;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno as HostErrno;
use rustix::net::RecvFlags;
use seekless_block::{Extent, Flags, Op, SECTOR_BYTES};
use seekless_engine::Target;
use seekless_nbd::{Command, CommandFlags, Errno, Export, Request, ServerSession};

use crate::backend::FAST_ZERO;
use crate::backend::workers::Work;
use crate::listen::{Accepted, Peer};
use crate::memory::Data;
use crate::memory_shares::ClientShare;
use crate::reply_buffers::Out;
use crate::tls::Tls;
use crate::volume::{Finished, Volume};
pub(crate) use memory::memory_of;

/// After a write of this length, another such write is likely. Its payload is received into a
/// separate buffer, not behind its header.
const BULK_BYTES: usize = 128 << 10;
/// Most bytes received if only headers are wanted.
const HEADERS_BYTES: usize = 4096;
/// Reads up to this length, and half the send buffer, are answered in the send buffer if the page
/// cache has the data.
const INLINE_BYTES: usize = 128 << 10;
/// Replies are sent once this number of bytes was read or written for them. Earlier calls would not
/// help: each may wake the client.
const FLUSH_BYTES: usize = 64 << 10;
/// If there is only one client, this client gets the first replies of a turn after this number of
/// bytes. The client wakes up while the server makes a few more replies.
const FIRST_BYTES: usize = 8 << 10;
/// With other clients, earlier replies gain nothing. This size fits into a socket.
const SHARED_BYTES: usize = 128 << 10;
/// A client with this number of requests in flight is not read.
const REQUESTS_MAX: usize = 256;
/// A client with this number of bytes in flight or unsent is not read. One more request may exceed
/// it.
const BYTES_MAX: usize = 8 << 20;
/// Payload of one turn; then other clients follow.
const TURN_BYTES: usize = 1 << 20;
/// The least cost of a request in a turn.
const REQUEST_COST_BYTES: usize = 4096;
/// Bytes peeked at for a client that waits for each reply: a write of a page with its header fits.
const LONE_BYTES: usize = 8192;
/// A client with this number of requests in one call does not wait for each reply.
const SEVERAL: usize = 2;
/// Data up to this length is copied behind its header; longer data is sent from its own buffer.
const COPY_BYTES: usize = 16 << 10;

/// The origin of a request to a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// A client's request.
    Client { token: u64, request: Request },
    /// A job from another thread.
    Injected(usize),
}

/// The connection has ended.
#[derive(Debug)]
pub(crate) struct ConnectionOver;

#[derive(Debug)]
pub(crate) struct Conn {
    fd: OwnedFd,
    token: u64,
    session: ServerSession,
    received: Vec<u8>,
    start: usize,
    end: usize,
    pub(crate) out: Out,
    /// Bytes from the session itself.
    replies: Vec<u8>,
    /// A write with incomplete payload, and the length received.
    write: Option<(Request, Vec<u8>, usize)>,
    /// A request that was taken from the input, and has not begun.
    next: Option<Request>,
    in_flight: usize,
    in_flight_bytes: usize,
    /// Memory of the requests in flight.
    in_flight_held: usize,
    /// Memory of this client's own, and what it holds beyond that.
    share: ClientShare,
    beyond: usize,
    /// Bytes of payload received so far.
    carried: u64,
    /// Bytes received and sent when somebody began to wait for memory.
    carried_then: u64,
    /// The client disconnects or has closed the connection: nothing more is read.
    leaving: bool,
    /// The socket is full.
    blocked: bool,
    /// Unread input waits for room.
    waiting: bool,
    /// The latest write was long: receive the next header alone.
    bulk: bool,
    /// The latest input was one short request: this client waits for each reply.
    lone: bool,
    /// Bytes received by peeking, still in the socket.
    looked_at: usize,
    /// Events that the loop watches for.
    pub(crate) watched: EventFlags,
    /// The loop has it in its list.
    pub(crate) marked: bool,
    /// Failed flushes of home that this client has heard of.
    pub(crate) failures_heard: u64,
    /// The settings of TLS until it begins, if it must.
    tls: Option<Tls>,
    /// The client may begin with TLS.
    starts_tls: bool,
    /// Where the client comes from.
    pub(crate) peer: Option<Peer>,
}

impl Conn {
    pub(crate) fn new(
        client: Accepted,
        token: u64,
        exports: Arc<[Export]>,
        share: ClientShare,
    ) -> Self {
        let Accepted { fd, peer, tls } = client;
        let mut replies = Vec::with_capacity(4096);
        let session = ServerSession::new(exports, &mut replies);
        let session = if tls.is_some() { session.with_tls() } else { session };
        let mut conn = Self {
            fd,
            token,
            session,
            received: vec![0; share.received],
            start: 0,
            end: 0,
            out: Out::new(share.replies),
            replies,
            write: None,
            next: None,
            in_flight: 0,
            in_flight_bytes: 0,
            in_flight_held: 0,
            share,
            beyond: 0,
            carried: 0,
            carried_then: 0,
            leaving: false,
            blocked: false,
            waiting: false,
            bulk: false,
            lone: false,
            failures_heard: 0,
            looked_at: 0,
            watched: EventFlags::empty(),
            marked: false,
            tls,
            starts_tls: false,
            peer,
        };
        conn.say();
        conn
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) const fn token(&self) -> u64 {
        self.token
    }

    /// True until the client has chosen an export.
    pub(crate) const fn is_greeting(&self) -> bool {
        !self.session.is_transmitting()
    }

    /// True if TLS must begin now, with [`Self::start_tls`].
    pub(crate) const fn starts_tls(&self) -> bool {
        self.starts_tls
    }

    /// Begins with TLS: the connection has another socket from now on. The last reply without TLS
    /// must be sent, and nothing may have come behind the client's request for TLS.
    pub(crate) fn start_tls(&mut self) -> Result<(), ConnectionOver> {
        self.starts_tls = false;
        self.let_go()?;
        let tls = self.tls.take().filter(|_| self.start == self.end && self.out.pending() == 0);
        // The old descriptor lives on in the thread of TLS.
        let own = self.fd.try_clone().map_err(|_| ConnectionOver)?;
        self.fd = tls.ok_or(ConnectionOver)?.wrap(own).map_err(|_| ConnectionOver)?;
        Ok(())
    }

    /// Whether to watch the socket for input, and for room.
    pub(crate) const fn interest(&self) -> (bool, bool) {
        (!self.leaving && !self.waiting, self.blocked)
    }

    /// True if nothing keeps the connection open.
    pub(crate) const fn is_over(&self) -> bool {
        self.leaving && self.in_flight == 0 && self.out.pending() == 0 && self.next.is_none()
    }

    /// Takes no more requests.
    pub(crate) const fn leave(&mut self) {
        self.leaving = true;
        self.next = None;
    }

    /// True if the client must wait because it has too much in flight.
    pub(crate) fn is_full(&self) -> bool {
        self.in_flight >= REQUESTS_MAX
            || self.in_flight_bytes + self.out.pending() >= BYTES_MAX
            || (self.blocked && self.out.pending() >= FLUSH_BYTES)
    }

    /// Receives waiting input once, and acts on it.
    pub(crate) fn receive(
        &mut self,
        volume: &mut Volume<Owner>,
        alone: bool,
    ) -> Result<(), ConnectionOver> {
        if self.take()? { self.act(volume, alone) } else { Ok(()) }
    }

    /// True if a client that waits for each reply has sent something, for the next turn.
    pub(crate) fn look(&mut self) -> bool {
        if !self.lone || self.waiting || !matches!(self.take(), Ok(true)) {
            return false;
        }
        self.waiting = true;
        true
    }

    /// Receives from the socket. True if there was anything, also the end of the connection.
    fn take(&mut self) -> Result<bool, ConnectionOver> {
        self.let_go()?;
        if self.leaving {
            return Ok(false);
        }
        let got = match &mut self.write {
            Some((r, buf, have)) if self.start == self.end => {
                let rest = buf.get_mut(*have..r.len as usize).unwrap_or_default();
                let got = rustix::net::recv(&self.fd, rest, RecvFlags::DONTWAIT).map(|n| n.1);
                if let Ok(n) = got {
                    *have += n;
                    self.carried += n as u64;
                    self.session.payload_received(n as u32);
                }
                got
            }
            _ => {
                let look = self.lone && self.end == 0;
                let (most, how) = if look {
                    (LONE_BYTES, RecvFlags::DONTWAIT | RecvFlags::PEEK)
                } else if self.bulk {
                    (self.end + HEADERS_BYTES, RecvFlags::DONTWAIT)
                } else {
                    (self.received.len(), RecvFlags::DONTWAIT)
                };
                let room = self.end..most.min(self.received.len());
                let room = self.received.get_mut(room).unwrap_or_default();
                let got = rustix::net::recv(&self.fd, room, how).map(|n| n.1);
                if let Ok(n) = got {
                    self.end += n;
                    self.looked_at = if look { n } else { 0 };
                }
                got
            }
        };
        match got {
            Ok(n) => {
                self.leaving = n == 0;
                Ok(true)
            }
            Err(HostErrno::AGAIN | HostErrno::INTR) => Ok(false),
            Err(_) => Err(ConnectionOver),
        }
    }

    /// Removes peeked bytes from the socket. Sends replies first, because the removal may wake a
    /// client that waits for a reply.
    pub(crate) fn let_go(&mut self) -> Result<(), ConnectionOver> {
        while self.looked_at > 0 {
            // The peeked bytes are in front.
            let past = self.received.get_mut(LONE_BYTES..LONE_BYTES + self.looked_at);
            match rustix::net::recv(&self.fd, past.unwrap_or_default(), RecvFlags::DONTWAIT) {
                Ok((_, n @ 1..)) => self.looked_at -= n,
                Err(HostErrno::INTR) => {}
                // Peeked bytes cannot disappear.
                _ => return Err(ConnectionOver),
            }
        }
        Ok(())
    }

    /// Ends the connection after a violation of the protocol.
    fn refuse(&mut self, volume: &mut Volume<Owner>) -> ConnectionOver {
        // Earlier replies may still help the user of the client.
        self.say();
        let _ = self.flush(volume);
        // Unread bytes in a closed socket may cost the client these replies.
        let _ = self.let_go();
        ConnectionOver
    }

    /// Takes received bytes as payload of the incomplete write.
    fn payload(&mut self, len: usize) {
        let part = self.start..self.start + len;
        if let Some((_, buf, have)) = &mut self.write
            && let (Some(dst), Some(src)) =
                (buf.get_mut(*have..*have + len), self.received.get(part))
        {
            dst.copy_from_slice(src);
            *have += len;
            self.carried += len as u64;
        }
        self.start += len;
    }

    pub(crate) fn flush(&mut self, volume: &mut Volume<Owner>) -> Result<(), ConnectionOver> {
        let done = self.out.flush(self.fd.as_fd(), &mut volume.memories.buffers);
        self.blocked = !done.map_err(|_| ConnectionOver)?;
        self.account(&mut volume.memories.payload);
        Ok(())
    }

    /// Moves the session's bytes to the stream.
    fn say(&mut self) {
        self.out.push(&self.replies);
        self.replies.clear();
    }

    /// Makes space for `need` bytes from the first unread byte.
    fn make_room(&mut self, need: usize) {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.start + need > self.received.len() || self.end == self.received.len() {
            self.received.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }

    /// Starts a write whose payload is now complete.
    fn finish_write(&mut self, volume: &mut Volume<Owner>) {
        if self.write.as_ref().is_some_and(|(r, _, have)| *have == r.len as usize)
            && let Some((r, buf, _)) = self.write.take()
        {
            self.begin(&r, Op::Write, Data::Owned(buf), volume);
        }
    }

    fn request(&mut self, r: Request, volume: &mut Volume<Owner>) {
        let owner = Owner::Client { token: self.token, request: r };
        match r.command {
            Command::Read => self.read(r, volume),
            Command::Write => self.write(r, volume),
            Command::Flush => self.begin(&r, Op::Flush, Data::None, volume),
            Command::Trim => self.begin(&r, Op::Discard, Data::None, volume),
            Command::WriteZeroes => self.begin(&r, Op::WriteZeroes, Data::None, volume),
            Command::Cache => {
                self.under_way(&r);
                volume.ask(owner, Work::WillNeed(Target::Home), r.offset, r.len);
            }
            Command::BlockStatus => {
                self.under_way(&r);
                volume.ask(owner, Work::Status, r.offset, r.len);
            }
            Command::Disconnect => {}
        }
    }

    #[inline]
    fn read(&mut self, r: Request, volume: &mut Volume<Owner>) {
        let len = r.len as usize;
        if len > INLINE_BYTES.min(self.share.replies / 2) {
            let buf = volume.memories.buffers.take(len);
            return self.begin(&r, Op::Read, Data::Owned(buf), volume);
        }
        let header = self.session.read_header(&r);
        let header = header.as_bytes();
        let (head, body) = self.out.room(header.len() + len).split_at_mut(header.len());
        let owner = Owner::Client { token: self.token, request: r };
        match volume.start(owner, Op::Read, extent_of(&r), flags_of(&r), Data::Read(body)) {
            Some(Ok(())) => {
                head.copy_from_slice(header);
                self.out.keep(header.len() + len);
            }
            Some(Err(errno)) => self.fail(&r, errno),
            None => self.under_way(&r),
        }
    }

    #[inline]
    fn write(&mut self, r: Request, volume: &mut Volume<Owner>) {
        let len = r.len as usize;
        self.bulk = len >= BULK_BYTES;
        let Some(payload) = self.received.get(self.start..self.end).and_then(|p| p.get(..len))
        else {
            self.write = Some((r, volume.memories.buffers.take(len), 0));
            return;
        };
        self.session.payload_received(r.len);
        let owner = Owner::Client { token: self.token, request: r };
        let data = Data::Write(payload);
        let result = volume.start(owner, Op::Write, extent_of(&r), flags_of(&r), data);
        self.start += len;
        self.begun(&r, result);
    }

    /// Starts a request whose data is not in the receive buffer.
    fn begin(&mut self, r: &Request, op: Op, data: Data<'_>, volume: &mut Volume<Owner>) {
        let owner = Owner::Client { token: self.token, request: *r };
        let mut result = volume.start(owner, op, extent_of(r), flags_of(r), data);
        // The server sees only flushes that end later. This one had nothing to flush, perhaps because
        // another client's flush failed.
        if op == Op::Flush {
            result = result.map(|ended| volume.hear_of_failures(&mut self.failures_heard, ended));
        }
        self.begun(r, result);
    }

    fn begun(&mut self, r: &Request, result: Option<Result<(), Errno>>) {
        match result {
            Some(Ok(())) => {
                self.session.done(r.cookie, &mut self.replies);
                self.say();
            }
            Some(Err(errno)) => self.fail(r, errno),
            None => self.under_way(r),
        }
    }

    fn fail(&mut self, r: &Request, errno: Errno) {
        self.session.error(r.cookie, errno, &mut self.replies);
        self.say();
    }

    fn under_way(&mut self, r: &Request) {
        self.in_flight += 1;
        self.in_flight_bytes += payload_of(r);
        self.in_flight_held += memory_of(r);
    }

    /// A request ended after its start.
    pub(crate) fn finished(&mut self, r: &Request, f: Finished<Owner>, volume: &mut Volume<Owner>) {
        self.in_flight -= 1;
        self.in_flight_bytes -= payload_of(r);
        self.in_flight_held -= memory_of(r);
        self.reply(r, f, volume);
    }

    fn reply(&mut self, r: &Request, f: Finished<Owner>, volume: &mut Volume<Owner>) {
        match r.command {
            Command::Read if f.result.is_ok() => {
                let len = r.len as usize;
                let Some(buf) = f.buf else { return self.fail(r, Errno::Io) };
                let header = self.session.read_header(r);
                let large = len > COPY_BYTES || !self.out.takes(header.as_bytes().len() + len);
                self.out.push(header.as_bytes());
                if large {
                    return self.out.push_large(buf, len);
                }
                self.out.push(buf.get(..len).unwrap_or_default());
                volume.memories.buffers.give(buf);
                return;
            }
            Command::BlockStatus if f.result.is_ok() => {
                self.session.block_status(r, &f.runs, &mut self.replies);
                self.say();
            }
            _ => self.begun(r, Some(f.result)),
        }
        if let Some(buf) = f.buf {
            volume.memories.buffers.give(buf);
        }
    }
}

/// Buffer bytes of a request in flight.
const fn payload_of(r: &Request) -> usize {
    match r.command {
        Command::Read | Command::Write => r.len as usize,
        _ => 0,
    }
}

/// The session accepts only whole sectors.
const fn extent_of(r: &Request) -> Extent {
    Extent::new(r.offset / SECTOR_BYTES, r.len as u64 / SECTOR_BYTES)
}

fn flags_of(r: &Request) -> Flags {
    let mut flags = Flags::NONE;
    if r.flags == CommandFlags::NONE {
        return flags;
    }
    // FUA on a read is allowed, and has no effect.
    if r.flags.contains(CommandFlags::FUA) && r.command.is_write_like() {
        flags = flags.union(Flags::FUA);
    }
    if r.flags.contains(CommandFlags::NO_HOLE) {
        flags = flags.union(Flags::NO_HOLE);
    }
    if r.flags.contains(CommandFlags::FAST_ZERO) {
        flags = flags.union(FAST_ZERO);
    }
    flags
}

#[cfg(test)]
pub(crate) mod tests;
