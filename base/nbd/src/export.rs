//! What a server offers under one name. It refuses to know where the bytes are.

use crate::wire::{MAX_PAYLOAD_BYTES, TransmissionFlags};

/// Sizes of requests, in bytes, told to clients that ask (`NBD_INFO_BLOCK_SIZE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of this power of two; others get `EINVAL`.
    pub minimum: u32,
    /// What is fast.
    pub preferred: u32,
    /// Longest payload of a read or write; at most [`MAX_PAYLOAD_BYTES`].
    pub maximum: u32,
}

/// An export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name; the empty name is the default export.
    pub name: String,
    /// For people; may be empty.
    pub description: String,
    /// In bytes.
    pub size: u64,
    /// What it can do. `HAS_FLAGS` and `SEND_DF` are the session's to set.
    pub flags: TransmissionFlags,
    /// Sizes of requests.
    pub block: BlockSizes,
}

impl Export {
    /// An export that understands every command, in sectors of 512 bytes, for several connections.
    #[must_use]
    pub fn new(name: &str, size: u64) -> Self {
        use TransmissionFlags as F;
        Self {
            name: name.to_owned(),
            description: String::new(),
            size,
            flags: F::SEND_FLUSH
                .union(F::SEND_FUA)
                .union(F::SEND_TRIM)
                .union(F::SEND_WRITE_ZEROES)
                .union(F::SEND_CACHE)
                .union(F::CAN_MULTI_CONN),
            block: BlockSizes { minimum: 512, preferred: 4096, maximum: MAX_PAYLOAD_BYTES },
        }
    }

    /// The same, refusing writes.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.flags = self.flags.union(TransmissionFlags::READ_ONLY);
        self
    }

    /// The flags to send.
    pub(crate) fn wire_flags(&self, structured: bool) -> TransmissionFlags {
        let flags =
            self.flags.union(TransmissionFlags::HAS_FLAGS).without(TransmissionFlags::SEND_DF);
        if structured { flags.union(TransmissionFlags::SEND_DF) } else { flags }
    }
}
