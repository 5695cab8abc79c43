//! The verbs that need no live disk, run as a person runs them: the built binary, its exit code,
//! what it prints where. Knows nothing of the code behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod adaptive;
mod advise;
mod bad;
#[path = "../../../../base/block/tests/beside/mod.rs"]
mod beside;
mod contract;
mod convert;
mod devices;
mod disk;
mod examples;
mod exports;
mod fleet;
mod honest;
mod stat;
mod support;
mod surface;
mod sweep;
mod temperature;
mod wrong;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_seekless");
