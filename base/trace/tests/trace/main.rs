//! Tests of the trace readers through their public API: known answers, fixtures written by hand,
//! damage, sources, the native store.
#![allow(clippy::unwrap_used, reason = "helpers of tests are not tests to the lint")]
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

#[path = "../../../block/tests/beside/mod.rs"]
mod beside;
mod blkparse;
mod columns;
mod damage;
mod files;
mod fixtures;
mod formats;
mod harness;
mod held;
mod joined;
mod known;
mod memory;
mod sources;
mod store;
mod support;
mod writers;
