//! Simulated time: the same engine that serves live, over a modelled drive, driven by a list of requests.
//!
//! It holds no policy and reads no file: requests are offered one by one, so that a trace of any length
//! streams through in constant memory.
#![forbid(unsafe_code)]

pub mod crash;
mod guarded;
mod judged;
mod learned;
mod measure;
mod metered;
mod path;
mod simulation;

pub use guarded::Guarded;
pub use judged::{Clock, DayCosts, Judged, JudgedConfig};
pub use learned::{EngineSpace, shape_of};
pub use measure::{IoCost, IoCosts, Measured, Phases, Response};
pub use path::{HeadPath, Kind, Point};
pub use simulation::{Replay, SimConfig, SimError, Simulation};
