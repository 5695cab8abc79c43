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
mod tests {
    use serde_json::Value;

    use super::*;

    /// Every key of the schema is there, of its type, and nothing else.
    fn check(schema: &Value, value: &Value, at: &str) {
        if let Some(constant) = schema.get("const") {
            return assert_eq!(constant, value, "{at}");
        }
        let kind = schema["type"].as_str().unwrap();
        let fits = match kind {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64(),
            _ => false,
        };
        assert!(fits, "{at}: {value} is no {kind}");
        for item in value.as_array().into_iter().flatten() {
            check(&schema["items"], item, &format!("{at}[]"));
        }
        let Some(fields) = value.as_object() else { return };
        let known = schema["properties"].as_object().unwrap();
        let names: Vec<_> = fields.keys().collect();
        assert_eq!(names, known.keys().collect::<Vec<_>>(), "{at}");
        assert_eq!(schema["required"].as_array().unwrap().len(), known.len(), "{at}");
        known.iter().for_each(|(name, s)| check(s, &fields[name], &format!("{at}.{name}")));
    }

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
        check(&schema, &serde_json::to_value(report).unwrap(), "report");
    }
}
