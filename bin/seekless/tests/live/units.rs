//! The units of packaging/systemd, as systemd itself reads them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::host::{attempt, programs};
use crate::need;

#[test]
fn systemd_finds_no_fault_with_the_units() {
    need!("systemd units", programs(&["systemd-analyze"]));
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let dir = tempfile::tempdir().unwrap();
    let mut units = Vec::new();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "service") {
            // The programs need not be installed here.
            let text = fs::read_to_string(&path).unwrap();
            let text = text.replace("/usr/local/bin/seekless", "/bin/true");
            let text = text.replace("/usr/sbin/nbd-client", "/bin/true");
            let unit = dir.path().join(path.file_name().unwrap());
            fs::write(&unit, text).unwrap();
            units.push(unit);
        }
    }
    assert_eq!(units.len(), 6, "{units:?}");
    verified(&units, "seekless");
}

/// systemd finds no fault with these units whose line has this word.
pub(crate) fn verified(units: &[PathBuf], word: &str) {
    let verify = ["systemd-analyze".as_ref(), "verify".as_ref(), "--man=no".as_ref()];
    let output = attempt(verify.into_iter().chain(units.iter().map(|u| u.as_os_str())));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Without a running systemd it says so, and still reads them.
    let faults: Vec<&str> = said.lines().filter(|l| l.contains(word)).collect();
    assert!(output.status.success() && faults.is_empty(), "{said}");
}
