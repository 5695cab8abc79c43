//! Constants and layouts of the NBD messages, as in `doc/proto.md`, all big-endian. Parsing them
//! never panics.

use bitflags::bitflags;

/// Appends numbers to a message, big-endian.
macro_rules! put {
    ($out:expr, $($number:expr),+) => {
        $($out.extend_from_slice(&$number.to_be_bytes());)+
    };
}
pub(crate) use put;

/// `NBDMAGIC`.
pub(crate) const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`.
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub(crate) const CHUNK_MAGIC: u32 = 0x668e_33ef;

pub(crate) const REQUEST_BYTES: usize = 28;
pub(crate) const OPTION_BYTES: usize = 16;
pub(crate) const OPTION_REPLY_BYTES: usize = 20;
pub(crate) const SIMPLE_REPLY_BYTES: usize = 16;
pub(crate) const CHUNK_BYTES: usize = 20;

/// Handshake flags, both sides: fixed newstyle.
pub(crate) const FIXED_NEWSTYLE: u16 = 1;
/// Handshake flags, both sides: no 124 zeroes after `EXPORT_NAME`.
pub(crate) const NO_ZEROES: u16 = 2;

pub(crate) const OPT_EXPORT_NAME: u32 = 1;
pub(crate) const OPT_ABORT: u32 = 2;
pub(crate) const OPT_LIST: u32 = 3;
pub(crate) const OPT_STARTTLS: u32 = 5;
pub(crate) const OPT_INFO: u32 = 6;
pub(crate) const OPT_GO: u32 = 7;
pub(crate) const OPT_STRUCTURED_REPLY: u32 = 8;
pub(crate) const OPT_LIST_META_CONTEXT: u32 = 9;
pub(crate) const OPT_SET_META_CONTEXT: u32 = 10;

pub(crate) const REP_ACK: u32 = 1;
pub(crate) const REP_SERVER: u32 = 2;
pub(crate) const REP_INFO: u32 = 3;
pub(crate) const REP_META_CONTEXT: u32 = 4;
pub(crate) const REP_ERR: u32 = 1 << 31;
pub(crate) const REP_ERR_UNSUP: u32 = REP_ERR | 1;
pub(crate) const REP_ERR_INVALID: u32 = REP_ERR | 3;
/// Reply of a server that requires TLS.
pub const REP_ERR_TLS_REQD: u32 = REP_ERR | 5;
pub(crate) const REP_ERR_UNKNOWN: u32 = REP_ERR | 6;
pub(crate) const REP_ERR_TOO_BIG: u32 = REP_ERR | 9;

pub(crate) const INFO_EXPORT: u16 = 0;
pub(crate) const INFO_NAME: u16 = 1;
pub(crate) const INFO_DESCRIPTION: u16 = 2;
pub(crate) const INFO_BLOCK_SIZE: u16 = 3;

pub(crate) const CHUNK_DONE: u16 = 1;
pub(crate) const CHUNK_NONE: u16 = 0;
pub(crate) const CHUNK_DATA: u16 = 1;
pub(crate) const CHUNK_HOLE: u16 = 2;
pub(crate) const CHUNK_BLOCK_STATUS: u16 = 5;
/// Bit that is set in every chunk type that reports an error.
pub(crate) const CHUNK_ERROR_BIT: u16 = 1 << 15;
pub(crate) const CHUNK_ERROR: u16 = CHUNK_ERROR_BIT | 1;

/// The only metadata context that the protocol defines.
pub(crate) const ALLOCATION_CONTEXT: &str = "base:allocation";
/// The id that this server gives to `base:allocation`. Every number except zero is valid.
pub(crate) const ALLOCATION_ID: u32 = 1;
/// Block status under `base:allocation`: not allocated.
pub const STATE_HOLE: u32 = 1;
/// Block status under `base:allocation`: reads as zeroes.
pub const STATE_ZERO: u32 = 2;

/// Longest option that a server accepts. A longer option is skipped and answered with
/// `ERR_TOO_BIG`. The caller's receive buffer must hold this many bytes and a header of 16 bytes.
pub(crate) const MAX_OPTION_BYTES: usize = 16 << 10;
pub(crate) const MAX_STRING_BYTES: usize = 4096;
pub(crate) const MAX_PAYLOAD_BYTES: u32 = 32 << 20;

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Command {
    /// Read bytes from the export.
    Read = 0,
    /// Write bytes to the export; the payload follows the request.
    Write = 1,
    /// Close the connection; there is no reply.
    Disconnect = 2,
    /// Make completed writes durable.
    Flush = 3,
    /// The client no longer needs the bytes.
    Trim = 4,
    /// The client will read the bytes soon.
    Cache = 5,
    /// Write zeroes to the export, without a payload.
    WriteZeroes = 6,
    /// Report which bytes are allocated.
    BlockStatus = 7,
}

impl Command {
    pub(crate) const fn from_wire(number: u16) -> Option<Self> {
        Some(match number {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Disconnect,
            3 => Self::Flush,
            4 => Self::Trim,
            5 => Self::Cache,
            6 => Self::WriteZeroes,
            7 => Self::BlockStatus,
            _ => return None,
        })
    }

    /// Whether the command can change the result of later reads.
    pub const fn is_write_like(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }
}

bitflags! {
    /// Modifiers of a request.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct CommandFlags: u16 {
        /// No flag.
        const NONE = 0;
        /// The write must be durable before the reply.
        const FUA = 1;
        /// Write zeroes: allocate space, do not make a hole.
        const NO_HOLE = 1 << 1;
        /// Read: send at most one content chunk.
        const DF = 1 << 2;
        /// Block status: send one extent only.
        const REQ_ONE = 1 << 3;
        /// Write zeroes: fail with `ENOTSUP` if zeroing is not faster than writing.
        const FAST_ZERO = 1 << 4;
    }
}

bitflags! {
    /// The features that a server offers for an export.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct TransmissionFlags: u16 {
        /// No flag.
        const NONE = 0;
        /// Always set.
        const HAS_FLAGS = 1;
        /// The server refuses writes with `EPERM`.
        const READ_ONLY = 1 << 1;
        /// The server supports [`Command::Flush`].
        const SEND_FLUSH = 1 << 2;
        /// The server supports [`CommandFlags::FUA`].
        const SEND_FUA = 1 << 3;
        /// The disk rotates; seeks are slow.
        const ROTATIONAL = 1 << 4;
        /// The server supports [`Command::Trim`].
        const SEND_TRIM = 1 << 5;
        /// The server supports [`Command::WriteZeroes`].
        const SEND_WRITE_ZEROES = 1 << 6;
        /// The server supports [`CommandFlags::DF`]. The session sets it after structured replies
        /// are agreed.
        const SEND_DF = 1 << 7;
        /// A flush on one connection covers completed writes on all connections.
        const CAN_MULTI_CONN = 1 << 8;
        /// The server supports [`Command::Cache`].
        const SEND_CACHE = 1 << 10;
        /// The server supports [`CommandFlags::FAST_ZERO`].
        const SEND_FAST_ZERO = 1 << 11;
    }
}

/// The reason for a failed request: the error numbers of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say the same")]
pub enum Errno {
    #[error("operation not permitted (EPERM)")]
    Perm,
    #[error("input/output error (EIO)")]
    Io,
    #[error("cannot allocate memory (ENOMEM)")]
    NoMem,
    #[error("invalid argument (EINVAL)")]
    Inval,
    #[error("no space left on device (ENOSPC)")]
    NoSpc,
    #[error("value too large (EOVERFLOW)")]
    Overflow,
    #[error("operation not supported (ENOTSUP)")]
    NotSup,
    #[error("the server is shutting down (ESHUTDOWN)")]
    Shutdown,
    #[error("the server sent unknown error number {0}")]
    Other(u32),
}

impl Errno {
    pub(crate) const fn to_wire(self) -> u32 {
        match self {
            Self::Perm => 1,
            Self::Io => 5,
            Self::NoMem => 12,
            Self::Inval => 22,
            Self::NoSpc => 28,
            Self::Overflow => 75,
            Self::NotSup => 95,
            Self::Shutdown => 108,
            Self::Other(n) => n,
        }
    }

    /// The error of a number on the wire; `None` for zero.
    pub(crate) const fn from_wire(number: u32) -> Option<Self> {
        Some(match number {
            0 => return None,
            1 => Self::Perm,
            5 => Self::Io,
            12 => Self::NoMem,
            22 => Self::Inval,
            28 => Self::NoSpc,
            75 => Self::Overflow,
            95 => Self::NotSup,
            108 => Self::Shutdown,
            n => Self::Other(n),
        })
    }
}

/// Takes big-endian numbers and strings from the front of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A 32-bit length, then the bytes of the string; at most [`MAX_STRING_BYTES`].
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        if len > MAX_STRING_BYTES {
            return None;
        }
        self.bytes(len)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(crate) fn push_chunk(out: &mut Vec<u8>, flags: u16, kind: u16, cookie: u64, len: u32) {
    put!(out, CHUNK_MAGIC, flags, kind, cookie, len);
}

pub(crate) fn push_option(out: &mut Vec<u8>, option: u32, len: u32) {
    put!(out, OPTION_MAGIC, option, len);
}
