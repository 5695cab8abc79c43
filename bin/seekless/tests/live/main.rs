//! `seekless serve` as a user runs it: a process, its mounts, sockets and exit codes, with real
//! file systems and other NBD programs, while it learns and moves data. Tests that a host cannot
//! run say so. Everything is removed again, also after a failure.
#![allow(clippy::unwrap_used, reason = "tests fail by panic")]
#![allow(clippy::print_stderr, reason = "tests say what they skip")]

mod adaptive;
mod adopted;
mod adopting;
mod adopting_devices;
mod area;
mod bad_input;
mod browser;
mod browsing;
#[path = "../../../../volume/serve/tests/serve/certificates.rs"]
mod certificates;
mod debian;
mod devices;
mod elsewhere;
mod emulated;
mod files;
mod filesystems;
mod fixtures;
mod full;
mod grouped;
mod host;
mod hungry;
mod killed;
mod machine;
mod mounting;
mod observed;
#[path = "../../../../volume/serve/tests/serve/packed.rs"]
mod packed;
mod place;
mod pressure;
mod private;
mod programs;
mod record;
mod recorded;
mod releasing;
mod remembered;
mod replicas;
mod same_bytes;
mod scrubbed;
mod soaked;
mod ublk;
mod units;
mod unplugged;
mod watched;
mod watched_gone;
mod watching;
mod workloads;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_seekless");
