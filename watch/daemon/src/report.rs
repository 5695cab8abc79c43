//! What a daemon says about itself.

use seekless_jobs::{JobReport, Totals};
use serde::{Deserialize, Serialize};

/// Schema of the JSON form.
pub const SCHEMA: &str = "seekless.watch/1";

/// The answer of a daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WatchReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// Since the start.
    pub seconds: u64,
    /// It only watches.
    pub dry_run: bool,
    /// Events that the kernel lost because the daemon was too slow.
    pub lost_events: u64,
    /// Pages that may be fetched and not used now; 0 under memory pressure.
    pub pages_ahead: u64,
    /// The watched file systems.
    pub filesystems: Vec<FilesystemReport>,
}

/// One file system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FilesystemReport {
    /// Its mount point.
    pub mount: String,
    /// Its kind.
    pub kind: String,
    /// A run goes on.
    pub busy: bool,
    /// What happened since the start.
    pub totals: Totals,
    /// Its jobs.
    pub jobs: Vec<JobReport>,
}
