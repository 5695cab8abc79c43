//! Learning which data is used together, and planning places of copies. Pure: observations in,
//! plans out; no I/O, no clock, no randomness. One policy a file.
#![forbid(unsafe_code)]

mod budget;
mod days;
mod graph;
mod instalment;
mod judge;
mod learner;
mod named;
mod pages;
mod plan;
mod planning;
mod policy;
mod replication;
mod revise;
mod strategy;
mod temperature;
mod training;

pub use budget::Budget;
pub use days::DAY;
pub use graph::state::{Decoded, StateError, check as check_state};
pub use graph::{ACCESS, AccessGraph, Edge, Vertex};
pub use instalment::{Instalment, PART_IOS, instalment, ios_left};
pub use judge::{Costs, Decision, Judge, JudgeConfig, Ledger, Look, Means, Price};
pub use learner::{
    Act, EDGES_MAX, Learner, OtherVolume, ReplicaProgress, ReplicaSpace, VolumeShape, VolumeState,
    needs_no_more,
};
pub use pages::{GridCount, Pages};
pub use plan::{Copy, Plan, PlanError, Replica};
pub use planning::{Planning, next_plan};
pub use policy::{
    AreaAt, KEYS, KeyEntry, POLICIES, Policy, PolicyEntry, PolicyError, PolicyKey, PolicyName,
    Streams,
};
pub use replication::{Answered, Replication, ReplicationConfig, ReplicationRule, side_by_side};
pub use revise::revise;
pub use strategy::{PlanConfig, Reach, Strategy, plan};
pub use temperature::{Heat, Temperature};
pub use training::Training;
