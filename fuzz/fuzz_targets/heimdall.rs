//! Any bytes, read as heimdall.
#![no_main]

use seekless_trace::{Format, fuzzing};

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::read(Some(Format::Heimdall), data));
