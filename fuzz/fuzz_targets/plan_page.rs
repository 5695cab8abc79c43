//! Any bytes, read as the pages of a plan.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_engine::format::fuzzing::plan(data));
