//! The server's side of a session: the state machine, the checks of requests, and the replies. It
//! refuses to know how a request is carried out; a request it hands out is well-formed, permitted and
//! within the export.

mod haggle;

use std::sync::Arc;

use crate::error::{Violation, ViolationKind};
use crate::export::Export;
use crate::wire::{
    self, ALLOCATION_ID, CHUNK_BLOCK_STATUS, CHUNK_DATA, CHUNK_DONE, CHUNK_ERROR, Command,
    CommandFlags, Errno, Fields, MAX_PAYLOAD_BYTES, REQUEST_BYTES, REQUEST_MAGIC,
    SIMPLE_REPLY_MAGIC, TransmissionFlags,
};

/// A client's request, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's name for it; goes back in the reply.
    pub cookie: u64,
    /// What is asked; never [`Command::Disconnect`].
    pub command: Command,
    /// Modifiers; only those that fit the command.
    pub flags: CommandFlags,
    /// First byte.
    pub offset: u64,
    /// Bytes; zero only for a flush. Reads and writes stay within the export's largest payload.
    pub len: u32,
}

/// What came of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// Nothing until so many bytes are at hand, counted from the first that was not taken.
    More(usize),
    /// Bytes were taken, replies may have been appended; step again.
    Nothing,
    /// The handshake is over: requests for this export follow.
    Start {
        /// Its index in the list the session was made with.
        export: usize,
    },
    /// A request to carry out and answer. After a write come its [`ServerEvent::Payload`] events.
    Request(Request),
    /// The bytes taken are payload of the latest write.
    Payload {
        /// Whether the payload is whole now.
        last: bool,
    },
    /// The client took its leave: send what is pending, then close.
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
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len.into()).unwrap_or_default()
    }
}

/// Where the session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The client's flags are due.
    Flags,
    /// An option is due.
    Options,
    /// The rest of an option that was too long, not looked at.
    SkipOption(u32),
    /// A request is due.
    Requests,
    /// Payload of a write that was handed out.
    Payload(u32),
    /// Payload of a write that was refused.
    SkipPayload(u32),
    /// Over.
    Closed,
}

/// What was agreed when transmission began.
#[derive(Clone, Copy, Debug)]
struct Agreed {
    size: u64,
    flags: TransmissionFlags,
    /// Alignment less one.
    mask: u64,
    maximum: u32,
    allocation: bool,
}

/// The server's side of one connection.
///
/// The caller keeps received bytes in a buffer of its own, calls [`Self::step`] with what it has, drops
/// what was taken, and sends what was appended to `out`. Replies to requests may be made in any order.
#[derive(Debug)]
pub struct ServerSession {
    exports: Arc<[Export]>,
    state: State,
    /// Bytes taken so far.
    at: u64,
    fixed: bool,
    no_zeroes: bool,
    structured: bool,
    /// The export that `base:allocation` was selected for.
    allocation_of: Option<usize>,
    agreed: Agreed,
}

impl ServerSession {
    /// A session with a client that has just connected; appends the greeting.
    #[must_use]
    pub fn new(exports: Arc<[Export]>, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(&wire::INIT_MAGIC.to_be_bytes());
        out.extend_from_slice(&wire::OPTION_MAGIC.to_be_bytes());
        out.extend_from_slice(&(wire::FIXED_NEWSTYLE | wire::NO_ZEROES).to_be_bytes());
        Self {
            exports,
            state: State::Flags,
            at: 0,
            fixed: false,
            no_zeroes: false,
            structured: false,
            allocation_of: None,
            agreed: Agreed {
                size: 0,
                flags: TransmissionFlags::NONE,
                mask: 0,
                maximum: 0,
                allocation: false,
            },
        }
    }

    /// Whether structured replies were agreed.
    #[must_use]
    pub const fn is_structured(&self) -> bool {
        self.structured
    }

    /// Whether the handshake is over and requests are exchanged.
    #[must_use]
    pub const fn is_transmitting(&self) -> bool {
        matches!(self.state, State::Requests | State::Payload(_) | State::SkipPayload(_))
    }

    /// Takes bytes off the front of `input`: how many, and what they meant. Replies that need no help of
    /// the caller are appended to `out`. Call again until it says [`ServerEvent::More`].
    ///
    /// # Errors
    /// Where the client broke the protocol beyond repair. Close the connection.
    #[inline]
    pub fn step(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, ServerEvent), Violation> {
        let (taken, event) = match self.state {
            State::Requests => self.request(input, out)?,
            State::Payload(left) => {
                let n = left.min(u32::try_from(input.len()).unwrap_or(u32::MAX));
                if n == 0 {
                    return Ok((0, ServerEvent::More(1)));
                }
                self.state = after_payload(left - n);
                (n as usize, ServerEvent::Payload { last: n == left })
            }
            State::SkipPayload(left) | State::SkipOption(left) => {
                let n = left.min(u32::try_from(input.len()).unwrap_or(u32::MAX));
                if n == 0 {
                    return Ok((0, ServerEvent::More(1)));
                }
                self.state = match (self.state, left - n) {
                    (State::SkipPayload(_), 0) => State::Requests,
                    (State::SkipPayload(_), rest) => State::SkipPayload(rest),
                    (_, 0) => State::Options,
                    (_, rest) => State::SkipOption(rest),
                };
                (n as usize, ServerEvent::Nothing)
            }
            State::Flags => self.client_flags(input)?,
            State::Options => self.option(input, out)?,
            State::Closed => {
                if input.is_empty() {
                    return Ok((0, ServerEvent::More(1)));
                }
                return Err(self.violation(ViolationKind::Closed));
            }
        };
        self.at += taken as u64;
        Ok((taken, event))
    }

    /// Payload bytes of the latest write that the caller received past the session, straight into a
    /// buffer of its own: at most [`Self::payload_left`].
    pub fn payload_received(&mut self, n: u32) {
        if let State::Payload(left) = self.state {
            debug_assert!(n <= left, "more payload than was announced");
            self.at += u64::from(n);
            self.state = after_payload(left.saturating_sub(n));
        }
    }

    /// Payload bytes of the latest write still to come.
    #[must_use]
    pub const fn payload_left(&self) -> u32 {
        match self.state {
            State::Payload(left) => left,
            _ => 0,
        }
    }

    const fn violation(&self, kind: ViolationKind) -> Violation {
        Violation { at: self.at, kind }
    }

    /// A request's header.
    fn request(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, ServerEvent), Violation> {
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
        let flags = CommandFlags(flags);
        let Some(command) = Command::from_wire(number) else {
            self.error(cookie, Errno::Inval, out);
            return Ok((REQUEST_BYTES, ServerEvent::Nothing));
        };
        let request = Request { cookie, command, flags, offset, len };
        if command == Command::Disconnect {
            self.state = State::Closed;
            return Ok((REQUEST_BYTES, ServerEvent::Close));
        }
        let verdict = self.check(&request);
        if command == Command::Write && len > 0 {
            self.state =
                if verdict.is_ok() { State::Payload(len) } else { State::SkipPayload(len) };
        }
        match verdict {
            Ok(()) => Ok((REQUEST_BYTES, ServerEvent::Request(request))),
            Err(errno) => {
                self.error(cookie, errno, out);
                Ok((REQUEST_BYTES, ServerEvent::Nothing))
            }
        }
    }

    /// Whether a request may be carried out.
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

    /// The header of a successful read's reply: the request's `len` bytes of data follow it.
    #[inline]
    #[must_use]
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

    /// Appends the reply that a request other than a read or block status succeeded.
    #[inline]
    pub fn done(&self, cookie: u64, out: &mut Vec<u8>) {
        push_simple(out, 0, cookie);
    }

    /// Appends the reply that a request failed.
    pub fn error(&self, cookie: u64, errno: Errno, out: &mut Vec<u8>) {
        if self.structured {
            wire::push_chunk(out, CHUNK_DONE, CHUNK_ERROR, cookie, 6);
            out.extend_from_slice(&errno.to_wire().to_be_bytes());
            out.extend_from_slice(&0u16.to_be_bytes());
        } else {
            push_simple(out, errno.to_wire(), cookie);
        }
    }

    /// Appends the reply to a block status request: (bytes, [`crate::STATE_HOLE`] | [`crate::STATE_ZERO`])
    /// of consecutive runs from the request's offset. Runs past the request are cut, only the first is
    /// sent where the client asked for one; where there is none the whole is called allocated data.
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
                out.extend_from_slice(&len.to_be_bytes());
                out.extend_from_slice(&state.to_be_bytes());
                left -= len;
            }
        }
        let payload = (out.len() - header - wire::CHUNK_BYTES) as u32;
        if let Some(field) = out.get_mut(header + 16..header + 20) {
            field.copy_from_slice(&payload.to_be_bytes());
        }
    }

    /// Enters transmission for an export.
    fn start(&mut self, export: usize) -> ServerEvent {
        if let Some(e) = self.exports.get(export) {
            self.agreed = Agreed {
                size: e.size,
                flags: e.wire_flags(self.structured),
                mask: u64::from(e.block.minimum.max(1)) - 1,
                maximum: e.block.maximum.min(MAX_PAYLOAD_BYTES),
                allocation: self.structured && self.allocation_of == Some(export),
            };
        }
        self.state = State::Requests;
        ServerEvent::Start { export }
    }
}

const fn after_payload(left: u32) -> State {
    if left == 0 { State::Requests } else { State::Payload(left) }
}

fn push_simple(out: &mut Vec<u8>, error: u32, cookie: u64) {
    let mut reply = [0; wire::SIMPLE_REPLY_BYTES];
    reply[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    reply[4..8].copy_from_slice(&error.to_be_bytes());
    reply[8..].copy_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&reply);
}
