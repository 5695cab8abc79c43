//! The lab's verbs that need no device, through the built binary: exit codes and output.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod claims;
mod clustering;
mod fs2_disk;
mod groups;
mod papers;
#[path = "../../../seekless/tests/cli/support.rs"]
#[allow(dead_code, reason = "shared with the other program's tests")]
mod support;
mod tune;
mod wrong;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_seekless-lab");
