//! Any bytes, read as systor17.
#![no_main]

use seekless_trace::{Format, fuzzing};

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::read(Some(Format::Systor), data));
