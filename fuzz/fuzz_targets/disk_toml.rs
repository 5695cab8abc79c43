//! Any bytes, read as a disk's description; what is accepted makes a disk that works.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_disk::fuzzing::toml(data));
