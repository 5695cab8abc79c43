//! Any bytes, read as the superblock of an area.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_engine::format::fuzzing::superblock(data));
