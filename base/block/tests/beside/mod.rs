//! The folder of reference traces and results beside the repository, for the tests of every room.

use std::path::{Path, PathBuf};

/// `part` of the folder that `SEEKLESS_SHARED` names, or of `../shared` beside the repository. If it
/// is absent, prints that `test` is SKIPPED.
#[allow(clippy::print_stdout)]
pub(crate) fn shared(test: &str, part: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("SEEKLESS_SHARED").map_or(beside, PathBuf::from);
    let found = Some(root.join(part)).filter(|part| part.exists());
    if found.is_none() {
        println!("SKIPPED {test}: no {part} in {}", root.display());
    }
    found
}
