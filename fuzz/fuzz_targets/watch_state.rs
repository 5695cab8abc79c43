//! Any bytes as the state of `seekless watch`, with the checksum as found and made right.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_jobs::state::fuzz(data));
