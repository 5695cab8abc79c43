//! Is `seekless files mount` a file system like the one beneath it? Every check runs on a plain
//! directory first and on a mount over its like then: what fails on the mount alone is a fault of
//! the mount. What a host cannot run is skipped aloud.
#![allow(clippy::unwrap_used, reason = "tests fail by panic")]
#![allow(clippy::print_stderr, reason = "tests say what they skip")]

mod attributes;
mod bytes;
mod case;
mod fsx;
mod ground;
#[path = "../live/host.rs"]
#[allow(dead_code, reason = "shared with the tests of `serve`, which need more of it")]
mod host;
mod killed;
mod moved;
mod names;
mod programs;
mod rights;
mod strict;
mod suite;
mod sys;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_seekless");
