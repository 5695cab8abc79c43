//! Learning what is used together, and planning where copies go. Pure: observations in, plans out; no I/O,
//! no clock, no randomness. One policy a file.
#![forbid(unsafe_code)]

mod graph;
mod pages;
mod plan;
mod planning;
mod revise;
mod strategy;
mod training;

pub use graph::state::{Decoded, StateError, check as check_state};
pub use graph::{ACCESS, AccessGraph, Edge, Vertex};
pub use pages::{GridCount, Pages};
pub use plan::{Copy, Plan, PlanError};
pub use planning::{Planning, next_plan};
pub use revise::revise;
pub use strategy::{PlanConfig, Reach, Strategy, plan};
pub use training::Training;
