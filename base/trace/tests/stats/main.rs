//! Statistics of traces through the public API: a slow twin on small random traces, known answers
//! on real traces, estimates against exact values.
#![allow(clippy::unwrap_used, reason = "helpers of tests are not tests to the lint")]
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

#[path = "../../../block/tests/beside/mod.rs"]
mod beside;
mod known;
mod random;
mod sampled;
mod twin;
