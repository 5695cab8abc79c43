//! A group store with any bytes in it: attached, read and written, or refused.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_store::format::fuzzing::store(data));
