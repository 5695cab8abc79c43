//! An export: one disk that a server offers under one name. Where its bytes are stored is not
//! defined here.

use crate::wire::{MAX_PAYLOAD_BYTES, TransmissionFlags};

/// Block sizes in bytes, sent to clients that ask for them (`NBD_INFO_BLOCK_SIZE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// A power of two. Offsets and lengths are multiples of this number; the server answers
    /// `EINVAL` to other requests.
    pub minimum: u32,
    /// The size that gives the best speed.
    pub preferred: u32,
    /// Longest payload of a read or write; at most 32 MiB.
    pub maximum: u32,
}

/// One disk that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name. The empty name is the default export.
    pub name: String,
    /// A description for people; can be empty.
    pub description: String,
    /// Size in bytes.
    pub size: u64,
    /// Features of this export. The session sets `HAS_FLAGS` and `SEND_DF` itself.
    pub flags: TransmissionFlags,
    /// Limits of request sizes.
    pub block: BlockSizes,
}

impl Export {
    /// An export with every command, sectors of 512 bytes, and support for several connections.
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

    /// The same export, but writes are refused.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.flags = self.flags.union(TransmissionFlags::READ_ONLY);
        self
    }

    pub(crate) fn wire_flags(&self, structured: bool) -> TransmissionFlags {
        let flags =
            self.flags.union(TransmissionFlags::HAS_FLAGS).difference(TransmissionFlags::SEND_DF);
        if structured { flags.union(TransmissionFlags::SEND_DF) } else { flags }
    }
}
