//! Any bytes, read as the trace format that the variable FORMAT names; without it, compression and
//! format are found by content.
#![no_main]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../base/trace/tests/trace/harness.rs"]
mod harness;

use std::sync::LazyLock;

use seekless_trace::Format;

static FORMAT: LazyLock<Option<Format>> = LazyLock::new(|| {
    let name = std::env::var("FORMAT").ok()?;
    Some(Format::from_name(&name).expect("FORMAT is the name of a trace format"))
});

libfuzzer_sys::fuzz_target!(
    // The store's reader turns the Parquet library's panics into errors; the fuzzer's own hook
    // would end the process before that. A panic that is not caught still ends it.
    init: drop(std::panic::take_hook()),
    |data: &[u8]| harness::read(*FORMAT, data)
);
