//! The state of a volume, as commands and programs see it: schema `seekless.volume/1`.

use std::path::Path;

use seekless_block::{Bytes, PAGE_BYTES, SECTOR_BYTES};
use seekless_engine::{Mode, Replicated};
use serde::{Deserialize, Serialize};

use crate::ServerStats;
use crate::status::{
    AdaptiveStatus, ElsewhereStatus, GuardStatus, MemoryStatus, OperationStatus, ScrubStatus,
    VerdictStatus,
};

/// State of a volume: schema `seekless.volume/1`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VolumeState {
    /// `seekless.volume/1`.
    pub schema: String,
    /// The file or block device.
    pub backing: String,
    /// True if a server has it.
    pub served: bool,
    /// When its server was started; 0 without one. Two servers of one volume never have the same
    /// time.
    #[serde(default)]
    pub started_unix_ms: u64,
    /// True if its area outlasts a server.
    pub lasting: bool,
    /// Size of the volume.
    pub size_bytes: u64,
    /// Size of its area.
    pub area_bytes: u64,
    /// `writethrough` or `writeback`.
    pub mode: String,
    /// Newest data that is only in the area.
    pub dirty_bytes: u64,
    /// Copies not yet compared with home.
    pub in_doubt_bytes: u64,
    /// Usable copies, with dirty ones.
    pub copied_bytes: u64,
    /// Everything is at home, the write buffer takes nothing, and no guard is up.
    pub drained: bool,
    /// The bare disk cannot be mounted: its two ends are in the area.
    pub guarded: bool,
    /// Progress of the current move: done and total.
    pub moving_bytes: Option<(u64, u64)>,
    /// Copied to their places since the server's start.
    pub moved_bytes: u64,
    /// Written since the server's start to bring everything home: data, zeroes in the places of
    /// replicas, and checkpoints.
    #[serde(default)]
    pub homeward_bytes: u64,
    /// The verdict on the last hour, if its server can compare.
    #[serde(default)]
    pub verdict: Option<VerdictStatus>,
    /// The adaptive policy of its server.
    #[serde(default)]
    pub adaptive: Option<AdaptiveStatus>,
    /// Replicas in discarded pages, if the area is made for them.
    #[serde(default)]
    pub replicas: Option<ReplicaState>,
    /// Since the server's start.
    pub requests: u64,
    /// Connected now.
    pub nbd_clients: u64,
    /// Pages of the area that did not match their checksums, since the server's start.
    pub damaged_pages: u64,
    /// Check of the area in idle time.
    #[serde(default)]
    pub scrub: Option<ScrubStatus>,
    /// The server of home; absent if home is here.
    #[serde(default)]
    pub elsewhere: Option<ElsewhereStatus>,
    /// Memory of its server.
    #[serde(default)]
    pub memory: Option<MemoryStatus>,
    /// Operations at a provider, beside the vanilla system's; absent without one.
    #[serde(default)]
    pub operations: Option<OperationStatus>,
    /// The area failed, so the server left write-back by itself.
    #[serde(default)]
    pub fell_back: bool,
    /// Reason why the server makes no progress.
    pub trouble: Option<String>,
    /// The last failed I/O since the server's start.
    pub last_failure: Option<String>,
}

/// State of the replicas in discarded pages (FS2). `spare` is free of data and of replicas. Below
/// 10% of the volume replication stops and replicas give way; below 5% they give way faster; at 15%
/// replication continues.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ReplicaState {
    /// Limit for replicas.
    pub room_bytes: u64,
    /// Pages of the volume.
    pub home_bytes: u64,
    /// Discarded and not written since.
    pub free_bytes: u64,
    /// Free, without a replica.
    pub spare_bytes: u64,
    /// Free, with possible bytes of replicas.
    pub stained_bytes: u64,
    /// Requested and not begun.
    pub waiting_bytes: u64,
    /// Too little spare space: replication has stopped.
    pub suspended: bool,
    /// Since the server's start, requested but impossible: the place was not free, or the home had
    /// a replica.
    pub refused_bytes: u64,
    /// Given up for clients.
    pub yielded_bytes: u64,
    /// Reads of discarded pages.
    pub zero_reads: u64,
}

impl ReplicaState {
    fn of(r: &Replicated, stats: &ServerStats) -> Self {
        let pages = |n: u64| n * PAGE_BYTES;
        Self {
            room_bytes: r.room.bytes().0,
            home_bytes: r.home.bytes().0,
            free_bytes: r.free.bytes().0,
            spare_bytes: r.free.bytes().0.saturating_sub(r.bound.bytes().0),
            stained_bytes: r.stained.bytes().0,
            waiting_bytes: r.waiting.bytes().0,
            suspended: r.suspended,
            refused_bytes: pages(stats.engine.replicas_refused),
            yielded_bytes: pages(stats.engine.yielded),
            zero_reads: stats.engine.zero_reads,
        }
    }
}

/// The schema of [`VolumeState`].
pub(super) const VOLUME_SCHEMA: &str = "seekless.volume/1";

/// The mode on command lines and in JSON.
pub const fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::WriteThrough => "writethrough",
        Mode::WriteBack => "writeback",
    }
}

/// The mode of this name.
pub fn mode_of(text: &str) -> Result<Mode, String> {
    match text {
        "writethrough" => Ok(Mode::WriteThrough),
        "writeback" => Ok(Mode::WriteBack),
        _ => Err(format!("'{text}' is no mode: writethrough or writeback")),
    }
}

impl VolumeState {
    /// Reasons for missing progress, for the end of a message; empty if unknown.
    pub(super) fn why(&self) -> String {
        let mut why = String::new();
        if let Some(trouble) = &self.trouble {
            why += &format!(": {trouble}");
        }
        if let Some(failure) = &self.last_failure {
            why += &format!("; the last failure was {failure}");
        }
        if self.damaged_pages > 0 {
            why += &format!(
                "; {} pages of the area are damaged: stop the server, run `seekless volume check --data` and `seekless volume repair`",
                self.damaged_pages
            );
        }
        why
    }

    /// State of a running server. `guard` is that of the adaptive policy, with its note.
    pub fn of(
        backing: &Path,
        (size, area): (Bytes, Bytes),
        stats: &ServerStats,
        guard: Option<(GuardStatus, String)>,
    ) -> Self {
        let a = &stats.area;
        let failure = a.failure.map(|f| {
            format!("{:?} of {:?} at {}: {}", f.op, f.target, f.extent, f.errno).to_lowercase()
        });
        Self {
            schema: VOLUME_SCHEMA.to_owned(),
            backing: backing.display().to_string(),
            served: true,
            lasting: a.lasting,
            size_bytes: size.0,
            area_bytes: area.0,
            mode: mode_name(a.mode).to_owned(),
            dirty_bytes: a.dirty_sectors * SECTOR_BYTES,
            in_doubt_bytes: a.in_doubt_sectors * SECTOR_BYTES,
            copied_bytes: stats.copied_sectors * SECTOR_BYTES,
            drained: a.drained,
            guarded: a.guarded,
            moving_bytes: stats.progress.map(|p| (p.done.bytes().0, p.total.bytes().0)),
            moved_bytes: stats.engine.moved_bytes,
            homeward_bytes: stats.engine.destaged_bytes
                + stats.engine.zeroed_bytes
                + stats.engine.checkpoint_bytes,
            adaptive: AdaptiveStatus::of(stats, guard),
            replicas: a.replicas.map(|r| ReplicaState::of(&r, stats)),
            requests: stats.engine.requests,
            nbd_clients: stats.clients as u64,
            damaged_pages: stats.engine.damaged,
            scrub: a.scrub,
            elsewhere: stats.elsewhere,
            memory: Some(stats.memory),
            fell_back: a.fell_back,
            trouble: a.trouble.map(|t| t.to_string()),
            last_failure: failure,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use seekless_engine::Trouble;

    use super::*;

    #[test]
    fn a_volume_without_progress_says_why() {
        let mut stats = ServerStats::default();
        let state = |stats: &ServerStats| {
            VolumeState::of(Path::new("disk.img"), (Bytes(1 << 30), Bytes(1 << 20)), stats, None)
        };
        assert_eq!(state(&stats).why(), "");
        stats.area.trouble = Some(Trouble::Home);
        stats.engine.damaged = 2;
        let why = state(&stats).why();
        assert!(why.contains("home cannot be written") && why.contains("2 pages"), "{why}");
    }
}
