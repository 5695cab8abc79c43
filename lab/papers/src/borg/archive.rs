//! Real starts of programs and virtual machines, from the archives of benches/startup: `runs`, each
//! with `name`, `system`, `phase` and `wall_s`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::PaperError;

#[derive(Deserialize)]
struct Archive {
    runs: Vec<Start>,
}

#[derive(Deserialize)]
struct Start {
    name: String,
    system: String,
    phase: String,
    wall_s: f64,
}

/// The measured starts of one file.
pub(super) struct Archived {
    pub(super) path: PathBuf,
    /// Program, system, number of starts, and their mean in seconds.
    pub(super) means: Vec<(String, String, usize, f64)>,
}

pub(super) fn read(path: &Path) -> Result<Archived, PaperError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| PaperError::Read { path: path.to_owned(), source })?;
    let archive: Archive =
        serde_json::from_str(&text).map_err(|source| PaperError::Unexpected {
            path: path.to_owned(),
            expected: "an archive of benches/startup: JSON with runs",
            source: source.into(),
        })?;
    let mut all: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for start in archive.runs.into_iter().filter(|s| s.phase == "measured") {
        all.entry((start.name, start.system)).or_default().push(start.wall_s);
    }
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let means = all.into_iter().map(|((name, system), v)| (name, system, v.len(), mean(&v)));
    Ok(Archived { path: path.to_owned(), means: means.collect() })
}
