//! Files of fixtures. The tests of the program `seekless` use this file, too.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde_json::Value;

const PAGE: usize = 4096;

/// Unpacks a file of this size, with holes for zeroes.
pub(crate) fn unpack(from: &Path, bytes: &Value, to: &Path) {
    let bytes = bytes.as_u64().unwrap();
    let content = zstd::bulk::decompress(&fs::read(from).unwrap(), bytes as usize).unwrap();
    assert_eq!(content.len() as u64, bytes, "{}", from.display());
    // A store that others can read is refused.
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(to);
    let file = file.unwrap();
    file.set_len(bytes).unwrap();
    for (i, page) in content.chunks(PAGE).enumerate() {
        if page.iter().any(|&b| b != 0) {
            file.write_all_at(page, (i * PAGE) as u64).unwrap();
        }
    }
}

/// Changes a bit of the byte at `offset`.
pub(crate) fn flip(path: &Path, offset: u64) {
    let (file, mut byte) = (File::options().read(true).write(true).open(path).unwrap(), [0]);
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
}
