//! Probing an emulated disk in real time gives that disk back.

use seekless_disk::{DiskSpec, catalogue};

use crate::compared::compare;
use crate::host::{self, Server};
use crate::need;
use crate::quiet::{self, Tries, Watch};

/// One that was measured itself, and turns fast, so that there is time for many reads.
const DISK: &str = "cheetah9lp";
const BUDGET: &str = "30s";
const BOUND: f64 = 0.1;

#[test]
fn probing_gives_back_the_disk_that_is_emulated() {
    need!("probing", host::fuse().or_else(|| host::programs(&["timeout"])));
    let _turn = quiet::turn();
    let spec = catalogue::get(DISK).unwrap();
    let dir = quiet::in_memory();
    let (path, found) = (dir.path().join("volume"), dir.path().join("found.toml"));
    let mut tries = Tries::new(3, 4);
    while tries.more("probing") {
        let mut command = quiet::first(env!("CARGO_BIN_EXE_seekless"));
        command.args(["emulate", DISK, "disk.img"]);
        let server = Server::of(command, dir.path(), Some(&path));
        let watch = Watch::start(true);
        let program = env!("CARGO_BIN_EXE_seekless");
        let probe = [program, "disk", "probe", "volume", "--budget", BUDGET, "-o", "found.toml"];
        let mut words = vec!["env".to_owned(), format!("--chdir={}", dir.path().display())];
        words.extend([quiet::ahead(), &probe].concat().into_iter().map(str::to_owned));
        print!("{}", host::run(words));
        let late = watch.end();
        let counts = server.stop();
        let text = std::fs::read_to_string(&found).unwrap();
        let fitted = DiskSpec::parse("found.toml", &text).unwrap();
        let c = compare(&spec, &fitted, BOUND);
        println!(
            "{DISK}: rpm off {:.3} %; seeks within 10 %: {:.1} % of distances, {:.1} % of their logarithms; \
             bandwidth off {:.2} % at most; sleeps late by {late:?}, the emulator by {} s at p99",
            c.rpm * 100.0,
            c.even * 100.0,
            c.log * 100.0,
            c.rate * 100.0,
            counts["disk"]["late_p99_s"],
        );
        tries.tried(c.rpm <= BOUND && c.even >= 0.95 && c.rate <= BOUND, late);
    }
}
