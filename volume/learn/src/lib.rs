//! Learning which data is used together, and planning places of copies. Pure: observations in,
//! plans out; no I/O, no clock, no randomness. One policy a file.
#![forbid(unsafe_code)]

mod adaptive;
mod days;
mod graph;
mod learner;
mod pages;
mod plan;
mod planning;
mod policy;
mod replication;
mod revise;
mod strategy;
mod temperature;
mod training;

pub use adaptive::{
    Adaptive, DayTimes, Foreseen, Guard, Prefetched, TRAIL_WINDOW, View, WindowId, Work,
    without_stall,
};
pub use days::DAY;
pub use graph::state::{Decoded, StateError, check as check_state};
pub use graph::{ACCESS, AccessGraph, Edge, Vertex};
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
pub use replication::{
    AnsweredReads, Replication, ReplicationConfig, ReplicationRule, side_by_side,
};
pub use revise::revise;
pub use strategy::{PlanConfig, Reach, Strategy, plan};
pub use temperature::{Heat, Temperature};
pub use training::Training;
