//! Any bytes, read as tencent.
#![no_main]

use seekless_trace::{Format, fuzzing};

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::read(Some(Format::Tencent), data));
