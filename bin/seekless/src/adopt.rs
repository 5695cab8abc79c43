//! `seekless adopt` and `seekless release`: a disk in use is served from now on, and is as it was
//! again.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use seekless_block::Bytes;
use seekless_learn::Policy;
use seekless_serve::adopt::{AdoptOptions, plan, plan_release, release as end};
use seekless_serve::area::Share;

use seekless_cli::args::size;
use seekless_cli::output;

/// Serve a disk that holds data, now and after every boot: make its area and systemd units, and
/// start the units
///
/// The disk must not be mounted. Adoption changes no byte of the disk. The area is another file or
/// device, best on another disk. Programs then use /run/seekless/NAME/device instead of the disk.
/// `--mount` mounts this device before other services start. If /etc/fstab mounts the disk, a
/// systemd unit mounts this device in the same way, and the line in /etc/fstab becomes a comment.
/// If a step fails, seekless undoes all steps. `seekless release` ends an adoption.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Show the planned changes; writes nothing
  seekless adopt /dev/sdb1 --area /var/lib/seekless/sdb1.area --dry-run

  # A disk with a file system, which was mounted at /srv/data
  umount /srv/data
  seekless adopt /dev/sdb1 --area /var/lib/seekless/sdb1.area --mount /srv/data

  # An image; the units go to a folder, and nothing is started
  seekless adopt disk.img --area disk.area --root rootfs")]
pub(crate) struct AdoptArgs {
    /// The disk: a block device, or an image
    backing: PathBuf,
    /// Path of the area: a new file, or a blank device; without this option, seekless asks on a
    /// terminal
    #[arg(long, value_name = "FILE-or-DEVICE")]
    area: Option<PathBuf>,
    /// Size of the area [default: an eighth of the disk, at most 2GiB; all of a device]
    #[arg(long, value_name = "SIZE|PERCENT%", value_parser = crate::volume::share)]
    optimized: Option<Share>,
    /// Mount the served disk on this directory
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// RAM for cached pages, beside the host's [default: that of `seekless serve`]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    cache: Option<Bytes>,
    /// The policy: `seekless policies` lists all policies [default: adaptive]
    #[arg(long, value_name = "NAME[:key=value]", value_parser = crate::policies::policy)]
    policy: Option<Policy>,
    /// Name of the systemd units [default: made from the name of the disk]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    system: SystemArgs,
}

/// Undo `seekless adopt`: stop the units, write all data to the disk, remove area and units
///
/// If the volume is in use, the command removes nothing. Its message names the mounts and programs
/// that use the volume.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless release /dev/sdb1 --dry-run
  seekless release /dev/sdb1
  seekless release disk --root rootfs")]
pub(crate) struct ReleaseArgs {
    /// The adopted disk, or the name of its units
    disk: PathBuf,
    #[command(flatten)]
    system: SystemArgs,
}

#[derive(Debug, clap::Args)]
struct SystemArgs {
    /// Show the planned changes, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Root folder of a system that does not run now: seekless writes or removes the units below
    /// this folder; the units name files below it as that system sees them
    #[arg(long, value_name = "DIR", default_value = "/", hide_default_value = true)]
    root: PathBuf,
}

pub(crate) fn adopt(args: &AdoptArgs) -> anyhow::Result<()> {
    let area = match &args.area {
        Some(area) => area.clone(),
        None => ask(&args.backing)?,
    };
    let adoption = plan(&AdoptOptions {
        backing: args.backing.clone(),
        area,
        size: args.optimized,
        name: args.name.clone(),
        mount: args.mount.clone(),
        serve: served_with(args)?,
        root: args.system.root.clone(),
        program: std::env::current_exe().context("cannot find the path of this program")?,
    })?;
    output::print(&adoption.explain())?;
    if args.system.dry_run {
        output::print(&format!("\n{}\nnothing was written", adoption.details().trim_end()))?;
        return Ok(());
    }
    let remaining = adoption.carry_out(&note)?;
    if remaining.is_empty() {
        return output::print("done    the disk is served");
    }
    let remaining = remaining.join("\n        ");
    output::print(&format!("done    systemd does not run here. To serve now:\n        {remaining}"))
}

/// The options of `seekless serve` that the arguments name.
fn served_with(args: &AdoptArgs) -> anyhow::Result<Vec<String>> {
    let mut options = Vec::new();
    if let Some(cache) = args.cache {
        options.extend(["--cache".to_owned(), cache.0.to_string()]);
    }
    if let Some(policy) = args.policy {
        policy.check_live()?;
        options.extend(["--policy".to_owned(), policy.to_string()]);
    }
    Ok(options)
}

/// The place of the area, from the terminal.
fn ask(backing: &Path) -> anyhow::Result<PathBuf> {
    let name = backing.file_name().unwrap_or_default().to_string_lossy();
    let usual = format!("/var/lib/seekless/{name}.area");
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        bail!("the area has no path: give --area FILE-or-DEVICE, for example --area {usual}");
    }
    let mut err = io::stderr().lock();
    write!(err, "A new file or a blank device for the area, best on another disk: ")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        "" => bail!(
            "the area has no path, and nothing was changed: give --area, for example --area {usual}"
        ),
        answer => Ok(PathBuf::from(answer)),
    }
}

pub(crate) fn release(args: &ReleaseArgs) -> anyhow::Result<()> {
    let root = &args.system.root;
    if args.system.dry_run {
        let plan = plan_release(&args.disk, root)?;
        return output::print(&format!("{plan}nothing was written"));
    }
    let released = end(&args.disk, root, &note)?;
    released.notes.iter().for_each(|text| note(text));
    output::print(&format!("released: everything is at home on {}", released.disk.display()))
}

fn note(text: &str) {
    output::say(&format!("note: {text}"));
}
