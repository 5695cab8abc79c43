//! Learning what is used together, and planning where copies go. Pure: observations in, plans out; no I/O,
//! no clock, no randomness. One policy a file.
#![forbid(unsafe_code)]

mod borg;
mod graph;
mod plan;

pub use borg::{BorgConfig, plan_borg};
pub use graph::state::{Decoded, StateError, check as check_state};
pub use graph::{ACCESS, AccessGraph, Edge, Vertex};
pub use plan::{Copy, Plan, PlanError};
