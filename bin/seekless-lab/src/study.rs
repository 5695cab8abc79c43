//! `seekless-lab study`: file systems under server workloads, as a matrix of runs; tables, figures
//! and advice.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use seekless_cli::args::{Out, number};
use seekless_cli::output;
use seekless_report::{Table, Unit};
use seekless_workload::host::{FsTable, Ledger};
use seekless_workload::study::{
    self, Cell, DeviceKind, Ended, Event, RunSettings, Stored, StudyReport, StudySpec,
};

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    Run(RunArgs),
    Report(ReportArgs),
    Clean(CleanArgs),
    Filesystems(FilesystemArgs),
}

/// Run a study, or continue one (root)
///
/// Each run of a cell of the matrix formats the file system, mounts it, writes the files, drops the
/// caches, runs the workload, and unmounts. Rounds go through all cells in a new random order, so
/// that changes of the host affect all cells alike. DIR keeps each run as it ends. SIGINT ends the
/// study after cleaning up. After a kill, the next call detaches everything that was left attached.
/// The same command continues an ended study.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab study run studies/quick.toml -o quick-run
  seekless-lab study run studies/fast10.toml -o fast10-run --dry-run

  # On a real disk, whose content is lost
  seekless-lab study run mine.toml -o mine-run --confirm-erase /dev/sdX

docs/lab/study.md explains specifications and tables.")]
pub(crate) struct RunArgs {
    /// The specification, a TOML file
    spec: PathBuf,
    /// Folder of the results; created if missing
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// A block device of the specification whose content may be lost; once for each device
    #[arg(long, value_name = "DEVICE")]
    confirm_erase: Vec<PathBuf>,
    /// Only list the matrix
    #[arg(long)]
    dry_run: bool,
    /// Stop after this many runs; the same command continues later
    #[arg(long, value_name = "N", value_parser = number::<u64>("runs", 0.., 10))]
    max_runs: Option<u64>,
    /// Write the results as JSON (schema seekless.study/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

/// Print tables and advice of a study's results again
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab study report quick-run
  seekless-lab study report quick-run --report quick.html --figures plots --json -")]
pub(crate) struct ReportArgs {
    /// Folder of the results
    dir: PathBuf,
    #[command(flatten)]
    out: Out,
}

/// Detach everything that a killed study left attached
///
/// `study run` does this by itself before it continues.
#[derive(Debug, clap::Args)]
pub(crate) struct CleanArgs {
    /// Folder of the results
    dir: PathBuf,
}

/// List the file systems for specifications, their options, and the programs or drivers that this
/// host lacks
#[derive(Debug, clap::Args)]
pub(crate) struct FilesystemArgs {
    /// Write the list as JSON (schema seekless.filesystems/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args {
        Args::Run(args) => run_study(args),
        Args::Report(args) => {
            args.out.ensure_apart_from([])?;
            let stored = Stored::read(&args.dir)?;
            let results = StudyReport::new(&stored);
            if args.out.write(&results.json(), |_| results.document(&args.dir))? {
                print_results(&results)?;
            }
            Ok(())
        }
        Args::Clean(args) => {
            anyhow::ensure!(args.dir.is_dir(), "{} is no folder", args.dir.display());
            let (_, done) = Ledger::open(&args.dir)?;
            let nothing = done.is_empty().then(|| "nothing was attached".to_owned());
            done.into_iter().chain(nothing).try_for_each(|line| output::print(&line))
        }
        Args::Filesystems(args) => filesystems(args.json.as_deref()),
    }
}

fn print_results(results: &StudyReport<'_>) -> anyhow::Result<()> {
    output::tables(results.tables())?;
    for (cell, why) in results.failed() {
        output::print(&format!("failed: {cell}: {why}"))?;
    }
    results.advice().iter().try_for_each(|sentence| output::print(sentence))
}

fn filesystems(json: Option<&Path>) -> anyhow::Result<()> {
    let table = FsTable::built_in()?;
    let missing: Vec<_> = table.filesystem.iter().map(|f| (f, f.missing())).collect();
    if let Some(path) = json {
        let list: Vec<_> = missing
            .iter()
            .map(|(f, m)| serde_json::json!({"filesystem": f, "missing": m}))
            .collect();
        return output::json(
            path,
            &serde_json::json!({"schema": "seekless.filesystems/1", "filesystems": list}),
        );
    }
    let names = |n: Vec<&String>| n.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let shown = Table::of("File systems", &missing)
        .text("name", |(f, _)| f.name.as_str())
        .text("short", |(f, _)| f.short.as_str())
        .text("format options", |(f, _)| names(f.format.keys().collect()))
        .text("mount options", |(f, _)| names(f.mount.keys().collect()))
        .text("here", |(_, m)| m.as_deref().unwrap_or("yes"))
        .done();
    output::tables([&shown])
}

/// The specification in a file, with its text.
fn spec_of(path: &Path) -> anyhow::Result<(StudySpec, String)> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let spec = StudySpec::toml(&path.display().to_string(), &text)?;
    // A wrong workload or disk is an error now, not after an hour.
    for w in &spec.workloads {
        seekless_workload::named(&w.personality)
            .with_context(|| format!("{}: workload '{}'", path.display(), w.name))?;
    }
    for device in &spec.devices {
        if let DeviceKind::Emulated { disk, scheduler, .. } = &device.kind {
            seekless_cli::disk::named(disk)
                .with_context(|| format!("{}: device '{}'", path.display(), device.name))?;
            scheduler.parse::<seekless_disk::Scheduler>().map_err(|e| {
                anyhow::anyhow!("{}: device '{}': {e}", path.display(), device.name)
            })?;
        }
    }
    Ok((spec, text))
}

fn print_matrix(spec: &StudySpec, lacks: &[(String, String)]) -> anyhow::Result<()> {
    let lack = |filesystem: &str| lacks.iter().find(|l| l.0 == filesystem);
    let table = Table::of(format!("{}: {} cells", spec.name, spec.cells.len()), &spec.cells)
        .text("cell", Cell::id)
        .text("here", |c| lack(&c.filesystem).map_or("yes", |l| l.1.as_str()));
    let each = spec.seconds + spec.warm_up_s;
    let all = each * f64::from(spec.least_runs) * spec.cells.len() as f64;
    let time = Unit::Seconds.format(all, 2);
    let table = table.done().note(format!(
        "{} runs of each at least: {time}, without formatting and filling",
        spec.least_runs
    ));
    output::tables([&table])
}

/// Refuses to erase a block device without its confirmation, and a confirmation of any other
/// device.
fn check_confirmations(spec: &StudySpec, confirmed: &[PathBuf]) -> anyhow::Result<()> {
    for device in &spec.devices {
        if let DeviceKind::Block { path } = &device.kind
            && !confirmed.iter().any(|c| c == Path::new(path))
        {
            bail!(
                "device '{}' is {path}, whose content would be lost: confirm with --confirm-erase {path}",
                device.name
            );
        }
    }
    let named = |c: &Path| {
        spec.devices
            .iter()
            .any(|d| matches!(&d.kind, DeviceKind::Block { path } if Path::new(path) == c))
    };
    if let Some(other) = confirmed.iter().find(|c| !named(c)) {
        bail!("--confirm-erase {}: the specification names no such device", other.display());
    }
    Ok(())
}

/// The program `seekless`: beside this one, or by the PATH.
fn seekless() -> anyhow::Result<PathBuf> {
    let this = std::env::current_exe().context("cannot find this program")?;
    let beside = this.with_file_name("seekless");
    Ok(if beside.is_file() { beside } else { PathBuf::from("seekless") })
}

fn run_study(args: &RunArgs) -> anyhow::Result<()> {
    output::ensure_apart([args.json.as_deref()], [args.spec.as_path()])?;
    let (spec, text) = spec_of(&args.spec)?;
    let lacks: Vec<_> =
        spec.kinds.filesystem.iter().filter_map(|k| Some((k.name.clone(), k.missing()?))).collect();
    if args.dry_run {
        return print_matrix(&spec, &lacks);
    }
    anyhow::ensure!(
        rustix::process::getuid().is_root(),
        "a study formats and mounts file systems: run it as root"
    );
    check_confirmations(&spec, &args.confirm_erase)?;
    for (name, why) in lacks.iter().filter(|l| spec.cells.iter().any(|c| c.filesystem == l.0)) {
        output::say(&format!("note: {name} is left out: {why}"));
    }
    let lack = |cell: &Cell| lacks.iter().any(|l| l.0 == cell.filesystem);
    let cells: Vec<Cell> = spec.cells.iter().filter(|c| !lack(c)).cloned().collect();
    let settings = RunSettings {
        max_runs: args.max_runs,
        stop: seekless_cli::signals::stop_flag()?,
        seekless: seekless()?,
    };
    let bar = output::bar();
    let ended =
        study::run(&spec, &text, &cells, &args.output, &settings, &mut |event| match event {
            Event::LeftOver(line) => {
                bar.suspend(|| output::say(&format!("left by a study that was killed: {line}")));
            }
            Event::Begins { cell, done, expected } => output::show(&bar, cell, done, expected),
            Event::Failed { cell, why } => bar.suspend(|| output::say(&format!("{cell}: {why}"))),
        });
    bar.finish_and_clear();
    let ended = ended?;
    let stored = Stored::read(&args.output)?;
    let results = StudyReport::new(&stored);
    if !output::is_stdout(args.json.as_deref()) {
        print_results(&results)?;
    }
    let report = args.output.join("report.html");
    output::report(&results.document(&args.output), Some(&report), None)?;
    if let Some(path) = &args.json {
        output::json(path, &results.json())?;
    }
    output::say(&format!("the report: {}", report.display()));
    match ended {
        Ended::Complete => Ok(()),
        Ended::Early => {
            output::say("some runs are left; run the same command again to continue");
            Ok(())
        }
        Ended::Stopped => {
            bail!(
                "stopped by a signal; nothing is left attached; run the same command again to continue"
            )
        }
    }
}
