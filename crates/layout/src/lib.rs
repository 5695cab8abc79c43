//! Learning what is used together, and planning where copies go. Pure: observations in, plans out; no I/O,
//! no clock, no randomness. One policy a file.
#![forbid(unsafe_code)]

mod borg;
mod budget;
mod graph;
mod instalment;
mod judge;
mod plan;

pub use borg::{BorgConfig, plan_borg};
pub use budget::Budget;
pub use graph::{ACCESS, AccessGraph, Edge, Vertex};
pub use instalment::{Instalment, PART_IOS, instalment, ios_left};
pub use judge::{Costs, Decision, Judge, JudgeConfig, Ledger, Look, Means, Price};
pub use plan::{Copy, Plan, PlanError};
