//! Runs of a study, one after another, and where they are kept: `spec.toml`, `host.json` and `runs.jsonl` in its folder.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow, bail};
use seekless_block::Bytes;
use seekless_serve::Address;
use seekless_serve::status::Status;
use seekless_workload::host::{
    Attached, BlockDevice, Facts, Ledger, MemoryLimit, Server, LedgerEntry, attempt, drop_caches,
};
use seekless_workload::power::{Basis, Energy, Meters, Source};
use seekless_workload::study::{Cell, DeviceKind, RunRecord, Sample, StudySpec, read_records};
use seekless_workload::{SeededRandom, FileSet, Load, Outcome, RunOptions};

use seekless_cli::output;

/// How a study ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// With enough runs of every cell.
    Complete,
    /// After as many runs as were asked for.
    Early,
    /// By a signal.
    Stopped,
}

/// What a study's folder holds.
pub(super) struct Stored {
    pub(super) spec: StudySpec,
    pub(super) facts: Facts,
    pub(super) records: Vec<RunRecord>,
}

impl Stored {
    pub(super) fn read(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join("spec.toml");
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!("{} holds no study: cannot read {}", dir.display(), path.display())
        })?;
        let spec = StudySpec::toml(&path.display().to_string(), &text)?;
        let path = dir.join("host.json");
        let host = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let facts = serde_json::from_str(&host).with_context(|| path.display().to_string())?;
        Ok(Self { spec, facts, records: records(dir)?.0 })
    }
}

/// The runs kept in a folder, and where the last whole one ends.
fn records(dir: &Path) -> anyhow::Result<(Vec<RunRecord>, usize)> {
    let path = dir.join("runs.jsonl");
    if !path.exists() {
        return Ok((Vec::new(), 0));
    }
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    read_records(&text).map_err(|(line, why)| anyhow!("{}:{line}: {why}", path.display()))
}

struct Study<'a> {
    spec: &'a StudySpec,
    ledger: Ledger,
    stop: std::sync::Arc<AtomicBool>,
    meters: Meters,
    records: Vec<RunRecord>,
    keep: File,
    /// Ended by the ledger, after what stands on them.
    servers: Vec<Server>,
}

/// Runs what is still to be run.
pub(super) fn run(
    spec: &StudySpec,
    text: &str,
    cells: &[Cell],
    dir: &Path,
    max_runs: Option<u64>,
) -> anyhow::Result<Ended> {
    let meters = Meters::parse(&spec.power).map_err(|e| anyhow!("power: {e}"))?;
    let stop = seekless_cli::signals::stop_flag()?;
    let (ledger, undone) = Ledger::open(dir)?;
    for line in undone {
        output::say(&format!("left by a study that was killed: {line}"));
    }
    let path = dir.join("spec.toml");
    match std::fs::read_to_string(&path) {
        Ok(old) if old != text => bail!(
            "{} holds the runs of another specification: give another folder, or take {} away",
            dir.display(),
            path.display()
        ),
        Ok(_) => {}
        Err(_) => output::write(&path, text)?,
    }
    let used =
        spec.kinds.filesystem.iter().filter(|k| cells.iter().any(|c| c.filesystem == k.name));
    output::json(&dir.join("host.json"), &Facts::gather(used))?;
    let (records, whole) = records(dir)?;
    let runs = dir.join("runs.jsonl");
    let keep = File::options().create(true).truncate(false).write(true).open(&runs);
    let mut keep = keep.with_context(|| format!("cannot write {}", runs.display()))?;
    // Half a line is no run.
    keep.set_len(whole as u64)?;
    std::io::Seek::seek(&mut keep, std::io::SeekFrom::End(0))?;
    let mut study = Study { spec, ledger, stop, meters, records, keep, servers: Vec::new() };
    if spec.idle_s > 0.0 {
        study.meters.measure_idle(Duration::from_secs_f64(spec.idle_s), &study.stop);
    }
    let ended = study.all(cells, max_runs);
    let left = study.ledger.undo_all();
    let ended = ended?;
    left?;
    Ok(ended)
}

impl Study<'_> {
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

    fn all(&mut self, cells: &[Cell], max_runs: Option<u64>) -> anyhow::Result<Ended> {
        let bar = output::bar();
        let mut failed: Vec<String> = Vec::new();
        let (mut done, mut round) = (0, 0);
        loop {
            let mut due: Vec<&Cell> =
                cells.iter().filter(|c| self.wants(c) && !failed.contains(&c.id())).collect();
            if due.is_empty() {
                bar.finish_and_clear();
                return Ok(Ended::Complete);
            }
            let mut chance = SeededRandom::new(self.spec.seed, 7_000_000 + round);
            (1..due.len()).rev().for_each(|i| due.swap(i, chance.below(i as u64 + 1) as usize));
            round += 1;
            for cell in due {
                if max_runs.is_some_and(|most| done >= most) {
                    bar.finish_and_clear();
                    return Ok(Ended::Early);
                }
                let have = self.records.iter().filter(|r| r.outcome.is_some()).count() as u64;
                bar.set_length(
                    (cells.len() as u64 * u64::from(self.spec.least_runs)).max(have + 1),
                );
                bar.set_position(have);
                bar.set_message(cell.id());
                let record = self.one(cell);
                if self.stop.load(Ordering::Relaxed) {
                    bar.finish_and_clear();
                    return Ok(Ended::Stopped);
                }
                let record = record?;
                if let Some(error) = &record.error {
                    bar.suspend(|| output::say(&format!("{}: {error}", cell.id())));
                    failed.push(cell.id());
                }
                let mut line = serde_json::to_string(&record)?;
                line.push('\n');
                self.keep.write_all(line.as_bytes())?;
                self.keep.sync_data()?;
                self.records.push(record);
                done += 1;
            }
        }
    }

    /// One run, with everything attached before and taken away after it. What fails of the run itself is in the record;
    /// what cannot be taken away again ends the study.
    fn one(&mut self, cell: &Cell) -> anyhow::Result<RunRecord> {
        let id = cell.id();
        let run =
            self.records.iter().filter(|r| r.cell == id && r.outcome.is_some()).count() as u32;
        let mut record = RunRecord {
            schema: "seekless.study-run/1".to_owned(),
            cell: id,
            run,
            seed: self.spec.seed.wrapping_add(u64::from(run)),
            started_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            driver: String::new(),
            mount_options: String::new(),
            filled: None,
            outcome: None,
            energy: Vec::new(),
            error: None,
        };
        let result = self.measure(cell, &mut record);
        self.ledger.undo_all()?;
        self.servers.clear();
        match result {
            Ok((outcome, energy)) => {
                record.outcome = Some(outcome);
                record.energy = energy;
            }
            Err(e) => record.error = Some(format!("{e:#}")),
        }
        Ok(record)
    }

    fn measure(
        &mut self,
        cell: &Cell,
        record: &mut RunRecord,
    ) -> anyhow::Result<(Outcome, Vec<Energy>)> {
        let spec = self.spec;
        let missing = || anyhow!("the specification has no such cell");
        let (kind, device) =
            (spec.kind(cell).ok_or_else(missing)?, spec.device(cell).ok_or_else(missing)?);
        let workload = spec.workload(cell).ok_or_else(missing)?;
        let personality = crate::workload::named(&workload.personality)?
            .scaled(workload.scale)
            .with_threads(workload.threads);
        // The kernel would kill this process, and a file system that is being written leaves slowly then.
        let least = personality.buffers() + (64 << 20);
        if let Some(memory) = spec.memory.filter(|m| *m < least) {
            bail!(
                "memory = {} does not hold the buffers of {} threads and what else a run needs: {} at least, or fewer threads",
                Bytes(memory),
                personality.threads(),
                Bytes(least)
            );
        }
        let format = kind.format_args(&cell.format).ok_or_else(missing)?;
        let mount = kind.mount_args(&cell.mount).ok_or_else(missing)?;
        // An emulated disk is filled at the host's own speed, and runs from then on.
        let image = match &device.kind {
            DeviceKind::Block { path } => PathBuf::from(path),
            _ => self.ledger.make_image("disk.img", device.bytes)?,
        };
        let base = self.ledger.len();
        let mut attached = self.attach(&device.kind, &image, false)?;
        self.ledger.format(&attached.device, kind, &format)?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let before = self.ledger.len();
        let mut mounted = self.ledger.mount(&attached.device, kind, &mount, &program)?;
        let files =
            FileSet::fill(&mounted.dir, &personality, record.seed, &self.stop, &mut |_, _| ())?;
        record.filled = Some(files.filled());
        let emulated = matches!(device.kind, DeviceKind::Emulated { .. });
        if emulated {
            drop(files);
            self.ledger.undo_from(base)?;
            attached = self.attach(&device.kind, &image, true)?;
            mounted = self.ledger.mount(&attached.device, kind, &mount, &program)?;
            return self.finish(cell, record, (&personality, &mounted, &attached), None);
        }
        (record.driver, record.mount_options) = (mounted.driver.clone(), mounted.options.clone());
        let result = self.finish(cell, record, (&personality, &mounted, &attached), Some(files))?;
        if spec.check {
            let dir = self.ledger.dir().to_owned();
            self.ledger.undo_from(before)?;
            if let Some(command) = kind.check_command(&attached.device) {
                let (good, said) = attempt(&command, &dir)?;
                let last = said.lines().last().unwrap_or_default().to_owned();
                anyhow::ensure!(good, "the file system is not sound after the run: {last}");
            }
        }
        Ok(result)
    }

    /// Runs on what is mounted. `files`: as they were laid just now; none: laid before, found again.
    fn finish(
        &mut self,
        cell: &Cell,
        record: &mut RunRecord,
        (personality, mounted, attached): (
            &seekless_workload::Personality,
            &seekless_workload::host::Mounted,
            &Attached,
        ),
        files: Option<FileSet>,
    ) -> anyhow::Result<(Outcome, Vec<Energy>)> {
        (record.driver, record.mount_options) = (mounted.driver.clone(), mounted.options.clone());
        let files = match files {
            Some(files) => {
                drop_caches().context("cannot drop caches")?;
                files
            }
            // Mounted anew: nothing of it is in RAM.
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
        let disk = |attached: &Attached| attached.served.then(|| self.disk_joules()).flatten();
        let begin = disk(attached);
        let before = std::time::Instant::now();
        let meters = &mut self.meters;
        let outcome =
            seekless_workload::run(personality, &files, &options, &self.stop, &mut |at, _| {
                if let Some(at) = at {
                    meters.sample(at);
                }
            })?;
        drop(limit);
        let mut energy = meters.finish(outcome.seconds, outcome.cpu.busy());
        let disk = |attached: &Attached| attached.served.then(|| self.disk_joules()).flatten();
        if let (Some(begin), Some((name, end))) = (begin, disk(attached)) {
            // The disk's account includes the warm-up: its share by time is taken off.
            let share = outcome.seconds / before.elapsed().as_secs_f64();
            let source = Source {
                name: format!("disk:{name}"),
                basis: Basis::Modelled,
                by: "the emulated disk's own account of seeking, turning, moving data and idling"
                    .to_owned(),
            };
            energy.push(Energy::new(source, (end - begin.1) * share, outcome.seconds, None));
        }
        Ok((outcome, energy))
    }

    fn http(&self) -> PathBuf {
        self.ledger.dir().join("http.sock")
    }

    /// The disk behind the server, and its joules so far.
    fn disk_joules(&self) -> Option<(String, f64)> {
        let address = Address::Unix(self.http());
        let status: Status = seekless_serve::control::ask(&address, None, "/api/status").ok()?;
        let busy = status.busy.filter(|b| b.basis == "emulated")?;
        Some((busy.disk, busy.now.energy_j))
    }

    /// The device of a kind on its image; a server of this project in front of it only where it is `served`, or once the
    /// files are laid.
    fn attach(&mut self, kind: &DeviceKind, image: &Path, laid: bool) -> anyhow::Result<Attached> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let fuse = self.ledger.dir().join("volume");
        let http = format!("unix:{}", self.http().display());
        let text = |p: &Path| p.display().to_string();
        let server = match kind {
            DeviceKind::Block { .. } => {
                let device = BlockDevice::unused(image)?;
                return Ok(Attached { device: device.path().to_owned(), served: false });
            }
            DeviceKind::Loop { direct_io } => {
                let device = self.ledger.attach_loop(image, *direct_io)?.device;
                return Ok(Attached { device, served: false });
            }
            DeviceKind::Emulated { .. } if !laid => {
                let device = self.ledger.attach_loop(image, true)?.device;
                return Ok(Attached { device, served: false });
            }
            DeviceKind::Emulated { disk, scheduler, speed } => {
                let mut args =
                    vec![text(&program), "emulate".to_owned(), disk.clone(), text(image)];
                args.extend(["--fuse".to_owned(), text(&fuse), "--http".to_owned(), http]);
                args.extend([
                    "--scheduler".to_owned(),
                    scheduler.clone(),
                    "--speed".to_owned(),
                    speed.to_string(),
                ]);
                args
            }
            DeviceKind::Served { arguments } => {
                let mut args = vec![text(&program), "serve".to_owned(), text(image)];
                args.extend(["--fuse".to_owned(), text(&fuse), "--http".to_owned(), http]);
                args.extend(arguments.iter().cloned());
                args
            }
        };
        self.ledger.note(LedgerEntry::Files, &self.http())?;
        let server = self.ledger.start_server(&server, &fuse)?;
        let device = self.ledger.attach_loop(&fuse, true)?.device;
        self.servers.push(server);
        Ok(Attached { device, served: true })
    }
}
