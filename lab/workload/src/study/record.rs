//! Records of runs: one line of JSON for each finished run. An incomplete last line, after a crash,
//! is ignored; its run repeats.

use crate::power::Energy;
use crate::{Filled, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct RunRecord {
    /// `seekless.study-run/1`.
    pub schema: String,
    /// The cell, by [`super::Cell::id`].
    pub cell: String,
    /// Number of the run of this cell, from 0.
    pub run: u32,
    pub seed: u64,
    /// Start of the run, in seconds since 1970.
    pub started_unix_s: u64,
    /// The driver that served the file system.
    #[serde(default)]
    pub driver: String,
    #[serde(default)]
    pub mount_options: String,
    /// The files that were written.
    #[serde(default)]
    pub filled: Option<Filled>,
    /// The counts; `None` if the run failed.
    #[serde(default)]
    pub outcome: Option<Outcome>,
    #[serde(default)]
    pub energy: Vec<Energy>,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<String>,
}

/// What records said of an emulated disk's joules while idling was not in them, and what is true.
const WITHOUT_IDLING: (&str, &str) = (
    "the emulated disk's own account of seeking, turning, moving data and idling",
    "the emulated disk's own account of seeking, turning and moving data, without idling",
);

impl RunRecord {
    /// Operations a second.
    pub(super) fn ops_per_s(&self) -> Option<f64> {
        self.outcome.as_ref().map(|o| o.ops_per_s)
    }

    /// Operations for each joule, of all sources together.
    pub(super) fn ops_per_joule(&self) -> Option<f64> {
        let joules: f64 = self.energy.iter().map(|e| e.joules).sum();
        let outcome = self.outcome.as_ref().filter(|_| joules > 0.0)?;
        Some(outcome.operations as f64 / joules)
    }

    /// Mean power in W, of all sources together.
    pub(super) fn watts(&self) -> Option<f64> {
        let watts: f64 = self.energy.iter().map(|e| e.watts).sum();
        (watts > 0.0).then_some(watts)
    }
}

/// Reads lines of records. The number is the bytes of all whole lines.
pub(super) fn read_records(text: &str) -> Result<(Vec<RunRecord>, usize), (usize, String)> {
    let mut records = Vec::new();
    let whole = text.rfind('\n').map_or(0, |i| i + 1);
    for (n, line) in text[..whole].lines().enumerate().filter(|l| !l.1.trim().is_empty()) {
        let mut record: RunRecord =
            serde_json::from_str(line).map_err(|e| (n + 1, e.to_string()))?;
        if record.schema != "seekless.study-run/1" {
            return Err((n + 1, format!("schema '{}' is not seekless.study-run/1", record.schema)));
        }
        for energy in record.energy.iter_mut().filter(|e| e.source.by == WITHOUT_IDLING.0) {
            energy.source.by = WITHOUT_IDLING.1.to_owned();
        }
        records.push(record);
    }
    Ok((records, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_record_does_not_say_that_idling_counts() {
        let said = |by: &str| {
            let energy = serde_json::json!({
                "name": "disk:d", "basis": "modelled", "by": by,
                "joules": 1.0, "idle_joules": null, "watts": 1.0,
            });
            let record = serde_json::json!({
                "schema": "seekless.study-run/1", "cell": "d/s/w", "run": 0, "seed": 1,
                "started_unix_s": 0, "energy": [energy],
            });
            let (records, _) = read_records(&format!("{record}\n")).unwrap();
            records[0].energy[0].source.by.clone()
        };
        assert_eq!(said(WITHOUT_IDLING.0), WITHOUT_IDLING.1);
        assert_eq!(said("a meter"), "a meter");
    }
}
