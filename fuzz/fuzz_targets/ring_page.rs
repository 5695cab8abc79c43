//! Any bytes, read as a page of the kernel's ring buffer and as its descriptions.
#![no_main]

use seekless_serve::capture::fuzzing;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::page(data));
