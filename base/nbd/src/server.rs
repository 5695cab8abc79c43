//! The server's side of a session: its state machine, the checks of requests, and the replies. The
//! caller carries out the requests. Every request that the session returns is well-formed,
//! permitted and inside the export.

mod negotiation;

use std::sync::Arc;

use crate::error::{Violation, ViolationKind};
use crate::export::Export;
use crate::wire::{
    self, ALLOCATION_ID, CHUNK_BLOCK_STATUS, CHUNK_DATA, CHUNK_DONE, CHUNK_ERROR, Command,
    CommandFlags, Errno, Fields, MAX_PAYLOAD_BYTES, REQUEST_BYTES, REQUEST_MAGIC,
    SIMPLE_REPLY_MAGIC, TransmissionFlags, put,
};

/// A client's request that passed all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's identifier of this request. The reply carries the same number.
    pub cookie: u64,
    /// The command; never [`Command::Disconnect`].
    pub command: Command,
    /// Flags that are valid for this command.
    pub flags: CommandFlags,
    /// First byte of the range.
    pub offset: u64,
    /// Length of the range in bytes; zero only for a flush. Reads and writes are at most as long as
    /// the export's largest payload.
    pub len: u32,
}

/// The meaning of the bytes that [`ServerSession::step`] took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// No progress until this many bytes are available, counted from the first byte not taken.
    More(usize),
    /// Bytes were taken, and replies may have been appended. Call `step` again.
    Nothing,
    /// The handshake is complete. Requests for this export follow.
    Start {
        /// The export's index in the list given to [`ServerSession::new`].
        export: usize,
    },
    /// A request to carry out and answer. A write is followed by its [`ServerEvent::Payload`]
    /// events.
    Request(Request),
    /// The bytes taken are payload of the latest write.
    Payload {
        /// Whether the payload is complete.
        last: bool,
    },
    /// The client may begin with TLS: send the pending reply, then exchange the following bytes
    /// through TLS. The session expects plain bytes again. A caller that has received more bytes
    /// than were taken must close the connection: somebody else may have put them there.
    StartTls,
    /// The client disconnected: send pending replies, then close the connection.
    Close,
}

/// The header of a successful read's reply; the data follows it on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    bytes: [u8; 28],
    len: u8,
}

impl ReplyHeader {
    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }
}

/// The part of the protocol that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerState {
    Flags,
    Options,
    /// The rest of an option that is too long; the session ignores it.
    SkipOption(u32),
    Requests,
    /// Payload of an accepted write is expected.
    Payload(u32),
    /// Payload of a refused write is expected; the session ignores it.
    SkipPayload(u32),
    Closed,
}

/// Whether the connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tls {
    /// The server offers no TLS.
    Absent,
    /// Nothing but `STARTTLS` is allowed yet.
    Required,
    /// TLS has begun.
    On,
}

type StepResult = Result<(usize, ServerEvent), Violation>;

/// Client and server agreed on these values when transmission began.
#[derive(Clone, Copy, Debug, Default)]
struct NegotiatedValues {
    size: u64,
    flags: TransmissionFlags,
    /// Alignment minus one, as a bit mask.
    mask: u64,
    maximum: u32,
    allocation: bool,
}

/// The server's side of one connection.
///
/// The caller keeps received bytes in its own buffer and calls [`Self::step`] with them. Then the
/// caller drops the bytes taken and sends the bytes appended to `out`. Replies to requests can be
/// made in any order.
#[derive(Debug)]
pub struct ServerSession {
    exports: Arc<[Export]>,
    state: ServerState,
    tls: Tls,
    /// Bytes taken so far.
    at: u64,
    fixed: bool,
    no_zeroes: bool,
    structured: bool,
    /// The export that `base:allocation` was selected for.
    allocation_of: Option<usize>,
    agreed: NegotiatedValues,
}

impl ServerSession {
    /// A session with a client that has just connected. Appends the greeting to `out`.
    pub fn new(exports: Arc<[Export]>, out: &mut Vec<u8>) -> Self {
        put!(out, wire::INIT_MAGIC, wire::OPTION_MAGIC, wire::FIXED_NEWSTYLE | wire::NO_ZEROES);
        Self {
            exports,
            state: ServerState::Flags,
            tls: Tls::Absent,
            at: 0,
            fixed: false,
            no_zeroes: false,
            structured: false,
            allocation_of: None,
            agreed: NegotiatedValues::default(),
        }
    }

    /// The session of a server that serves nothing without TLS: see [`ServerEvent::StartTls`].
    #[must_use]
    pub const fn with_tls(mut self) -> Self {
        self.tls = Tls::Required;
        self
    }

    /// Whether the handshake is complete and requests are exchanged.
    pub const fn is_transmitting(&self) -> bool {
        matches!(
            self.state,
            ServerState::Requests | ServerState::Payload(_) | ServerState::SkipPayload(_)
        )
    }

    /// Takes bytes from the front of `input`. Returns the number of bytes taken and their meaning.
    /// Appends replies that need no help from the caller to `out`. Call again until the event is
    /// [`ServerEvent::More`].
    #[inline]
    pub fn step(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, ServerEvent), Violation> {
        let (taken, event) = match self.state {
            ServerState::Requests => self.request(input, out)?,
            ServerState::Payload(left) => {
                let n = left.min(u32::try_from(input.len()).unwrap_or(u32::MAX));
                if n == 0 {
                    return Ok((0, ServerEvent::More(1)));
                }
                self.state = after_payload(left - n);
                (n as usize, ServerEvent::Payload { last: n == left })
            }
            ServerState::SkipPayload(left) | ServerState::SkipOption(left) => {
                let n = left.min(u32::try_from(input.len()).unwrap_or(u32::MAX));
                if n == 0 {
                    return Ok((0, ServerEvent::More(1)));
                }
                self.state = match (self.state, left - n) {
                    (ServerState::SkipPayload(_), 0) => ServerState::Requests,
                    (ServerState::SkipPayload(_), rest) => ServerState::SkipPayload(rest),
                    (_, 0) => ServerState::Options,
                    (_, rest) => ServerState::SkipOption(rest),
                };
                (n as usize, ServerEvent::Nothing)
            }
            ServerState::Flags => self.client_flags(input)?,
            ServerState::Options => self.option(input, out)?,
            ServerState::Closed => {
                if input.is_empty() {
                    return Ok((0, ServerEvent::More(1)));
                }
                return Err(self.violation(ViolationKind::Closed));
            }
        };
        self.at += taken as u64;
        Ok((taken, event))
    }

    /// Tells the session that the caller received `n` payload bytes of the latest write directly
    /// into its own buffer. `n` is at most the number of payload bytes still expected.
    pub fn payload_received(&mut self, n: u32) {
        if let ServerState::Payload(left) = self.state {
            debug_assert!(n <= left, "more payload than was announced");
            self.at += u64::from(n);
            self.state = after_payload(left.saturating_sub(n));
        }
    }

    const fn violation(&self, kind: ViolationKind) -> Violation {
        Violation { at: self.at, kind }
    }

    fn request(&mut self, input: &[u8], out: &mut Vec<u8>) -> StepResult {
        let Some(header) = input.first_chunk::<REQUEST_BYTES>() else {
            return Ok((0, ServerEvent::More(REQUEST_BYTES)));
        };
        let mut f = Fields(header);
        let (Some(magic), Some(flags), Some(number), Some(cookie), Some(offset), Some(len)) =
            (f.u32(), f.u16(), f.u16(), f.u64(), f.u64(), f.u32())
        else {
            return Ok((0, ServerEvent::More(REQUEST_BYTES)));
        };
        if magic != REQUEST_MAGIC {
            return Err(self.violation(ViolationKind::Magic {
                what: "a request",
                expected: REQUEST_MAGIC.into(),
                found: magic.into(),
            }));
        }
        let flags = CommandFlags::from_bits_retain(flags);
        let Some(command) = Command::from_wire(number) else {
            self.error(cookie, Errno::Inval, out);
            return Ok((REQUEST_BYTES, ServerEvent::Nothing));
        };
        let request = Request { cookie, command, flags, offset, len };
        if command == Command::Disconnect {
            self.state = ServerState::Closed;
            return Ok((REQUEST_BYTES, ServerEvent::Close));
        }
        let verdict = self.check(&request);
        if command == Command::Write && len > 0 {
            self.state = if verdict.is_ok() {
                ServerState::Payload(len)
            } else {
                ServerState::SkipPayload(len)
            };
        }
        match verdict {
            Ok(()) => Ok((REQUEST_BYTES, ServerEvent::Request(request))),
            Err(errno) => {
                self.error(cookie, errno, out);
                Ok((REQUEST_BYTES, ServerEvent::Nothing))
            }
        }
    }

    /// Checks whether a request is allowed; otherwise returns the error to send.
    fn check(&self, r: &Request) -> Result<(), Errno> {
        use CommandFlags as C;
        use TransmissionFlags as T;
        let a = &self.agreed;
        let offered = |flag: T| a.flags.contains(flag);
        let mut allowed = if offered(T::SEND_FUA) { C::FUA } else { C::NONE };
        let known = match r.command {
            Command::Read => {
                if offered(T::SEND_DF) {
                    allowed = allowed.union(C::DF);
                }
                true
            }
            Command::Write => true,
            Command::Flush => offered(T::SEND_FLUSH),
            Command::Trim => offered(T::SEND_TRIM),
            Command::Cache => offered(T::SEND_CACHE),
            Command::WriteZeroes => {
                allowed = allowed.union(C::NO_HOLE);
                if offered(T::SEND_FAST_ZERO) {
                    allowed = allowed.union(C::FAST_ZERO);
                }
                offered(T::SEND_WRITE_ZEROES)
            }
            Command::BlockStatus => {
                allowed = allowed.union(C::REQ_ONE);
                a.allocation
            }
            Command::Disconnect => false,
        };
        if !known || !allowed.contains(r.flags) {
            return Err(Errno::Inval);
        }
        if r.command.is_write_like() && offered(T::READ_ONLY) {
            return Err(Errno::Perm);
        }
        if r.command == Command::Flush {
            return if r.offset == 0 && r.len == 0 { Ok(()) } else { Err(Errno::Inval) };
        }
        if r.len == 0 || (r.offset | u64::from(r.len)) & a.mask != 0 {
            return Err(Errno::Inval);
        }
        if matches!(r.command, Command::Read | Command::Write) && r.len > a.maximum {
            let whole = r.flags.contains(C::DF);
            return Err(if whole { Errno::Overflow } else { Errno::Inval });
        }
        if r.offset.checked_add(r.len.into()).is_none_or(|end| end > a.size) {
            return Err(if r.command.is_write_like() { Errno::NoSpc } else { Errno::Inval });
        }
        Ok(())
    }

    /// The header of the reply to a successful read. The caller sends `len` bytes of data after it.
    #[inline]
    pub fn read_header(&self, request: &Request) -> ReplyHeader {
        let mut bytes = [0; 28];
        if self.structured {
            bytes[..4].copy_from_slice(&wire::CHUNK_MAGIC.to_be_bytes());
            bytes[4..6].copy_from_slice(&CHUNK_DONE.to_be_bytes());
            bytes[6..8].copy_from_slice(&CHUNK_DATA.to_be_bytes());
            bytes[8..16].copy_from_slice(&request.cookie.to_be_bytes());
            bytes[16..20].copy_from_slice(&request.len.saturating_add(8).to_be_bytes());
            bytes[20..].copy_from_slice(&request.offset.to_be_bytes());
            ReplyHeader { bytes, len: 28 }
        } else {
            bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
            bytes[8..16].copy_from_slice(&request.cookie.to_be_bytes());
            ReplyHeader { bytes, len: 16 }
        }
    }

    /// Appends the success reply to a request other than a read or a block status.
    #[inline]
    pub fn done(&self, cookie: u64, out: &mut Vec<u8>) {
        push_simple(out, 0, cookie);
    }

    /// Appends the failure reply to a request.
    pub fn error(&self, cookie: u64, errno: Errno, out: &mut Vec<u8>) {
        if self.structured {
            wire::push_chunk(out, CHUNK_DONE, CHUNK_ERROR, cookie, 6);
            put!(out, errno.to_wire(), 0u16);
        } else {
            push_simple(out, errno.to_wire(), cookie);
        }
    }

    /// Appends the reply to a block status request. Each element of `runs` is (bytes,
    /// [`crate::STATE_HOLE`] | [`crate::STATE_ZERO`]); the runs follow each other from the
    /// request's offset. Runs past the end of the request are cut. If the client asked for one run,
    /// only the first is sent. If `runs` is empty, the whole range is reported as allocated data.
    pub fn block_status(&self, request: &Request, runs: &[(u32, u32)], out: &mut Vec<u8>) {
        let header = out.len();
        wire::push_chunk(out, CHUNK_DONE, CHUNK_BLOCK_STATUS, request.cookie, 0);
        out.extend_from_slice(&ALLOCATION_ID.to_be_bytes());
        let mut left = request.len;
        let most =
            if request.flags.contains(CommandFlags::REQ_ONE) { 1 } else { runs.len().max(1) };
        for &(len, state) in runs.iter().chain([&(request.len, 0)]).take(most) {
            let len = len.min(left);
            if len > 0 {
                put!(out, len, state);
                left -= len;
            }
        }
        let payload = (out.len() - header - wire::CHUNK_BYTES) as u32;
        if let Some(field) = out.get_mut(header + 16..header + 20) {
            field.copy_from_slice(&payload.to_be_bytes());
        }
    }

    fn start(&mut self, export: usize) -> ServerEvent {
        if let Some(e) = self.exports.get(export) {
            self.agreed = NegotiatedValues {
                size: e.size,
                flags: e.wire_flags(self.structured),
                mask: u64::from(e.block.minimum.max(1)) - 1,
                maximum: e.block.maximum.min(MAX_PAYLOAD_BYTES),
                allocation: self.structured && self.allocation_of == Some(export),
            };
        }
        self.state = ServerState::Requests;
        ServerEvent::Start { export }
    }
}

const fn after_payload(left: u32) -> ServerState {
    if left == 0 { ServerState::Requests } else { ServerState::Payload(left) }
}

fn push_simple(out: &mut Vec<u8>, error: u32, cookie: u64) {
    put!(out, SIMPLE_REPLY_MAGIC, error, cookie);
}
