//! `seekless-lab study`: a matrix of file systems under workloads: run, resumed, cleaned up after, and told. What is in the
//! matrix and what follows from it is `seekless_workload::study`' business.

mod report;
mod run;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use seekless_report::{Column, Table, Unit};
use seekless_workload::host::{FsTable, Ledger};
use seekless_workload::study::{Cell, DeviceKind, StudySpec};

use seekless_cli::output;

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    Run(RunArgs),
    Report(ReportArgs),
    Clean(CleanArgs),
    Filesystems(FilesystemArgs),
}

/// Run a study, or go on with one (root)
///
/// For each cell of the matrix, over and over: make the file system, mount it, lay the files, drop the caches, run,
/// unmount. Rounds go through all cells in an order drawn anew, so that a change of the host meets all alike. Each run
/// is kept in DIR as it ends; SIGINT ends after cleaning up, and what a killed process left attached is taken away by
/// the next. The same command goes on where it was ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab study run studies/quick.toml -o quick-run
  seekless-lab study run studies/fast10.toml -o fast10-run --dry-run

  # On a real disk, whose content is lost
  seekless-lab study run mine.toml -o mine-run --confirm-erase /dev/sdX

docs/lab/study.md says how a specification is written and what the tables mean.")]
pub(crate) struct RunArgs {
    /// The specification, a TOML file
    spec: PathBuf,
    /// Folder of the results; made if it is not there
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// A block device that the specification names and whose content may be lost; once for each
    #[arg(long, value_name = "DEVICE")]
    confirm_erase: Vec<PathBuf>,
    /// Only list the matrix
    #[arg(long)]
    dry_run: bool,
    /// Stop after this many runs; the same command goes on later
    #[arg(long, value_name = "N")]
    max_runs: Option<u64>,
    /// Write the results as JSON (schema seekless.study/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

/// Tables, figures and advice of a study's results, made anew
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab study report quick-run
  seekless-lab study report quick-run --report quick.html --figures plots --json -")]
pub(crate) struct ReportArgs {
    /// Folder of the results
    dir: PathBuf,
    /// Write a report as one HTML file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write every figure of the report into this folder, as SVG, PNG and CSV
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Write the results as JSON (schema seekless.study/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

/// Take away what a study that was killed left attached
///
/// `study run` does so by itself before it goes on.
#[derive(Debug, clap::Args)]
pub(crate) struct CleanArgs {
    /// Folder of the results
    dir: PathBuf,
}

/// The file systems that specifications can name, their options, and what this host lacks for them
#[derive(Debug, clap::Args)]
pub(crate) struct FilesystemArgs {
    /// Write the list as JSON (schema seekless.filesystems/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args {
        Args::Run(args) => run_study(args),
        Args::Report(args) => {
            let stored = run::Stored::read(&args.dir)?;
            let told = report::Told::new(&stored);
            told.tell()?;
            output::report(
                &told.document(&args.dir),
                args.report.as_deref(),
                args.figures.as_deref(),
            )?;
            args.json.as_deref().map_or(Ok(()), |path| output::json(path, &told.json()))
        }
        Args::Clean(args) => {
            anyhow::ensure!(args.dir.is_dir(), "{} is no folder", args.dir.display());
            let (_, done) = Ledger::open(&args.dir)?;
            let nothing = done.is_empty().then(|| "nothing was left".to_owned());
            done.into_iter().chain(nothing).try_for_each(|line| output::print(&line))
        }
        Args::Filesystems(args) => filesystems(args.json.as_deref()),
    }
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
    let columns =
        ["name", "short", "format options", "mount options", "here"].map(Column::text).to_vec();
    let mut shown = Table::new("File systems", columns);
    for (f, m) in missing {
        let names =
            |n: Vec<&String>| n.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let here = m.unwrap_or_else(|| "yes".to_owned());
        shown = shown.row([
            f.name.as_str().into(),
            f.short.as_str().into(),
            names(f.format.keys().collect()).into(),
            names(f.mount.keys().collect()).into(),
            here.into(),
        ]);
    }
    output::print(&shown.terminal(output::width(), output::colour()))
}

/// The specification in a file, with its text.
fn spec_of(path: &Path) -> anyhow::Result<(StudySpec, String)> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let spec = StudySpec::toml(&path.display().to_string(), &text)?;
    // Workloads and disks are looked at now, not after an hour.
    for w in &spec.workloads {
        crate::workload::named(&w.personality)
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

fn run_study(args: &RunArgs) -> anyhow::Result<()> {
    let (spec, text) = spec_of(&args.spec)?;
    let lacks: Vec<_> =
        spec.kinds.filesystem.iter().filter_map(|k| Some((k.name.clone(), k.missing()?))).collect();
    let lack = |cell: &Cell| lacks.iter().find(|l| l.0 == cell.filesystem);
    if args.dry_run {
        let columns = vec![Column::text("cell"), Column::text("here")];
        let mut table = Table::new(format!("{}: {} cells", spec.name, spec.cells.len()), columns);
        for cell in &spec.cells {
            let here = lack(cell).map_or_else(|| "yes".to_owned(), |l| l.1.clone());
            table = table.row([cell.id().into(), here.into()]);
        }
        let each = spec.seconds + spec.warm_up_s;
        let all = each * f64::from(spec.least_runs) * spec.cells.len() as f64;
        let time = Unit::Seconds.format(all, 2);
        table = table.note(format!(
            "{} runs of each at least: {time}, without making and filling",
            spec.least_runs
        ));
        return output::print(&table.terminal(output::width(), output::colour()));
    }
    anyhow::ensure!(
        rustix::process::getuid().is_root(),
        "a study makes and mounts file systems: run it as root"
    );
    for device in &spec.devices {
        if let DeviceKind::Block { path } = &device.kind
            && !args.confirm_erase.iter().any(|c| c == Path::new(path))
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
    if let Some(other) = args.confirm_erase.iter().find(|c| !named(c)) {
        bail!("--confirm-erase {}: the specification names no such device", other.display());
    }
    for (name, why) in lacks.iter().filter(|l| spec.cells.iter().any(|c| c.filesystem == l.0)) {
        output::say(&format!("note: {name} is left out: {why}"));
    }
    let cells: Vec<Cell> = spec.cells.iter().filter(|c| lack(c).is_none()).cloned().collect();
    let complete = run::run(&spec, &text, &cells, &args.output, args.max_runs)?;
    let stored = run::Stored::read(&args.output)?;
    let told = report::Told::new(&stored);
    if !output::is_stdout(args.json.as_deref()) {
        told.tell()?;
    }
    output::report(&told.document(&args.output), Some(&args.output.join("report.html")), None)?;
    if let Some(path) = &args.json {
        output::json(path, &told.json())?;
    }
    output::say(&format!("the report: {}", args.output.join("report.html").display()));
    match complete {
        run::Ended::Complete => Ok(()),
        run::Ended::Early => {
            output::say("not all of it was run: the same command goes on");
            Ok(())
        }
        run::Ended::Stopped => {
            bail!("stopped as asked, nothing is left attached: the same command goes on")
        }
    }
}
