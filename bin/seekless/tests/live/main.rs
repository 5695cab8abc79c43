//! `seekless serve` as a person runs it: a process, its mounts, sockets and exit codes, with real file
//! systems and other people's NBD programs on top, while it learns and re-lays under them. What a
//! host cannot run is skipped aloud. Everything made is taken away again, also when a test fails.
#![allow(clippy::unwrap_used, reason = "tests fail by panic")]
#![allow(clippy::print_stderr, reason = "tests say what they skip")]

mod adopted;
mod area;
mod bad_input;
mod browser;
mod browsing;
mod devices;
mod emulated;
mod files;
mod filesystems;
mod fixtures;
mod grouped;
mod host;
mod judged;
mod killed;
mod mounting;
mod observed;
mod programs;
mod record;
mod recorded;
mod remembered;
mod replicas;
mod same_bytes;
mod units;
mod watching;
mod workloads;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_seekless");
