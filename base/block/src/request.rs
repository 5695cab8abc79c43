//! A client's request to a block device.

use serde::{Deserialize, Serialize};

use crate::{Extent, SimTime};

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Op {
    /// Read bytes from the device.
    Read = 0,
    /// Write bytes to the device.
    Write = 1,
    /// The client no longer needs the bytes (ATA TRIM, SCSI UNMAP, NBD trim).
    Discard = 2,
    /// Write zeroes to the device, without a payload.
    WriteZeroes = 3,
    /// Make all completed writes durable. The extent is empty.
    Flush = 4,
}

impl Op {
    /// All operations, with their names in stores and tables.
    pub const NAMES: [(Self, &'static str); 5] = [
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Discard, "discard"),
        (Self::WriteZeroes, "write_zeroes"),
        (Self::Flush, "flush"),
    ];

    /// Whether the request changes the result of later reads.
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
    /// Force unit access: the write is durable before it completes.
    pub const FUA: Self = Self(1);
    /// A synchronous request: a process waits for the result.
    pub const SYNC: Self = Self(2);
    /// File system metadata.
    pub const META: Self = Self(4);
    /// Read-ahead: no process waits for the result yet.
    pub const AHEAD: Self = Self(8);
    /// For zeroes: the space stays allocated (NBD's NO_HOLE). Without this flag the client gives
    /// the space back.
    pub const NO_HOLE: Self = Self(16);

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The origin of a request. All requests of one process form one stream. 0 means unknown.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct StreamId(pub u32);

/// One request as the block layer received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Arrival time.
    pub arrival: SimTime,
    /// Operation.
    pub op: Op,
    /// The sectors of the request.
    pub extent: Extent,
    /// Modifiers.
    pub flags: Flags,
    /// The process that sent the request.
    pub stream: StreamId,
}

impl Request {
    /// A request of an unknown stream without modifiers.
    pub const fn new(arrival: SimTime, op: Op, extent: Extent) -> Self {
        Self { arrival, op, extent, flags: Flags::NONE, stream: StreamId(0) }
    }
}
