//! What an administrator does to a volume whose area outlasts its server: what is common to these verbs. A served
//! volume is asked through its control socket; one that is not is opened by the verb itself.

mod control;
mod format;
mod offline;
mod replicate;
mod rescue;

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Subcommand;
use seekless_block::{Bytes, PAGE_BYTES, SECTOR_BYTES};
use seekless_engine::{Mode, Replicated};
use seekless_serve::{Address, ServerStats};
use serde::{Deserialize, Serialize};

pub(crate) use replicate::Placed;

/// What is to be done to a volume.
#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    Format(format::FormatArgs),
    Status(control::StatusArgs),
    Replan(control::ReplanArgs),
    Mode(control::ModeArgs),
    Drain(control::DrainArgs),
    Detach(control::DetachArgs),
    Check(offline::CheckArgs),
    Repair(offline::RepairArgs),
    Dump(offline::DumpArgs),
    Resize(offline::ResizeArgs),
    Rescue(rescue::Args),
    Replicate(replicate::ReplicateArgs),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args {
        Args::Format(args) => format::format(args),
        Args::Status(args) => control::status(args),
        Args::Replan(args) => control::replan(args),
        Args::Mode(args) => control::mode(args),
        Args::Drain(args) => control::drain(args),
        Args::Detach(args) => control::detach(args),
        Args::Check(args) => offline::check(args),
        Args::Repair(args) => offline::repair(args),
        Args::Dump(args) => offline::dump(args),
        Args::Resize(args) => offline::resize(args),
        Args::Rescue(args) => rescue::run(args),
        Args::Replicate(args) => replicate::replicate(args),
    }
}

/// A volume.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct VolumeArgs {
    /// The file or block device that is served
    pub(crate) backing: PathBuf,
    /// Its area, where that is not within the backing
    #[arg(long, value_name = "FILE-or-DEVICE")]
    pub(crate) area: Option<PathBuf>,
}

/// How a volume stands: schema `seekless.volume/1`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct VolumeState {
    /// `seekless.volume/1`.
    pub(crate) schema: String,
    pub(crate) backing: String,
    /// Whether a server has it.
    pub(crate) served: bool,
    /// Whether its area outlasts a server.
    pub(crate) lasting: bool,
    pub(crate) size_bytes: u64,
    pub(crate) area_bytes: u64,
    /// `writethrough` or `writeback`.
    pub(crate) mode: String,
    /// Only in the area.
    pub(crate) dirty_bytes: u64,
    /// Copies yet to be compared with home.
    pub(crate) in_doubt_bytes: u64,
    /// Copies that may be used, what is dirty included.
    pub(crate) copied_bytes: u64,
    /// Everything is at home, nothing more goes into the write buffer, and no guard is up.
    pub(crate) drained: bool,
    /// The bare disk cannot be mounted: its two ends stand in the area.
    pub(crate) guarded: bool,
    /// Of the move under way: done, and all.
    pub(crate) moving_bytes: Option<(u64, u64)>,
    /// Copied to their places, since the server's start.
    pub(crate) moved_bytes: u64,
    /// Replicas in discarded pages, where the area is made for them.
    #[serde(default)]
    pub(crate) replicas: Option<ReplicaState>,
    /// Since the server's start.
    pub(crate) requests: u64,
    pub(crate) nbd_clients: u64,
    /// Pages of the area that did not match their checksums, since the server's start.
    pub(crate) damaged_pages: u64,
    /// Why the server does not go on with what it was asked, where it does not.
    pub(crate) trouble: Option<String>,
    /// The last I/O that failed, since the server's start.
    pub(crate) last_failure: Option<String>,
}

/// How replicas in discarded pages (FS2) stand. Of the volume, `spare` is what is free of data and of replicas: below 10% of its
/// pages replication stops and replicas give way, below 5% in haste; at 15% it goes on.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReplicaState {
    /// Replicas at most.
    pub(crate) room_bytes: u64,
    /// Pages of the volume.
    pub(crate) home_bytes: u64,
    /// Of them, discarded and not written since.
    pub(crate) free_bytes: u64,
    /// Free, and no replica stands there.
    pub(crate) spare_bytes: u64,
    /// Free, and bytes of replicas may stand there.
    pub(crate) stained_bytes: u64,
    /// Asked for and not begun.
    pub(crate) waiting_bytes: u64,
    /// Too little is spare: nothing is replicated.
    pub(crate) suspended: bool,
    /// Since the server's start: asked for and impossible, as the place was not free or the home had a replica; given up for
    /// clients; reads of discarded pages.
    pub(crate) refused_bytes: u64,
    pub(crate) yielded_bytes: u64,
    pub(crate) zero_reads: u64,
}

impl ReplicaState {
    fn of(r: &Replicated, stats: &ServerStats) -> Self {
        let pages = |n: u64| n * PAGE_BYTES;
        Self {
            room_bytes: r.room.bytes().0,
            home_bytes: r.home.bytes().0,
            free_bytes: r.free.bytes().0,
            spare_bytes: r.free.bytes().0.saturating_sub(r.bound.bytes().0),
            stained_bytes: r.stained.bytes().0,
            waiting_bytes: r.waiting.bytes().0,
            suspended: r.suspended,
            refused_bytes: pages(stats.engine.replicas_refused),
            yielded_bytes: pages(stats.engine.yielded),
            zero_reads: stats.engine.zero_reads,
        }
    }
}

pub(crate) const VOLUME_SCHEMA: &str = "seekless.volume/1";

pub(crate) const fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::WriteThrough => "writethrough",
        Mode::WriteBack => "writeback",
    }
}

pub(crate) fn mode_of(text: &str) -> Result<Mode, String> {
    match text {
        "writethrough" => Ok(Mode::WriteThrough),
        "writeback" => Ok(Mode::WriteBack),
        _ => Err(format!("'{text}' is no mode: writethrough or writeback")),
    }
}

impl VolumeState {
    /// Of a server that runs.
    pub(crate) fn of(backing: &Path, (size, area): (Bytes, Bytes), stats: &ServerStats) -> Self {
        let a = &stats.area;
        let failure = a.failure.map(|f| {
            format!("{:?} of {:?} at {}: {}", f.op, f.target, f.extent, f.errno).to_lowercase()
        });
        Self {
            schema: VOLUME_SCHEMA.to_owned(),
            backing: backing.display().to_string(),
            served: true,
            lasting: a.lasting,
            size_bytes: size.0,
            area_bytes: area.0,
            mode: mode_name(a.mode).to_owned(),
            dirty_bytes: a.dirty_sectors * SECTOR_BYTES,
            in_doubt_bytes: a.in_doubt_sectors * SECTOR_BYTES,
            copied_bytes: stats.copied_sectors * SECTOR_BYTES,
            drained: a.drained,
            guarded: a.guarded,
            moving_bytes: stats.progress.map(|p| (p.done.bytes().0, p.total.bytes().0)),
            moved_bytes: stats.engine.moved_bytes,
            replicas: a.replicas.map(|r| ReplicaState::of(&r, stats)),
            requests: stats.engine.requests,
            nbd_clients: stats.clients as u64,
            damaged_pages: stats.engine.damaged,
            trouble: a.trouble.map(|t| t.to_string()),
            last_failure: failure,
        }
    }
}

/// Where the server of a backing takes commands: a socket in a directory that is this user's alone.
pub(crate) fn control_socket(backing: &Path) -> anyhow::Result<PathBuf> {
    let uid = rustix::process::getuid();
    let dir = if uid.is_root() {
        PathBuf::from("/run/seekless")
    } else {
        match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(dir) => PathBuf::from(dir).join("seekless"),
            None => std::env::temp_dir().join(format!("seekless-{}", uid.as_raw())),
        }
    };
    let path =
        backing.canonicalize().with_context(|| format!("{}: cannot open it", backing.display()))?;
    let bytes = path.as_os_str().as_encoded_bytes();
    // The path's sum tells backings apart; its last name is for people. A socket's path is short.
    let name: String =
        path.file_name().unwrap_or_default().to_string_lossy().chars().take(30).collect();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    Ok(dir.join(format!("{name}-{:016x}.sock", sum(bytes))))
}

/// FNV-1a.
fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |sum, b| (sum ^ u64::from(*b)).wrapping_mul(0x0100_0000_01B3))
}

/// Makes the directory of control sockets, where it is not there; it must be this user's alone.
pub(crate) fn control_dir(socket: &Path) -> anyhow::Result<()> {
    let dir = socket.parent().context("a socket lies in a directory")?;
    let name = dir.display();
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(e).with_context(|| format!("{name}: cannot make it"));
        }
        _ => {}
    }
    let meta = dir.symlink_metadata().with_context(|| format!("{name}: cannot look at it"))?;
    let own = meta.is_dir() && meta.uid() == rustix::process::getuid().as_raw();
    ensure!(own && meta.mode() & 0o077 == 0, "{name}: others can reach into it; `chmod 700` it");
    Ok(())
}

/// The address of the server that has a backing, where one answers.
pub(crate) fn server_of(backing: &Path) -> anyhow::Result<Option<Address>> {
    let socket = control_socket(backing)?;
    Ok(std::os::unix::net::UnixStream::connect(&socket).is_ok().then_some(Address::Unix(socket)))
}
