//! The NBD protocol (`doc/proto.md` of the Network Block Device project) without I/O: bytes in, events
//! out; answers in, bytes out. Both sides. It knows no socket, no clock, no thread and no disk, and
//! copies no payload: it says which bytes of the caller's buffer are payload, and writes reply headers
//! that the caller follows with the data.
//!
//! Spoken: the fixed newstyle handshake with every option answered (`LIST`, `INFO`, `GO`, `ABORT`,
//! `STRUCTURED_REPLY`, `LIST_META_CONTEXT`, `SET_META_CONTEXT`, and `EXPORT_NAME`; the rest gets
//! `ERR_UNSUP`), simple and structured replies, `base:allocation`, and the commands read, write,
//! disconnect, flush, trim, cache, write zeroes and block status with their flags.
//!
//! A peer can make a session do at most this: hold the state of one option or request, and append to the
//! caller's output a reply of at most a few hundred bytes for each option or request, plus the names of
//! the exports for `LIST`. No length the peer names is ever allocated.
//!
//! ```
//! use seekless_nbd::{Export, ServerEvent, ServerSession};
//! let mut out = Vec::new();
//! let mut session = ServerSession::new([Export::new("", 1 << 20)].into(), &mut out);
//! assert_eq!(&out[..8], b"NBDMAGIC");
//! // The client answers with its flags; the session says what it took and what it needs next.
//! let (took, event) = session.step(&[0, 0, 0, 3], &mut out)?;
//! assert_eq!((took, event), (4, ServerEvent::Nothing));
//! let (took, event) = session.step(&[], &mut out)?;
//! assert_eq!((took, event), (0, ServerEvent::More(16)));
//! # Ok::<(), seekless_nbd::Violation>(())
//! ```
#![forbid(unsafe_code)]

mod client;
mod error;
mod export;
#[doc(hidden)]
pub mod fuzzing;
mod server;
mod wire;

pub use client::{ClientEvent, ClientSession, Options};
pub use error::{Violation, ViolationKind};
pub use export::{BlockSizes, Export};
pub use server::{ReplyHeader, Request, ServerEvent, ServerSession};
pub use wire::{
    ALLOCATION_CONTEXT, Command, CommandFlags, Errno, MAX_OPTION_BYTES, MAX_PAYLOAD_BYTES,
    MAX_STRING_BYTES, STATE_HOLE, STATE_ZERO, TransmissionFlags,
};
