//! Experiments: the same requests under several policies, each trained only on what came before, each with
//! the same RAM, read-ahead and scheduler, with the movement of data counted.
#![forbid(unsafe_code)]

mod advise;
mod advise_words;
mod borg;
pub mod clustering;
mod estimate;
mod files;
mod fs2;
mod outcome;
mod parallel;
mod place;
mod replicas;
mod rolling;
mod scan;
pub mod servers;
mod shuffle;
mod simulate;
mod start_up;
mod tune;

pub use advise::{Advice, AdviseOptions, Change, Tried, Verdict, WORTH, advise};
pub use borg::{BorgJob, BorgPhase, BorgRun, BorgSystem, PlanChange, Reconfiguration, borg};
pub use estimate::Gain;
pub use files::{
    FileCauses, FileFacts, FileOutcome, FileSystem, FilesError, FilesOptions, Grouping, facts_of,
    run_files,
};
pub use fs2::{Fs2Done, Fs2Job, Fs2Proof, Fs2Run, Fs2System, Replicates, fs2};
pub use outcome::{Day, EnergyJoules, Outcome, ResponseMs, Run, Split, States, TraceFacts};
pub use replicas::replicate;
pub use rolling::{
    Fold, Host, Lap, Learning, Rolling, RollingOptions, RollingStage, Schedule, System, rolling,
};
pub use scan::RangeSet;
pub use simulate::{AreaAt, Learner, Options, Policy, Stage, StudyError, simulate};
pub use start_up::{Program, Started, start_ups};
pub use tune::{Panel, Parameter, Setting, TuneOptions, Tuned, Tuning, tune};
