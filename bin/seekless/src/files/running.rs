//! Verbs for a directory that is mounted: it is asked through its own root.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use seekless_block::Bytes;
use seekless_mount::{
    COMMAND_XATTR, MountStatus, RETURN_COMMAND, SHUFFLE_COMMAND, STATUS_SCHEMA, STATUS_XATTR,
};

use seekless_cli::output;

/// Longest state that is read.
const STATE_BYTES: usize = 64 << 10;
/// How long a mount may take to put its store to rest.
const PATIENCE: Duration = Duration::from_secs(120);

/// Unmount a directory, and wait until its group store is at rest
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless files unmount /srv/www
  # Every file home first: the directory is then as if there had never been a group store
  seekless files unmount /srv/www --return")]
pub(crate) struct UnmountArgs {
    /// Where it is mounted
    mountpoint: PathBuf,
    /// Bring every file home first
    #[arg(long = "return")]
    bring_home: bool,
}

/// Form groups anew now, and wait until files have moved
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless files shuffle /srv/www")]
pub(crate) struct ShuffleArgs {
    /// Where it is mounted
    mountpoint: PathBuf,
}

/// How a mount stands: files in groups, room, what was moved
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless files status /srv/www
  seekless files status /srv/www --json | jq .grouped_files")]
pub(crate) struct StatusArgs {
    /// Where it is mounted
    mountpoint: PathBuf,
    /// As JSON (schema seekless.fs/1)
    #[arg(long)]
    json: bool,
}

fn state(point: &Path) -> anyhow::Result<MountStatus> {
    let mut bytes = vec![0; STATE_BYTES];
    let len = match rustix::fs::getxattr(point, STATUS_XATTR, &mut bytes[..]) {
        Ok(len) => len,
        Err(Errno::NODATA | Errno::OPNOTSUPP) => {
            bail!("{}: no mount of `seekless files mount`, or you are not root", point.display())
        }
        Err(e) => {
            return Err(e).with_context(|| format!("{}: cannot ask the mount", point.display()));
        }
    };
    let state: MountStatus = serde_json::from_slice(bytes.get(..len).unwrap_or_default())
        .with_context(|| format!("{}: the mount's answer makes no sense", point.display()))?;
    ensure!(
        state.schema == STATUS_SCHEMA,
        "{}: the mount speaks {}, this program {STATUS_SCHEMA}: use the one that mounted it",
        point.display(),
        state.schema
    );
    Ok(state)
}

fn act(point: &Path, what: &[u8]) -> Result<(), Errno> {
    rustix::fs::setxattr(point, COMMAND_XATTR, what, XattrFlags::empty())
}

pub(super) fn unmount(args: &UnmountArgs) -> anyhow::Result<()> {
    let point = &args.mountpoint;
    let state = state(point)?;
    if args.bring_home {
        bring_home(point, &state)?;
    }
    let pid = rustix::process::Pid::from_raw(state.pid.cast_signed());
    // It may be another namespace's number; then nobody can wait for it.
    let server =
        pid.and_then(|p| rustix::process::pidfd_open(p, rustix::process::PidfdFlags::empty()).ok());
    rustix::mount::unmount(point, UnmountFlags::empty())
        .with_context(|| format!("{}: cannot unmount it", point.display()))?;
    if let Some(server) = server {
        let start = Instant::now();
        let mut polled = [rustix::event::PollFd::new(&server, rustix::event::PollFlags::IN)];
        let wait = rustix::event::Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        while rustix::event::poll(&mut polled, Some(&wait)) == Err(Errno::INTR) {}
        ensure!(
            start.elapsed() < PATIENCE,
            "unmounted, but process {} has not put the group store to rest after {PATIENCE:?}",
            state.pid
        );
    }
    output::print("unmounted")
}

fn bring_home(point: &Path, before: &MountStatus) -> anyhow::Result<()> {
    let bar = output::bar();
    bar.set_message("bringing files home");
    bar.set_length(before.grouped_files);
    let asked = std::thread::scope(|scope| {
        let asked = scope.spawn(|| act(point, RETURN_COMMAND));
        while !asked.is_finished() {
            if let Ok(now) = state(point) {
                bar.set_position(before.grouped_files.saturating_sub(now.grouped_files));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        asked.join()
    });
    bar.finish_and_clear();
    let left = state(point)?;
    match asked {
        Ok(Ok(())) => output::print(&format!("{} files brought home", before.grouped_files)),
        Ok(Err(Errno::NOSPC)) => bail!(
            "{}: {} files could not be brought home and are where they were, still mounted: {}",
            point.display(),
            left.grouped_files,
            left.trouble.as_deref().unwrap_or("no room")
        ),
        Ok(Err(e)) => Err(e).context("cannot bring files home"),
        Err(_) => bail!("cannot bring files home"),
    }
}

pub(super) fn shuffle(args: &ShuffleArgs) -> anyhow::Result<()> {
    let point = &args.mountpoint;
    let before = state(point)?;
    ensure!(!before.returning, "{}: its files are going home, to stay", point.display());
    act(point, SHUFFLE_COMMAND).with_context(|| format!("{}: cannot shuffle", point.display()))?;
    let after = state(point)?;
    output::print(&format!(
        "{} groups wanted; {} files came, {} went home; {} files in {} groups",
        after.wanted_groups,
        after.came - before.came,
        after.returned - before.returned,
        after.grouped_files,
        after.groups
    ))
}

pub(super) fn status(args: &StatusArgs) -> anyhow::Result<()> {
    let s = state(&args.mountpoint)?;
    if args.json {
        return output::json(Path::new("-"), &s);
    }
    let (free, soon) = s.clusters_free;
    let yes = |b: bool| if b { "yes" } else { "no" };
    let mut text = format!(
        "directory       {}\nserver          process {}\nstore           {}\ngrouped         {} files in {} groups, {}\nclusters        {free} free, {soon} free soon, of {}\nmemory          {} of groups\nmoved           {} came, {} went home, {} given up because they were in use\nshuffles        {}; the last wanted {} groups\nlearner         {} files, {} events overlooked\nkernel          {} requests, {} inodes, {} open files; passes files through: {}\ngrouped reads   {}; the store answered {} from memory and read {} groups",
        s.directory,
        s.pid,
        s.store,
        s.grouped_files,
        s.groups,
        Bytes(s.grouped_bytes),
        s.clusters,
        Bytes(s.cached_bytes),
        s.came,
        s.returned,
        s.given_up,
        s.shuffles,
        s.wanted_groups,
        s.learned_files,
        s.overlooked,
        s.requests,
        s.inodes,
        s.open_files,
        yes(s.passthrough),
        s.grouped_reads,
        s.hits,
        s.groups_read,
    );
    if let Some(d) = &s.disk {
        let seconds = |ms: u64| format!("{:.1} s", ms as f64 / 1e3);
        let (busy, idle, asleep) = (seconds(d.busy_ms), seconds(d.idle_ms), seconds(d.asleep_ms));
        let [a, b, c, e, f, g] = d.idle_times;
        text += &format!(
            "\ndisk            {}: {busy} at work, {idle} idle, {asleep} asleep, {} times\nidle times      {a} below 1 s, {b} below 10 s, {c} below 1 min, {e} below 10 min, {f} below 1 h, {g} longer\nread ahead      {} groups",
            d.phase, d.sleeps, d.read_ahead
        );
        if let Some(mj) = d.millijoules {
            let [work, idle, rest, moves] = mj.map(|mj| format!("{:.1} J", mj as f64 / 1e3));
            text += &format!(
                "\nenergy          {work} at work, {idle} idle, {rest} asleep, {moves} to sleep and back"
            );
        }
    }
    if s.returning {
        text += "\nfiles are home, to stay: mount anew to form groups again";
    }
    if s.damaged > 0 {
        text += &format!("\nDAMAGED         {} groups did not match their checksums", s.damaged);
    }
    if let Some(trouble) = &s.trouble {
        text += &format!("\ntrouble         {trouble}");
    }
    output::print(&text)
}
