//! Any bytes, read as fiu.
#![no_main]

use seekless_trace::{Format, fuzzing};

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::read(Some(Format::Fiu), data));
