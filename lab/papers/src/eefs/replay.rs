//! EEFS's replays: the same trace of files under a fast file system, the same with read-ahead of a
//! cluster, and EEFS beside the same file system; on the same modelled disk, with the same memory.
//! The costs of moving files count. docs/believing/groups.md explains the results.

use seekless_block::{Bytes, SimTime};
use seekless_disk::{DiskError, DiskSpec, RangeError, SpinDown, SpinDownError};

use seekless_store::{AttachError, GroupConfig, GroupConfigError};
use seekless_trace::{FileEvent, FileOp, FileReader, TraceError};
use serde::Serialize;

use super::simulation::World;
use crate::ffs::FfsFull;

/// The system under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FileSystem {
    Ffs,
    /// The fast file system with read-ahead of a cluster.
    FfsReadAhead,
    /// EEFS: groups beside the fast file system.
    Eefs,
}

/// A file before the trace begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileFacts {
    pub directory: u32,
    /// Its size in bytes.
    pub size: u64,
    pub existed: bool,
}

#[derive(Clone, Debug)]
pub(super) struct FilesOptions {
    pub disk: DiskSpec,
    /// Memory for blocks; under EEFS, for blocks and groups together, least recently used first
    /// out.
    pub cache: Bytes,
    /// Inodes that the file system keeps in memory.
    pub inodes: usize,
    /// Size of the group store, in the middle of the disk.
    pub store: Bytes,
    /// Size of a cluster, and of the read-ahead.
    pub cluster: Bytes,
    /// Requests from one shuffle to the next.
    pub shuffle_every: u64,
    pub groups: GroupConfig,
    /// When the platters stop.
    pub spin_down: SpinDown,
    /// The file system delays no write, as if mounted with `sync`, alone and beside the group
    /// store.
    pub sync: bool,
}

/// Energy in joules by the disk's activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct FileEnergy {
    /// Transfer to the host.
    pub read: f64,
    /// Transfer from the host.
    pub write: f64,
    /// Rotational delay, and the controller.
    pub rotation: f64,
    pub seek: f64,
    /// Idle, platters turning, until the last request; if the disk may sleep, two minutes more.
    pub idle: f64,
    /// Standby, spin-down and spin-up.
    pub standby: f64,
    pub total: f64,
}

/// Requests of the disk by cause; each counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct FileCauses {
    /// The file system's reads of inodes.
    pub inodes_read: u64,
    pub names_read: u64,
    /// Its reads of files, with their indirect blocks.
    pub data_read: u64,
    pub inodes_written: u64,
    /// Its writes of directories.
    pub names_written: u64,
    /// Its writes of files, with their indirect blocks, and of free-space summaries.
    pub data_written: u64,
    pub groups_read: u64,
    /// Groups written; adjacent groups share a request.
    pub groups_written: u64,
    /// Batches of the group store's log, and checkpoints.
    pub log_written: u64,
    /// The file system's reads for shuffles.
    pub moves_read: u64,
    /// The file system's writes for shuffles, and its syncs for the group store.
    pub moves_written: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Grouping {
    pub shuffles: u64,
    /// Files moved to the store.
    pub arrived: u64,
    /// Files moved back.
    pub returned: u64,
    /// Share of files in a group, of all opens after the first shuffle.
    pub grouped_opens: f64,
    /// Share of the other files of a used group that are used before the next shuffle.
    pub used_after_first: f64,
    /// The share used within five minutes of the group's first use.
    pub within_five_minutes: f64,
    /// The share used within a second of it.
    pub at_once: f64,
    /// Share of the files read with a group for another file that are used before the group is read
    /// again.
    pub used_of_fetched: f64,
    /// Means over all shuffles: groups before, after, and stable; files of a group; shares of files
    /// that left and that joined. Table 2, which has two "randomly chosen" shuffles.
    pub changes: [f64; 6],
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct FileOutcome {
    pub system: FileSystem,
    pub requests: u64,
    /// Opens among them.
    pub opens: u64,
    /// Requests of the disk that read.
    pub disk_reads: u64,
    /// Requests of the disk that wrote.
    pub disk_writes: u64,
    /// Bytes of the disk's requests.
    pub disk_bytes: u64,
    /// The disk's requests by cause.
    pub causes: FileCauses,
    pub energy: FileEnergy,
    pub spin_downs: u64,
    /// Mean response time of an open, in milliseconds.
    pub open_ms: f64,
    /// Mean response time of a read, in milliseconds.
    pub read_ms: f64,
    /// Mean response time of a write, in milliseconds.
    pub write_ms: f64,
    /// Hit rate of memory, for blocks and groups.
    pub hits: f64,
    /// Hit rate of the file system's name cache.
    pub name_hits: f64,
    /// Share of the time in which the disk works.
    pub busy: f64,
    /// Idle periods by length: below 10 ms, 100 ms, 1 s, 10 s, 100 s, and above.
    pub idle_times: [u64; 6],
    /// Seconds from the first request to the last.
    pub seconds: f64,
    /// Results of grouping; `None` except for EEFS.
    pub grouping: Option<Grouping>,
}

/// The result of a simulation, or of a part of it.
pub(super) type Simulated<T = ()> = Result<T, FilesError>;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum FilesError {
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error("the disk's description is out of range")]
    Spec(#[from] RangeError),
    #[error("the disk refused a request")]
    Disk(#[from] DiskError),
    #[error("the disk cannot spin down")]
    SpinDown(#[from] SpinDownError),
    #[error(
        "the files of this trace do not fit the disk beside the group store: choose a larger disk"
    )]
    Full(#[from] FfsFull),
    #[error("the group store cannot be created")]
    Store(#[from] AttachError),
    #[error(transparent)]
    Groups(#[from] GroupConfigError),
    #[error("the group store failed: {0}")]
    Fault(#[from] seekless_store::Fault),
}

/// Runs one system over a trace. `events` name files by index into `facts`; a file beyond its end
/// does not exist before the trace.
pub(super) fn run_files(
    system: FileSystem,
    facts: &[FileFacts],
    events: impl Iterator<Item = Result<FileEvent, TraceError>>,
    options: &FilesOptions,
) -> Simulated<FileOutcome> {
    let mut world = World::new(system, facts, options)?;
    let (mut first, mut last) = (None, SimTime(0));
    for event in events {
        let event = event?;
        // Events of a real trace come as calls end: times never go backwards here.
        last = last.max(event.time);
        first.get_or_insert(last);
        world.advance(last)?;
        world.request(&FileEvent { time: last, ..event })?;
    }
    world.finish(last)?;
    Ok(world.outcome(first.unwrap_or_default(), last))
}

/// The files of a trace before the trace begins, from one pass over it. A file exists, up to the
/// furthest byte touched, unless the trace creates it, or writes it before reading it. Directories
/// come from file names.
pub(super) fn facts_of(reader: &mut FileReader) -> Result<Vec<FileFacts>, TraceError> {
    let mut facts: Vec<Option<FileFacts>> = Vec::new();
    while let Some(event) = reader.next_event()? {
        let at = event.file as usize;
        if facts.len() <= at {
            facts.resize(at + 1, None);
        }
        let end = event.offset.saturating_add(event.len);
        let fact = facts[at].get_or_insert(FileFacts {
            directory: 0,
            size: 0,
            existed: !matches!(event.op, FileOp::Create | FileOp::Write | FileOp::Rename),
        });
        if event.op == FileOp::Read && fact.existed {
            fact.size = fact.size.max(end);
        }
    }
    let mut directories = std::collections::BTreeMap::new();
    let names = reader.files().iter().map(|f| f.path.rsplit_once('/').map_or("", |p| p.0));
    let found = facts.into_iter().zip(names).map(|(fact, name)| {
        let next = directories.len() as u32;
        let directory = *directories.entry(name.to_owned()).or_insert(next);
        FileFacts { directory, ..fact.unwrap_or(FileFacts { directory, size: 0, existed: false }) }
    });
    Ok(found.collect())
}

#[cfg(test)]
mod tests;
