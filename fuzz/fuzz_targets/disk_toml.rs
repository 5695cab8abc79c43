//! Any bytes, read as a disk's description; what is accepted makes a disk that works.
#![no_main]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../base/disk/tests/disk/harness.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::toml(data));
