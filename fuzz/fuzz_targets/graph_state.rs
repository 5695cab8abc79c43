//! Any bytes, read as a learner's memory.
#![no_main]

use seekless_learn::check_state;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check_state(data));
