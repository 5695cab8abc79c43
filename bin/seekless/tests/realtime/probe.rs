//! Probing an emulated disk in real time gives that disk back.

use seekless_disk::{DiskSpec, catalogue};

use crate::compared::compare;
use crate::host::{self, Server};
use crate::need;
use crate::quiet::{self, Tries, Watch};

/// One that was measured itself, and turns fast, so that there is time for many reads.
const DISK: &str = "cheetah9lp";
const BUDGET_S: f64 = 30.0;
const BOUND: f64 = 0.1;

#[test]
fn probing_gives_back_the_disk_that_is_emulated() {
    need!("probing", "long fuse timeout");
    let _turn = quiet::turn();
    let spec = catalogue::get(DISK).unwrap();
    let dir = quiet::in_memory();
    let (path, found) = (dir.path().join("volume"), dir.path().join("found.toml"));
    let budget = format!("{BUDGET_S}s");
    let mut tries = Tries::new(3, 4);
    while tries.more("probing") {
        let mut command = quiet::first(env!("CARGO_BIN_EXE_seekless"));
        command.args(["disk", "emulate", DISK, "disk.img"]);
        let server = Server::of(command, dir.path(), Some(&path));
        let watch = Watch::start(true);
        let program = env!("CARGO_BIN_EXE_seekless");
        let probe = [program, "disk", "probe", "volume", "--budget", &budget, "-o", "found.toml"];
        let mut words = vec!["env".to_owned(), format!("--chdir={}", dir.path().display())];
        words.extend([quiet::ahead(), &probe].concat().into_iter().map(str::to_owned));
        print!("{}", host::run(words));
        let late = watch.end();
        let counts = server.stop();
        let text = std::fs::read_to_string(&found).unwrap();
        let fitted = DiskSpec::parse("found.toml", &text).unwrap();
        // One read at a time for all of the budget: what the disk was not busy for, the host took.
        // Times alone do not tell it from the seek, so it is found there, and a seek of one
        // millisecond is a fifth longer on a host that takes 0.2 ms to wake up.
        let of_disk = |key: &str| counts["disk"][key].as_f64().unwrap();
        let host_ms = (BUDGET_S - of_disk("busy_s")) * 1e3 / of_disk("device_ios");
        let c = compare(&spec, &fitted, host_ms, BOUND);
        println!(
            "{DISK}: rpm off {:.3} %; seeks within 10 %: {:.1} % of distances, {:.1} % of their logarithms; \
             bandwidth off {:.2} % at most; the host took {host_ms:.3} ms a read; sleeps late by {late:?}, the emulator by \
             {:.3} ms in the median and {:.3} at p99",
            c.rpm * 100.0,
            c.even * 100.0,
            c.log * 100.0,
            c.rate * 100.0,
            of_disk("late_median_s") * 1e3,
            of_disk("late_p99_s") * 1e3,
        );
        tries.tried(c.rpm <= BOUND && c.even >= 0.95 && c.rate <= BOUND, late);
    }
}
