//! Learning what is used together, and planning where copies go. Pure: observations in, plans out.
#![forbid(unsafe_code)]

mod plan;

pub use plan::{Copy, Plan, PlanError};
