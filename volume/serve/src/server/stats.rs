//! Counters and state of a volume, for status, metrics and the summary.

use seekless_block::Bytes;
use seekless_engine::{Mode, Progress, Replicated, Stats, Trouble};

use crate::backend::emulated::DiskStats;
use crate::status::{ElsewhereStatus, MemoryStatus, ScrubStatus};
use crate::volume::IoFailure;

/// Counters and state of a volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerStats {
    /// The engine's counts.
    pub engine: Stats,
    /// Sectors with a usable copy.
    pub copied_sectors: u64,
    /// Progress of the current move.
    pub progress: Option<Progress>,
    /// Counters of the emulated disk, if there is one.
    pub disk: Option<DiskStats>,
    /// Requests that the learner missed because it was busy.
    pub unobserved: u64,
    /// Clients connected.
    pub clients: usize,
    /// The area.
    pub area: AreaStats,
    /// Counters of the adaptive policy; `None` under another policy.
    pub adaptive: Option<AdaptiveCounts>,
    /// The server of home; `None` if home is here.
    pub elsewhere: Option<ElsewhereStatus>,
    /// Memory.
    pub memory: MemoryStatus,
}

/// Counters of the adaptive policy that the engine's counts lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdaptiveCounts {
    /// Prefetched pages that left RAM unused.
    pub unused: u64,
    /// Where the trail is written next, and its size; `None` without a trail.
    pub trail: Option<(Bytes, Bytes)>,
}

/// State of a volume's area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AreaStats {
    /// It outlasts the server.
    pub lasting: bool,
    /// Write-through or write-back.
    pub mode: Mode,
    /// Sectors whose only valid copy is in the area.
    pub dirty_sectors: u64,
    /// Sectors whose copies are not yet proven equal to home.
    pub in_doubt_sectors: u64,
    /// Everything is at home, the write buffer takes nothing, no bytes of replicas are left, and no
    /// guard is up.
    pub drained: bool,
    /// Replicas in discarded pages, if the area is made for them.
    pub replicas: Option<Replicated>,
    /// Home's two ends are in the area, so that nobody mounts the bare disk.
    pub guarded: bool,
    /// Reason for missing progress.
    pub trouble: Option<Trouble>,
    /// The last I/O that failed.
    pub failure: Option<IoFailure>,
    /// The scrub of a lasting area.
    pub scrub: Option<ScrubStatus>,
    /// Writes go home because the area failed.
    pub fell_back: bool,
}
