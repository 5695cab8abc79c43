//! Server workloads on a directory, their power consumption, and the devices, file systems and
//! mounts they run on.
//!
//! A [`Personality`] is data: sets of files and flows of operations over them, from a TOML file,
//! from Filebench's language, or built in. [`FileSet`] creates the files. [`run`] starts threads
//! that execute the flows, and counts their operations. The module [`power`] reads watts and
//! joules, and labels each as measured or modelled. [`host`] attaches devices, formats and mounts,
//! and removes everything again, also after its process was killed. [`study`] describes and
//! evaluates whole comparisons.
#![forbid(unsafe_code)]

mod config_text;
mod directory_tree;
mod error;
mod file_set;
mod gate;
pub mod host;
mod listing;
mod named;
mod personality;
pub mod power;
mod run;
mod run_counts;
mod seeded_random;
pub mod study;
mod wml;

pub use config_text::TextError;
pub use error::WorkloadError;
pub use file_set::{FileSet, Filled};
pub use listing::{Listed, describe, list};
pub use named::{NamedError, named};
pub use personality::{Personality, Preset, presets};
pub use run::{Load, RunOptions, run};
pub use run_counts::{CpuUse, Latency, OpCount, Outcome};

/// Entry points for fuzzing: any bytes are parsed as a personality.
pub mod fuzzing {
    /// Parses TOML. An accepted personality is consistent and can be written and parsed again.
    pub fn personality(data: &[u8]) {
        let Ok(text) = std::str::from_utf8(data) else { return };
        if let Ok(p) = crate::Personality::toml("fuzz", text) {
            let _ = p.operations_per_turn();
        }
    }

    /// Parses Filebench's language.
    pub fn wml(data: &[u8]) {
        let Ok(text) = std::str::from_utf8(data) else { return };
        if let Ok(p) = crate::Personality::wml("fuzz", text) {
            let _ = p.operations_per_turn();
        }
    }
}
