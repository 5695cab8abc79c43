//! Verbs for a mounted directory, sent through extended attributes of its root.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use seekless_block::Bytes;
use seekless_mount::{
    COMMAND_XATTR, MountStatus, RETURN_COMMAND, SAVE_COMMAND, SHUFFLE_COMMAND, STATUS_SCHEMA,
    STATUS_XATTR,
};

use seekless_cli::output;

/// Length of the longest status.
const STATUS_BYTES: usize = 64 << 10;
/// Time in which a mount must save its store.
const PATIENCE: Duration = Duration::from_secs(120);

/// Unmount a directory, and wait until its group store is saved
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless files unmount /srv/www
  # Move every file back first: the directory is then complete without its group store
  seekless files unmount /srv/www --return")]
pub(crate) struct UnmountArgs {
    /// The mount point
    mountpoint: PathBuf,
    /// Move every file back to the directory first
    #[arg(long = "return")]
    move_back: bool,
}

/// Form new groups now, and wait until files have moved
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless files shuffle /srv/www")]
pub(crate) struct ShuffleArgs {
    /// The mount point
    mountpoint: PathBuf,
}

/// Show the status of a mount: files in groups, space, moved files
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless files status /srv/www
  seekless files status /srv/www --json | jq .grouped_files")]
pub(crate) struct StatusArgs {
    /// The mount point
    mountpoint: PathBuf,
    /// As JSON (schema seekless.fs/1)
    #[arg(long)]
    json: bool,
}

fn state(point: &Path) -> anyhow::Result<MountStatus> {
    let mut bytes = vec![0; STATUS_BYTES];
    let len = match rustix::fs::getxattr(point, STATUS_XATTR, &mut bytes[..]) {
        Ok(len) => len,
        Err(Errno::NODATA | Errno::OPNOTSUPP) => {
            bail!("{}: not a mount of `seekless files mount`, or you are not root", point.display())
        }
        Err(e) => {
            return Err(e).with_context(|| {
                format!("{}: cannot read the status of the mount", point.display())
            });
        }
    };
    let state: MountStatus = serde_json::from_slice(bytes.get(..len).unwrap_or_default())
        .with_context(|| format!("{}: cannot parse the status of the mount", point.display()))?;
    ensure!(
        state.schema == STATUS_SCHEMA,
        "{}: the mount uses schema {}, this program {STATUS_SCHEMA}: use the program that mounted the directory",
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
    let before = state(point)?;
    if args.move_back {
        move_back(point, &before)?;
    }
    save(point)?;
    let pid = rustix::process::Pid::from_raw(before.pid.cast_signed());
    // The number may belong to another namespace; then nobody can wait for the process.
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
            "unmounted, but process {} has not saved the group store within {PATIENCE:?}",
            before.pid
        );
    }
    output::print("unmounted")
}

/// Saves the store before the unmount: afterwards only the server's own terminal says that this
/// failed, and unsynced writes are lost.
fn save(point: &Path) -> anyhow::Result<()> {
    match act(point, SAVE_COMMAND) {
        // A server of an earlier version does not know the command.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(e) => {
            let now = state(point)?;
            bail!(
                "{}: the group store cannot be saved ({e}): {}; the directory is still mounted, and `umount` gives unsynced writes up",
                point.display(),
                now.trouble.as_deref().unwrap_or("no more is known")
            )
        }
    }
}

fn move_back(point: &Path, before: &MountStatus) -> anyhow::Result<()> {
    let bar = output::bar();
    bar.set_message("moving files back");
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
        Ok(Ok(())) if left.kept > 0 => output::print(&format!(
            "{} files moved back; {}",
            left.returned - before.returned,
            left.trouble.as_deref().unwrap_or("the group store keeps others")
        )),
        Ok(Ok(())) => output::print(&format!("{} files moved back", before.grouped_files)),
        Ok(Err(Errno::NOSPC)) => bail!(
            "{}: {} files could not be moved back and stay in the group store; the directory is still mounted: {}",
            point.display(),
            left.grouped_files,
            left.trouble.as_deref().unwrap_or("no space")
        ),
        Ok(Err(e)) => Err(e).context("cannot move files back"),
        Err(_) => bail!("cannot move files back"),
    }
}

pub(super) fn shuffle(args: &ShuffleArgs) -> anyhow::Result<()> {
    let point = &args.mountpoint;
    let before = state(point)?;
    ensure!(
        !before.returning,
        "{}: all its files are moving back to the directory; mount again to form groups",
        point.display()
    );
    act(point, SHUFFLE_COMMAND).with_context(|| format!("{}: cannot shuffle", point.display()))?;
    let after = state(point)?;
    output::print(&format!(
        "{} groups wanted; {} files moved to the store, {} moved back; {} files in {} groups",
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
        "directory       {}\nserver          process {}\nstore           {}\ngrouped         {} files in {} groups, {}\nclusters        {free} free, {soon} free after the next checkpoint, of {}\nmemory          {} of cached groups\nmoved           {} to the store, {} back, {} given up because they were in use\nshuffles        {}; the last one wanted {} groups\nlearner         {} files, {} events overlooked\nkernel          {} requests, {} inodes, {} open files; passthrough: {}\ngrouped files   {} reads, {} writes; the store answered {} from memory and read {} groups",
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
        s.grouped_writes,
        s.hits,
        s.groups_read,
    );
    if let Some(d) = &s.disk {
        let seconds = |ms: u64| format!("{:.1} s", ms as f64 / 1e3);
        let (busy, idle, asleep) = (seconds(d.busy_ms), seconds(d.idle_ms), seconds(d.asleep_ms));
        let [a, b, c, e, f, g] = d.idle_times;
        text += &format!(
            "\ndisk            {}: {busy} busy, {idle} idle, {asleep} asleep, {} times\nidle times      {a} below 1 s, {b} below 10 s, {c} below 1 min, {e} below 10 min, {f} below 1 h, {g} longer\nread ahead      {} groups",
            d.phase, d.sleeps, d.read_ahead
        );
        if let Some(mj) = d.millijoules {
            let [work, idle, rest, moves] = mj.map(|mj| format!("{:.1} J", mj as f64 / 1e3));
            text += &format!(
                "\nenergy          {work} busy, {idle} idle, {rest} asleep, {moves} to sleep and back"
            );
        }
    }
    if s.returning {
        text += "\nall files are moving back to the directory: mount again to form groups";
    }
    if s.damaged > 0 {
        text += &format!(
            "\nDAMAGED         {} groups could not be read, or had wrong checksums",
            s.damaged
        );
    }
    if let Some(trouble) = &s.trouble {
        text += &format!("\ntrouble         {trouble}");
    }
    output::print(&text)
}
