//! Any bytes, read as mobile.
#![no_main]

use seekless_trace::{Format, fuzzing};

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::read(Some(Format::Mobile), data));
