//! How a mount is asked and told: extended attributes of its root that stand nowhere. The kernel lets nobody but an
//! administrator reach them, and no socket is needed.

use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;
use seekless_block::Duration;
use seekless_store::DiskPhase;
use serde::{Deserialize, Serialize};

use crate::mounted_dir::MountedDir;

/// To be read: a [`MountStatus`] as JSON.
pub const STATUS_XATTR: &str = "trusted.seekless.state";
/// To be set, to [`SHUFFLE_COMMAND`] or [`RETURN_COMMAND`]; ends when that has been done.
pub const COMMAND_XATTR: &str = "trusted.seekless.do";
/// Form groups anew now.
pub const SHUFFLE_COMMAND: &[u8] = b"shuffle";
/// Bring every file home, and form no groups any more. `NOSPC` where a file could not be brought.
pub const RETURN_COMMAND: &[u8] = b"return";

/// The schema of [`MountStatus`].
pub const STATUS_SCHEMA: &str = "seekless.fs/1";

/// How a mount stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountStatus {
    /// [`STATUS_SCHEMA`].
    pub schema: String,
    /// The directory that is mounted.
    pub directory: String,
    /// The process that serves it.
    pub pid: u32,
    /// The store's UUID, in hexadecimal.
    pub store: String,
    /// Requests of the kernel. What it does by itself with files that it has been lent is not among them.
    pub requests: u64,
    /// Whether the kernel reads and writes files that are not grouped by itself.
    pub passthrough: bool,
    /// Inodes that the kernel knows.
    pub inodes: u64,
    /// Files that are open.
    pub open_files: u64,
    /// Files in the group store.
    pub grouped_files: u64,
    /// Their bytes.
    pub grouped_bytes: u64,
    /// Groups in the group store.
    pub groups: u64,
    /// Clusters of the store: free, and free after the next checkpoint.
    pub clusters_free: (u32, u32),
    /// Clusters of the store.
    pub clusters: u32,
    /// Bytes of files in the store's memory.
    pub cached_bytes: u64,
    /// Files that the learner remembers.
    pub learned_files: u64,
    /// What clients did and the learner could not take up.
    pub overlooked: u64,
    /// Shuffles since the mount.
    pub shuffles: u64,
    /// Groups that the last shuffle wanted.
    pub wanted_groups: u64,
    /// Files that came to the group store since the mount.
    pub came: u64,
    /// Files that went home since the mount.
    pub returned: u64,
    /// Files that were to come, and were used or written meanwhile.
    pub given_up: u64,
    /// Reads of grouped files that the kernel had not cached.
    pub grouped_reads: u64,
    /// Of these, those that found their group in the store's memory.
    pub hits: u64,
    /// Groups read from the store.
    pub groups_read: u64,
    /// Groups that did not match their checksum.
    pub damaged: u64,
    /// The directory's disk, where it is known to sleep.
    #[serde(default)]
    pub disk: Option<DiskStatus>,
    /// No groups are formed any more.
    pub returning: bool,
    /// The latest that went wrong and is no client's fault.
    pub trouble: Option<String>,
}

/// How the time of a directory's disk was spent since the mount, by the kernel's counters and the time after which it sleeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// What it is taken to do now: `turning`, `drowsy` (about to sleep) or `asleep`.
    pub phase: String,
    /// Milliseconds at work, by the kernel's count.
    pub busy_ms: u64,
    /// Milliseconds idle, its platters turning.
    pub idle_ms: u64,
    /// Milliseconds at rest.
    pub asleep_ms: u64,
    /// How often it went to rest.
    pub sleeps: u64,
    /// Times without work that have ended: below 1 s, 10 s, 1 min, 10 min, 1 h, and longer. Half a second is the shortest seen.
    pub idle_times: [u64; 6],
    /// Groups read ahead while it turned.
    pub read_ahead: u64,
    /// Millijoules at work, idle, at rest, and for going to rest and back; where its powers are known.
    pub millijoules: Option<[u64; 4]>,
}

fn disk(live: &MountedDir) -> Option<DiskStatus> {
    let rest = live.rest.as_ref()?;
    let phase = match rest.look() {
        DiskPhase::Turning => "turning",
        DiskPhase::Drowsy => "drowsy",
        DiskPhase::Asleep => "asleep",
    };
    let spent = rest.spent();
    let ms = |d: Duration| d.0 / 1_000_000;
    Some(DiskStatus {
        phase: phase.to_owned(),
        busy_ms: ms(spent.busy),
        idle_ms: ms(Duration(spent.rest.awake.0 - spent.busy.0)),
        asleep_ms: ms(spent.rest.asleep),
        sleeps: spent.rest.sleeps,
        idle_times: spent.rest.idle,
        read_ahead: live.shuffler.ahead.load(Relaxed),
        millijoules: spent.energy.map(|e| e.map(|e| (e.as_joules_f64() * 1e3) as u64)),
    })
}

pub(super) fn state_of(live: &MountedDir) -> MountStatus {
    let groups = &live.groups;
    let (inodes, open_files) = live.known();
    let shuffler = &live.shuffler;
    let (learned_files, wanted_groups) = shuffler.told();
    groups.gfs(|gfs| {
        let stats = gfs.stats();
        MountStatus {
            schema: STATUS_SCHEMA.to_owned(),
            directory: groups.underlying.path().display().to_string(),
            pid: std::process::id(),
            store: groups.uuid().iter().map(|b| format!("{b:02x}")).collect(),
            requests: shuffler.requests.load(Relaxed),
            passthrough: live.passthrough.load(Relaxed),
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
            grouped_reads: groups.counts.reads.load(Relaxed),
            hits: stats.hits,
            groups_read: stats.groups_read,
            damaged: stats.damaged,
            disk: disk(live),
            returning: shuffler.is_stopped(),
            trouble: groups.trouble(),
        }
    })
}

pub(super) fn state(live: &MountedDir) -> Result<Vec<u8>, Errno> {
    serde_json::to_vec(&state_of(live)).map_err(|_| Errno::IO)
}

pub(super) fn act(live: &MountedDir, what: &[u8]) -> Result<(), Errno> {
    match what {
        SHUFFLE_COMMAND => {
            live.shuffle();
            Ok(())
        }
        RETURN_COMMAND if live.shuffler.bring_home(&live.groups) == 0 => Ok(()),
        RETURN_COMMAND => Err(Errno::NOSPC),
        _ => Err(Errno::INVAL),
    }
}
