//! What a client asks of a block device.

use serde::{Deserialize, Serialize};

use crate::{Extent, SimTime};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Op {
    /// Bytes from the device.
    Read = 0,
    /// Bytes to the device.
    Write = 1,
    /// The client no longer needs the bytes (ATA TRIM, SCSI UNMAP, NBD trim).
    Discard = 2,
    /// Zeroes to the device, without a payload.
    WriteZeroes = 3,
    /// All completed writes to stable storage. Its extent is empty.
    Flush = 4,
}

impl Op {
    /// Whether the request changes what later reads return.
    #[must_use]
    pub const fn is_write_like(self) -> bool {
        matches!(self, Self::Write | Self::Discard | Self::WriteZeroes)
    }
}

/// Modifiers of a request.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Flags(pub u8);

impl Flags {
    /// No modifier.
    pub const NONE: Self = Self(0);
    /// Force unit access: stable before completion.
    pub const FUA: Self = Self(1);
    /// A synchronous request: somebody waits for it.
    pub const SYNC: Self = Self(2);
    /// File system metadata.
    pub const META: Self = Self(4);
    /// Read-ahead: nobody waits yet.
    pub const AHEAD: Self = Self(8);
    /// Of zeroes: the space stays allocated (NBD's NO_HOLE). Without it the client gives the space back.
    pub const NO_HOLE: Self = Self(16);

    /// Whether all bits of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Who asked: requests of one process form one stream. 0 where it is not known.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct StreamId(pub u32);

/// One request as it reached the block layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// When it arrived.
    pub arrival: SimTime,
    /// What it asks.
    pub op: Op,
    /// Which sectors.
    pub extent: Extent,
    /// Modifiers.
    pub flags: Flags,
    /// Who asked.
    pub stream: StreamId,
}

impl Request {
    /// A request of no known stream with no modifiers.
    #[must_use]
    pub const fn new(arrival: SimTime, op: Op, extent: Extent) -> Self {
        Self { arrival, op, extent, flags: Flags::NONE, stream: StreamId(0) }
    }
}
