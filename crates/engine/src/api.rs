//! The engine's words: what goes in, what comes out. No byte of data passes through the engine; it says
//! which bytes move where, and its driver, live or simulated, moves them.

use seekless_block::{Bytes, Extent, Flags, Op, Request, Sectors, StreamId};
use seekless_layout::Plan;

/// The driver's name for a request; unique among those in flight, returned as it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The engine's name for a device I/O; unique among those in flight, small, reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u32);

/// What happens to the engine.
#[derive(Debug)]
pub enum Input {
    /// A client asks. Its payload, if any, stays with the driver until the request completes.
    Request {
        /// The driver's name for it.
        id: RequestId,
        /// What is asked.
        request: Request,
    },
    /// A submitted I/O ended.
    Done {
        /// Which.
        io: IoId,
        /// How.
        result: Result<(), IoFailed>,
    },
    /// A new layout to move to in the background. An empty plan forgets every copy.
    Install(Plan),
    /// Whether reads go home although copies stand. Copies are kept, and kept equal to their homes.
    Bypass(bool),
    /// The time named by [`crate::Engine::wakeup`] has come.
    Tick,
}

/// A device I/O that failed. The driver logs the cause; the engine only needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoFailed;

/// What the driver must do, in the order given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Start this I/O; answer with [`Input::Done`], at once or later, in any order.
    Submit(Io),
    /// Copy bytes within memory, now.
    Move(Move),
    /// Answer the client. All `Move`s into its buffer came before.
    Complete {
        /// Which request.
        id: RequestId,
        /// How it ended.
        result: Result<(), Fault>,
    },
}

/// Where an I/O goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The backing device, at the client's own addresses.
    #[default]
    Home,
    /// The optimized area, at addresses counted from its start.
    Area,
}

/// How urgent an I/O is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A client waits.
    Foreground,
    /// Reconfiguration: may wait.
    Background,
}

/// A device I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// The engine's name for it.
    pub id: IoId,
    /// Which device.
    pub target: Target,
    /// Read, write, discard, write zeroes or flush.
    pub op: Op,
    /// Where on the target; empty for a flush.
    pub extent: Extent,
    /// FUA is passed on.
    pub flags: Flags,
    /// How urgent.
    pub class: Class,
    /// Whose request it serves; 0 in the background.
    pub stream: StreamId,
    /// The memory the data comes from (writes) or goes to (reads); its length is the extent's.
    /// `None` for discard, write zeroes and flush.
    pub memory: Option<Memory>,
}

/// A place in the driver's memory; offsets in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The buffer of a client's request.
    Client {
        /// Which request.
        id: RequestId,
        /// From its start.
        offset: Sectors,
    },
    /// A read buffer of [`Config::buffer_bytes`]; indices are small and reused. Allocate on first sight.
    Buffer {
        /// Which.
        index: u32,
        /// From its start.
        offset: Sectors,
    },
    /// A 4 KiB page of the RAM cache; index below `cache_bytes / 4096`.
    Slot {
        /// Which.
        index: u32,
        /// From its start.
        offset: Sectors,
    },
    /// The reconfiguration's staging memory, [`Config::stage_bytes`] long.
    Stage {
        /// From its start.
        offset: Sectors,
    },
}

/// A copy within memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// From.
    pub from: Memory,
    /// To; never overlaps `from`.
    pub to: Memory,
    /// How much.
    pub len: Sectors,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It passes the end of the device.
    #[error("{extent} lies past the end of the device ({capacity})")]
    OutOfRange {
        /// What was asked.
        extent: Extent,
        /// What there is.
        capacity: Sectors,
    },
    /// The backing device failed.
    #[error("the backing device failed at {0}")]
    Device(Extent),
}

/// How an engine is set up. The defaults cache nothing and learn nothing: a pass-through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Size of the device as clients see it.
    pub capacity: Sectors,
    /// Size of the optimized area; zero where there is none.
    pub area: Sectors,
    /// RAM for cached pages.
    pub cache_bytes: Bytes,
    /// A read that misses RAM and goes home reads on to at least this length.
    pub read_ahead: Bytes,
    /// A read served from a copy reads whole aligned clusters of the optimized area; zero reads only
    /// what was asked.
    pub cluster: Bytes,
    /// Length of a read buffer; larger reads go to the client directly and are not cached.
    pub buffer_bytes: Bytes,
    /// Length of the staging memory that reconfiguration sorts its reads in.
    pub stage_bytes: Bytes,
    /// Background bytes per second, read and written; zero is no limit.
    pub background_rate: Bytes,
}

impl Config {
    /// A pass-through to a device of `capacity`.
    #[must_use]
    pub const fn new(capacity: Sectors) -> Self {
        Self {
            capacity,
            area: Sectors(0),
            cache_bytes: Bytes(0),
            read_ahead: Bytes(0),
            cluster: Bytes(0),
            buffer_bytes: Bytes(1 << 20),
            stage_bytes: Bytes(16 << 20),
            background_rate: Bytes(0),
        }
    }
}

/// What the engine has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests accepted.
    pub requests: u64,
    /// Reads answered from RAM alone.
    pub cache_hits: u64,
    /// Foreground reads sent to the optimized area.
    pub copy_reads: u64,
    /// Foreground reads sent home.
    pub home_reads: u64,
    /// Bytes written into the optimized area by reconfiguration.
    pub moved_bytes: u64,
    /// Sectors whose copy was dropped because their home was written, or could not be read, meanwhile.
    pub overtaken: u64,
    /// Plans refused because they did not fit the device: a bug of the planner, harmless here.
    pub plans_refused: u64,
}

impl std::ops::Sub for Stats {
    type Output = Self;
    /// What was done between two looks; `before` is the earlier one.
    fn sub(self, before: Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            cache_hits: self.cache_hits - before.cache_hits,
            copy_reads: self.copy_reads - before.copy_reads,
            home_reads: self.home_reads - before.home_reads,
            moved_bytes: self.moved_bytes - before.moved_bytes,
            overtaken: self.overtaken - before.overtaken,
            plans_refused: self.plans_refused - before.plans_refused,
        }
    }
}
