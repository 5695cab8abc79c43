//! The guard of the adaptive policy on a disk that nobody has named: a model stands in, and takes
//! on the times of the real disk. The real disk is an emulated one, in another process.

use std::time::{Duration, Instant};

use seekless_serve::Address;
use seekless_serve::client::Client;

use crate::host::{self, Numbers, Server};
use crate::need;
use crate::quiet::{self, Tries, Watch};

/// Far slower than the disk that stands in.
const DISK: &str = "travelstar-5k320";
const READS: u64 = 1_500;
const PAGE: u64 = 4096;
/// The emulated disk is late by some tenths of a millisecond, and other work disturbs it.
const BOUND: f64 = 0.15;

#[test]
fn a_disk_that_nobody_has_named_is_guarded_by_its_measured_times() {
    need!("the guard of an unnamed disk", "long fuse");
    let _turn = quiet::turn();
    let mut tries = Tries::new(2, 3);
    while tries.more("the guard of an unnamed disk") {
        let dir = quiet::in_memory();
        let (disk, socket) = (dir.path().join("disk"), dir.path().join("nbd"));
        let mut command = quiet::first(env!("CARGO_BIN_EXE_seekless"));
        command.args(["disk", "emulate", DISK, "image"]);
        let emulator = Server::of(command, dir.path(), Some(&disk));
        let mut command = quiet::first(env!("CARGO_BIN_EXE_seekless"));
        command.arg("serve").arg(&disk).args(["--optimized", "0", "--cache", "1MiB"]);
        command.args(["--nbd", &format!("unix:{}", socket.display())]);
        let (server, _) = Server::told(command, dir.path(), "policy ");
        let mut client = Client::connect(&Address::Unix(socket)).unwrap();
        let watch = Watch::start(true);
        let (mut numbers, begun) = (Numbers::new(33), Instant::now());
        for _ in 0..READS {
            client.read(numbers.below(20_000_000) * PAGE, PAGE as u32).unwrap();
        }
        let (waited_s, late) = (begun.elapsed().as_secs_f64(), watch.end());
        // The guard looks once a second. The last reads may wait for that.
        let begun = Instant::now();
        let status = loop {
            let status = host::status(&disk, &[]);
            let seen_s = status["adaptive"]["guard"]["actual_today_s"].as_f64().unwrap_or(0.0);
            if seen_s > 0.98 * waited_s || begun.elapsed() > Duration::from_secs(5) {
                break status;
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        drop(client);
        server.stop();
        let busy_s = emulator.stop()["disk"]["busy_s"].as_f64().unwrap();
        let guard = &status["adaptive"]["guard"];
        let [vanilla_s, actual_s, error] = ["vanilla_today_s", "actual_today_s", "model_error"]
            .map(|name| guard[name].as_f64().unwrap_or(f64::NAN));
        println!("disk {busy_s:.2} s; guard {guard}; sleeps late by {late:?}");
        let note = status["adaptive"]["guard_note"].as_str().unwrap();
        assert!(note.contains("exos-x20, a stand-in"), "{note}");
        let close = |s: f64| (s - busy_s).abs() <= BOUND * busy_s;
        tries.tried(close(vanilla_s) && close(actual_s) && error <= BOUND, late);
    }
}
