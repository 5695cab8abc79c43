//! Any bytes, read as each page of a group store.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    seekless_store::format::fuzzing::page(data);
    seekless_store::format::fuzzing::body(data);
});
