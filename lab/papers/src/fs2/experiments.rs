//! The experiments as section 4 describes them. A comment names each number that the paper does not
//! print.

use std::path::Path;

use seekless_block::{Bytes, Duration, Extent, Op, Request, Sectors};
use seekless_compare::RangeSet;
use seekless_disk::{DiskSpec, SeekCurve, catalogue};
use seekless_learn::ReplicationRule::{self, Paper, Proven, Whole};
use seekless_sim::HeadPath;
use seekless_trace::{OpenOptions, Source};

use super::further::{self, FurtherResults};
use super::printed::PRINTED;
use super::replay::{Fs2Job, Fs2Proof, Fs2Run, Fs2System, Replicates, fs2};
use crate::synth::{Fs2World, Paced};
use crate::{PaperError, Progress};

/// FS2's testbed's disk.
pub(super) const DISK: &str = "wd800jb";
/// Runs of each load; the last is reported (4.3.3).
pub(super) const RUNS: u64 = 7;
/// Half of the testbed's memory: the page cache, empty when a run begins. A run reads each place
/// once, so nearly nothing is read again from there but the homes of replicas.
const PAGE_CACHE: Bytes = Bytes(256 << 20);
/// RAM and read-ahead of the systems with read-ahead.
const RAM: Bytes = Bytes(16 << 20);
const AHEAD: Bytes = Bytes(64 << 10);
/// A region is "a multiple of Ext2 block groups" (3.1); the paper does not say which. `fs2` has
/// one group, the others stand beside it.
const GROUP: Sectors = Sectors(128 << 11);

/// The systems, by name.
pub(super) fn systems() -> Vec<(&'static str, Fs2System)> {
    let bare = |replicates| Fs2System { replicates, cache: PAGE_CACHE, read_ahead: Bytes(0) };
    let ahead = |replicates| Fs2System { replicates, cache: RAM, read_ahead: AHEAD };
    let dynamic = |groups: u64, rule: ReplicationRule, degree| Replicates::Dynamically {
        region: Sectors(groups * GROUP.0),
        rule,
        degree,
    };
    let rule = |groups| bare(dynamic(groups, Paper, 1));
    vec![
        ("ext2", bare(Replicates::Never)),
        ("fs2-static", bare(Replicates::Statically)),
        ("fs2", rule(1)),
        ("fs2, 2 groups", rule(2)),
        ("fs2, 5 groups", rule(5)),
        ("fs2, 10 groups", rule(10)),
        ("fs2, 20 groups", rule(20)),
        ("fs2, 2 replicas", bare(dynamic(1, Paper, 2))),
        ("fs2-whole", bare(dynamic(1, Whole, 1))),
        ("fs2-whole, 2 replicas", bare(dynamic(1, Whole, 2))),
        ("fs2-proven", bare(dynamic(1, Proven, 1))),
        ("ext2 + read-ahead", ahead(Replicates::Never)),
        ("fs2 + read-ahead", ahead(dynamic(1, Paper, 1))),
        ("fs2-whole + read-ahead", ahead(dynamic(1, Whole, 1))),
        ("fs2-proven + read-ahead", ahead(dynamic(1, Proven, 1))),
    ]
}

pub(super) struct Load {
    pub(super) name: String,
    /// Index into [`PRINTED`]; none of a recorded load.
    pub(super) printed: usize,
    pub(super) real: bool,
    pub(super) systems: Vec<(&'static str, Vec<Fs2Run>)>,
    /// The head's path in the first, second and last run of [`DRAWN`].
    pub(super) paths: Vec<(&'static str, Vec<(usize, HeadPath)>)>,
    /// Verification after a crash behind the last run, by system.
    pub(super) proofs: Vec<(&'static str, Fs2Proof)>,
}

/// The drawn systems, as in Figures 9 and 11; the last is ours.
const DRAWN: [&str; 4] = ["ext2", "fs2-static", "fs2", "fs2-whole"];

impl Load {
    pub(super) fn of(&self, name: &str) -> Option<&[Fs2Run]> {
        self.systems.iter().find(|s| s.0 == name).map(|s| s.1.as_slice())
    }

    /// How many runs there are.
    pub(super) fn runs(&self) -> usize {
        self.systems.first().map_or(0, |s| s.1.len())
    }

    pub(super) fn last(&self, name: &str) -> Fs2Run {
        self.of(name).and_then(<[Fs2Run]>::last).copied().unwrap_or_default()
    }

    pub(super) fn first(&self, name: &str) -> Fs2Run {
        self.of(name).and_then(<[Fs2Run]>::first).copied().unwrap_or_default()
    }
}

pub(super) struct Results {
    pub(super) scale: f64,
    pub(super) seed: u64,
    pub(super) loads: Vec<Load>,
    pub(super) further: FurtherResults,
    /// The disk's curve of seek times: the paper's.
    pub(super) seek: SeekCurve,
}

/// The testbed's disk with the buffer of its name (JB: 8 MB). The buffer's segments and times are
/// not published; ours: 16 segments that read ahead, 5 us a sector (UDMA/100), 0.1 ms for an answer
/// from the buffer. Writes go to the platter, so that no cost of replication is hidden.
pub(super) fn disk() -> Result<DiskSpec, PaperError> {
    let mut spec = catalogue::get(DISK)?;
    let controller = "bus_sector_ms = [0.005, 0.005]\nread_hit_ms = [0.1, 0.1]\nread_miss_ms = [0.0, 0.0]\nwrite_hit_ms = [0.1, 0.1]\n\
                      write_miss_ms = [0.0, 0.0]\nsegments = 16\nsegment_sectors = 1024\nread_ahead = \"segment\"\n\
                      read_ahead_sectors = 512\nread_ahead_on_hit = true\n";
    spec.controller =
        Some(toml::from_str(controller).map_err(|e| PaperError::Invalid(e.to_string()))?);
    Ok(spec)
}

/// A load ready to run: its files and its runs.
struct Prepared {
    name: String,
    printed: usize,
    real: bool,
    free: Vec<Extent>,
    files: Vec<Extent>,
    runs: Vec<Vec<Paced>>,
    dirtied: Vec<Extent>,
    timed: bool,
}

pub(super) fn run(
    scale: f64,
    seed: u64,
    real: Option<&Path>,
    progress: &Progress<'_>,
) -> Result<Results, PaperError> {
    let disk = disk()?;
    let mut prepared = Vec::new();
    for (printed, p) in PRINTED.iter().enumerate() {
        let world = Fs2World::new(p.load, Sectors(disk.capacity_sectors), scale, seed);
        let pause = if p.load.is_timed() { Duration::ZERO } else { pause(&world, &disk, p.busy)? };
        prepared.push(Prepared {
            name: p.load.name().to_owned(),
            printed,
            real: false,
            runs: (1..=RUNS).map(|run| world.run(run, pause)).collect(),
            free: world.free,
            files: world.files,
            dirtied: world.dirtied,
            timed: p.load.is_timed(),
        });
    }
    if let Some(folder) = real {
        prepared.push(recorded(folder, disk.capacity_sectors)?);
    }
    let systems = systems();
    let mut jobs = Vec::new();
    for p in &prepared {
        for &(name, system) in &systems {
            let Prepared { free, files, runs, dirtied, timed, .. } = p;
            let draws = DRAWN.contains(&name);
            let timed = *timed;
            jobs.push(Fs2Job { disk: &disk, free, files, runs, dirtied, timed, system, draws });
        }
    }
    let all = jobs.len() as u64;
    let mut done = fs2(&jobs, &|n| progress("running", n as u64, all))?.into_iter();
    let loads = prepared
        .into_iter()
        .map(|p| {
            let (mut runs, mut paths, mut proofs) = (Vec::new(), Vec::new(), Vec::new());
            for (&(name, _), done) in systems.iter().zip(done.by_ref()) {
                runs.push((name, done.runs));
                proofs.push((name, done.proof));
                if !done.paths.is_empty() {
                    paths.push((name, done.paths));
                }
            }
            let Prepared { name, printed, real, .. } = p;
            Load { name, printed, real, systems: runs, paths, proofs }
        })
        .collect::<Vec<_>>();
    let further = further::run(&disk, scale, seed, &loads)?;
    // By sectors: cylinders do not matter here.
    let seek = SeekCurve::new(&disk.seek, 1);
    Ok(Results { scale, seed, loads, further, seek })
}

/// The time from an answer to the next request that makes the disk as busy as the paper's disk on
/// Ext2.
pub(super) fn pause(world: &Fs2World, disk: &DiskSpec, busy: f64) -> Result<Duration, PaperError> {
    let mut pause = Duration::ZERO;
    // The drive reads ahead in pauses and then has less to do: the second correction suffices.
    for _ in 0..3 {
        let runs = [world.run(1, pause)];
        let system = systems()[0].1;
        let job = Fs2Job {
            disk,
            free: &[],
            files: &[],
            runs: &runs,
            dirtied: &[],
            timed: false,
            system,
            draws: false,
        };
        let done = fs2(&[job], &|_| {})?;
        let run = &done[0].runs[0];
        pause = Duration::from_millis_f64(
            run.busy_s() * 1e3 * (1.0 / busy - 1.0) / run.requests.max(1) as f64,
        );
    }
    Ok(pause)
}

/// A recorded update. Its computing time is unknown: each request comes when the request before is
/// answered.
fn recorded(folder: &Path, capacity: u64) -> Result<Prepared, PaperError> {
    let read = |name: &str| -> Result<Vec<Request>, PaperError> {
        let path = folder.join(name);
        let source = Source::new(path.display().to_string());
        let mut reader =
            source.open(&OpenOptions::default()).map_err(|source| PaperError::Unexpected {
                path: path.clone(),
                expected: "a trace of benches/reproduce/update.sh",
                source: source.into(),
            })?;
        let mut all = Vec::new();
        while let Some(record) = reader.next_record()? {
            let end = record.request.extent.end().0;
            if end > capacity {
                return Err(PaperError::Invalid(format!(
                    "{} reaches sector {end}; {DISK} has {capacity}: record on a device of at most 76 GiB",
                    path.display()
                )));
            }
            all.push(record.request);
        }
        Ok(all)
    };
    let mut free = RangeSet::default();
    for request in read("free.parquet")?.iter().filter(|r| r.op == Op::Discard) {
        free.insert(request.extent);
    }
    let (mut runs, mut files) = (Vec::new(), Vec::new());
    for i in 1..=RUNS {
        // At least two runs: one to learn from, one to measure.
        let name = format!("run{i}.parquet");
        if i > 2 && !folder.join(&name).exists() {
            break;
        }
        let all = read(&name)?;
        let moved = all.into_iter().filter(|r| matches!(r.op, Op::Read | Op::Write));
        let run: Vec<Paced> = moved.map(|r| (Duration::ZERO, r)).collect();
        if run.is_empty() {
            let folder = folder.display();
            return Err(PaperError::Invalid(format!("{folder}: run{i}.parquet holds no requests")));
        }
        files.extend(run.iter().filter(|r| r.1.op == Op::Read).map(|r| r.1.extent));
        runs.push(run);
    }
    files.sort_unstable();
    files.dedup();
    Ok(Prepared {
        name: "git update, recorded".to_owned(),
        printed: 1,
        real: true,
        free: free.iter().collect(),
        files,
        runs,
        dirtied: Vec::new(),
        timed: false,
    })
}
