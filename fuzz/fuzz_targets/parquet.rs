//! Any bytes, read as parquet.
#![no_main]

use seekless_trace::{Format, fuzzing};

libfuzzer_sys::fuzz_target!(
    // The store's reader turns the Parquet library's panics into errors; the fuzzer's own hook
    // would end the process before that. A panic that is not caught still ends it.
    init: drop(std::panic::take_hook()),
    |data: &[u8]| fuzzing::read(Some(Format::Native), data)
);
