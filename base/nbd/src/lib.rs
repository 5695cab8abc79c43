//! The NBD protocol (`doc/proto.md` of the Network Block Device project) without I/O, for servers
//! and for clients. Bytes go in and events come out; answers go in and bytes come out. The crate
//! uses no socket, clock, thread or disk. It copies no payload: it reports which bytes of the
//! caller's buffer are payload. For a read, it writes the reply header, and the caller sends the
//! data after it.
//!
//! Supported: the fixed newstyle handshake (`LIST`, `INFO`, `GO`, `ABORT`, `STRUCTURED_REPLY`,
//! `LIST_META_CONTEXT`, `SET_META_CONTEXT`, `EXPORT_NAME` and, for a server or a client that requires
//! TLS, `STARTTLS`; every other option is answered with `ERR_UNSUP`), simple and structured replies, `base:allocation`, and the commands read, write,
//! disconnect, flush, trim, cache, write zeroes and block status with their flags.
//!
//! A peer can cause only limited work. A session holds the state of one option or one request. For
//! each of them it appends at most a few hundred bytes to the caller's output, plus the names of
//! the exports for `LIST`. It never allocates a length that the peer chose.
//!
//! ```
//! use seekless_nbd::{Export, ServerEvent, ServerSession};
//! let mut out = Vec::new();
//! let mut session = ServerSession::new([Export::new("", 1 << 20)].into(), &mut out);
//! assert_eq!(&out[..8], b"NBDMAGIC");
//! // The client answers with its flags. The session returns the bytes taken and the bytes
//! // needed next.
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
mod server;
mod wire;

pub use client::{ClientEvent, ClientSession, Options};
pub use error::{Violation, ViolationKind};
pub use export::{BlockSizes, Export};
pub use server::{ReplyHeader, Request, ServerEvent, ServerSession};
pub use wire::{
    Command, CommandFlags, Errno, REP_ERR_TLS_REQD, STATE_HOLE, STATE_ZERO, TransmissionFlags,
};
