//! A sound native store with wrong bytes in it.
#![no_main]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../base/trace/tests/trace/harness.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(
    // As for `trace`: panics that the reader makes errors of must not end the process.
    init: drop(std::panic::take_hook()),
    |data: &[u8]| harness::damaged_store(data)
);
