//! The runs of a study, one after another. Rounds go through all cells in a random order; every run
//! is kept in the folder as it ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seekless_block::Bytes;
use seekless_serve::Address;

use super::devices::{DiskReading, DiskReadings};
use super::error::StudyError;
use super::record::RunRecord;
use super::sample::Sample;
use super::spec::{Cell, DeviceKind, StudySpec};
use super::stored::{RecordFile, keep_facts, keep_spec};
use crate::host::{
    Attached, Facts, Ledger, LedgerEntry, MemoryLimit, Mounted, Server, attempt, drop_caches,
};
use crate::power::{Energy, Meters};
use crate::seeded_random::SeededRandom;
use crate::{FileSet, Load, Outcome, Personality, RunOptions};

/// How a study ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With enough runs of every cell.
    Complete,
    /// After the number of runs that was asked for.
    Early,
    /// By a signal.
    Stopped,
}

/// An event of a running study, for people.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields are explained in the variant's text")]
pub enum Event<'a> {
    /// A killed study left this attached; it has been detached.
    LeftOver(&'a str),
    /// A run of a cell begins: `done` of `expected` runs are complete.
    Begins { cell: &'a str, done: u64, expected: u64 },
    /// A run failed; its cell is not run again.
    Failed { cell: &'a str, why: &'a str },
}

/// Settings of one call; the specification says what to run.
#[derive(Clone, Debug)]
pub struct RunSettings {
    /// Stop after this many runs.
    pub max_runs: Option<u64>,
    /// Ends the study in order when set.
    pub stop: Arc<AtomicBool>,
    /// The program `seekless`, for emulated disks, volumes and mounts of this project.
    pub seekless: PathBuf,
}

pub(super) struct Study<'a> {
    spec: &'a StudySpec,
    pub(super) ledger: Ledger,
    settings: &'a RunSettings,
    meters: Meters,
    records: Vec<RunRecord>,
    file: RecordFile,
    /// The ledger ends them, after the devices above them.
    pub(super) servers: Vec<Server>,
}

/// Runs the cells that need more runs, into the folder `dir`. `text` is the text of the
/// specification.
///
/// # Errors
/// If the host refuses a device or a file system, or something that a run attached cannot be
/// detached. A run that fails is recorded, and is no error.
pub fn run(
    spec: &StudySpec,
    text: &str,
    cells: &[Cell],
    dir: &Path,
    settings: &RunSettings,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<Ended, StudyError> {
    let meters =
        Meters::parse(&spec.power).map_err(|e| StudyError::Refused(format!("power: {e}")))?;
    let (ledger, undone) = Ledger::open(dir)?;
    undone.iter().for_each(|line| events(Event::LeftOver(line)));
    keep_spec(dir, text)?;
    let used =
        spec.kinds.filesystem.iter().filter(|k| cells.iter().any(|c| c.filesystem == k.name));
    keep_facts(dir, &Facts::gather(used))?;
    let (file, records) = RecordFile::open(dir)?;
    let mut study = Study { spec, ledger, settings, meters, records, file, servers: Vec::new() };
    if spec.idle_s > 0.0 {
        study.meters.measure_idle(Duration::from_secs_f64(spec.idle_s), &settings.stop);
    }
    let ended = study.all(cells, events);
    let left = study.ledger.undo_all();
    let ended = ended?;
    left?;
    Ok(ended)
}

impl Study<'_> {
    /// The program `seekless`.
    pub(super) fn seekless(&self) -> &Path {
        &self.settings.seekless
    }

    /// Whether a cell needs another run.
    fn wants(&self, cell: &Cell) -> bool {
        let id = cell.id();
        let ops: Vec<f64> =
            self.records.iter().filter(|r| r.cell == id).filter_map(RunRecord::ops_per_s).collect();
        let n = ops.len() as u32;
        if n < self.spec.least_runs {
            return true;
        }
        let narrow =
            Sample::of(&ops).is_some_and(|s| s.relative_half_width() <= self.spec.half_width);
        n < self.spec.most_runs && !narrow
    }

    fn all(
        &mut self,
        cells: &[Cell],
        events: &mut dyn FnMut(Event<'_>),
    ) -> Result<Ended, StudyError> {
        let mut failed: Vec<String> = Vec::new();
        let (mut done, mut round) = (0, 0);
        loop {
            let mut due: Vec<&Cell> =
                cells.iter().filter(|c| self.wants(c) && !failed.contains(&c.id())).collect();
            if due.is_empty() {
                return Ok(Ended::Complete);
            }
            let mut chance = SeededRandom::new(self.spec.seed, 7_000_000 + round);
            (1..due.len()).rev().for_each(|i| due.swap(i, chance.below(i as u64 + 1) as usize));
            round += 1;
            for cell in due {
                if self.settings.max_runs.is_some_and(|most| done >= most) {
                    return Ok(Ended::Early);
                }
                let id = cell.id();
                let have = self.records.iter().filter(|r| r.outcome.is_some()).count() as u64;
                let expected = (cells.len() as u64 * u64::from(self.spec.least_runs)).max(have + 1);
                events(Event::Begins { cell: &id, done: have, expected });
                let record = self.one(cell);
                if self.settings.stop.load(Ordering::Relaxed) {
                    return Ok(Ended::Stopped);
                }
                let record = record?;
                if let Some(why) = &record.error {
                    events(Event::Failed { cell: &id, why });
                    failed.push(id);
                }
                self.file.append(&record)?;
                self.records.push(record);
                done += 1;
            }
        }
    }

    /// One run. Everything is attached before and detached after it. A failure of the run itself
    /// goes into the record; a failure to detach ends the study.
    fn one(&mut self, cell: &Cell) -> Result<RunRecord, StudyError> {
        let id = cell.id();
        let run =
            self.records.iter().filter(|r| r.cell == id && r.outcome.is_some()).count() as u32;
        let mut record = RunRecord {
            schema: "seekless.study-run/1".to_owned(),
            cell: id,
            run,
            seed: self.spec.seed.wrapping_add(u64::from(run)),
            started_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            ..RunRecord::default()
        };
        let result = self.measure(cell, &mut record);
        self.ledger.undo_all()?;
        self.servers.clear();
        match result {
            Ok((outcome, energy)) => {
                record.outcome = Some(outcome);
                record.energy = energy;
            }
            Err(e) => record.error = Some(with_causes(&e)),
        }
        Ok(record)
    }

    fn personality(&self, cell: &Cell) -> Result<Personality, StudyError> {
        let workload = self.spec.workload(cell).ok_or_else(no_such_cell)?;
        let personality = crate::named(&workload.personality)?
            .scaled(workload.scale)
            .with_threads(workload.threads);
        // With less the kernel would kill this process, and a file system that is being written
        // detaches slowly then.
        let least = personality.buffers() + (64 << 20);
        if let Some(memory) = self.spec.memory.filter(|m| *m < least) {
            return Err(StudyError::Refused(format!(
                "memory = {} does not hold the buffers of {} threads and the other needs of a run: {} at least, or fewer threads",
                Bytes(memory),
                personality.threads(),
                Bytes(least)
            )));
        }
        Ok(personality)
    }

    fn measure(
        &mut self,
        cell: &Cell,
        record: &mut RunRecord,
    ) -> Result<(Outcome, Vec<Energy>), StudyError> {
        let (spec, seekless) = (self.spec, self.settings.seekless.as_path());
        let kind = spec.kind(cell).ok_or_else(no_such_cell)?;
        let device = spec.device(cell).ok_or_else(no_such_cell)?;
        let personality = self.personality(cell)?;
        let format = kind.format_args(&cell.format).ok_or_else(no_such_cell)?;
        let mount = kind.mount_args(&cell.mount).ok_or_else(no_such_cell)?;
        let image = match &device.kind {
            DeviceKind::Block { path } => PathBuf::from(path),
            _ => self.ledger.make_image("disk.img", device.bytes)?,
        };
        let base = self.ledger.len();
        let mut attached = self.attach(&device.kind, &image, false)?;
        self.ledger.format(&attached.device, kind, &format)?;
        let before = self.ledger.len();
        let mut mounted = self.ledger.mount(&attached.device, kind, &mount, seekless)?;
        let stop = &self.settings.stop;
        let files = FileSet::fill(&mounted.dir, &personality, record.seed, stop, &mut |_, _| ())?;
        record.filled = Some(files.filled());
        // An emulated disk is filled at the host's own speed, and is emulated from then on.
        if matches!(device.kind, DeviceKind::Emulated { .. }) {
            drop(files);
            self.ledger.undo_from(base)?;
            attached = self.attach(&device.kind, &image, true)?;
            mounted = self.ledger.mount(&attached.device, kind, &mount, seekless)?;
            return self.load(cell, record, (&personality, &mounted, &attached), None);
        }
        let result = self.load(cell, record, (&personality, &mounted, &attached), Some(files))?;
        if spec.check {
            let dir = self.ledger.dir().to_owned();
            self.ledger.undo_from(before)?;
            if let Some(command) = kind.check_command(&attached.device) {
                let (good, said) = attempt(&command, &dir)?;
                if !good {
                    let last = said.lines().last().unwrap_or_default();
                    let why = format!("the file system is not sound after the run: {last}");
                    return Err(StudyError::Refused(why));
                }
            }
        }
        Ok(result)
    }

    /// Runs the workload on a mounted file system. `files`: the files as written just now; `None`
    /// if they were written before the file system was mounted again.
    fn load(
        &mut self,
        cell: &Cell,
        record: &mut RunRecord,
        (personality, mounted, attached): (&Personality, &Mounted, &Attached),
        files: Option<FileSet>,
    ) -> Result<(Outcome, Vec<Energy>), StudyError> {
        (record.driver, record.mount_options) = (mounted.driver.clone(), mounted.options.clone());
        let files = match files {
            Some(files) => {
                drop_caches().map_err(StudyError::DropCaches)?;
                files
            }
            // Mounted again: no page of it is in RAM.
            None => FileSet::reopen(&mounted.dir, personality, record.seed)?,
        };
        let options = RunOptions {
            warm_up: Duration::from_secs_f64(self.spec.warm_up_s),
            measured: Duration::from_secs_f64(self.spec.seconds),
            load: cell.rate.map_or(Load::Closed, |ops_per_s| Load::Open { ops_per_s }),
            seed: record.seed,
        };
        let limit = match self.spec.memory {
            None => None,
            Some(bytes) => {
                let place = MemoryLimit::place()?;
                self.ledger.note(LedgerEntry::Memory, &place)?;
                Some(MemoryLimit::enter(&place, bytes)?)
            }
        };
        let http = attached.served.then(|| Address::Unix(self.http()));
        let mut disk = DiskReadings::default();
        let (meters, stop) = (&mut self.meters, &self.settings.stop);
        let outcome = crate::run(personality, &files, &options, stop, &mut |at, _| {
            if let Some(at) = at {
                meters.sample(at);
                disk.look(at, options.measured, || DiskReading::ask(http.as_ref()?));
            }
        })?;
        drop(limit);
        let mut energy = meters.finish(outcome.seconds, outcome.cpu.busy());
        energy.extend(disk.energy(outcome.seconds));
        Ok((outcome, energy))
    }
}

pub(super) fn no_such_cell() -> StudyError {
    StudyError::Refused("the specification has no such cell".to_owned())
}

fn with_causes(error: &StudyError) -> String {
    let first: &dyn std::error::Error = error;
    let all = std::iter::successors(Some(first), |&e| e.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
