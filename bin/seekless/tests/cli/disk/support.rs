//! The binary, and the folder of references.

use std::path::Path;
use std::process::{Command, Output};

/// Runs `seekless` with these words.
pub(crate) fn seekless(words: &[&str]) -> Output {
    Command::new(crate::PROGRAM).args(words).output().expect("the binary starts")
}

/// Standard output of a run that must succeed.
pub(crate) fn succeeds(words: &[&str]) -> String {
    let out = seekless(words);
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("UTF-8")
}

/// Standard error of a run that must end with 2, and must not panic.
pub(crate) fn fails(words: &[&str]) -> String {
    let out = seekless(words);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{words:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

/// A path as a word of a command line.
pub(crate) fn word(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
