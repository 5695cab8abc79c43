//! `seekless volume status`, `replan`, `mode`, `drain` and `detach`.

use std::path::PathBuf;

use seekless_block::Bytes;
use seekless_cli::output;
use seekless_engine::Mode;
use seekless_serve::control::{Administered, mode_name, mode_of, state_of};

use super::VolumeArgs;

/// Show the state of a volume: mode, dirty data, moves, failures
///
/// The command asks the server of the volume. If no server runs, the command reads the area, and
/// writes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume status /dev/sdb
  seekless volume status disk.img --area disk.area --json | jq .dirty_bytes")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// As JSON (schema seekless.volume/1)
    #[arg(long)]
    json: bool,
}

/// Make a running server plan again from its learned data, and move data as the plan says
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume replan /dev/sdb")]
pub(crate) struct ReplanArgs {
    /// The served file or block device
    backing: PathBuf,
}

/// Write all data of the write buffer home, and buffer no more writes
///
/// The volume may be served or not. Afterwards the backing alone has all data. If the area is not
/// within the backing, other programs can use the backing without seekless. A served volume buffers
/// writes again after `seekless volume mode writeback`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume drain /dev/sdb
  seekless volume drain disk.img --area disk.area")]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// Accept a backing whose name has changed since its area was made
    #[arg(long)]
    moved: bool,
}

/// Change the destination of writes: home at once, or the write buffer first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume mode writeback /dev/sdb
  seekless volume mode writethrough disk.img --area disk.area")]
pub(crate) struct ModeArgs {
    /// writethrough or writeback
    #[arg(value_parser = mode_of)]
    mode: Mode,
    #[command(flatten)]
    volume: VolumeArgs,
    /// Accept a backing whose name has changed since its area was made
    #[arg(long)]
    moved: bool,
}

/// Wait until seekless has compared every copy in doubt with its home, and report the result
///
/// After a crash, a clean copy serves no read until seekless has compared the copy with its home. A
/// running server compares while it serves clients; this command waits for the end. If no server
/// runs, the command attaches the area and compares the copies. A later server then has no copy to
/// compare.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume prove /dev/sdb
  seekless volume prove disk.img --area disk.area")]
pub(crate) struct ProveArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// Accept a backing whose name has changed since its area was made
    #[arg(long)]
    moved: bool,
}

/// Drain the volume, then end its server, if there is one
///
/// If the volume is in use on this host, the command changes nothing. Its message names the mounts,
/// the loop device and the processes, and the commands that free the volume.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume detach /dev/sdb")]
pub(crate) struct DetachArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// Detach also while file systems are mounted from the volume: data that they have not written
    /// yet are lost
    #[arg(long)]
    force: bool,
    /// Accept a backing whose name has changed since its area was made
    #[arg(long)]
    moved: bool,
}

pub(crate) fn status(args: &StatusArgs) -> anyhow::Result<()> {
    let state = state_of(&args.volume.backing, args.volume.area.as_deref())?;
    if args.json {
        return output::print(&serde_json::to_string_pretty(&state)?);
    }
    output::print(&state.to_string())
}

pub(crate) fn replan(args: &ReplanArgs) -> anyhow::Result<()> {
    Administered::served(&args.backing)?.replan()?;
    output::print("a new plan is being made; `seekless volume status` shows the move to it")
}

fn reached(volume: &VolumeArgs, moved: bool) -> anyhow::Result<Administered> {
    Ok(Administered::reach(&volume.backing, volume.area.as_deref(), moved)?)
}

/// Runs a command with a progress bar that shows the bytes left, and what is done with them.
fn with_bar<T, E>(
    what: &str,
    command: impl FnOnce(&mut dyn FnMut(Bytes)) -> Result<T, E>,
) -> Result<T, E> {
    output::with_bar(|bar| command(&mut |left| bar(&format!("{left} left to be {what}"), 0, 1)))
}

pub(crate) fn drain(args: &DrainArgs) -> anyhow::Result<()> {
    let volume = reached(&args.volume, args.moved)?;
    with_bar("written home", |left| volume.drain(left))?;
    output::print("drained: everything is at home")
}

pub(crate) fn mode(args: &ModeArgs) -> anyhow::Result<()> {
    let volume = reached(&args.volume, args.moved)?;
    with_bar("written home", |left| volume.set_mode(args.mode, left))?;
    output::print(&format!("{}: {}", args.volume.backing.display(), mode_name(args.mode)))
}

pub(crate) fn prove(args: &ProveArgs) -> anyhow::Result<()> {
    let volume = reached(&args.volume, args.moved)?;
    let proven = with_bar("compared with home", |left| volume.prove(left))?;
    if proven.doubted == Bytes(0) {
        return output::print("no copy was in doubt");
    }
    let dropped = Bytes(proven.doubted.0.saturating_sub(proven.usable.0));
    output::print(&format!(
        "proven: {} of {} in {:.1} s; {dropped} were dropped: home is newer, or a client wrote there",
        proven.usable,
        proven.doubted,
        proven.took.as_secs_f64()
    ))
}

pub(crate) fn detach(args: &DetachArgs) -> anyhow::Result<()> {
    let volume = reached(&args.volume, args.moved)?;
    let cut_off = with_bar("written home", |left| volume.detach(args.force, left))?;
    if !cut_off.is_empty() {
        output::say(&format!(
            "cut off: {cut_off}. Data that these had not written yet is lost: check the file system before its next use"
        ));
    }
    output::print("detached: everything is at home, and no server runs")
}
