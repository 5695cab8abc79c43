//! `seekless files`: a directory whose small files are kept in groups. This module parses arguments
//! and calls the mount.

mod offline;
mod running;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Subcommand;
use seekless_block::{Bytes, Duration as SimDuration};
use seekless_disk::PowerStates;
use seekless_host::notify::{self, Manager};
use seekless_mount::{DiskSleep, GroupMount, MountOptions};
use seekless_store::GroupConfig;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use seekless_cli::args::{duration, number, size};
use seekless_cli::output;
use seekless_cli::signals::on_signal;

/// Interval at which the status of the mount is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Remembered files, at most. Each takes about 130 bytes.
const FILES_MAX: usize = 3 << 17;

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    Mount(Box<MountArgs>),
    Format(offline::FormatArgs),
    Unmount(running::UnmountArgs),
    Shuffle(running::ShuffleArgs),
    Status(running::StatusArgs),
    Check(offline::CheckArgs),
}

/// Mount a directory, and keep small files that programs use together in a group store
///
/// DIR stays an ordinary directory of its file system. The mount learns from opened files which
/// files are used together. These files move to the group store and back, while clients use them.
/// The group store is a file or a device elsewhere. Clients of MOUNTPOINT see all files unchanged;
/// MOUNTPOINT may be DIR itself. Without the mount, a grouped file looks empty in DIR: `seekless
/// files unmount --return` moves every file back. The command needs root, and a file system with
/// file handles and trusted extended attributes, such as ext4, XFS or Btrfs. SIGINT or SIGTERM
/// unmounts the directory when no client uses it; a second signal unmounts at once. See
/// docs/using/files.md.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Mount point = directory: from now on seekless serves every file below /srv/www
  seekless files mount /srv/www /srv/www --store /var/lib/seekless/www.groups --create 1GiB
  seekless files status /srv/www

  # Move all files back, and unmount
  seekless files unmount /srv/www --return")]
pub(crate) struct MountArgs {
    /// The directory
    dir: PathBuf,
    /// The directory to mount over; may be DIR
    mountpoint: PathBuf,
    /// The group store, made by `seekless files format`; not below DIR
    #[arg(long, value_name = "FILE-or-DEVICE")]
    store: PathBuf,
    /// If the store does not exist, make a file of this size; the file takes its space at once
    #[arg(long, value_name = "SIZE", value_parser = size)]
    create: Option<Bytes>,
    /// Memory for cached groups, beside the page cache of the host
    #[arg(long, value_parser = size, default_value = "64MiB")]
    cache: Bytes,
    /// Form new groups after this number of requests; reads and writes through the kernel's
    /// passthrough do not count
    #[arg(long, value_name = "REQUESTS", default_value = "100000", value_parser = number::<u64>("requests", 1.., 100_000))]
    every: u64,
    /// Also form new groups when no program has opened a file for this time; `none`: never for this
    /// reason
    #[arg(long, value_name = "DURATION|none", default_value = "10m", value_parser = idle)]
    idle: Idle,
    /// The disk of DIR sleeps after this idle time, as set by `hdparm -S`. While the disk sleeps,
    /// shuffles and unsynced changes wait, for ten minutes at most. While the disk turns, seekless
    /// reads ahead the groups that clients probably read next
    #[arg(long, value_name = "DURATION", value_parser = duration, help_heading = "Energy")]
    sleep: Option<Duration>,
    /// Model of DIR's disk: a name from `seekless disk list`, or a TOML file; `seekless files
    /// status` then shows the energy of the disk
    #[arg(long, value_name = "NAME", requires = "sleep", help_heading = "Energy")]
    disk: Option<String>,
    /// Use no passthrough of the kernel: this process serves every read and write; slower
    #[arg(long)]
    no_passthrough: bool,
    /// Number of latest successors to remember for each file
    #[arg(long, value_name = "N", default_value = "10", value_parser = number::<u8>("successors", 1..=32, 10), help_heading = "Grouping")]
    window: u8,
    /// Predict a file if at least this number of the remembered successors are this file
    #[arg(long, value_name = "N", default_value = "3", value_parser = number::<u8>("successors", 1..=32, 3), help_heading = "Grouping")]
    needed: u8,
    /// Minimum number of files in a group
    #[arg(long, value_name = "N", default_value = "3", value_parser = number::<u32>("files", 0.., 3), help_heading = "Grouping")]
    least: u32,
    /// Maximum number of files in a group
    #[arg(long, value_name = "N", default_value = "8", value_parser = number::<u32>("files", 1..=64, 8), help_heading = "Grouping")]
    most: u32,
}

/// An idle time, or none.
#[derive(Clone, Copy, Debug)]
struct Idle(Option<Duration>);

fn idle(text: &str) -> Result<Idle, String> {
    if text == "none" { Ok(Idle(None)) } else { duration(text).map(|d| Idle(Some(d))) }
}

/// An event for the main thread.
enum Event {
    Stop,
    Unmounted,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args {
        Args::Mount(args) => mount(args),
        Args::Format(args) => offline::format(args),
        Args::Unmount(args) => running::unmount(args),
        Args::Shuffle(args) => running::shuffle(args),
        Args::Status(args) => running::status(args),
        Args::Check(args) => offline::check(args),
    }
}

fn sleep(after: Duration, disk: Option<&str>) -> anyhow::Result<DiskSleep> {
    ensure!(after >= Duration::from_secs(2), "--sleep {after:?}: expected at least 2s");
    let power =
        disk.map(seekless_cli::disk::plain).transpose()?.map(|disk| PowerStates::new(&disk.power));
    Ok(DiskSleep { after: SimDuration(after.as_nanos() as u64), power })
}

fn options(args: &MountArgs) -> anyhow::Result<MountOptions> {
    let groups = GroupConfig {
        window: args.window,
        needed: args.needed,
        least: args.least,
        most: args.most,
        files_max: FILES_MAX,
        ..GroupConfig::default()
    };
    groups.check()?;
    Ok(MountOptions {
        store: args.store.clone(),
        create: args.create,
        cache: args.cache,
        every: args.every,
        idle: args.idle.0,
        groups,
        sleep: args.sleep.map(|after| sleep(after, args.disk.as_deref())).transpose()?,
        passthrough: !args.no_passthrough,
    })
}

fn mount(args: &MountArgs) -> anyhow::Result<()> {
    ensure!(
        args.mountpoint.is_dir() || !args.mountpoint.exists(),
        "{}: not a directory",
        args.mountpoint.display()
    );
    let options = options(args)?;
    let (send, events) = channel();
    let manager = Manager::from_env()?;
    let signals = send.clone();
    on_signal(&[SIGINT, SIGTERM, SIGHUP], move |_| signals.send(Event::Stop).is_ok())?;
    seekless_host::fuse_mount::serve_under_memory_pressure();
    let ended = move || drop(send.send(Event::Unmounted));
    let mut mounted = GroupMount::mount(&args.dir, &args.mountpoint, &options, ended)?;
    let state = mounted.status();
    let passes = if state.passthrough || args.no_passthrough {
        ""
    } else {
        "; without passthrough: the kernel refuses it"
    };
    output::print(&format!(
        "mounted {} at {}: {} files in {} groups{passes}",
        args.dir.display(),
        args.mountpoint.display(),
        state.grouped_files,
        state.groups
    ))?;
    until_unmounted(&mut mounted, &events, manager.as_ref())?;
    mounted.end().context("the mount is gone")?;
    output::print("unmounted")
}

/// Serves until the directory is unmounted: on a signal, or by another program.
fn until_unmounted(
    mounted: &mut GroupMount,
    events: &Receiver<Event>,
    manager: Option<&Manager>,
) -> anyhow::Result<()> {
    let tell = |what: &str, status: &str| {
        if let Some(manager) = manager {
            manager.tell(what, status);
        }
    };
    tell(notify::READY, "mounted");
    let (mut stopping, mut trouble) = (false, None);
    loop {
        match events.recv_timeout(CHECK_INTERVAL) {
            Ok(Event::Unmounted) => break,
            // The second signal: clients that still use the mount get errors from now on.
            Ok(Event::Stop) if stopping => break,
            Ok(Event::Stop) => {
                stopping = true;
                tell(notify::STOPPING, "unmounting");
                if !mounted.unmount()? {
                    output::say(&format!(
                        "{} is in use: waiting for its users; a second signal unmounts at once",
                        mounted.path().display()
                    ));
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if stopping && mounted.unmount()? {
            break;
        }
        let state = mounted.status();
        if state.trouble != trouble {
            trouble = state.trouble;
            trouble.iter().for_each(|t| output::say(t));
        }
        if !stopping {
            tell(notify::ALIVE, &format!("{} files in groups", state.grouped_files));
        }
    }
    Ok(())
}
