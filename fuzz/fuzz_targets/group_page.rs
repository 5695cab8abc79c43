//! Any bytes, read as each page of a group store.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    seekless_fs::format::fuzzing::page(data);
    seekless_fs::format::fuzzing::body(data);
});
