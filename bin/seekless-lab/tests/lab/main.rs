//! The lab's verbs that need no device, run as a person runs them: the built binary, its exit code, what it
//! prints where. Knows nothing of the code behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod clustering;
mod fs2_disk;
mod groups;
mod papers;
#[path = "../../../seekless/tests/cli/support.rs"]
#[allow(dead_code, reason = "shared with the other program's tests")]
mod support;
mod tune;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_seekless-lab");
