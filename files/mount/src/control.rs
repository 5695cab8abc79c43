//! Status and commands of a mount: virtual extended attributes of its root. The kernel lets only an
//! administrator use them, so that no socket is needed.

use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;
use seekless_block::Duration;
use seekless_store::{Ask, DiskPhase};
use serde::{Deserialize, Serialize};

use crate::grouped_files::errno;
use crate::mounted_dir::MountedDir;

/// A read returns a [`MountStatus`] as JSON.
pub const STATUS_XATTR: &str = "trusted.seekless.state";
/// A write of [`SHUFFLE_COMMAND`], [`RETURN_COMMAND`] or [`SAVE_COMMAND`] runs the command, and
/// returns after its end.
pub const COMMAND_XATTR: &str = "trusted.seekless.do";
/// Forms groups anew now.
pub const SHUFFLE_COMMAND: &[u8] = b"shuffle";
/// Moves every file back, and stops the forming of groups. `NOSPC` if a file could not be moved.
pub const RETURN_COMMAND: &[u8] = b"return";
/// Makes all writes to grouped files durable.
pub const SAVE_COMMAND: &[u8] = b"save";

/// The schema of [`MountStatus`].
pub const STATUS_SCHEMA: &str = "seekless.fs/1";

/// The status of a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountStatus {
    /// [`STATUS_SCHEMA`].
    pub schema: String,
    /// The mounted directory.
    pub directory: String,
    /// The process that serves the mount.
    pub pid: u32,
    /// The store's UUID, in hexadecimal.
    pub store: String,
    /// Requests of the kernel, without reads and writes that the kernel does by itself.
    pub requests: u64,
    /// True if the kernel reads and writes ungrouped files by itself.
    pub passthrough: bool,
    /// Inodes that the kernel knows.
    pub inodes: u64,
    /// Open files.
    pub open_files: u64,
    /// Files in the group store.
    pub grouped_files: u64,
    /// Bytes of these files.
    pub grouped_bytes: u64,
    /// Groups in the group store.
    pub groups: u64,
    /// Clusters of the store: free, and free after the next checkpoint.
    pub clusters_free: (u32, u32),
    /// Clusters of the store.
    pub clusters: u32,
    /// Bytes of cached groups.
    pub cached_bytes: u64,
    /// Files that the learner remembers.
    pub learned_files: u64,
    /// Actions of clients that the learner could not process.
    pub overlooked: u64,
    /// Shuffles since the mount.
    pub shuffles: u64,
    /// Groups that the last shuffle wanted.
    pub wanted_groups: u64,
    /// Files that moved to the group store since the mount.
    pub came: u64,
    /// Files that moved back to the directory since the mount.
    pub returned: u64,
    /// Files that did not move to the store, because they were used or written meanwhile.
    pub given_up: u64,
    /// Files that the store keeps when all files move back, because they are not in this directory
    /// and may belong to another one.
    #[serde(default)]
    pub kept: u64,
    /// Reads of grouped files that were not in the cache of the kernel.
    pub grouped_reads: u64,
    /// Writes and truncations of grouped files that stayed in the group store.
    #[serde(default)]
    pub grouped_writes: u64,
    /// Reads and writes that found their group in the cache of the store.
    pub hits: u64,
    /// Groups read from the store.
    pub groups_read: u64,
    /// Groups that could not be read, or had a wrong checksum, at their latest read.
    pub damaged: u64,
    /// The disk of the directory, if it sleeps.
    #[serde(default)]
    pub disk: Option<DiskStatus>,
    /// True if no groups are formed any more.
    pub returning: bool,
    /// The latest error that no client caused.
    pub trouble: Option<String>,
}

/// The time of a directory's disk since the mount, by the counters of the kernel and the time after
/// which the disk sleeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// Assumed phase: `turning`, `drowsy` (about to sleep) or `asleep`.
    pub phase: String,
    /// Milliseconds busy, by the counters of the kernel.
    pub busy_ms: u64,
    /// Milliseconds idle with turning platters.
    pub idle_ms: u64,
    /// Milliseconds asleep.
    pub asleep_ms: u64,
    /// Number of times the disk fell asleep.
    pub sleeps: u64,
    /// Number of ended idle times: below 1 s, 10 s, 1 min, 10 min, 1 h, and longer. The resolution
    /// is half a second.
    pub idle_times: [u64; 6],
    /// Groups read ahead while the platters turned.
    pub read_ahead: u64,
    /// Millijoules busy, idle, asleep, and for spin-down and spin-up; only if the powers of the
    /// disk are known.
    pub millijoules: Option<[u64; 4]>,
}

fn disk_status(mounted: &MountedDir) -> Option<DiskStatus> {
    let disk = mounted.disk.as_ref()?;
    let phase = match disk.look() {
        DiskPhase::Turning => "turning",
        DiskPhase::Drowsy => "drowsy",
        DiskPhase::Asleep => "asleep",
    };
    let usage = disk.usage();
    let ms = |d: Duration| d.0 / 1_000_000;
    Some(DiskStatus {
        phase: phase.to_owned(),
        busy_ms: ms(usage.busy),
        idle_ms: ms(Duration(usage.sleep.awake.0 - usage.busy.0)),
        asleep_ms: ms(usage.sleep.asleep),
        sleeps: usage.sleep.sleeps,
        idle_times: usage.sleep.idle,
        read_ahead: mounted.shuffler.read_ahead.load(Relaxed),
        millijoules: usage.energy.map(|e| e.map(|e| (e.as_joules_f64() * 1e3) as u64)),
    })
}

pub(super) fn status_of(mounted: &MountedDir) -> MountStatus {
    let groups = &mounted.groups;
    let (inodes, open_files) = mounted.counts();
    let shuffler = &mounted.shuffler;
    let (learned_files, wanted_groups) = shuffler.remembered();
    groups.group_store(|gfs| {
        let stats = gfs.stats();
        MountStatus {
            schema: STATUS_SCHEMA.to_owned(),
            directory: groups.underlying.path().display().to_string(),
            pid: std::process::id(),
            store: groups.uuid().iter().map(|b| format!("{b:02x}")).collect(),
            requests: shuffler.requests.load(Relaxed),
            passthrough: mounted.passthrough.load(Relaxed),
            inodes: inodes as u64,
            open_files: open_files as u64,
            grouped_files: groups.len() as u64,
            grouped_bytes: groups.bytes(),
            groups: gfs.group_count().into(),
            clusters_free: gfs.free_clusters(),
            clusters: gfs.geometry().clusters,
            cached_bytes: gfs.cached_bytes(),
            learned_files,
            overlooked: shuffler.overlooked.load(Relaxed),
            shuffles: shuffler.shuffles.load(Relaxed),
            wanted_groups,
            came: groups.counts.came.load(Relaxed),
            returned: groups.counts.returned.load(Relaxed),
            given_up: groups.counts.given_up.load(Relaxed),
            kept: groups.counts.kept.load(Relaxed),
            grouped_reads: groups.counts.reads.load(Relaxed),
            grouped_writes: groups.counts.writes.load(Relaxed),
            hits: stats.hits,
            groups_read: stats.groups_read,
            damaged: stats.damaged,
            disk: disk_status(mounted),
            returning: shuffler.is_stopped(),
            trouble: groups.trouble(),
        }
    })
}

pub(super) fn status(mounted: &MountedDir) -> Result<Vec<u8>, Errno> {
    serde_json::to_vec(&status_of(mounted)).map_err(|_| Errno::IO)
}

pub(super) fn run_command(mounted: &MountedDir, command: &[u8]) -> Result<(), Errno> {
    match command {
        SHUFFLE_COMMAND => {
            mounted.shuffle();
            Ok(())
        }
        RETURN_COMMAND if mounted.shuffler.move_all_back(&mounted.groups) == 0 => Ok(()),
        RETURN_COMMAND => Err(Errno::NOSPC),
        SAVE_COMMAND => {
            let saved = mounted.groups.ask(Ask::Sync { file: None });
            saved.map(|_| ()).map_err(|fault| errno(&fault))
        }
        _ => Err(Errno::INVAL),
    }
}
