//! Experiments beyond the tables: the gain by free space (Figure 3), the time to verify replicas
//! after a crash (3.3, chkfs2), and the gain with more clients (4.6). The paper prints no numbers
//! of the last two.

use seekless_block::{Duration, Sectors};
use seekless_disk::DiskSpec;
use seekless_report::{Table, Unit};
use serde::Serialize;
use serde_json::{Value, json};

use super::claims::{access, gain, percent};
use super::experiments::{Load, RUNS, pause, systems};
use super::printed::PRINTED;
use super::replay::{Fs2Job, Fs2Proof, Fs2Run, Fs2System, fs2};
use crate::PaperError;
use crate::synth::{Fs2Load, Fs2World, Paced};

/// Free shares of the disk. The made-up file system has 40%, about the mean of the paper's disks,
/// and no more.
const FREE: [f64; 7] = [0.05, 0.10, 0.11, 0.15, 0.20, 0.30, 0.40];
/// The loads of this experiment: those with an end.
const LOADS: [Fs2Load; 2] = [Fs2Load::Cvs, Fs2Load::X];
/// SURGE's clients on each host, beside the paper's 200; with 300 the paper's network was full.
const CLIENTS: [u32; 2] = [300, 400];
const PAPERS: u32 = 200;

/// The share of the paper's disks with more free space, where the paper prints it (2.1).
fn disks_with_more(share: f64) -> &'static str {
    match (share * 100.0).round() as u32 {
        10 => "almost all",
        30 => "60 %",
        _ => "",
    }
}

/// The gain of a load with this share of free space.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct FreeSpaceGain {
    free: f64,
    load: &'static str,
    system: &'static str,
    /// Decrease of the last run's T_A against Ext2's, as a share.
    less: f64,
    replica_bytes: u64,
}

/// The last run of SURGE with this many clients on each host.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ClientsGain {
    clients: u32,
    ext2: Fs2Run,
    fs2: Fs2Run,
    whole: Fs2Run,
}

/// The results of the experiments beyond the tables.
#[derive(Debug)]
pub(super) struct FurtherResults {
    rooms: Vec<FreeSpaceGain>,
    crowds: Vec<ClientsGain>,
}

const DYNAMIC: [&str; 2] = ["fs2", "fs2-whole"];

fn system(name: &str) -> Fs2System {
    let found = systems().into_iter().find(|s| s.0 == name);
    found.unwrap_or_else(|| unreachable!("{name} is one of them")).1
}

/// Runs the experiments. `main` are the loads at the paper's settings.
pub(super) fn run(
    disk: &DiskSpec,
    scale: f64,
    seed: u64,
    main: &[Load],
) -> Result<FurtherResults, PaperError> {
    let mut rooms = Vec::new();
    for load in LOADS {
        rooms.extend(by_free_space(disk, scale, seed, load)?);
    }
    let crowds = by_clients(disk, scale, seed, main)?;
    Ok(FurtherResults { rooms, crowds })
}

/// A load with each share of free space.
fn by_free_space(
    disk: &DiskSpec,
    scale: f64,
    seed: u64,
    load: Fs2Load,
) -> Result<Vec<FreeSpaceGain>, PaperError> {
    let capacity = Sectors(disk.capacity_sectors);
    let world = Fs2World::new(load, capacity, scale, seed);
    let busy = PRINTED.iter().find(|p| p.load == load).map_or(1.0, |p| p.busy);
    let pause = pause(&world, disk, busy)?;
    let runs: Vec<Vec<Paced>> = (1..=RUNS).map(|run| world.run(run, pause)).collect();
    let free: Vec<_> = FREE.iter().map(|&share| world.free_of(capacity, share)).collect();
    let (files, dirtied) = (&world.files, &world.dirtied[..]);
    let job = |free, name| Fs2Job {
        disk,
        free,
        files,
        runs: &runs,
        dirtied,
        timed: false,
        system: system(name),
        draws: false,
    };
    let ext2 = job(&free[0][..], "ext2");
    let pairs = free.iter().flat_map(|free| DYNAMIC.map(|name| (&free[..], name)));
    let jobs: Vec<_> =
        std::iter::once(ext2).chain(pairs.map(|(free, name)| job(free, name))).collect();
    let done = fs2(&jobs, &|_| {})?;
    let last = |at: usize| done[at].runs.last().copied().unwrap_or_default();
    let base = access(&last(0))[0];
    let shares = FREE.iter().flat_map(|&free| DYNAMIC.map(|system| (free, system)));
    let gains = (1..).zip(shares).map(|(at, (free, system))| FreeSpaceGain {
        free,
        load: load.name(),
        system,
        less: gain(base, access(&last(at))[0]),
        replica_bytes: last(at).standing_bytes,
    });
    Ok(gains.collect())
}

fn by_clients(
    disk: &DiskSpec,
    scale: f64,
    seed: u64,
    main: &[Load],
) -> Result<Vec<ClientsGain>, PaperError> {
    const SYSTEMS: [&str; 3] = ["ext2", "fs2", "fs2-whole"];
    let mut all = Vec::new();
    if let Some(load) = main.iter().find(|l| l.name == Fs2Load::Surge.name()) {
        let [ext2, fs2, whole] = SYSTEMS.map(|name| load.last(name));
        all.push(ClientsGain { clients: PAPERS, ext2, fs2, whole });
    }
    let surge = Fs2World::new(Fs2Load::Surge, Sectors(disk.capacity_sectors), scale, seed);
    for clients in CLIENTS {
        let world = surge.clone().crowded(f64::from(clients) / f64::from(PAPERS));
        let runs: Vec<_> = (1..=RUNS).map(|run| world.run(run, Duration::ZERO)).collect();
        let (free, files) = (&world.free[..], &world.files[..]);
        let jobs = SYSTEMS.map(|name| Fs2Job {
            disk,
            free,
            files,
            runs: &runs,
            dirtied: &world.dirtied,
            timed: true,
            system: system(name),
            draws: false,
        });
        let done = fs2(&jobs, &|_| {})?;
        let last = |at: usize| done[at].runs.last().copied().unwrap_or_default();
        all.push(ClientsGain { clients, ext2: last(0), fs2: last(1), whole: last(2) });
    }
    Ok(all)
}

fn mib(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / (1u64 << 20) as f64)
}

impl FurtherResults {
    pub(super) fn tables(&self, loads: &[Load]) -> [Table; 3] {
        [self.by_free(), crashes(loads), self.by_clients()]
    }

    /// Figure 3, with free space as the input.
    fn by_free(&self) -> Table {
        let mut table = Table::of("Figure 3: gain by free space", FREE)
            .right("free", percent)
            .text("paper's disks with more", disks_with_more);
        for (load, system) in LOADS.iter().flat_map(|l| DYNAMIC.map(|name| (l.name(), name))) {
            table = table.right(&format!("{load}, {system}"), |share| {
                let mut rooms = self.rooms.iter().filter(|r| (r.load, r.system) == (load, system));
                let here = rooms.find(|r| percent(r.free) == percent(share));
                here.map(|r| format!("{} less, {}", percent(r.less), mib(r.replica_bytes)))
            });
        }
        table.done().note(
            "T_A of the seventh run against Ext2's, and the replicas at its end. With less than 10 % of the disk free, no replica is made, and replicas are \
             given up (2.3); replication resumes at 15 %. The paper's figure has the disks of 22 servers; in 4801 Windows PCs 47 % was free on the mean (2.1).",
        )
    }

    /// 4.6.
    fn by_clients(&self) -> Table {
        let busy = |r: &Fs2Run| percent(r.busy_s() / r.span_s.max(f64::MIN_POSITIVE));
        let waits = |c: &ClientsGain, r: &Fs2Run| {
            let less = percent(gain(c.ext2.response_ms, r.response_ms));
            format!("{:.2} ms, {less} less", r.response_ms)
        };
        let table = Table::of("4.6: SURGE-like with more clients, run 7", &self.crowds)
            .right("clients a host", |c| c.clients.to_string())
            .right("busy, ext2", |c| busy(&c.ext2))
            .right("fs2", |c| busy(&c.fs2))
            .right("fs2-whole", |c| busy(&c.whole))
            .right("response, ext2", |c| format!("{:.2} ms", c.ext2.response_ms))
            .right("fs2", |c| waits(c, &c.fs2))
            .right("fs2-whole", |c| waits(c, &c.whole));
        table.done().note(
            "More visits to the same files in the same time. The paper could not measure this: with 300 clients a host its network was full. The paper expected a greater gain.",
        )
    }

    pub(super) fn document(&self) -> Value {
        json!({ "free_space": self.rooms, "surge_clients": self.crowds })
    }
}

/// 3.3.
fn crashes(loads: &[Load]) -> Table {
    let all = loads.iter().flat_map(|l| l.proofs.iter().map(move |p| (l, p.0, p.1)));
    let mut all: Vec<_> = all.filter(|p| p.2.replica_bytes > 0).collect();
    all.sort_by_key(|p| p.2.replica_bytes);
    let gib = |p: &Fs2Proof| p.replica_bytes as f64 / (1u64 << 30) as f64;
    let table = Table::of("3.3: verification of replicas after a crash (chkfs2)", &all)
        .text("load, system", |(load, name, _)| format!("{}, {name}", load.name))
        .number("replicas", Unit::Bytes, |(.., p)| p.replica_bytes)
        .number("read from home", Unit::Bytes, |(.., p)| p.read_bytes)
        .right("verified at rest", |(.., p)| format!("{:.1} s", p.rest_s))
        .right("verified in use", |(.., p)| format!("{:.1} s of {:.1} s", p.used_s, p.run_s))
        .right("a GiB, at rest", |(.., p)| format!("{:.0} s", p.rest_s / gib(p)));
    table.done().note(
        "The paper's chkfs2 runs before the file system can be used. Ours runs beside clients, or at rest: it reads homes in order of address and compares \
         them with the checksums of their replicas, which serve no read before that. In use: the seventh run again, from the crash on; a time longer than the run \
         includes time after the run. The paper says that chkfs2 takes slightly longer than e2fsck, and prints no number.",
    )
}
