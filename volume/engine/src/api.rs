//! The engine's interface: inputs, outputs, settings, counters. No byte of data passes through the
//! engine. The engine says which bytes move where; its driver, live or simulated, moves these
//! bytes.

use seekless_block::{Bytes, Duration, Extent, Flags, Op, Request, Sectors, StreamId, Toll};
use seekless_learn::{Plan, Replica};
use serde::{Deserialize, Serialize};

use crate::format::Geometry;

/// The driver's name for a request; unique among those in flight, returned as it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The engine's name for a device I/O; unique among those in flight, small, reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u32);

/// An input of the engine.
#[derive(Debug)]
#[expect(missing_docs, reason = "the types say it")]
pub enum Input {
    /// A client sends a request. The driver keeps its payload until the request completes.
    Request { id: RequestId, request: Request },
    /// A submitted I/O ended.
    Done { io: IoId, result: Result<(), IoFailed> },
    /// A new layout to move to in the background. An empty plan forgets every copy.
    Install(Plan),
    /// Write these replicas in the background, in this order, into free pages of home. The engine
    /// skips a replica whose place is not free, or whose home page has as many replicas as it may.
    Replicate(Vec<Replica>),
    /// The same, before all other replicas and at the pace of a plan: a client waits for these
    /// replicas.
    ReplicateSoon(Vec<Replica>),
    /// Forget every replica, and write zeroes in their places. Home alone then holds all that
    /// clients read.
    Withdraw,
    /// True: reads go home even if a clean copy exists. Copies stay, and stay equal to their home
    /// pages. Dirty pages are still read from the write buffer.
    Bypass(bool),
    /// The administrator's command.
    Command(Command),
    /// Compare all of the area with its checksums, in idle time: one pass. Results are in
    /// [`crate::Engine::scrubbed`].
    Scrub,
    /// Save the map and mark the area as cleanly detached. The driver finds the same `stamp` at the
    /// next attach if and only if nobody else wrote home; all zero proves nothing. The detach ends
    /// when [`crate::Engine::is_detached`] is true. No request may follow. Dirty pages stay dirty:
    /// see [`Command::Drain`].
    Detach { stamp: [u8; 32] },
    /// The time that [`crate::Engine::wakeup`] named has come.
    Tick,
}

/// An administrator's command to a running volume. The same value travels from the command line
/// through the control socket to the engine; JSON has `"drain"` and `{"set_mode": "writeback"}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Change where writes go. A change to write-through empties the write buffer in the
    /// background.
    SetMode(Mode),
    /// Write all dirty pages home, and absorb no more writes until [`Command::SetMode`].
    Drain,
}

/// The driver logs the cause; the engine needs only the fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoFailed;

/// A task of the driver; tasks are done in the given order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the types say it")]
pub enum Output {
    /// Start this I/O; answer with [`Input::Done`], at once or later, in any order.
    Submit(Io),
    /// Copy bytes within memory, now.
    Move(MemoryMove),
    /// Put a page of metadata, [`crate::Engine::page`], into memory, now.
    Put { page: u32, to: Memory },
    /// Fill memory with zeroes, now.
    Zero { to: Memory, len: Sectors },
    /// Compute [`crate::page_sum`] of each 4 KiB page of this memory, and pass the sums to
    /// [`crate::Engine::summed`], now.
    Sum(Sum),
    /// Answer the client. All copies into its buffer came before.
    Complete { id: RequestId, result: Result<(), Fault> },
}

/// The device of an I/O.
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
    /// Reconfiguration that cannot wait: it takes its turn. Pages of the trail leave RAM meanwhile.
    InTurn,
    /// Reconfiguration: may wait.
    Background,
}

impl Class {
    /// True unless a client waits.
    pub const fn is_background(self) -> bool {
        !matches!(self, Self::Foreground)
    }
}

/// A device I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// The engine's name for it.
    pub id: IoId,
    /// The device.
    pub target: Target,
    /// Read, write, discard, write zeroes or flush.
    pub op: Op,
    /// The sectors of the target; empty for a flush.
    pub extent: Extent,
    /// FUA is passed on.
    pub flags: Flags,
    /// How urgent.
    pub class: Class,
    /// The stream of the request; 0 in the background.
    pub stream: StreamId,
    /// The memory that the data comes from (writes) or goes to (reads), as long as the extent.
    /// `None` for discard, write zeroes and flush.
    pub memory: Option<Memory>,
}

/// A position in the driver's memory. An `offset` counts sectors from the start of the piece of
/// memory. An `index` is a small number that is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "see above")]
pub enum Memory {
    /// The buffer of a client's request.
    Client { id: RequestId, offset: Sectors },
    /// A read buffer of [`Config::buffer_bytes`]; indices are small and reused. Allocate on first
    /// sight.
    Buffer { index: u32, offset: Sectors },
    /// A 4 KiB page of the RAM cache; index below `cache_bytes / 4096`.
    Slot { index: u32, offset: Sectors },
    /// The reconfiguration's staging memory, [`Config::stage_bytes`] long.
    Stage { offset: Sectors },
}

/// Pages of memory to be checksummed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The first page.
    pub from: Memory,
    /// The number of pages.
    pub pages: u32,
}

/// Where writes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Home, always: the backing device is complete at every moment.
    #[default]
    WriteThrough,
    /// To the write buffer while it has space (BORG, FAST'09, 4.5): the backing device alone is not
    /// complete.
    WriteBack,
}

/// A copy within memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryMove {
    /// The source.
    pub from: Memory,
    /// The destination; never overlaps `from`.
    pub to: Memory,
    /// The length.
    pub len: Sectors,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Fault {
    #[error("{extent} lies past the end of the device ({capacity})")]
    OutOfRange { extent: Extent, capacity: Sectors },
    #[error("the backing device failed at {0}")]
    Device(Extent),
    #[error("the only copy of a page within {0} is damaged: its checksum does not match")]
    Damaged(Extent),
}

/// Why the engine cannot finish a request of the administrator. The engine tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Trouble {
    #[error("the area cannot be written or flushed")]
    Area,
    #[error(
        "home cannot be written or flushed: the data in the write buffer, and replicas, stay in place"
    )]
    Home,
    #[error("pages of the write buffer cannot be read, or do not match their checksums")]
    Copies,
    #[error(
        "the area can neither be read nor written, and holds the only copy of some data: reads of these pages fail, and the volume is read-only until the area works again"
    )]
    Gone,
    #[error(
        "acknowledged writes could be written neither to the area nor home, and are lost: every flush fails until the server is started again"
    )]
    Lost,
}

impl Trouble {
    pub(crate) const fn is_of_area(&self) -> bool {
        matches!(self, Self::Area)
    }
}

/// The settings of an engine. The defaults cache nothing and learn nothing: a pass-through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Size of the device as clients see it.
    pub capacity: Sectors,
    /// Size of the optimized area with its metadata. Zero for no area; an area too small for its
    /// metadata counts as none.
    pub area: Sectors,
    /// Share of the area's segments that are the write buffer, in percent. The log always has a few
    /// segments.
    pub write_buffer_percent: u8,
    /// Capacity of home's free pages that replicas may take (FS2, SOSP'05); zero for copies in the
    /// area itself.
    pub replicas: Sectors,
    /// How many replicas a page may have (6.1): at least 1.
    pub degree: u32,
    /// Where writes go.
    pub mode: Mode,
    /// In write-back, writes of pages with a copy of a plan go to that copy, and pages go home when a
    /// new plan drops them (BORG, FAST'09, 4.4 and 4.5). Not beside a trail or replicas.
    pub in_place: bool,
    /// How long an absorbed write without FUA may stay in RAM before the log has it. The engine
    /// acknowledges the write at once, as a volatile write cache does; a flush empties RAM. Zero: a
    /// write is acknowledged when the log has it.
    pub gather: Duration,
    /// First sector of the first home page, 0 to 7: file systems on old partitions start at sector
    /// 63.
    pub grid: Sectors,
    /// Pages of a segment: a power of two from 8 to 256.
    pub segment_pages: u32,
    /// RAM for cached pages.
    pub cache_bytes: Bytes,
    /// A read that misses RAM and goes home reads at least this length.
    pub read_ahead: Bytes,
    /// The length of a read after a miss is learned. Otherwise `read_ahead` is this length.
    pub adaptive: bool,
    /// Pages that are appended to the trail in one piece where clients leave time between their
    /// requests, 1 to 64. Otherwise eight times as many. Zero: there is no trail.
    pub append_pages: u32,
    /// A read of a copy reads whole aligned clusters of this length. Zero: only the requested
    /// sectors.
    pub cluster: Bytes,
    /// Length of a read buffer. Larger reads go to the client directly and are not cached.
    pub buffer_bytes: Bytes,
    /// Length of the staging memory, in which background jobs sort their reads.
    pub stage_bytes: Bytes,
    /// Least length of the staging memory of an engine that begins in write-back. A longer memory
    /// takes more pages along in one sweep over home.
    pub sweep_bytes: Bytes,
    /// Most records of the log in RAM, at least 2. A write that needs more goes home, and a write that
    /// needs one more waits until a record has ended.
    pub records: u32,
    /// Background bytes per second, read and written; zero is no limit.
    pub background_rate: Bytes,
    /// Background work pauses until no client has sent a request for this long.
    pub background_pause: Duration,
    /// The cost that the adaptive policy counts for an operation beside its time.
    pub toll: Toll,
}

impl Config {
    /// The same with a write buffer of `percent` of the area, where writes may stay in RAM for
    /// `gather`. Zero percent is write-through.
    #[must_use]
    pub fn with_write_buffer(self, percent: u8, gather: Duration) -> Self {
        if percent == 0 {
            return Self { write_buffer_percent: 0, mode: Mode::WriteThrough, ..self };
        }
        Self { write_buffer_percent: percent, mode: Mode::WriteBack, gather, ..self }
    }

    /// True if the area is a trail of the adaptive policy: it holds no plan.
    pub(crate) const fn keeps_trail(&self) -> bool {
        self.adaptive && self.append_pages > 0
    }

    /// Capacity that a plan may fill in this area: its size without metadata and log.
    pub fn room(&self) -> Sectors {
        Geometry::of(self).capacity()
    }

    /// A pass-through to a device of `capacity`.
    pub fn new(capacity: Sectors) -> Self {
        Self {
            capacity,
            area: Sectors(0),
            write_buffer_percent: 0,
            replicas: Sectors(0),
            degree: 1,
            mode: Mode::WriteThrough,
            in_place: false,
            gather: Duration::ZERO,
            grid: Sectors(0),
            segment_pages: 256,
            cache_bytes: Bytes(0),
            read_ahead: Bytes(0),
            adaptive: false,
            append_pages: 64,
            cluster: Bytes(0),
            buffer_bytes: Bytes(1 << 20),
            stage_bytes: Bytes(16 << 20),
            sweep_bytes: Bytes(64 << 20),
            records: u32::MAX,
            background_rate: Bytes(0),
            background_pause: Duration::ZERO,
            toll: Toll::default(),
        }
    }
}

/// The work of the engine since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests accepted.
    pub requests: u64,
    /// Reads answered from RAM, also after a wait for a read in flight.
    pub cache_hits: u64,
    /// Foreground reads sent to the optimized area.
    pub copy_reads: u64,
    /// Foreground reads sent home.
    pub home_reads: u64,
    /// Bytes written into the optimized area by reconfiguration.
    pub moved_bytes: u64,
    /// Of these, bytes of pages newer than home: written to the log on their way, and to their new
    /// places.
    pub relocated_bytes: u64,
    /// Sectors whose copy was dropped because a client wrote their home, or home could not be read.
    pub overtaken: u64,
    /// Plans refused because they did not fit the device: a bug of the planner, harmless here.
    pub plans_refused: u64,
    /// Writes that went into the write buffer, whole or in part.
    pub absorbed: u64,
    /// Writes that went to copies in place, whole or in part.
    pub in_place: u64,
    /// Bytes destaged home.
    pub destaged_bytes: u64,
    /// Bytes of zeroes written in the places of replicas.
    pub zeroed_bytes: u64,
    /// Bytes of metadata and log headers written into the area.
    pub metadata_bytes: u64,
    /// Of these, bytes of checkpoints.
    pub checkpoint_bytes: u64,
    /// Pages of the area that did not match their checksum.
    pub damaged: u64,
    /// Reads of discarded sectors, answered with zeroes.
    pub zero_reads: u64,
    /// Requested replicas that were not written: the place is not free, or the page has enough
    /// replicas.
    pub replicas_refused: u64,
    /// Pages of replicas dropped because their place, or free space, was needed.
    pub yielded: u64,
    /// Copies that were in doubt after an attach, and are now proven.
    pub proven: u64,
    /// Pages that the adaptive policy brought to RAM before any client demanded them.
    pub prefetched: u64,
    /// Of these, pages that were used.
    pub prefetch_used: u64,
}

impl std::ops::Sub for Stats {
    type Output = Self;
    /// The work since `before`.
    fn sub(self, before: Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            cache_hits: self.cache_hits - before.cache_hits,
            copy_reads: self.copy_reads - before.copy_reads,
            home_reads: self.home_reads - before.home_reads,
            moved_bytes: self.moved_bytes - before.moved_bytes,
            relocated_bytes: self.relocated_bytes - before.relocated_bytes,
            overtaken: self.overtaken - before.overtaken,
            plans_refused: self.plans_refused - before.plans_refused,
            absorbed: self.absorbed - before.absorbed,
            in_place: self.in_place - before.in_place,
            destaged_bytes: self.destaged_bytes - before.destaged_bytes,
            zeroed_bytes: self.zeroed_bytes - before.zeroed_bytes,
            metadata_bytes: self.metadata_bytes - before.metadata_bytes,
            checkpoint_bytes: self.checkpoint_bytes - before.checkpoint_bytes,
            damaged: self.damaged - before.damaged,
            zero_reads: self.zero_reads - before.zero_reads,
            replicas_refused: self.replicas_refused - before.replicas_refused,
            yielded: self.yielded - before.yielded,
            proven: self.proven - before.proven,
            prefetched: self.prefetched - before.prefetched,
            prefetch_used: self.prefetch_used - before.prefetch_used,
        }
    }
}
