//! Any bytes, read as a file's marker and as a directory's binding to a group store.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_mount::fuzzing::marker(data));
