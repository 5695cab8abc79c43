//! Any bytes, read as a page of a free map.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_engine::format::fuzzing::free_map(data));
