//! Any bytes, as a client would send them.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_nbd::fuzzing::server(data));
