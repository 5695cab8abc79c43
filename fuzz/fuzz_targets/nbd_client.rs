//! Any bytes, as a server would send them.
#![no_main]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../base/nbd/tests/nbd/harness.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::client(data));
