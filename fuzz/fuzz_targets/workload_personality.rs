//! Any bytes, read as a workload: by the reader of TOML personalities.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_workload::fuzzing::personality(data));
