//! The client's side of a session. The caller decides where read data is stored. The session
//! reports to which request, and to which offset in that request, the received bytes belong.

mod replies;

use crate::error::{Violation, ViolationKind};
use crate::export::BlockSizes;
use crate::wire::{
    self, ALLOCATION_CONTEXT, Command, CommandFlags, Errno, Fields, MAX_OPTION_BYTES,
    MAX_PAYLOAD_BYTES, OPT_EXPORT_NAME, OPT_GO, OPT_SET_META_CONTEXT, OPT_STARTTLS,
    OPT_STRUCTURED_REPLY, OPTION_REPLY_BYTES, REP_ACK, REP_ERR, REP_ERR_UNSUP, REP_INFO,
    REP_META_CONTEXT, REQUEST_MAGIC, TransmissionFlags, push_option, put,
};

/// The most bytes of a server before the session begins. A handshake needs a few hundred.
const HANDSHAKE_MOST: u64 = 256 << 10;

type StepResult = Result<(usize, ClientEvent), Violation>;

/// The choices of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The export's name; empty for the default one. At most 4096 bytes.
    pub export: String,
    /// Ask for structured replies.
    pub structured: bool,
    /// Ask for `base:allocation`, for block status; needs structured replies.
    pub allocation: bool,
    /// Ask for TLS first, and accept no session without TLS: see [`ClientEvent::StartTls`].
    pub tls: bool,
}

impl Default for Options {
    /// The default export with structured replies and block status.
    fn default() -> Self {
        Self { export: String::new(), structured: true, allocation: true, tls: false }
    }
}

/// The meaning of the bytes that [`ClientSession::step`] took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// No progress until this many bytes are available, counted from the first byte not taken.
    More(usize),
    /// Bytes were taken; call `step` again.
    Nothing,
    /// The server is ready for TLS: exchange the following bytes through TLS, then call `step`
    /// again. A caller that has received more bytes already must end the connection: somebody put
    /// them there.
    StartTls,
    /// The handshake is over; [`ClientSession::request`] may be called.
    Ready,
    /// The server refused the export with this reply type; the session is over.
    Refused(u32),
    /// The bytes taken are data of a read request.
    Data {
        /// Cookie of the read request.
        cookie: u64,
        /// Offset of the data from the start of the read, in bytes.
        at: u32,
    },
    /// A part of a read request is zeroes.
    Zeroes {
        /// Cookie of the read request.
        cookie: u64,
        /// Offset from the start of the read, in bytes.
        at: u32,
        /// Length in bytes.
        len: u32,
    },
    /// The next run of a block status request.
    Status {
        /// Cookie of the request.
        cookie: u64,
        /// Length of the run in bytes.
        len: u32,
        /// [`crate::STATE_HOLE`] | [`crate::STATE_ZERO`].
        state: u32,
    },
    /// A request ended. A later request can carry the same cookie.
    Done {
        /// Cookie of the request.
        cookie: u64,
        /// Success, or the server's error.
        result: Result<(), Errno>,
    },
}

/// The part of the protocol that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientState {
    /// The server's first bytes are expected.
    Greeting,
    /// TLS has begun.
    Encrypted,
    /// The final reply to this option is expected.
    Option(u32),
    /// The reply to `EXPORT_NAME` is expected.
    ExportName,
    /// A reply to a request is expected.
    Replies,
    /// `left` bytes of read data are expected; they belong at offset `at`. If `last`, the reply
    /// ends with them.
    Data { slot: usize, at: u32, left: u32, last: bool },
    /// `left` bytes of block status runs are expected.
    Runs { slot: usize, left: u32, last: bool },
    /// `left` bytes to ignore are expected.
    Skip { slot: usize, left: u32, last: bool },
    /// All data of this reply are there.
    End { slot: usize },
    /// Nothing more is expected.
    Closed,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    cookie: u64,
    command: Command,
    offset: u64,
    len: u32,
    /// Bytes of data, or of described runs, received so far.
    received: u32,
    error: Option<Errno>,
    active: bool,
}

/// The client's side of one connection. Use it as [`crate::ServerSession`].
#[derive(Debug)]
pub struct ClientSession {
    options: Options,
    state: ClientState,
    at: u64,
    no_zeroes: bool,
    structured: bool,
    context: Option<u32>,
    size: u64,
    flags: TransmissionFlags,
    block: BlockSizes,
    pending: Vec<Pending>,
    free: Vec<usize>,
}

impl ClientSession {
    /// A session on a new connection. The server speaks first.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            state: ClientState::Greeting,
            at: 0,
            no_zeroes: false,
            structured: false,
            context: None,
            size: 0,
            flags: TransmissionFlags::NONE,
            block: BlockSizes { minimum: 1, preferred: 4096, maximum: MAX_PAYLOAD_BYTES },
            pending: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Size of the export in bytes. Valid after [`ClientEvent::Ready`].
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The server's features for this export. Valid after [`ClientEvent::Ready`].
    pub const fn flags(&self) -> TransmissionFlags {
        self.flags
    }

    /// The server's block sizes, or the protocol's defaults if the server gave none. Valid after
    /// [`ClientEvent::Ready`].
    pub const fn block_sizes(&self) -> BlockSizes {
        self.block
    }

    /// Whether [`Command::BlockStatus`] may be sent.
    pub const fn has_allocation(&self) -> bool {
        self.context.is_some()
    }

    /// Whether client and server agreed on structured replies.
    pub const fn is_structured(&self) -> bool {
        self.structured
    }

    /// The number of requests in flight.
    pub const fn in_flight(&self) -> usize {
        self.pending.len() - self.free.len()
    }

    /// Appends a request to `out` and returns its cookie. After a write request, the caller sends
    /// `len` bytes of payload. Returns `None` if requests are not allowed in the session's present
    /// state.
    pub fn request(
        &mut self,
        command: Command,
        offset: u64,
        len: u32,
        flags: CommandFlags,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        if matches!(
            self.state,
            ClientState::Greeting
                | ClientState::Encrypted
                | ClientState::Option(_)
                | ClientState::ExportName
                | ClientState::Closed
        ) {
            return None;
        }
        let mut cookie = 0;
        if command == Command::Disconnect {
            self.state = ClientState::Closed;
        } else {
            let fresh =
                Pending { cookie, command, offset, len, received: 0, error: None, active: true };
            let slot = self.free.pop().unwrap_or(self.pending.len());
            // The upper half counts the uses of the slot. A late reply then matches no newer
            // request.
            let uses = self.pending.get(slot).map_or(0, |p| (p.cookie >> 32).wrapping_add(1));
            cookie = (uses << 32) | slot as u64;
            let fresh = Pending { cookie, ..fresh };
            match self.pending.get_mut(slot) {
                Some(p) => *p = fresh,
                None => self.pending.push(fresh),
            }
        }
        put!(out, REQUEST_MAGIC, flags.bits(), command as u16, cookie, offset, len);
        Some(cookie)
    }

    /// Takes bytes from the front of `input`. Returns the number of bytes taken and their meaning.
    /// Appends bytes to send during the handshake to `out`. Call again until the event is
    /// [`ClientEvent::More`].
    #[inline]
    pub fn step(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, ClientEvent), Violation> {
        let (taken, event) = match self.state {
            ClientState::Greeting => self.greeting(input, out)?,
            ClientState::Encrypted => {
                self.choose(out);
                (0, ClientEvent::Nothing)
            }
            ClientState::Option(option) => self.option_reply(option, input, out)?,
            ClientState::ExportName => self.export_name_reply(input),
            ClientState::Closed => {
                if input.is_empty() {
                    return Ok((0, ClientEvent::More(1)));
                }
                return Err(self.violation(ViolationKind::Closed));
            }
            _ => self.reply(input)?,
        };
        self.at += taken as u64;
        Ok((taken, event))
    }

    const fn violation(&self, kind: ViolationKind) -> Violation {
        Violation { at: self.at, kind }
    }

    fn greeting(&mut self, input: &[u8], out: &mut Vec<u8>) -> StepResult {
        let mut f = Fields(input);
        let (Some(init), Some(style), Some(flags)) = (f.u64(), f.u64(), f.u16()) else {
            return Ok((0, ClientEvent::More(18)));
        };
        if init != wire::INIT_MAGIC {
            return Err(self.violation(ViolationKind::Magic {
                what: "NBDMAGIC",
                expected: wire::INIT_MAGIC,
                found: init,
            }));
        }
        if style != wire::OPTION_MAGIC || flags & wire::FIXED_NEWSTYLE == 0 {
            return Err(self.violation(ViolationKind::Oldstyle));
        }
        self.no_zeroes = flags & wire::NO_ZEROES != 0;
        let ours = u32::from(flags & (wire::FIXED_NEWSTYLE | wire::NO_ZEROES));
        out.extend_from_slice(&ours.to_be_bytes());
        if self.options.tls {
            push_option(out, OPT_STARTTLS, 0);
            self.state = ClientState::Option(OPT_STARTTLS);
        } else {
            self.choose(out);
        }
        Ok((18, ClientEvent::Nothing))
    }

    /// Asks for the features of the session.
    fn choose(&mut self, out: &mut Vec<u8>) {
        if self.options.structured {
            push_option(out, OPT_STRUCTURED_REPLY, 0);
            self.state = ClientState::Option(OPT_STRUCTURED_REPLY);
        } else {
            self.go(out);
        }
    }

    /// Asks for the export.
    fn go(&mut self, out: &mut Vec<u8>) {
        let name = self.options.export.as_bytes();
        push_option(out, OPT_GO, name.len() as u32 + 8);
        out.extend_from_slice(&(name.len() as u32).to_be_bytes());
        out.extend_from_slice(name);
        put!(out, 1u16, wire::INFO_BLOCK_SIZE);
        self.state = ClientState::Option(OPT_GO);
    }

    /// Asks for `base:allocation`.
    fn set_context(&mut self, out: &mut Vec<u8>) {
        let name = self.options.export.as_bytes();
        let query = ALLOCATION_CONTEXT.as_bytes();
        push_option(out, OPT_SET_META_CONTEXT, (name.len() + query.len()) as u32 + 12);
        out.extend_from_slice(&(name.len() as u32).to_be_bytes());
        out.extend_from_slice(name);
        put!(out, 1u32, query.len() as u32);
        out.extend_from_slice(query);
        self.state = ClientState::Option(OPT_SET_META_CONTEXT);
    }

    fn option_reply(&mut self, option: u32, input: &[u8], out: &mut Vec<u8>) -> StepResult {
        // Some replies may come any number of times.
        if self.at > HANDSHAKE_MOST {
            return Err(self.violation(ViolationKind::EndlessHandshake));
        }
        let mut f = Fields(input);
        let (Some(magic), Some(found), Some(kind), Some(len)) =
            (f.u64(), f.u32(), f.u32(), f.u32())
        else {
            return Ok((0, ClientEvent::More(OPTION_REPLY_BYTES)));
        };
        if magic != wire::OPTION_REPLY_MAGIC {
            return Err(self.violation(ViolationKind::Magic {
                what: "a reply to an option",
                expected: wire::OPTION_REPLY_MAGIC,
                found: magic,
            }));
        }
        if found != option {
            return Err(self.violation(ViolationKind::WrongOption { expected: option, found }));
        }
        let bad = self.violation(ViolationKind::BadOptionReply { option, kind, len });
        if len as usize > MAX_OPTION_BYTES {
            return Err(bad);
        }
        let Some(data) = f.bytes(len as usize) else {
            return Ok((0, ClientEvent::More(OPTION_REPLY_BYTES + len as usize)));
        };
        let event = self.answered(option, kind, data, bad, out)?;
        Ok((OPTION_REPLY_BYTES + data.len(), event))
    }

    /// Acts on a complete reply of type `kind` to `option`. Returns `bad` if it does not fit.
    fn answered(
        &mut self,
        option: u32,
        kind: u32,
        data: &[u8],
        bad: Violation,
        out: &mut Vec<u8>,
    ) -> Result<ClientEvent, Violation> {
        let refused = kind & REP_ERR != 0;
        match option {
            OPT_STARTTLS if kind == REP_ACK => {
                self.state = ClientState::Encrypted;
                return Ok(ClientEvent::StartTls);
            }
            OPT_STRUCTURED_REPLY if kind == REP_ACK || refused => {
                self.structured = kind == REP_ACK;
                if self.structured && self.options.allocation {
                    self.set_context(out);
                } else {
                    self.go(out);
                }
            }
            OPT_SET_META_CONTEXT if kind == REP_META_CONTEXT => {
                let mut f = Fields(data);
                let id = f.u32().ok_or(bad)?;
                if f.0 == ALLOCATION_CONTEXT.as_bytes() {
                    self.context = Some(id);
                }
            }
            OPT_SET_META_CONTEXT if kind == REP_ACK || refused => {
                if refused {
                    self.context = None;
                }
                self.go(out);
            }
            OPT_GO if kind == REP_INFO => self.info(data).ok_or(bad)?,
            OPT_GO if kind == REP_ACK => {
                self.state = ClientState::Replies;
                return Ok(ClientEvent::Ready);
            }
            OPT_GO if kind == REP_ERR_UNSUP => {
                push_option(out, OPT_EXPORT_NAME, self.options.export.len() as u32);
                out.extend_from_slice(self.options.export.as_bytes());
                self.state = ClientState::ExportName;
            }
            OPT_STARTTLS | OPT_GO if refused => {
                self.state = ClientState::Closed;
                return Ok(ClientEvent::Refused(kind));
            }
            _ => return Err(bad),
        }
        Ok(ClientEvent::Nothing)
    }

    /// Reads one piece of information about the export. Ignores unknown kinds.
    fn info(&mut self, data: &[u8]) -> Option<()> {
        let mut f = Fields(data);
        match f.u16()? {
            wire::INFO_EXPORT => {
                self.size = f.u64()?;
                self.flags = TransmissionFlags::from_bits_retain(f.u16()?);
            }
            wire::INFO_BLOCK_SIZE => {
                self.block =
                    BlockSizes { minimum: f.u32()?, preferred: f.u32()?, maximum: f.u32()? };
            }
            _ => return Some(()),
        }
        f.is_empty().then_some(())
    }

    fn export_name_reply(&mut self, input: &[u8]) -> (usize, ClientEvent) {
        let len = if self.no_zeroes { 10 } else { 134 };
        let mut f = Fields(input);
        let (Some(size), Some(flags), Some(_)) = (f.u64(), f.u16(), f.bytes(len - 10)) else {
            return (0, ClientEvent::More(len));
        };
        self.size = size;
        self.flags = TransmissionFlags::from_bits_retain(flags);
        self.state = ClientState::Replies;
        (len, ClientEvent::Ready)
    }
}
