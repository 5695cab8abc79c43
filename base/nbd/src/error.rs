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
#[allow(missing_docs, reason = "the messages say the same")]
pub enum ViolationKind {
    #[error("expected {what} ({expected:#x}), found {found:#x}")]
    Magic { what: &'static str, expected: u64, found: u64 },
    #[error("unknown client flags {0:#x}; only bits 0 and 1 were offered")]
    ClientFlags(u32),
    #[error("option {0} without the fixed newstyle flag, where only EXPORT_NAME is allowed")]
    NotFixedNewstyle(u32),
    #[error(
        "EXPORT_NAME for an export that does not exist; the option GO reports this as an error"
    )]
    UnknownExport,
    #[error("EXPORT_NAME before STARTTLS, and this server requires TLS")]
    TlsRequired,
    #[error("bytes after the end of the session")]
    Closed,
    #[error("the server does not speak the fixed newstyle handshake")]
    Oldstyle,
    #[error("a reply to option {found}, but option {expected} was sent")]
    WrongOption { expected: u32, found: u32 },
    #[error(
        "a reply of type {kind:#x} and {len} bytes to option {option} is malformed or unexpected"
    )]
    BadOptionReply { option: u32, kind: u32, len: u32 },
    #[error("the server goes on with the handshake without end")]
    EndlessHandshake,
    #[error("a reply with cookie {0:#x}, which belongs to no request in flight")]
    UnknownCookie(u64),
    #[error("a reply chunk of type {kind:#x} and {len} bytes does not fit its request")]
    BadChunk { kind: u16, len: u32 },
    #[error("the server ended a read of {expected} bytes after {found} bytes")]
    ShortRead { expected: u32, found: u32 },
}
