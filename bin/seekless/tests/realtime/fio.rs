//! fio on an emulated disk beside the model: the requests that fio says it made are played on the
//! model alone, as many at a time, each as long after an answer as this host takes for one request.
//! That time is measured on the same disk a million times faster, through the same front end.

use std::path::{Path, PathBuf};

use seekless_block::{Duration, Extent};
use seekless_disk::{DiskSpec, Scheduler, catalogue};

use crate::host::{self, Loop, Server};
use crate::model::{Summary, latencies};
use crate::need;
use crate::quiet::{self, Tries, Watch};

/// A fast disk, so that there is time for many requests.
const DISK: &str = "atlas15k";
/// A buffer that reads on, as disks of that time had; the numbers are round, not any drive's.
const BUFFER: &str = "
[controller]
bus_sector_ms = [0.0016, 0.0016]
read_hit_ms = [0.1, 0.1]
read_miss_ms = [0.2, 0.2]
write_hit_ms = [0.1, 0.1]
write_miss_ms = [0.2, 0.2]
segments = 8
segment_sectors = 1024
read_ahead = \"segment\"
read_ahead_sectors = 1024

[[source]]
fields = [\"controller\"]
kind = \"derived\"
from = \"a test\"
";

/// A host that takes longer for a request shows another disk than the one that is emulated.
const MOST_HOST_MS: f64 = 0.3;

/// What fio is told: how, how many bytes, how many at a time, how often.
type Workload = (&'static str, u64, usize, usize);
const PLAIN: [Workload; 4] = [
    ("randread", 4096, 1, 300),
    ("randread", 4096, 16, 300),
    ("read", 65_536, 1, 300),
    ("read", 65_536, 16, 300),
];
/// Reads in order, which is where a buffer matters; the fast ones more often, lest three be the
/// hundredth part.
const BUFFERED: [Workload; 2] = [("read", 65_536, 1, 1200), ("read", 65_536, 16, 300)];

/// How fio reaches the disk.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Front {
    Nbd,
    Loop,
}

/// An emulated disk and a way to it.
struct Emulated {
    dir: tempfile::TempDir,
    server: Option<Server>,
    device: Option<Loop>,
}

impl Emulated {
    fn start(disk: &Path, front: Front, speed: &str) -> Self {
        let dir = quiet::in_memory();
        let mount = (front == Front::Loop).then(|| dir.path().join("volume"));
        let mut command = quiet::first(env!("CARGO_BIN_EXE_seekless"));
        command
            .args(["disk", "emulate"])
            .arg(disk)
            .arg("disk.img")
            .args(["--size", "16GiB", "--speed", speed]);
        if front == Front::Nbd {
            command.arg("--nbd").arg(format!("unix:{}", dir.path().join("s").display()));
        }
        let server = Server::of(command, dir.path(), mount.as_deref());
        let device = mount.map(|m| Loop::attach(&m, &["--direct-io=on"]));
        Self { dir, server: Some(server), device }
    }

    /// Runs fio; for each request where it was and how long it took in milliseconds, and the mean
    /// time from one end to the next.
    fn fio(&self, (rw, bytes, depth, count): Workload) -> Run {
        let log = self.dir.path().join("log");
        let target = match &self.device {
            None => {
                let socket = self.dir.path().join("s");
                format!("--ioengine=nbd --uri=nbd+unix:///?socket={}", socket.display())
            }
            Some(device) => {
                format!("--ioengine=libaio --direct=1 --filename={}", device.device())
            }
        };
        let always = "fio --name=a --size=16g --randseed=7 --log_offset=1";
        let what = format!("--rw={rw} --bs={bytes} --iodepth={depth} --number_ios={count}");
        let log_to = format!("--write_lat_log={}", log.display());
        let ahead = quiet::ahead().join(" ");
        host::run_line(&format!("{ahead} {always} {target} {log_to} {what}"));
        Run::read(&log.with_extension("1.log").with_file_name("log_lat.1.log"), count)
    }

    /// The emulator's own words: its lateness (99th percentile) and its work for a request, in
    /// milliseconds.
    fn stop(mut self) -> [f64; 2] {
        drop(self.device.take());
        let counts = self.server.take().unwrap().stop();
        let [late_s, busy_s, ios] =
            ["late_p99_s", "busy_s", "device_ios"].map(|key| counts["disk"][key].as_f64().unwrap());
        [late_s * 1e3, busy_s * 1e3 / ios]
    }
}

struct Run {
    requests: Vec<Extent>,
    latencies: Vec<f64>,
    period: f64,
}

impl Run {
    /// Lines of fio's log: milliseconds since the start, nanoseconds taken, direction, bytes,
    /// offset.
    fn read(log: &PathBuf, count: usize) -> Self {
        let text = std::fs::read_to_string(log).unwrap();
        let lines: Vec<Vec<u64>> =
            text.lines().map(|l| l.split(", ").map(|f| f.parse().unwrap()).collect()).collect();
        assert!(lines.len() >= count, "{} requests in the log", lines.len());
        let (first, last) = (&lines[0], &lines[lines.len() - 1]);
        Self {
            requests: lines.iter().map(|l| Extent::new(l[4] / 512, l[3] / 512)).collect(),
            latencies: lines.iter().map(|l| l[1] as f64 / 1e6).collect(),
            period: (last[0] - first[0]) as f64 / (lines.len() - 1) as f64,
        }
    }
}

/// Runs each workload until it was as the model has it, or was not though nobody disturbed it.
fn compare(name: &str, spec: &DiskSpec, front: Front, workloads: &[Workload]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.toml");
    std::fs::write(&path, spec.to_toml().unwrap()).unwrap();
    for &workload in workloads {
        let (rw, bytes, depth, _) = workload;
        let label = format!("{name:<9} {front:<4?} {rw:<8} {:>2} KiB x{depth:<2}", bytes >> 10);
        let mut tries = Tries::new(6, 8);
        while tries.more(&label) {
            // The threads of a loop device come when they may.
            let watch = Watch::start(front == Front::Nbd);
            let (close, text) = round(&path, spec, front, workload);
            let late = watch.end();
            let far = if close { "" } else { "  too far" };
            println!("{label} {text}  sleeps late by {:.3}{far}", late.as_secs_f64() * 1e3);
            tries.tried(close, late);
        }
    }
}

/// One run; whether it was as the model has it, and the numbers, all in milliseconds.
fn round(path: &Path, spec: &DiskSpec, front: Front, workload: Workload) -> (bool, String) {
    let (rw, bytes, depth, count) = workload;
    let control = Emulated::start(path, front, "1000000");
    let think = control.fio((rw, bytes, 1, count)).period;
    control.stop();
    let disk = Emulated::start(path, front, "1");
    let run = disk.fio(workload);
    let [late, busy] = disk.stop();
    // Of many at a time, the disk works on the next one while the host is at the last.
    let host = if depth == 1 { think.max(run.period - busy) } else { think };
    let after = Duration::from_millis_f64(host);
    let model = latencies(spec, Scheduler::Fcfs, depth, after, &run.requests);
    // The first ones depend on where the platter is when fio begins; the last ones fio counts as
    // ended when all have.
    let counted = |all: &[f64]| Summary::of(&all[depth..all.len() - depth]);
    let (fio, model) = (counted(&run.latencies), counted(&model).later(host - think));
    let text = format!(
        "mean {:7.3} model {:7.3}  p99 {:7.3} model {:7.3}  host {host:.3} a request  emulator late by {late:.3}",
        fio.mean, model.mean, fio.p99, model.p99,
    );
    (host <= MOST_HOST_MS && fio.is_close_to(model), text)
}

/// The disk as the catalogue has it; and with a buffer, which is what reads in order meet.
fn both(front: Front) {
    let _turn = quiet::turn();
    let plain = catalogue::get(DISK).unwrap();
    let text = plain.to_toml().unwrap() + BUFFER;
    let buffered = DiskSpec::parse("buffered", &text).unwrap();
    compare("plain", &plain, front, &PLAIN);
    compare("buffered", &buffered, front, &BUFFERED);
}

#[test]
fn fio_through_nbd_meets_the_model() {
    need!("fio through NBD", "long fio timeout");
    let engines = host::run(["fio", "--enghelp"]);
    let absent = (!engines.contains("nbd")).then(|| "fio has no nbd engine".to_owned());
    need!("fio through NBD", absent);
    both(Front::Nbd);
}

#[test]
fn fio_through_fuse_and_a_loop_device_meets_the_model() {
    need!("fio through a loop device", "root fuse ext4 fio losetup timeout long");
    both(Front::Loop);
}
