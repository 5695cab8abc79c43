//! A small NBD client with blocking calls, and with several requests in flight on demand. For homes
//! on other servers, tests, the demo and measurements.

mod content;
mod replay;
mod timed;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::time::Duration;

use seekless_nbd::{
    BlockSizes, ClientEvent, ClientSession, Command, CommandFlags, Errno, Options,
    REP_ERR_TLS_REQD, TransmissionFlags, Violation,
};

use seekless_block::Extent;

use crate::backend::remote::NbdUri;
use crate::error::ServeError;
use crate::listen::Address;
use crate::tls::TlsHome;
pub use content::Content;
pub use replay::{Replayed, replay};
use timed::{End, Timed};

/// A longer payload is sent by itself, and not copied behind its header.
const COPIED_BYTES: usize = 64 << 10;
/// A server whose data come more slowly counts as dead, in bytes per second.
const SLOWEST: u64 = 8 << 10;

/// A call failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ClientError {
    #[error("the connection to the server failed")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Violation(#[from] Violation),
    #[error("the server refused the export (reply {0:#x})")]
    Refused(u32),
    #[error("the server requires TLS: write nbds:// or nbds+unix://")]
    NeedsTls,
    #[error("the server has no TLS")]
    NoTls,
    #[error(transparent)]
    Errno(#[from] Errno),
    #[error("the server closed the connection")]
    Closed,
    #[error("WRONG BYTE: {extent} differs from what was written there, at byte {at}")]
    WrongByte { extent: Extent, at: usize },
    #[error("the server answered request {0:#x}, which was not asked")]
    Unasked(u64),
    #[error("the export has changed its size or its features")]
    Changed,
}

impl ClientError {
    /// Whether the server gave no answer in time.
    pub(crate) fn is_silence(&self) -> bool {
        use io::ErrorKind::{TimedOut, WouldBlock};
        matches!(self, Self::Io(error) if matches!(error.kind(), TimedOut | WouldBlock))
    }
}

/// A byte stream to a server.
pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A finished request.
#[derive(Debug)]
pub struct Ended {
    /// The number from [`Client::submit`].
    pub cookie: u64,
    /// The result.
    pub result: Result<(), Errno>,
    /// The data of a read; else empty.
    pub data: Vec<u8>,
    /// Runs of block status: bytes and state.
    pub runs: Vec<(u32, u32)>,
}

/// A connection to an export.
pub struct Client {
    stream: Box<dyn Stream>,
    session: ClientSession,
    out: Vec<u8>,
    received: Vec<u8>,
    start: usize,
    end: usize,
    /// Requests in flight, with their data so far.
    pending: Vec<Ended>,
    ended: VecDeque<Ended>,
    /// A server that is silent for so long counts as dead; and the end of all answers.
    limit: Option<(Duration, End)>,
}

impl Client {
    /// Connects to a server and its default export.
    pub fn connect(address: &Address) -> Result<Self, ClientError> {
        Self::connect_to(address, Options::default(), Duration::from_secs(3600))
    }

    /// Connects to an export. A server that is silent for longer than `silence`, or whose handshake
    /// is longer, counts as dead. An answer may be longer by a second for each 8 KiB of its data.
    pub fn connect_to(
        address: &Address,
        options: Options,
        silence: Duration,
    ) -> Result<Self, ClientError> {
        Self::connect_with(address, options, silence, None)
    }

    /// The same through TLS.
    pub(crate) fn connect_with(
        address: &Address,
        options: Options,
        silence: Duration,
        tls: Option<&TlsHome>,
    ) -> Result<Self, ClientError> {
        let (stream, end) = Timed::on(address.connect(silence)?, silence);
        let client = Self::begin(Box::new(stream), options, tls)?;
        Ok(Self { limit: Some((silence, end)), ..client })
    }

    /// Starts a session over a stream.
    pub fn new(stream: Box<dyn Stream>, options: Options) -> Result<Self, ClientError> {
        Self::begin(stream, options, None)
    }

    /// Starts a session over a stream that leads to this export, with TLS if the address asks for it.
    pub fn over(stream: Box<dyn Stream>, uri: &NbdUri) -> Result<Self, ServeError> {
        let options = Options { export: uri.export.clone(), ..Options::default() };
        let tls = TlsHome::of(uri)?;
        Self::begin(stream, options, tls.as_ref())
            .map_err(|source| ServeError::Remote { uri: uri.to_string(), source })
    }

    fn begin(
        stream: Box<dyn Stream>,
        options: Options,
        tls: Option<&TlsHome>,
    ) -> Result<Self, ClientError> {
        let options = Options { tls: tls.is_some(), ..options };
        let mut is_encrypted = false;
        let mut client = Self {
            stream,
            session: ClientSession::new(options),
            out: Vec::new(),
            received: vec![0; 256 << 10],
            start: 0,
            end: 0,
            pending: Vec::new(),
            ended: VecDeque::new(),
            limit: None,
        };
        loop {
            match client.step()? {
                ClientEvent::Ready => return Ok(client),
                ClientEvent::Refused(REP_ERR_TLS_REQD) => return Err(ClientError::NeedsTls),
                ClientEvent::Refused(_) if tls.is_some() && !is_encrypted => {
                    return Err(ClientError::NoTls);
                }
                ClientEvent::Refused(why) => return Err(ClientError::Refused(why)),
                ClientEvent::StartTls => {
                    client = client.encrypted(tls)?;
                    is_encrypted = true;
                }
                _ => {}
            }
        }
    }

    /// Continues through TLS.
    fn encrypted(mut self, tls: Option<&TlsHome>) -> Result<Self, ClientError> {
        // Nothing that came before TLS may count as the server's word.
        let tls = tls.filter(|_| self.start == self.end).ok_or(ClientError::NoTls)?;
        self.stream = tls.wrap(self.stream)?;
        Ok(self)
    }

    /// Size of the export in bytes.
    pub const fn size(&self) -> u64 {
        self.session.size()
    }

    /// The lengths of requests that the server takes.
    pub const fn block_sizes(&self) -> BlockSizes {
        self.session.block_sizes()
    }

    /// The server's flags.
    pub const fn flags(&self) -> TransmissionFlags {
        self.session.flags()
    }

    /// Sends a request; `payload` is the data of a write, else empty.
    pub fn submit(
        &mut self,
        command: Command,
        flags: CommandFlags,
        offset: u64,
        len: u32,
        payload: &[u8],
    ) -> Result<u64, ClientError> {
        let cookie = self.session.request(command, offset, len, flags, &mut self.out);
        let cookie = cookie.ok_or(ClientError::Closed)?;
        let room = if command == Command::Read { len as usize } else { 0 };
        self.pending.push(Ended { cookie, result: Ok(()), data: vec![0; room], runs: Vec::new() });
        self.set_end(room + payload.len());
        let is_long = payload.len() > COPIED_BYTES;
        self.out.extend_from_slice(if is_long { &[] } else { payload });
        self.stream.write_all(&self.out)?;
        if is_long {
            self.stream.write_all(payload)?;
        }
        self.out.clear();
        Ok(cookie)
    }

    /// From now on, `bytes` of data and all answers must be over in time.
    fn set_end(&self, bytes: usize) {
        if let Some((silence, end)) = &self.limit {
            end.set(*silence + Duration::from_secs(bytes as u64 / SLOWEST));
        }
    }

    /// Waits for the next request to end.
    pub fn next_end(&mut self) -> Result<Ended, ClientError> {
        loop {
            if let Some(ended) = self.ended.pop_front() {
                return Ok(ended);
            }
            self.step()?;
        }
    }

    fn call(
        &mut self,
        command: Command,
        flags: CommandFlags,
        offset: u64,
        len: u32,
        payload: &[u8],
    ) -> Result<Ended, ClientError> {
        let cookie = self.submit(command, flags, offset, len, payload)?;
        let ended = loop {
            let at = self.ended.iter().position(|ended| ended.cookie == cookie);
            if let Some(ended) = at.and_then(|at| self.ended.remove(at)) {
                break ended;
            }
            self.step()?;
        };
        ended.result?;
        Ok(ended)
    }

    /// Reads.
    pub fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, ClientError> {
        Ok(self.call(Command::Read, CommandFlags::NONE, offset, len, &[])?.data)
    }

    /// Writes.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), ClientError> {
        let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.call(Command::Write, CommandFlags::NONE, offset, len, data).map(drop)
    }

    /// Writes durably.
    pub fn write_fua(&mut self, offset: u64, data: &[u8]) -> Result<(), ClientError> {
        let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.call(Command::Write, CommandFlags::FUA, offset, len, data).map(drop)
    }

    /// Makes completed writes durable.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.call(Command::Flush, CommandFlags::NONE, 0, 0, &[]).map(drop)
    }

    /// Discards bytes.
    pub fn trim(&mut self, offset: u64, len: u32) -> Result<(), ClientError> {
        self.call(Command::Trim, CommandFlags::NONE, offset, len, &[]).map(drop)
    }

    /// Writes zeroes.
    pub fn write_zeroes(
        &mut self,
        offset: u64,
        len: u32,
        flags: CommandFlags,
    ) -> Result<(), ClientError> {
        self.call(Command::WriteZeroes, flags, offset, len, &[]).map(drop)
    }

    /// Holes, as bytes and [`seekless_nbd::STATE_HOLE`] and [`seekless_nbd::STATE_ZERO`].
    pub fn block_status(&mut self, offset: u64, len: u32) -> Result<Vec<(u32, u32)>, ClientError> {
        Ok(self.call(Command::BlockStatus, CommandFlags::NONE, offset, len, &[])?.runs)
    }

    /// Ends the session in order.
    pub fn disconnect(mut self) -> Result<(), ClientError> {
        let none = CommandFlags::NONE;
        self.set_end(0);
        self.session.request(Command::Disconnect, 0, 0, none, &mut self.out);
        Ok(self.stream.write_all(&self.out)?)
    }

    /// One event of the session; receives more bytes if necessary.
    fn step(&mut self) -> Result<ClientEvent, ClientError> {
        loop {
            let input = self.received.get(self.start..self.end).unwrap_or_default();
            let (taken, event) = self.session.step(input, &mut self.out)?;
            if !self.out.is_empty() {
                self.stream.write_all(&self.out)?;
                self.out.clear();
            }
            match event {
                ClientEvent::More(need) => {
                    self.receive(need)?;
                    continue;
                }
                ClientEvent::Data { cookie, at } => {
                    if let Some(p) = self.pending.iter_mut().find(|p| p.cookie == cookie)
                        && let (Some(dst), Some(src)) =
                            (p.data.get_mut(at as usize..at as usize + taken), input.get(..taken))
                    {
                        dst.copy_from_slice(src);
                    }
                }
                ClientEvent::Zeroes { cookie, at, len } => {
                    if let Some(p) = self.pending.iter_mut().find(|p| p.cookie == cookie)
                        && let Some(dst) = p.data.get_mut(at as usize..(at + len) as usize)
                    {
                        dst.fill(0);
                    }
                }
                ClientEvent::Status { cookie, len, state } => {
                    if let Some(p) = self.pending.iter_mut().find(|p| p.cookie == cookie) {
                        p.runs.push((len, state));
                    }
                }
                ClientEvent::Done { cookie, result } => {
                    if let Some(i) = self.pending.iter().position(|p| p.cookie == cookie) {
                        self.ended.push_back(Ended { result, ..self.pending.swap_remove(i) });
                    }
                }
                _ => {}
            }
            self.start += taken;
            return Ok(event);
        }
    }

    fn receive(&mut self, need: usize) -> Result<(), ClientError> {
        self.received.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < need {
            let n = self.stream.read(self.received.get_mut(self.end..).unwrap_or_default())?;
            if n == 0 {
                return Err(ClientError::Closed);
            }
            self.end += n;
        }
        Ok(())
    }
}
