//! The records of runs: one line of JSON per run, written when the run ends. A line that was
//! incomplete when its process died is ignored, so its run is repeated.

use crate::power::Energy;
use crate::{Filled, Outcome};
use serde::{Deserialize, Serialize};

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// `seekless.study-run/1`.
    pub schema: String,
    /// The cell, see [`super::Cell::id`].
    pub cell: String,
    /// Number of the run in its cell, from 0.
    pub run: u32,
    /// Random seed.
    pub seed: u64,
    /// Start time, in seconds since 1970.
    pub started_unix_s: u64,
    /// The driver of the file system.
    #[serde(default)]
    pub driver: String,
    /// Mount options in force.
    #[serde(default)]
    pub mount_options: String,
    /// The files that were created.
    #[serde(default)]
    pub filled: Option<Filled>,
    /// The counts; `None` if the run failed.
    #[serde(default)]
    pub outcome: Option<Outcome>,
    /// The energy.
    #[serde(default)]
    pub energy: Vec<Energy>,
    /// The reason of the failure.
    #[serde(default)]
    pub error: Option<String>,
}

impl RunRecord {
    /// Operations per second.
    #[must_use]
    pub fn ops_per_s(&self) -> Option<f64> {
        self.outcome.as_ref().map(|o| o.ops_per_s)
    }

    /// Operations per joule, over all sources together.
    #[must_use]
    pub fn ops_per_joule(&self) -> Option<f64> {
        let joules: f64 = self.energy.iter().map(|e| e.joules).sum();
        let outcome = self.outcome.as_ref().filter(|_| joules > 0.0)?;
        Some(outcome.operations as f64 / joules)
    }

    /// Mean power in W, of all sources together.
    #[must_use]
    pub fn watts(&self) -> Option<f64> {
        let watts: f64 = self.energy.iter().map(|e| e.watts).sum();
        (watts > 0.0).then_some(watts)
    }
}

/// Parses lines of records. Returns the number of bytes in complete lines.
///
/// # Errors
/// The number of the invalid line, from 1, and the reason.
pub fn read_records(text: &str) -> Result<(Vec<RunRecord>, usize), (usize, String)> {
    let mut records = Vec::new();
    let whole = text.rfind('\n').map_or(0, |i| i + 1);
    for (n, line) in text[..whole].lines().enumerate().filter(|l| !l.1.trim().is_empty()) {
        let record: RunRecord = serde_json::from_str(line).map_err(|e| (n + 1, e.to_string()))?;
        if record.schema != "seekless.study-run/1" {
            return Err((n + 1, format!("schema '{}' is not seekless.study-run/1", record.schema)));
        }
        records.push(record);
    }
    Ok((records, whole))
}
