//! Protocol violations by a peer that end a session. The caller closes the connection.

/// The peer broke the protocol, and no reply can repair that. The caller must close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of the peer's stream: {kind}")]
pub struct Violation {
    /// Bytes of the peer's stream before the message with the violation.
    pub at: u64,
    /// The kind of violation.
    pub kind: ViolationKind,
}

/// The ways to break the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViolationKind {
    /// A magic number is not the expected one.
    #[error("expected {what} ({expected:#x}), found {found:#x}")]
    Magic {
        /// The expected message.
        what: &'static str,
        /// The magic number of the expected message.
        expected: u64,
        /// The number received.
        found: u64,
    },
    /// The client set handshake flags that were not offered.
    #[error("unknown client flags {0:#x}; only bits 0 and 1 were offered")]
    ClientFlags(u32),
    /// The client did not ask for fixed newstyle and sent an option other than `EXPORT_NAME`.
    #[error("option {0} without the fixed newstyle flag, where only EXPORT_NAME is allowed")]
    NotFixedNewstyle(u32),
    /// `EXPORT_NAME` named an export that this server does not have. This option has no error
    /// reply.
    #[error(
        "EXPORT_NAME for an export that does not exist; the option GO reports this as an error"
    )]
    UnknownExport,
    /// The peer sent bytes after the session ended.
    #[error("bytes after the end of the session")]
    Closed,
    /// The server speaks only the old handshake.
    #[error("the server does not speak the fixed newstyle handshake")]
    Oldstyle,
    /// The server answered an option that was not the one sent.
    #[error("a reply to option {found}, but option {expected} was sent")]
    WrongOption {
        /// The option sent.
        expected: u32,
        /// The option answered.
        found: u32,
    },
    /// The server's reply to an option does not have the format of its type.
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
    /// A reply to a request that is not in flight.
    #[error("a reply with cookie {0:#x}, which belongs to no request in flight")]
    UnknownCookie(u64),
    /// A reply chunk does not fit the request it answers.
    #[error("a reply chunk of type {kind:#x} and {len} bytes does not fit its request")]
    BadChunk {
        /// The chunk's type.
        kind: u16,
        /// The length of its payload.
        len: u32,
    },
    /// The server ended a read before all bytes came.
    #[error("the server ended a read of {expected} bytes after {found} bytes")]
    ShortRead {
        /// Bytes requested.
        expected: u32,
        /// Bytes received.
        found: u32,
    },
}
