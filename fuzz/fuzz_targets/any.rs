//! Any bytes, their compression and format found by content.
#![no_main]

use seekless_trace::fuzzing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::read(None, data));
