//! The lab's verbs on real files, file systems and devices. A test that this host cannot run says
//! so and is skipped. Every test removes all that it created, also on failure.
#![allow(clippy::unwrap_used, reason = "tests fail by panic")]
#![allow(clippy::print_stderr, reason = "tests say what they skip")]

#[path = "../../../seekless/tests/live/browsing.rs"]
#[allow(dead_code, reason = "shared with the other program's tests")]
mod browsing;
mod cluster;
#[path = "../../../seekless/tests/live/host.rs"]
#[allow(dead_code, reason = "shared with the other program's tests")]
mod host;
mod loads;
mod report;
mod study;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_seekless-lab");
