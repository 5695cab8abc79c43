//! Simulated time: the same engine that serves live, a modelled drive, and a list of requests.
//!
//! This crate has no policy and reads no file. Requests are offered one by one, so a trace of any
//! length needs constant memory.
#![forbid(unsafe_code)]

mod guarded;
mod learned;
mod measure;
mod metered;
mod path;
mod simulation;

pub use guarded::{Guarded, GuardedDay, vanilla_of};
pub use learned::{EngineSpace, shape_of};
pub use measure::{IoCost, IoCosts, Measured, Phases, Response};
pub use path::{HeadPath, Kind, Point};
pub use simulation::{Replay, SimConfig, SimError, Simulation};
