//! Systems side by side over the folds of a trace. All serve the same requests, with the same RAM,
//! read-ahead and scheduler. Each policy learns only from earlier requests. Moved data is counted.
#![forbid(unsafe_code)]

mod advise;
mod advise_commands;
mod advise_words;
mod candidates;
mod error;
mod estimate;
mod fleet;
mod fold_costs;
mod folds;
mod foresee;
mod outcome;
mod parallel;
mod place;
mod replicas;
mod rolling;
mod rows;
mod scan;
mod settings;
mod shuffle;
mod simulate;
mod sweep;
mod system;
mod tune;
pub mod words;
mod worlds;

pub use advise::{Advice, AdviseOptions, Change, RankedBy, Tried, Verdict, advise};
pub use advise_commands::Yearly;
pub use error::StudyError;
pub use estimate::Gain;
pub use fleet::{Fleet, FleetDisk, advise_fleet};
pub use fold_costs::FoldCosts;
pub use folds::Cutting;
pub use outcome::{
    CostUsd, Day, EnergyJoules, Outcome, ResponseMs, Run, Split, States, TraceFacts,
};
pub use parallel::in_parallel;
pub use replicas::replicate;
pub use rolling::{AssumedFree, RollingOptions, RollingStage};
pub use rows::{Rows, csv, sweep_rows};
pub use scan::RangeSet;
pub use settings::{Axis, Cell, KEYS, grid, one_replay};
pub use simulate::{Options, simulate};
pub use sweep::sweep;
pub use system::Host;
pub use tune::{Panel, Parameter, Setting, TuneOptions, Tuned, Tuning, tune};
