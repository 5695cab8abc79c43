//! Any bytes, read as the header of a record, or the map of a segment.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_engine::format::fuzzing::header(data));
