//! Server workloads as load on a directory, what they cost in power, and the devices, file systems and mounts
//! that they run on.
//!
//! A [`Personality`] is data: sets of files and flows of operations over them, from a TOML file, from Filebench's
//! language, or built in. [`FileSet`] lays its files, [`run`] has threads work through its flows and counts what
//! they did. The module [`power`] reads watts and joules and says of each whether it was measured or modelled; [`host`]
//! attaches devices, formats and mounts, and takes everything away again, also after its process was killed.
//! What to compare with what, and what follows, is not decided here.
#![forbid(unsafe_code)]

mod chance;
mod error;
mod files;
mod gate;
pub mod host;
mod listing;
mod measure;
mod named;
mod personality;
pub mod power;
mod run;
pub mod study;
mod text;
mod tree;
mod wml;

pub use chance::{Chance, gamma_cdf};
pub use error::WorkloadError;
pub use files::{FileSet, Filled};
pub use listing::{Listed, describe, list};
pub use measure::{CpuUse, Latency, OpCount, Outcome};
pub use named::{NamedError, named};
pub use personality::{
    Act, FileSetSpec, Flow, Pace, Personality, Preset, SizeSpec, Slot, Step, preset, presets,
};
pub use run::{Load, RunOptions, run};
pub use text::{Amount, TextError, at};

/// Entries for fuzzing: any bytes read as a personality.
pub mod fuzzing {
    /// As TOML; what is accepted is consistent and can be written and read again.
    pub fn personality(data: &[u8]) {
        let Ok(text) = std::str::from_utf8(data) else { return };
        if let Ok(p) = crate::Personality::toml("fuzz", text) {
            let _ = p.operations_per_turn();
        }
    }

    /// As Filebench's language.
    pub fn wml(data: &[u8]) {
        let Ok(text) = std::str::from_utf8(data) else { return };
        if let Ok(p) = crate::Personality::wml("fuzz", text) {
            let _ = p.operations_per_turn();
        }
    }
}
