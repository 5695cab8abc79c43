//! The papers that seekless unites, reproduced: their experiments as replays on modelled disks ([`borg`], [`fs2`],
//! [`run_files`]), the analysis of clustered data ([`clustering`]), a model of the fast file system ([`Ffs`]), and synthetic
//! traces with the statistics that the papers print ([`synth`]).
#![forbid(unsafe_code)]

mod borg;
pub mod clustering;
mod ffs;
mod files;
mod fs2;
mod parallel;
mod start_up;
pub mod synth;

pub use borg::{BorgJob, BorgPhase, BorgRun, BorgSystem, PlanChange, Reconfiguration, borg};
pub use files::{
    FileCauses, FileFacts, FileOutcome, FileSystem, FilesError, FilesOptions, Grouping, facts_of,
    run_files,
};
pub use fs2::{Fs2Done, Fs2Job, Fs2Proof, Fs2Run, Fs2System, Replicates, fs2};
pub use start_up::{Program, Started, start_ups};
