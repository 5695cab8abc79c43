//! The built-in workloads as a list, and a workload in words.

use seekless_report::Unit;
use serde::Serialize;

use crate::personality::SizeSpec;
use crate::{NamedError, Personality, named, presets};

/// A built-in workload in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed {
    /// Its name, with `:VARIANT` for a variant.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Threads of all flows.
    pub threads: u32,
    /// Files of all sets.
    pub files: u64,
    /// Mean bytes of a file of the set with the most files.
    pub mean_file_bytes: u64,
    /// Mean bytes of all files that exist at the start.
    pub bytes: f64,
}

/// All built-in workloads, with their variants.
///
/// # Errors
/// If a built-in workload is damaged: a bug.
pub fn list() -> Result<Vec<Listed>, NamedError> {
    let mut all = Vec::new();
    for p in presets() {
        let variants = Personality::variants(p.name, p.text)?;
        let variants = variants.into_iter().map(|v| format!("{}:{}", p.name, v.0));
        for name in std::iter::once(p.name.to_owned()).chain(variants) {
            let p = named(&name)?;
            let largest = p.sets.iter().max_by_key(|s| s.files);
            all.push(Listed {
                title: p.title.clone(),
                threads: p.threads(),
                files: p.sets.iter().map(|s| s.files).sum(),
                mean_file_bytes: largest.map_or(0, |s| s.size.mean()),
                bytes: p.mean_bytes(),
                name,
            });
        }
    }
    Ok(all)
}

/// A workload in words: its sets of files and its flows.
pub fn describe(p: &Personality) -> String {
    let mut lines = vec![format!("{}: {}", p.name, p.title)];
    for s in &p.sets {
        let size = match s.size {
            SizeSpec::Fixed(b) => Unit::bytes(b),
            SizeSpec::Gamma { mean, shape } => {
                format!("{} on the mean, gamma {shape}", Unit::bytes(mean))
            }
        };
        let depth = s.mean_depth();
        lines.push(format!(
            "set {}: {} files of {size}; directories {depth:.1} deep; {:.0} % exist at the start",
            s.name,
            s.files,
            s.prealloc * 100.0
        ));
    }
    for f in &p.flows {
        lines.push(format!("flow {}: {} threads", f.name, f.threads));
        lines.extend(f.steps.iter().map(|s| format!("  {}: {:?} x {}", s.name, s.act, s.times)));
    }
    lines.join("\n")
}
