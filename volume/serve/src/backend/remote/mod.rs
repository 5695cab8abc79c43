//! A home on another server, over NBD. Connections that break are made again, for a limited time.
//!
//! A server that died may have lost changes that it had acknowledged and not flushed. So this
//! module keeps these changes until a flush covers them. On the first new connection, the module
//! sends them again in their order, and behind them the changes without an answer: a reader may have
//! seen those. Until then, and until all connections are made, the module sends nothing else. Then
//! all requests without an answer are sent again. Overlapping changes are sent one after the other,
//! so that their order is known.
//!
//! One case has no solution in the protocol: a server loses a connection, continues a request of
//! this connection, and executes the request after later requests.

mod unflushed;
mod uri;

use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use seekless_block::{Flags, Op};
use seekless_nbd::{CommandFlags, Errno as NbdErrno, Options, TransmissionFlags};

use super::FAST_ZERO;
use crate::client::{Client, ClientError};
use crate::error::ServeError;
use crate::status::ElsewhereStatus;
use crate::tls::TlsHome;
use unflushed::{Change, Unflushed};
pub use uri::NbdUri;

/// Connections, if a flush on one of them covers all.
const CONNECTIONS: usize = 8;
/// A server that is silent for so long counts as dead. Its greeting may take twice as long.
const SILENCE: Duration = Duration::from_secs(30);
/// Requests wait so long for a new connection.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pauses between attempts to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// Changes are flushed before they take more memory than this.
const UNFLUSHED_MOST: u64 = 32 << 20;
/// The error of a request without an answer; a server has no such error.
const NO_ANSWER: Errno = Errno::TIMEDOUT;
/// Longest read or write of one request. Each connection holds the bytes of one request at most, so
/// this length limits the memory of all connections.
const PAYLOAD_MOST: u32 = 1 << 20;
/// Longest discard, and longest write of zeroes, of one request. A slow disk that writes the zeroes
/// answers within [`SILENCE`], and other requests come in between.
const RANGE_MOST: u64 = 32 << 20;
/// What a server offers that writes zeroes, also if that must be fast.
const FAST_ZEROES: TransmissionFlags =
    TransmissionFlags::SEND_WRITE_ZEROES.union(TransmissionFlags::SEND_FAST_ZERO);

/// The server's answers about the export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    size: u64,
    flags: TransmissionFlags,
    /// Longest read or write.
    most: u32,
}

/// The state that all connections share.
#[derive(Debug, Default)]
struct Line {
    /// How often connections were made again.
    remade: u64,
    /// When the last attempt ended, if it failed. This answers all requests from before, and those
    /// right behind it: an attempt at a silent server takes long. The next attempt is a single one.
    dead: Option<Instant>,
}

/// Connections. All of them are made at the same time: if a server died and runs again, none of the
/// old connections works. A single new connection would not show this.
#[derive(Default)]
struct Pool {
    /// Without a request in flight.
    idle: Vec<Client>,
    /// The numbers of those who wait for a connection, in their order: a long request, which has
    /// many parts, takes turns with the others.
    waiting: VecDeque<u64>,
    /// The last of these numbers.
    last: u64,
    /// When one of them broke: since then no requests are sent.
    broken: Option<Instant>,
}

/// See the module.
pub(crate) struct Remote {
    uri: NbdUri,
    tls: Option<TlsHome>,
    offer: Offer,
    patience: Duration,
    silence: Duration,
    /// Shared by requests in flight; held alone while connections are made again.
    line: RwLock<Line>,
    pool: Mutex<Pool>,
    returned: Condvar,
    unflushed: Mutex<Unflushed>,
    /// A change has its answer.
    ended: Condvar,
    /// A flush failed that nobody asked for: the next flush fails.
    owes: AtomicBool,
    /// Flushes that failed.
    failures: AtomicU64,
    /// One flush at a time: so each one knows whether the one before it `owes` its failure.
    flushing: Mutex<()>,
    /// Shared by durable writes in flight; held alone by a flush. The server reports a failure once.
    /// If a durable write had the report, and its answer is lost, a flush beside it ends well. The
    /// bytes that this flush seems to cover must still be sent again.
    turn: RwLock<()>,
    counts: Mutex<ElsewhereStatus>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Remote({})", self.uri)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The host's error for an error of the server.
const fn errno(e: NbdErrno) -> Errno {
    match e {
        NbdErrno::Perm => Errno::PERM,
        NbdErrno::NoMem => Errno::NOMEM,
        NbdErrno::NoSpc => Errno::NOSPC,
        NbdErrno::NotSup => Errno::OPNOTSUPP,
        _ => Errno::IO,
    }
}

fn dial(
    uri: &NbdUri,
    tls: Option<&TlsHome>,
    silence: Duration,
) -> Result<(Client, Offer), ClientError> {
    let options = Options { export: uri.export.clone(), ..Options::default() };
    let client = Client::connect_with(&uri.address, options, silence, tls)?;
    let offer = Offer {
        size: client.size(),
        flags: client.flags(),
        most: client.block_sizes().maximum.min(PAYLOAD_MOST) / 512 * 512,
    };
    Ok((client, offer))
}

impl Remote {
    /// Connects to an export.
    ///
    /// # Errors
    /// No server answers; the export is no disk of whole sectors, allows no writes or no flush, or
    /// takes no single sector.
    pub(crate) fn connect(uri: NbdUri, read_only: bool) -> Result<Self, ServeError> {
        let refused = |why: String| ServeError::Uri { uri: uri.to_string(), why };
        let tls = TlsHome::of(&uri)?;
        let (client, offer) = dial(&uri, tls.as_ref(), SILENCE)
            .map_err(|source| ServeError::Remote { uri: uri.to_string(), source })?;
        let has = |flag| offer.flags.contains(flag);
        if !offer.size.is_multiple_of(512) || offer.size == 0 {
            return Err(refused(format!(
                "has {} bytes, which is no disk of 512-byte sectors",
                offer.size
            )));
        }
        // As long as a file may be.
        if i64::try_from(offer.size).is_err() {
            return Err(refused(format!("has {} bytes, more than any disk", offer.size)));
        }
        if offer.most == 0 {
            return Err(refused("takes no request of 512 bytes".to_owned()));
        }
        if client.block_sizes().minimum > 512 {
            let least = client.block_sizes().minimum;
            return Err(refused(format!(
                "takes requests of {least} bytes at least; seekless needs 512"
            )));
        }
        if !read_only && has(TransmissionFlags::READ_ONLY) {
            return Err(refused("allows no writes: add --read-only".to_owned()));
        }
        if !read_only && !has(TransmissionFlags::SEND_FLUSH) {
            return Err(refused(
                "has no flush, so no write would ever be durable: add --read-only, or choose another server".to_owned(),
            ));
        }
        drop(client);
        let remote = Self {
            uri,
            tls,
            offer,
            patience: PATIENCE,
            silence: SILENCE,
            line: RwLock::default(),
            pool: Mutex::default(),
            returned: Condvar::new(),
            unflushed: Mutex::default(),
            ended: Condvar::new(),
            owes: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            flushing: Mutex::default(),
            turn: RwLock::default(),
            counts: Mutex::default(),
        };
        let failed = |source| ServeError::Remote { uri: remote.uri.to_string(), source };
        let idle = remote.redial().map_err(failed)?;
        *locked(&remote.pool) = Pool { idle, ..Pool::default() };
        Ok(remote)
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.offer.size
    }

    /// True if the server says that its disk rotates.
    pub(crate) const fn is_rotational(&self) -> bool {
        self.has(TransmissionFlags::ROTATIONAL)
    }

    pub(crate) fn counts(&self) -> ElsewhereStatus {
        let broken = locked(&self.pool).broken;
        let counts = *locked(&self.counts);
        let away_s = counts.away_s + broken.map_or(0.0, |since| since.elapsed().as_secs_f64());
        ElsewhereStatus { away_s, connected: broken.is_none(), ..counts }
    }

    const fn has(&self, flag: TransmissionFlags) -> bool {
        self.offer.flags.contains(flag)
    }

    /// A connection of this request alone; `None` if connections must be made again.
    fn take(&self) -> Option<Client> {
        let mut pool = locked(&self.pool);
        pool.last += 1;
        let mine = pool.last;
        pool.waiting.push_back(mine);
        loop {
            if pool.broken.is_some() {
                pool.waiting.retain(|number| *number != mine);
                return None;
            }
            if pool.waiting.front() == Some(&mine)
                && let Some(client) = pool.idle.pop()
            {
                pool.waiting.pop_front();
                // The next one may have a connection too.
                self.returned.notify_all();
                return Some(client);
            }
            pool = self.returned.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give(&self, client: Client) {
        locked(&self.pool).idle.push(client);
        self.returned.notify_all();
    }

    /// A connection broke.
    fn lost(&self) {
        locked(&self.pool).broken.get_or_insert_with(Instant::now);
        self.returned.notify_all();
    }

    /// Connections to the same export.
    fn redial(&self) -> Result<Vec<Client>, ClientError> {
        // A flush covers the writes of its own connection, unless the server promises more.
        let most = if self.has(TransmissionFlags::CAN_MULTI_CONN) { CONNECTIONS } else { 1 };
        let (begun, mut clients) = (Instant::now(), Vec::new());
        // A slow server gets fewer, because no request is sent meanwhile.
        while clients.is_empty() || clients.len() < most && begun.elapsed() < self.silence {
            match dial(&self.uri, self.tls.as_ref(), self.silence) {
                Ok((client, offer)) if offer == self.offer => clients.push(client),
                Ok(_) => return Err(ClientError::Changed),
                // The server takes fewer.
                Err(_) if !clients.is_empty() => break,
                Err(e) => return Err(e),
            }
        }
        Ok(clients)
    }

    /// Sends a request until the server has answered it. As long as the caller holds the line, no
    /// connection is made again.
    fn ask<T>(
        &self,
        mut call: impl FnMut(&mut Client) -> Result<T, ClientError>,
    ) -> Result<(T, RwLockReadGuard<'_, Line>), Errno> {
        let begun = Instant::now();
        loop {
            let line = self.line.read().unwrap_or_else(PoisonError::into_inner);
            let seen = line.remade;
            if let Some(mut client) = self.take() {
                match call(&mut client) {
                    Ok(answer) => {
                        self.give(client);
                        return Ok((answer, line));
                    }
                    Err(ClientError::Errno(e)) if e != NbdErrno::Shutdown => {
                        self.give(client);
                        return Err(errno(e));
                    }
                    Err(_) => {
                        self.lost();
                        locked(&self.counts).sent_again += 1;
                    }
                }
            }
            drop(line);
            if begun.elapsed() > self.patience {
                return Err(NO_ANSWER);
            }
            self.reconnect(seen, begun)?;
        }
    }

    /// Waits until another attempt to connect may begin.
    pub(crate) fn rest(&self) {
        let dead = self.line.read().unwrap_or_else(PoisonError::into_inner).dead;
        if let Some(at) = dead {
            std::thread::sleep(PAUSES.1.saturating_sub(at.elapsed()));
        }
    }

    /// Makes the connections again, unless that has happened since, and sends again what was not
    /// flushed. For a request of the time `asked`.
    fn reconnect(&self, seen: u64, asked: Instant) -> Result<(), Errno> {
        // All requests in flight have ended, or failed.
        let mut line = self.line.write().unwrap_or_else(PoisonError::into_inner);
        if line.remade != seen {
            return Ok(());
        }
        if line.dead.is_some_and(|at| asked < at || at.elapsed() < PAUSES.1) {
            return Err(NO_ANSWER);
        }
        locked(&self.pool).idle.clear();
        let (begun, mut pause) = (Instant::now(), PAUSES.0);
        loop {
            if let Ok(mut clients) = self.redial()
                && clients.first_mut().is_some_and(|first| self.send_again(first).is_ok())
            {
                let before = std::mem::replace(
                    &mut *locked(&self.pool),
                    Pool { idle: clients, ..Pool::default() },
                );
                let mut counts = locked(&self.counts);
                counts.reconnects += 1;
                counts.away_s += before.broken.map_or(0.0, |since| since.elapsed().as_secs_f64());
                *line = Line { remade: line.remade + 1, dead: None };
                return Ok(());
            }
            if line.dead.is_some() || begun.elapsed() > self.patience {
                line.dead = Some(Instant::now());
                return Err(NO_ANSWER);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// On the first of the new connections. An answer to the read shows that the server has not died
    /// since that one was made, before the others.
    fn send_again(&self, first: &mut Client) -> Result<(), ClientError> {
        // A bad sector is an answer too.
        answered(first.read(0, 512).map(drop))?;
        let mut unflushed = locked(&self.unflushed);
        // Another server may refuse fast zeroes, and these are needed now.
        let kept = |change: &Change| Flags(change.flags.0 & !FAST_ZERO.0);
        let mut sent = 0;
        for change in unflushed.again() {
            self.send(first, &change, kept(&change))?;
            sent += 1;
        }
        locked(&self.counts).sent_again += sent;
        // They are sent once more by those who wait for their answers, and a refusal is for them.
        for (number, change) in unflushed.unanswered() {
            if let Err(error) = answered(self.send(first, &change, kept(&change))) {
                unflushed.failed(number, error.is_silence());
                return Err(error);
            }
        }
        Ok(())
    }

    /// One change that fits into one request.
    fn send(&self, client: &mut Client, change: &Change, flags: Flags) -> Result<(), ClientError> {
        let Change { op, at, bytes, .. } = change;
        let (at, len) = (*at, u32::try_from(change.len).unwrap_or(u32::MAX));
        match op {
            Op::Write if flags.contains(Flags::FUA) => client.write_fua(at, bytes),
            Op::Write => client.write(at, bytes),
            Op::Discard => client.trim(at, len),
            Op::WriteZeroes => {
                let mut how = CommandFlags::NONE;
                how.set(CommandFlags::NO_HOLE, flags.contains(Flags::NO_HOLE));
                how.set(CommandFlags::FAST_ZERO, flags.contains(FAST_ZERO));
                client.write_zeroes(at, len, how)
            }
            Op::Read | Op::Flush => Ok(()),
        }
    }

    pub(crate) fn read(&self, mut at: u64, buf: &mut [u8]) -> Result<(), Errno> {
        for part in buf.chunks_mut(self.offer.most as usize) {
            let len = part.len() as u32;
            let bytes = self.ask(|client| client.read(at, len))?.0;
            part.copy_from_slice(&bytes);
            locked(&self.counts).reads += 1;
            at += u64::from(len);
        }
        Ok(())
    }

    /// Writes, discards, zeroes or flushes.
    pub(crate) fn change(
        &self,
        op: Op,
        flags: Flags,
        at: u64,
        len: u64,
        buf: &[u8],
    ) -> Result<(), Errno> {
        let failures = self.failures.load(SeqCst);
        match op {
            Op::Read => return Ok(()),
            Op::Flush => {
                let alone = locked(&self.flushing);
                let owes = self.owes.swap(false, SeqCst);
                self.flush(&alone)?;
                return if owes { Err(Errno::IO) } else { Ok(()) };
            }
            // The client no longer needs the bytes; nothing promises that they go.
            Op::Discard if !self.has(TransmissionFlags::SEND_TRIM) => return Ok(()),
            Op::WriteZeroes if flags.contains(FAST_ZERO) && !self.has(FAST_ZEROES) => {
                return Err(Errno::OPNOTSUPP);
            }
            Op::WriteZeroes if !self.has(TransmissionFlags::SEND_WRITE_ZEROES) => {
                self.write_zeroes(at, len)?;
            }
            Op::Write | Op::Discard | Op::WriteZeroes => self.in_parts(op, flags, at, len, buf)?,
        }
        let durable = op == Op::Write && self.has(TransmissionFlags::SEND_FUA);
        if !flags.contains(Flags::FUA) || durable {
            return Ok(());
        }
        self.flush_if(|_| true)?;
        // The flush of another client may have had the report about these bytes.
        if self.failures.load(SeqCst) == failures { Ok(()) } else { Err(Errno::IO) }
    }

    fn write_zeroes(&self, at: u64, len: u64) -> Result<(), Errno> {
        let write =
            |at, part: &[u8]| self.in_parts(Op::Write, Flags::NONE, at, part.len() as u64, part);
        seekless_host::OpenFile::write_zeroes(at, len, write)
    }

    fn in_parts(&self, op: Op, flags: Flags, at: u64, len: u64, buf: &[u8]) -> Result<(), Errno> {
        // The parts of a range end at even places: so each of them frees whole blocks.
        let most = |at: u64| match op {
            Op::Write => u64::from(self.offer.most),
            _ => RANGE_MOST - at % RANGE_MOST,
        };
        let mut kept = Flags::NO_HOLE.union(FAST_ZERO);
        if op == Op::Write && self.has(TransmissionFlags::SEND_FUA) {
            kept = kept.union(Flags::FUA);
        }
        let kept = Flags(flags.0 & kept.0);
        let mut done = 0;
        while done < len {
            let part = (len - done).min(most(at + done));
            let bytes = match op {
                Op::Write => buf.get(done as usize..(done + part) as usize).ok_or(Errno::FAULT)?,
                _ => &[],
            };
            self.part(Change { op, flags: kept, at: at + done, len: part, bytes: bytes.to_vec() })?;
            done += part;
        }
        Ok(())
    }

    fn part(&self, change: Change) -> Result<(), Errno> {
        let is_full = |unflushed: &Unflushed| unflushed.bytes() >= UNFLUSHED_MOST;
        if is_full(&locked(&self.unflushed)) {
            self.flush_if(is_full)?;
        }
        let change = Arc::new(change);
        let turn = || self.turn.read().unwrap_or_else(PoisonError::into_inner);
        let _no_flush = change.is_durable().then(turn);
        let number = self.begin(&change)?;
        let answer = self.ask(|client| self.send(client, &change, change.flags));
        let mut unflushed = locked(&self.unflushed);
        unflushed.ended(number, matches!(answer, Err(NO_ANSWER)));
        self.ended.notify_all();
        let ((), line) = answer?;
        unflushed.push(change);
        drop(unflushed);
        locked(&self.counts).changes += 1;
        drop(line);
        Ok(())
    }

    /// Waits for overlapping changes, and fails with one that gets no answer: one after the other,
    /// they would wait as long as that one, each.
    fn begin(&self, change: &Arc<Change>) -> Result<u64, Errno> {
        let mut unflushed = locked(&self.unflushed);
        loop {
            let ahead = unflushed.ahead_of(change);
            if ahead.is_empty() {
                return Ok(unflushed.begun(change));
            }
            unflushed = self.ended.wait(unflushed).unwrap_or_else(PoisonError::into_inner);
            if ahead.iter().any(|is_lost| is_lost.load(SeqCst)) {
                return Err(NO_ANSWER);
            }
        }
    }

    /// A flush that the volume does not know of: its next flush fails too, if this one fails.
    fn flush_if(&self, is_due: impl FnOnce(&Unflushed) -> bool) -> Result<(), Errno> {
        let alone = locked(&self.flushing);
        let due = is_due(&locked(&self.unflushed));
        if due { self.flush(&alone).inspect_err(|_| self.owes.store(true, SeqCst)) } else { Ok(()) }
    }

    /// Makes all acknowledged changes durable.
    fn flush(&self, _alone: &MutexGuard<'_, ()>) -> Result<(), Errno> {
        if !self.has(TransmissionFlags::SEND_FLUSH) {
            return Ok(());
        }
        let _no_durable_write = self.turn.write().unwrap_or_else(PoisonError::into_inner);
        let covered = locked(&self.unflushed).next();
        let asked = self.ask(Client::flush).inspect_err(|_| {
            self.failures.fetch_add(1, SeqCst);
        });
        let ((), line) = asked?;
        locked(&self.unflushed).flushed(covered);
        drop(line);
        Ok(())
    }
}

/// An error of the disk is an answer too.
fn answered(result: Result<(), ClientError>) -> Result<(), ClientError> {
    match result {
        Err(ClientError::Errno(e)) if e != NbdErrno::Shutdown => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
