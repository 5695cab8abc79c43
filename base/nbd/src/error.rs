//! What a peer did that ends the session. It refuses to know what the caller does about it: hang up.

/// The peer broke the protocol in a way that no reply can mend; the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of the peer's stream: {kind}")]
pub struct Violation {
    /// Bytes of the peer's stream taken before the offending message.
    pub at: u64,
    /// What was wrong with it.
    pub kind: ViolationKind,
}

/// The ways to break the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViolationKind {
    /// A magic number is not the expected one.
    #[error("expected {what} ({expected:#x}), found {found:#x}")]
    Magic {
        /// Which message was expected.
        what: &'static str,
        /// Its magic number.
        expected: u64,
        /// What came.
        found: u64,
    },
    /// The client set handshake flags that were not offered.
    #[error("unknown client flags {0:#x}; only bits 0 and 1 were offered")]
    ClientFlags(u32),
    /// The client did not ask for fixed newstyle and sent another option than `EXPORT_NAME`.
    #[error("option {0} without the fixed newstyle flag, where only EXPORT_NAME is allowed")]
    NotFixedNewstyle(u32),
    /// `EXPORT_NAME`, which has no error reply, named no export of this server.
    #[error("EXPORT_NAME for an export that does not exist; use GO to be told so")]
    UnknownExport,
    /// The session has ended; nothing more may be said.
    #[error("bytes after the end of the session")]
    Closed,
    /// The server speaks only the old handshake.
    #[error("the server does not speak the fixed newstyle handshake")]
    Oldstyle,
    /// The server answered an option other than the one sent.
    #[error("a reply to option {found}, where option {expected} was asked")]
    WrongOption {
        /// What was asked.
        expected: u32,
        /// What was answered.
        found: u32,
    },
    /// The server's reply to an option does not have the form of its type.
    #[error(
        "a reply of type {kind:#x} and {len} bytes to option {option} is malformed or unexpected"
    )]
    BadOptionReply {
        /// The option.
        option: u32,
        /// The reply's type.
        kind: u32,
        /// The length of its data.
        len: u32,
    },
    /// A reply to a request that is not under way.
    #[error("a reply with cookie {0:#x}, which no request under way carries")]
    UnknownCookie(u64),
    /// A reply chunk does not fit the request it answers.
    #[error("a reply chunk of type {kind:#x} and {len} bytes does not fit its request")]
    BadChunk {
        /// The chunk's type.
        kind: u16,
        /// The length of its payload.
        len: u32,
    },
    /// A read was called done before all its bytes came.
    #[error("a read of {expected} bytes was called done after {found}")]
    ShortRead {
        /// Bytes asked.
        expected: u32,
        /// Bytes received.
        found: u32,
    },
}
