//! Learning what is used together, and planning where copies go. Pure: observations in, plans out; no I/O,
//! no clock, no randomness. One policy a file.
#![forbid(unsafe_code)]

mod graph;
mod pages;
mod plan;
mod revise;
mod strategy;
mod training;

pub use graph::{ACCESS, AccessGraph, Edge, Repeats, Vertex};
pub use pages::{GridCount, Pages};
pub use plan::{Copy, Plan, PlanError};
pub use revise::{Cost, revise};
pub use strategy::{PlanConfig, Strategy, plan};
pub use training::Training;
