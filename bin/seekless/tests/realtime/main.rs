//! An emulated disk in real time, as other programs meet it: fio through NBD and through FUSE and a
//! loop device beside the model, and the disk that probing finds beside the one that is emulated.
//! Tests take turns: they measure time, so that all but the demo's are of the long form only. What a
//! host cannot run is skipped aloud.
#![allow(clippy::unwrap_used, reason = "tests fail by panic")]
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "tests say what they skip and see")]

#[path = "../../../../base/disk/tests/disk/compared.rs"]
mod compared;
mod demo;
mod fio;
mod guarded;
#[allow(dead_code, reason = "the live tests use more of it")]
#[path = "../live/host.rs"]
mod host;
mod model;
mod probe;
mod quiet;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_seekless");
