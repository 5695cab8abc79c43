//! Any bytes, read as DiskSim's parameters, every file they name being themselves.
#![no_main]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../base/disk/tests/disk/harness.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::import(data));
