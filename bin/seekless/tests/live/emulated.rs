//! An emulated disk under the file: requests take the time the disk takes, and do not wait for each
//! other's answers to be asked for.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::thread;

use crate::host::{Numbers, Server};
use crate::need;

/// Readers at once, and what each reads.
const READERS: u64 = 8;
const READS: u64 = 20;

#[test]
fn readers_of_the_file_queue_at_the_disk_and_not_before_it() {
    need!("emulated", "fuse");
    // The same reads, by readers at once and one after the other: the scheduler has a choice only
    // where several requests are at the disk, and then the arm travels less.
    let seek = |at_once: bool| {
        let dir = tempfile::tempdir().unwrap();
        let (image, path) = (dir.path().join("disk.img"), dir.path().join("volume"));
        let args = "--size 20GiB --policy vanilla --cache 0 --read-ahead 0";
        // In real time: the host's delays count little.
        let disk = "--disk wd800jb --scheduler sptf";
        let server = Server::line(dir.path(), &image, Some(&path), &format!("{args} {disk}"));
        let read = |reader: u64| {
            let file = File::open(&path).unwrap();
            let mut numbers = Numbers::new(reader);
            for _ in 0..READS {
                let at = numbers.below((20 << 30) - 4096);
                file.read_exact_at(&mut [0; 4096], at).unwrap();
            }
        };
        if at_once {
            thread::scope(|s| (0..READERS).for_each(|r| drop(s.spawn(move || read(r)))));
        } else {
            (0..READERS).for_each(read);
        }
        let counts = server.stop();
        assert_eq!(counts["requests"], READERS * READS);
        let disk = &counts["disk"];
        assert_eq!((&disk["name"], &disk["device_ios"]), (&"wd800jb".into(), &160.into()));
        assert!(disk["energy_j"].as_f64().unwrap() > 0.0, "{disk:#}");
        disk["seek_s"].as_f64().unwrap() + disk["rotation_s"].as_f64().unwrap()
    };
    let (at_once, one_by_one) = (seek(true), seek(false));
    assert!(
        at_once < one_by_one * 0.8,
        "positioning took {at_once:.3} s with {READERS} readers at once, {one_by_one:.3} s one by one"
    );
}
