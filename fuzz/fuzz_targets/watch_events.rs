//! Any bytes as pages and descriptions of the events that `seekless watch` reads.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_daemon::events::fuzz(data));
