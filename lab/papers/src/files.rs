//! EEFS's experiment: the same trace of files under a fast file system, the same with read-ahead of a cluster, and EEFS,
//! whose other module is that same file system; on the same modelled disk, with the same memory. All that moves files is
//! counted. How to read the results is in docs/believing/groups.md.

mod eefs;
mod world;

use crate::ffs::FfsFull;
use seekless_block::{Bytes, SimTime};
use seekless_disk::{DiskError, DiskSpec, RangeError, SpinDown, SpinDownError};

use seekless_store::{AttachError, GroupConfig, GroupConfigError};
use seekless_trace::{FileEvent, FileOp, FileReader, TraceError};
use serde::Serialize;

use world::World;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSystem {
    /// The fast file system.
    Ffs,
    /// The same, reading on to a cluster.
    FfsReadAhead,
    /// Groups beside it.
    Eefs,
}

/// What is known of a file before the trace begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Its directory.
    pub directory: u32,
    /// Its size then.
    pub size: u64,
    /// Whether it was there.
    pub existed: bool,
}

/// How the experiment is set up.
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// The disk.
    pub disk: DiskSpec,
    /// Memory for blocks; in EEFS, for blocks and groups, of which those go that were not used for longest.
    pub cache: Bytes,
    /// Of the group store, in the middle of the disk.
    pub store: Bytes,
    /// Of a cluster, and of the read-ahead that stands beside it.
    pub cluster: Bytes,
    /// Requests from one shuffle to the next.
    pub shuffle_every: u64,
    /// How files are grouped.
    pub groups: GroupConfig,
    /// When the platters stop.
    pub spin_down: SpinDown,
    /// The file system delays no write, as if mounted with `sync`: alone, and beside the group store.
    pub sync: bool,
}

/// Joules by what the disk did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FileEnergy {
    /// Transferring to the host.
    pub read: f64,
    /// Transferring from it.
    pub write: f64,
    /// Waiting for the platter, and the controller.
    pub rotation: f64,
    /// Moving the arm.
    pub seek: f64,
    /// Nothing asked, platters turning.
    pub idle: f64,
    /// At rest, and on the way there and back.
    pub standby: f64,
    /// All.
    pub total: f64,
}

/// Requests of the disk by what they were for; each is in one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileCauses {
    /// The file system's reads of inodes.
    pub inodes_read: u64,
    /// Of directories.
    pub names_read: u64,
    /// Of files, with their indirect blocks.
    pub data_read: u64,
    /// Its writes of inodes.
    pub inodes_written: u64,
    /// Of directories.
    pub names_written: u64,
    /// Of files, with their indirect blocks, and of what is free.
    pub data_written: u64,
    /// Groups read.
    pub groups_read: u64,
    /// Groups written, several in one request where they stand together.
    pub groups_written: u64,
    /// Batches of the group store's log, and checkpoints.
    pub log_written: u64,
    /// The file system's part of what a shuffle moves: reads.
    pub moves_read: u64,
    /// Writes, and its syncs for the group store.
    pub moves_written: u64,
}

/// What grouping did between the shuffles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Grouping {
    /// Shuffles.
    pub shuffles: u64,
    /// Files that went to the store.
    pub arrived: u64,
    /// Files that went back.
    pub returned: u64,
    /// Of all opens after the first shuffle, the share of files in a group.
    pub grouped_opens: f64,
    /// Of the other files of a group that was used, the share used before the next shuffle.
    pub used_after_first: f64,
    /// The share used within five minutes of the first.
    pub within_five_minutes: f64,
    /// The share used within a second of it.
    pub at_once: f64,
    /// Of the files that came to memory with a group for another one's sake, the share used before they came again.
    pub used_of_fetched: f64,
    /// From one shuffle to the next, in the mean of all: groups before, after, and of these the stable ones; files of a group; shares
    /// of files that left and that joined. Table 2, which has two shuffles "randomly chosen".
    pub changes: [f64; 6],
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileOutcome {
    /// Which system.
    pub system: FileSystem,
    /// Requests of files.
    pub requests: u64,
    /// Of these, opens.
    pub opens: u64,
    /// Requests of the disk that read.
    pub disk_reads: u64,
    /// Requests of the disk that wrote.
    pub disk_writes: u64,
    /// Bytes of them.
    pub disk_bytes: u64,
    /// What they were for.
    pub causes: FileCauses,
    /// Joules.
    pub energy: FileEnergy,
    /// How often the platters stopped.
    pub spin_downs: u64,
    /// Mean response time of an open, in milliseconds.
    pub open_ms: f64,
    /// Of a read.
    pub read_ms: f64,
    /// Of a write.
    pub write_ms: f64,
    /// Share of what was looked for that was in memory: blocks, and groups.
    pub hits: f64,
    /// Times without work, by length: below 10 ms, 100 ms, 1 s, 10 s, 100 s, and above.
    pub idle_times: [u64; 6],
    /// Seconds from the first request to the last.
    pub seconds: f64,
    /// Of EEFS alone.
    pub grouping: Option<Grouping>,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The disk's description is wrong.
    #[error("the disk's description is out of range")]
    Spec(#[from] RangeError),
    /// The disk refused a request.
    #[error("the disk refused a request")]
    Disk(#[from] DiskError),
    /// It cannot stop.
    #[error("the disk cannot spin down")]
    SpinDown(#[from] SpinDownError),
    /// The files do not fit.
    #[error(
        "the files of this trace do not fit the disk beside the group store: choose a larger disk"
    )]
    Full(#[from] FfsFull),
    /// The store cannot be made.
    #[error("the group store cannot be made")]
    Store(#[from] AttachError),
    /// Grouping makes no sense.
    #[error(transparent)]
    Groups(#[from] GroupConfigError),
    /// Something of the store failed that cannot.
    #[error("the group store failed: {0}")]
    Fault(#[from] seekless_store::Fault),
}

/// Runs one system over a trace. `events` name files by index into `facts`; one beyond is as if it had not existed.
///
/// # Errors
/// Where the trace, the disk or the options make it impossible.
pub fn run_files(
    system: FileSystem,
    facts: &[FileFacts],
    events: impl Iterator<Item = Result<FileEvent, TraceError>>,
    options: &FilesOptions,
) -> Result<FileOutcome, FilesError> {
    let mut world = World::new(system, facts, options)?;
    let (mut first, mut last) = (None, SimTime(0));
    for event in events {
        let event = event?;
        // Events of a real trace come as calls end: none is asked before the one told before it.
        last = last.max(event.time);
        first.get_or_insert(last);
        world.advance(last)?;
        world.request(&FileEvent { time: last, ..event })?;
    }
    world.finish(last)?;
    Ok(world.outcome(first.unwrap_or_default(), last))
}

/// What a trace tells of its files, from reading it once. A file is taken to have been there, as long as the furthest byte
/// touched, unless it was made, or written before it was read. Directories are those of its name.
///
/// # Errors
/// Where the trace cannot be read.
pub fn facts_of(reader: &mut FileReader) -> Result<Vec<FileFacts>, TraceError> {
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
