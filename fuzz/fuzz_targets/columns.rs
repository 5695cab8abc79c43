//! A line with columns, as after `--columns`, then any bytes, read as such a table.
#![no_main]

use seekless_trace::fuzzing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::table(data));
