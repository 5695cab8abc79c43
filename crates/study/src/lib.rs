//! Experiments: the same requests under several policies, each trained only on what came before, each with
//! the same RAM, read-ahead and scheduler, with the movement of data counted.
#![forbid(unsafe_code)]

mod outcome;
mod scan;
mod simulate;

pub use outcome::{EnergyJoules, Outcome, ResponseMs, Run, Split, States, TraceFacts};
pub use scan::RangeSet;
pub use simulate::{AreaAt, Options, Policy, Stage, StudyError, simulate};
