//! Advice for a fleet: one trace a disk, over all processors. A trace that cannot be studied has its
//! error in its row, and the others finish.

use std::error::Error;
use std::num::NonZero;
use std::path::PathBuf;

use seekless_trace::Source;
use serde::Serialize;

use crate::advise::{Advice, AdviseOptions, Change, Verdict, advise};
use crate::advise_commands::Yearly;
use crate::parallel::in_parallel;
use crate::rolling::threads;
use crate::rows::{Rows, flat};

/// The answer for one disk. Shares are parts of the present system's disk time or energy, 0 to 1,
/// background work counted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FleetDisk {
    /// The trace's path.
    pub trace: String,
    /// Requests of the trace.
    pub requests: Option<u64>,
    /// The answer in a word.
    pub verdict: Option<Verdict>,
    /// The policy that saves most, if any saves.
    pub choice: Option<String>,
    /// Disk time of the present system over all folds but the first, in seconds.
    pub busy_s: Option<f64>,
    /// Its energy, in joules; none if its power is not known.
    pub joules: Option<f64>,
    /// Share of disk time that the choice saves over the folds that choose.
    pub saves_busy: Option<f64>,
    /// The same over the held-out folds.
    pub held_out_saves_busy: Option<f64>,
    /// Share of the price of operations that the choice saves over the folds that choose, where the
    /// disk bills them: then it decides.
    pub saves_usd: Option<f64>,
    /// Share of energy that the choice saves over the folds that choose.
    pub saves_energy: Option<f64>,
    /// The other device that saves most disk time, without a learned policy.
    pub instead: Option<String>,
    /// Share of disk time that this device saves.
    pub instead_saves_busy: Option<f64>,
    /// The savings of the choice in a year of such days.
    pub a_year: Option<Yearly>,
    /// Notes on the trace for the reader of the answer; sentences with `; ` between them.
    pub notes: Option<String>,
    /// Why there is no answer.
    pub error: Option<String>,
}

impl FleetDisk {
    fn of(trace: String, advice: &Advice) -> Self {
        let now = advice.tried.first().map(|t| &t.total);
        let chosen = advice.choice.and_then(|i| advice.tried.get(i));
        let instead = advice
            .tried
            .iter()
            .filter(|t| t.change == Change::Device)
            .max_by(|a, b| a.saves_busy.share.total_cmp(&b.saves_busy.share));
        Self {
            trace,
            requests: Some(advice.trace.requests),
            verdict: Some(advice.verdict),
            choice: chosen.map(|t| t.system.clone()),
            busy_s: now.map(|t| t.busy_s),
            joules: now.and_then(|t| t.joules),
            saves_busy: chosen.map(|t| t.saves_busy.share),
            held_out_saves_busy: chosen.map(|t| t.held_out_saves_busy),
            saves_usd: chosen.and_then(|t| t.saves_usd).map(|gain| gain.share),
            saves_energy: chosen.and_then(|t| t.saves_energy).map(|gain| gain.share),
            instead: instead.map(|t| t.device.clone()),
            instead_saves_busy: instead.map(|t| t.saves_busy.share),
            a_year: advice.a_year,
            notes: (!advice.notes.is_empty()).then(|| advice.notes.join("; ")),
            error: None,
        }
    }
}

/// The answers for all disks: schema `seekless.fleet/1`.
#[derive(Clone, Debug, Serialize)]
pub struct Fleet {
    /// `seekless.fleet/1`.
    pub schema: &'static str,
    /// The present disk of all.
    pub disk: String,
    /// Disks where a policy is worth it, where that is not sure, where nothing is gained, and
    /// traces without an answer.
    pub worth: usize,
    /// See `worth`.
    pub unsure: usize,
    /// See `worth`.
    pub no_gain: usize,
    /// See `worth`.
    pub failed: usize,
    /// One row a trace, in the order given.
    pub disks: Vec<FleetDisk>,
}

impl Fleet {
    fn of(disk: String, disks: Vec<FleetDisk>) -> Self {
        let count = |v| disks.iter().filter(|d| d.verdict == v).count();
        Self {
            schema: "seekless.fleet/1",
            disk,
            worth: count(Some(Verdict::Worth)),
            unsure: count(Some(Verdict::Unsure)),
            no_gain: count(Some(Verdict::NoGain)),
            failed: count(None),
            disks,
        }
    }

    /// The disks as rows of a table.
    pub fn rows(&self) -> Rows {
        let objects: Vec<_> = self.disks.iter().map(flat).collect();
        Rows::of(&["trace", "verdict", "choice", "saves_busy"], &objects)
    }
}

/// Studies each trace as [`advise`] does, on `workers` threads; none = one per processor.
/// `progress` gets the number of traces that ended.
pub fn advise_fleet(
    traces: &[PathBuf],
    options: &AdviseOptions,
    workers: Option<NonZero<usize>>,
    progress: &(dyn Fn(usize) + Sync),
) -> Fleet {
    let mut options = options.clone();
    let workers = threads(workers).min(traces.len()).max(1);
    options.rolling.threads = NonZero::new(if workers == 1 { threads(None) } else { 1 });
    let disks = in_parallel(traces, NonZero::new(workers), |path| one(path, &options), progress);
    Fleet::of(options.host.disk.name().to_owned(), disks)
}

fn one(path: &PathBuf, options: &AdviseOptions) -> FleetDisk {
    let trace = path.display().to_string();
    match advise(&Source::new(path), options, &mut |_, _| {}) {
        Ok(advice) => FleetDisk::of(trace, &advice),
        Err(e) => {
            let causes = std::iter::successors(Some(&e as &dyn Error), |&e| e.source());
            let why: Vec<String> = causes.map(ToString::to_string).collect();
            FleetDisk { trace, error: Some(why.join(": ")), ..FleetDisk::default() }
        }
    }
}
