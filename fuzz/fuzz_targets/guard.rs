//! Any bytes, read as the header of a guard region and as a guard page.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_engine::format::fuzzing::guard(data));
