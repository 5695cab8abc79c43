//! Experiments: the same requests under several policies, each trained only on what came before, each with
//! the same RAM, read-ahead and scheduler, with the movement of data counted.
#![forbid(unsafe_code)]

mod advise;
mod advise_words;
mod estimate;
mod outcome;
mod place;
mod replicas;
mod rolling;
mod scan;
mod shuffle;
mod simulate;
mod tune;

pub use advise::{Advice, AdviseOptions, Change, Tried, Verdict, WORTH, advise};
pub use estimate::Gain;
pub use outcome::{Day, EnergyJoules, Outcome, ResponseMs, Run, Split, States, TraceFacts};
pub use replicas::{replicate, sidecar};
pub use rolling::{
    Fold, Host, Lap, Learning, Rolling, RollingOptions, RollingStage, Schedule, System, rolling,
};
pub use scan::RangeSet;
pub use simulate::{AreaAt, EDGES, Learner, Options, Policy, Stage, StudyError, simulate};
pub use tune::{Panel, Parameter, Setting, TuneOptions, Tuned, Tuning, tune};
