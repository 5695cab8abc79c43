//! The report of a daemon about itself.

use seekless_jobs::{JobReport, Totals};
use serde::{Deserialize, Serialize};

/// Schema of the JSON form.
pub const SCHEMA: &str = "seekless.watch/1";

/// The same as a JSON Schema.
pub const SCHEMA_JSON: &str = include_str!("schema.json");

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
    /// The counts since the start.
    pub totals: Totals,
    /// Its jobs.
    pub jobs: Vec<JobReport>,
}

#[cfg(test)]
#[path = "../../../base/block/tests/schema/mod.rs"]
mod schema;

#[cfg(test)]
mod tests {
    use super::schema::check;
    use super::*;

    #[test]
    fn the_report_is_what_its_schema_says() {
        let job = JobReport { id: 1, would: (0, 1), ..JobReport::default() };
        let filesystem = FilesystemReport {
            mount: "/".to_owned(),
            kind: "ext4".to_owned(),
            busy: false,
            totals: Totals::default(),
            jobs: vec![job],
        };
        let report = WatchReport {
            schema: SCHEMA.to_owned(),
            seconds: 1,
            dry_run: false,
            lost_events: 0,
            pages_ahead: 1,
            filesystems: vec![filesystem],
        };
        let schema = serde_json::from_str(SCHEMA_JSON).unwrap();
        check(&schema, &schema, &serde_json::to_value(report).unwrap(), "report");
    }
}
