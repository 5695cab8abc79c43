//! Tests of the whole crate from outside: known answers, properties, naive twins.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside #[test] functions may panic too

mod anticipation;
#[path = "../../../block/tests/beside/mod.rs"]
mod beside;
mod buffer;
mod compared;
mod devices;
mod energy;
mod fit;
mod harness;
mod import;
mod model;
mod queue;
mod reference;
mod text;
mod toy;
mod volume;
