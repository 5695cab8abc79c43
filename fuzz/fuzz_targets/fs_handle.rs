//! Any bytes, read as the name under which a group store keeps a file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_mount::fuzzing::handle(data));
