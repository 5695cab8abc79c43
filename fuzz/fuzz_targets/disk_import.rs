//! Any bytes, read as DiskSim's parameters, every file they name being themselves.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_disk::fuzzing::import(data));
