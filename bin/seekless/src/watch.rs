//! `seekless watch`: reading ahead of repeated work on mounted file systems, from beside the path.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use seekless_cli::output;
use seekless_cli::signals::on_signal;
use seekless_daemon::{Config, Daemon, FilesystemReport, JobReport, WatchReport, ask};
use seekless_report::{Cell, Column, Table};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Make repeated work on mounted file systems faster, without anything in its path
///
/// Watches what programs read from disk, remembers jobs such as a nightly backup, recognizes a job
/// by its first reads, and reads the rest ahead in the order of the disk. Writes nothing to the
/// watched file systems. To undo it, stop it. Knows ext2, ext3 and ext4. Needs root.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  # Every file system on a disk that rotates, until Ctrl-C
  seekless watch
  # Only watch, and say what it would save
  seekless watch --dry-run /srv
  seekless watch report
  seekless watch status --json | jq '.filesystems[].totals'"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    question: Option<Question>,
    /// Mount points [default: every file system on a disk that rotates]
    mounts: Vec<PathBuf>,
    /// Watch file systems on every disk, flash included
    #[arg(long, conflicts_with = "mounts")]
    all: bool,
    /// Only watch; `report` then says how many waits it would have saved, from the least to the
    /// most
    #[arg(long)]
    dry_run: bool,
    /// Keep the names of programs for reports; without it, no name of any kind is kept
    #[arg(long)]
    names: bool,
    /// The folder for what is learned; private, at most some 20 MB for a file system
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
}

const STATE: &str = "/var/lib/seekless/watch";

#[derive(Debug, clap::Subcommand)]
enum Question {
    /// Show what a running `seekless watch` did since its start
    Status(AskArgs),
    /// Show the jobs that a running `seekless watch` knows, and what it saves for each
    Report(AskArgs),
}

#[derive(Debug, clap::Args)]
struct AskArgs {
    /// The folder of the running watch
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// As JSON (schema seekless.watch/1)
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.question {
        None => watch(args),
        Some(Question::Status(args)) => show(args, status),
        Some(Question::Report(args)) => show(args, jobs),
    }
}

fn watch(args: &Args) -> anyhow::Result<()> {
    let points = args.mounts.iter().map(|m| whole(m)).collect::<anyhow::Result<_>>()?;
    let config = Config::new(points, args.state.clone())
        .all(args.all)
        .dry_run(args.dry_run)
        .names(args.names);
    let (stop, mut signal) = UnixStream::pair().context("cannot make a pair of sockets")?;
    on_signal(&[SIGINT, SIGTERM, SIGHUP], move |_| signal.write_all(b"s").is_ok())?;
    let mut daemon = Daemon::start(config)?;
    for point in daemon.points() {
        output::print(&format!("watching {}", point.display()))?;
    }
    daemon.ready();
    loop {
        daemon.messages().iter().for_each(|m| output::say(m));
        if daemon.run(stop.as_fd())? {
            break;
        }
    }
    daemon.stop().iter().for_each(|m| output::say(m));
    output::print("stopped")
}

/// The mount point as the kernel has it.
fn whole(path: &Path) -> anyhow::Result<PathBuf> {
    path.canonicalize().with_context(|| format!("{}: cannot find it", path.display()))
}

fn show(args: &AskArgs, text: impl Fn(&WatchReport) -> String) -> anyhow::Result<()> {
    let report = ask(&args.state)?;
    if args.json {
        return output::print(&serde_json::to_string_pretty(&report)?);
    }
    output::print(&text(&report))
}

fn status(report: &WatchReport) -> String {
    let names = [
        "file system",
        "jobs",
        "recognized runs",
        "waits for the disk",
        "pages read ahead",
        "used",
        "in vain",
        "disk's time in vain, last hour",
    ];
    let mut table = Table::new("File systems", columns(&names));
    for f in &report.filesystems {
        let t = &f.totals;
        table = table.row([
            Cell::from(f.mount.as_str()),
            number(f.jobs.len()),
            number(t.recognized),
            number(t.misses),
            number(t.fetched),
            number(t.used),
            number(t.vain),
            Cell::from(format!("{:.1} s", t.vain_last_hour as f64 / 1000.0).as_str()),
        ]);
    }
    let mut text = table.terminal(output::width(), output::colour());
    text += &format!("Since {} s.", report.seconds);
    if report.dry_run {
        text += " Dry run: nothing is read ahead.";
    }
    if report.pages_ahead == 0 {
        text += " Memory is short: nothing is read ahead now.";
    }
    if report.lost_events > 0 {
        text += &format!(" The kernel lost {} events.", report.lost_events);
    }
    text
}

fn jobs(report: &WatchReport) -> String {
    let text = report.filesystems.iter().map(|f| jobs_of(f, report.dry_run)).collect::<Vec<_>>();
    text.join("\n")
}

fn jobs_of(filesystem: &FilesystemReport, dry_run: bool) -> String {
    let saved = if dry_run { "waits it would have saved" } else { "in vain" };
    let names = ["job", "pages", "runs", "alone", "helped", "times faster", saved];
    let mut table = Table::new(format!("Jobs on {}", filesystem.mount), columns(&names));
    let mut all: Vec<&JobReport> = filesystem.jobs.iter().collect();
    all.sort_by_key(|j| std::cmp::Reverse(u64::from(j.plain.millis) * u64::from(j.runs)));
    for job in all {
        let name = if job.name.is_empty() { job.id.to_string() } else { job.name.clone() };
        let rests = if job.rests { " (rests)" } else { "" };
        let (alone, helped) = (job.plain, job.helped);
        let run = |t: seekless_daemon::Tally| match t.runs {
            0 => String::new(),
            n => format!("{:.1} s, {} waits, {n} runs", f64::from(t.millis) / 1000.0, t.misses),
        };
        let faster = if alone.runs > 0 && helped.runs > 0 {
            format!("{:.1}", f64::from(alone.millis) / f64::from(helped.millis.max(1)))
        } else {
            String::new()
        };
        let last = match job.fetched {
            _ if dry_run => format!("{} to {}", job.would.0, job.would.1),
            0 => String::new(),
            n => format!("{:.0} %", 100.0 * job.vain as f64 / n as f64),
        };
        table = table.row([
            Cell::from(format!("{name}{rests}").as_str()),
            number(job.pages),
            number(job.runs),
            Cell::from(run(alone).as_str()),
            Cell::from(run(helped).as_str()),
            Cell::from(faster.as_str()),
            Cell::from(last.as_str()),
        ]);
    }
    table.terminal(output::width(), output::colour())
}

fn columns(names: &[&str]) -> Vec<Column> {
    let column = |(i, n): (usize, &&str)| {
        if i == 0 { Column::text(*n) } else { Column::text(*n).right() }
    };
    names.iter().enumerate().map(column).collect()
}

fn number(n: impl ToString) -> Cell {
    Cell::from(n.to_string().as_str())
}
