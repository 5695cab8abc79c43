//! A sound native store with wrong bytes in it.
#![no_main]

use seekless_trace::fuzzing;

libfuzzer_sys::fuzz_target!(
    // As for `trace`: panics that the reader makes errors of must not end the process.
    init: drop(std::panic::take_hook()),
    |data: &[u8]| fuzzing::damaged_store(data)
);
