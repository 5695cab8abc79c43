//! Any bytes, read as a disk with ext2, ext3 or ext4 on it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| seekless_serve::ext::fuzz(data));
