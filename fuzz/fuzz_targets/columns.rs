//! A line with columns, as after `--columns`, then any bytes, read as such a table.
#![no_main]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../base/trace/tests/trace/harness.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|data: &[u8]| harness::table(data));
