//! The scrub of a running server: what it finds is in the status, the metrics and the server's own
//! words.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use serde_json::Value;

use crate::PROGRAM;
use crate::host::{Numbers, json_that, run_line, seekless, status, words};
use crate::place::{end_both, serve};

/// Asks for the scrub's results until they fit.
fn scrub_that(image: &Path, area: &str, fits: impl Fn(&Value) -> bool) -> Value {
    json_that(40, || status(image, &["--area", area])["scrub"].clone(), fits)
}

#[test]
fn a_damaged_only_copy_is_found_by_itself_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (image, area) = (path("disk.img"), path("disk.area"));
    File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let area_name = area.to_str().unwrap();
    let format = format!("{} --at {area_name} --mode writeback", image.display());
    run_line(&format!("{PROGRAM} volume format {format} --optimized 16MiB"));
    // RAM would still answer.
    let args = format!("--area {area_name} --scrub 1s --policy vanilla --cache 0");
    let (server, mut client) = serve(dir.path(), &image, &words(&args));
    let new = Numbers::new(4).bytes(64 << 10);
    client.write(1 << 20, &new).unwrap();
    client.flush().unwrap();
    // A pass over a sound area, after the write.
    let before = scrub_that(&image, area_name, |s| s["passes"].as_u64() > Some(0));
    let passes = before["passes"].as_u64().unwrap();
    let sound = scrub_that(&image, area_name, |s| s["passes"].as_u64() > Some(passes));
    assert_eq!((&sound["damaged_pages"], &sound["lost_pages"]), (&0.into(), &0.into()));
    assert!(sound["pages"].as_u64() > Some(16) && sound["last_end_unix_ms"].is_u64(), "{sound}");
    // One bit of the only copy of a page.
    let bytes = fs::read(&area).unwrap();
    let at =
        (0..bytes.len() / 4096).find(|p| bytes[p * 4096..][..4096] == new[8192..][..4096]).unwrap();
    let file = File::options().write(true).open(&area).unwrap();
    file.write_all_at(&[new[8192 + 7] ^ 1], at as u64 * 4096 + 7).unwrap();
    let found = scrub_that(&image, area_name, |s| s["lost_pages"] == 1);
    assert_eq!(found["damaged_pages"], 1);
    server.expect_error("DATA LOST: 1 damaged pages");
    let output = seekless().args(["volume", "status"]).arg(&image).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("LOST     1 damaged pages") && told.contains("stuck"), "{told}");
    // Nobody gets other bytes; all else is served; the page can be written again.
    assert!(client.read((1 << 20) + 8192, 4096).is_err());
    assert!(client.read(1 << 20, 8192).unwrap() == new[..8192]);
    client.write((1 << 20) + 8192, &new[8192..][..4096]).unwrap();
    scrub_that(&image, area_name, |s| s["lost_pages"] == 0);
    assert!(client.read(1 << 20, 64 << 10).unwrap() == new);
    end_both(server, client);
}
