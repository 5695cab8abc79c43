//! `seekless watch`: reading ahead of repeated work on mounted file systems, from beside the path.

mod watch_page;

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use seekless_cli::output;
use seekless_cli::signals::on_signal;
use seekless_cli::similar_names::did_you_mean;
use seekless_daemon::{Config, Daemon, WatchReport, ask, show};
use seekless_serve::http::HttpServer;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::serve::watching::HttpArgs;
use crate::top::Screen;

/// Read ahead for repeated jobs on mounted file systems; requests do not pass through seekless
///
/// Watches the reads of programs, and remembers jobs such as a nightly backup. Recognizes a job by
/// its first reads, and reads the rest ahead, in the order of the disk. Writes nothing to the watched
/// file systems. The read-ahead ends when this program ends. Works on ext2, ext3, ext4, XFS and
/// btrfs. Needs root.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  # Every file system on a disk that rotates, until Ctrl-C
  seekless watch
  # Only watch, and report what reading ahead would save
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
    /// Only watch, and read nothing ahead; `report` then estimates the waits that read-ahead would
    /// save, as a range
    #[arg(long)]
    dry_run: bool,
    /// Keep the names of programs for `report`, which otherwise shows numbers
    #[arg(long)]
    names: bool,
    /// The folder for learned jobs; private, about 20 MB for each file system at most
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    #[command(flatten)]
    watching: HttpArgs,
}

const STATE: &str = "/var/lib/seekless/watch";

#[derive(Debug, clap::Subcommand)]
enum Question {
    /// Show the work of a running `seekless watch` since its start
    Status(AskArgs),
    /// Show the jobs that a running `seekless watch` knows, and the time saved for each
    Report(AskArgs),
    /// Show status and jobs in a terminal, updated each second; q ends
    Top(TopArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless watch status --json | jq '.filesystems[].totals'
  seekless watch report")]
struct AskArgs {
    /// The folder of the running watch
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// As JSON (schema seekless.watch/1)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless watch top
  seekless watch top --once")]
struct TopArgs {
    /// The folder of the running watch
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// Print once and end
    #[arg(long)]
    once: bool,
}

fn top(args: &TopArgs) -> anyhow::Result<()> {
    Screen::follow(args.once, |look| {
        let report = ask(&args.state)?;
        let (files, jobs) = (
            show::status(&report, look.width, look.colour),
            show::jobs(&report, look.width, look.colour),
        );
        let text = format!("{files}\n\n{jobs}");
        let lines: Vec<_> = text.lines().take(look.height.saturating_sub(1).max(1)).collect();
        Ok(lines.join("\n") + "\n")
    })
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match &args.question {
        None => watch(args),
        Some(Question::Status(args)) => answer(args, show::status),
        Some(Question::Report(args)) => answer(args, show::jobs),
        Some(Question::Top(args)) => top(args),
    }
}

fn watch(args: &Args) -> anyhow::Result<()> {
    let state = std::path::absolute(&args.state).context("cannot find the folder of the state")?;
    let points = args.mounts.iter().map(|m| whole(m)).collect::<anyhow::Result<_>>()?;
    let config = Config {
        points,
        state: state.clone(),
        all: args.all,
        dry_run: args.dry_run,
        names: args.names,
    };
    let (stop, mut signal) = UnixStream::pair().context("cannot make a pair of sockets")?;
    on_signal(&[SIGINT, SIGTERM, SIGHUP], move |_| signal.write_all(b"s").is_ok())?;
    let mut daemon = Daemon::start(config)?;
    for point in daemon.points() {
        output::print(&format!("watching {}", point.display()))?;
    }
    let shown = args.watching.listen(|address, token| {
        HttpServer::of(address, token, Box::new(watch_page::Daemon::new(state.clone())))
    })?;
    if let Some((_, place)) = &shown {
        output::print(place)?;
    }
    // A working folder would keep its mount busy.
    std::env::set_current_dir("/").context("cannot go to /")?;
    daemon.ready();
    let ended = loop {
        daemon.messages().iter().for_each(|m| output::say(m));
        match daemon.run(stop.as_fd()) {
            Ok(false) => {}
            ended => break ended,
        }
    };
    // The learned data are saved after an error too.
    daemon.stop().iter().for_each(|m| output::say(m));
    ended?;
    output::print("stopped")
}

/// The mount point as the kernel has it.
fn whole(path: &Path) -> anyhow::Result<PathBuf> {
    let near = || did_you_mean(path.to_str().unwrap_or_default(), ["status", "report", "top"]);
    path.canonicalize().with_context(|| format!("{}: cannot find it{}", path.display(), near()))
}

fn answer(
    args: &AskArgs,
    text: impl Fn(&WatchReport, usize, bool) -> String,
) -> anyhow::Result<()> {
    let report = ask(&args.state)?;
    if args.json {
        return output::print(&serde_json::to_string_pretty(&report)?);
    }
    output::print(&text(&report, output::width(), output::colour()))
}
