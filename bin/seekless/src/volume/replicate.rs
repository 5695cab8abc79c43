//! `seekless volume replicate`: files or ranges of a served volume replicated near a place of one's choice (FS2-static).

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use seekless_block::{Bytes, Extent, SECTOR_BYTES};
use seekless_serve::{Address, extents};
use serde::{Deserialize, Serialize};

use super::{VolumeState, server_of};
use seekless_cli::args::size;
use seekless_cli::ask::{ask, command};
use seekless_cli::output;

/// Extents that one command carries.
const SOME: usize = 200;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Replicas that are not begun for so long wait for something that does not come.
const STUCK: Duration = Duration::from_secs(20);

/// Replicate files or ranges of a served volume, near a place of your choice (FS2-static)
///
/// The volume must have been made with `seekless volume format --replicas`, and must have discarded space near that place. Files are
/// those of the file system mounted from it; their blocks are asked of the kernel (FIEMAP), and laid side by side in the order
/// given, in the file's own order each. A write to a file sends reads of what was written home again; nothing follows a
/// file that is replaced. What has a replica already keeps it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # A shared library beside the program that loads it
  seekless volume replicate /dev/sda --file /usr/lib/libbig.so --near /usr/bin/program

  # The first 64 MiB, near the middle of a disk
  seekless volume replicate disk.img --range 0+64MiB --near 250GiB --json")]
pub(crate) struct ReplicateArgs {
    /// The file or block device that is served
    backing: PathBuf,
    /// A file on the mounted volume; may be given several times
    #[arg(long, value_name = "PATH", required_unless_present = "range")]
    file: Vec<PathBuf>,
    /// A range of the volume, as START+LENGTH, both sizes; may be given several times
    #[arg(long, value_name = "START+LENGTH", value_parser = range)]
    range: Vec<Extent>,
    /// Where: beside this file on the mounted volume, or so far from the volume's start
    #[arg(long, value_name = "PATH|SIZE")]
    near: String,
    /// As JSON (schema seekless.replicate/1)
    #[arg(long)]
    json: bool,
}

/// What came of it: schema `seekless.replicate/1`.
#[derive(Debug, Serialize)]
struct Outcome {
    schema: &'static str,
    /// Whole pages of what was named.
    asked_bytes: u64,
    /// Of these, for which there was room; the rest have replicas already, are free themselves, or there was no room.
    placed_bytes: u64,
    /// Replicas of the whole volume that may be used now.
    standing_bytes: u64,
}

/// The server's answer to one command.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Placed {
    pub(crate) asked_sectors: u64,
    pub(crate) placed_sectors: u64,
}

fn range(text: &str) -> Result<Extent, String> {
    let bad = || format!("'{text}' is no range: write START+LENGTH, such as 1GiB+64KiB");
    let (start, len) = text.split_once('+').ok_or_else(bad)?;
    let (start, len) = (size(start)?, size(len)?);
    start.0.checked_add(len.0).filter(|_| len.0 > 0).ok_or_else(bad)?;
    let first = start.0 / SECTOR_BYTES;
    Ok(Extent::span(first, (start.0 + len.0).div_ceil(SECTOR_BYTES)))
}

pub(crate) fn replicate(args: &ReplicateArgs) -> anyhow::Result<()> {
    let server = server_of(&args.backing)?.with_context(|| {
        format!("{}: nobody serves it, as far as this user can see", args.backing.display())
    })?;
    let before: VolumeState = ask(&server, None, "/state")?;
    ensure!(
        before.replicas.is_some(),
        "{}: its area was not made for replicas: `seekless volume format --replicas` makes one",
        args.backing.display()
    );
    let near = match size(&args.near) {
        Ok(at) if !Path::new(&args.near).exists() => Extent::new(at.0 / SECTOR_BYTES, 0),
        _ => {
            let lies = lies(Path::new(&args.near), before.size_bytes)?;
            *lies.first().with_context(|| format!("{}: has no blocks of its own", args.near))?
        }
    };
    let mut homes = args.range.clone();
    for path in &args.file {
        homes.extend(lies(path, before.size_bytes)?);
    }
    let end = before.size_bytes / SECTOR_BYTES;
    if let Some(past) = homes.iter().chain([&near]).find(|e| e.end().0 > end) {
        bail!("{past} lies past the end of the volume, {}", Bytes(before.size_bytes));
    }
    let mut placed = Placed::default();
    for some in homes.chunks(SOME) {
        let list: Vec<String> = some.iter().map(|e| format!("{}+{}", e.start.0, e.len.0)).collect();
        let path = format!("/replicate/{}+{}/{}", near.start.0, near.len.0, list.join(","));
        let answer: Placed = command(&server, &path)?;
        placed.asked_sectors += answer.asked_sectors;
        placed.placed_sectors += answer.placed_sectors;
    }
    let standing_bytes = settled(&server)?;
    let bytes = |sectors: u64| sectors * SECTOR_BYTES;
    let outcome = Outcome {
        schema: "seekless.replicate/1",
        asked_bytes: bytes(placed.asked_sectors),
        placed_bytes: bytes(placed.placed_sectors),
        standing_bytes,
    };
    if args.json {
        return output::print(&serde_json::to_string_pretty(&outcome)?);
    }
    let rest = match outcome.asked_bytes - outcome.placed_bytes {
        0 => String::new(),
        n => format!("; {} had replicas already, or found no room", Bytes(n)),
    };
    output::print(&format!(
        "replicas of {} of {} were placed{rest}; {} stand in all",
        Bytes(outcome.placed_bytes),
        Bytes(outcome.asked_bytes),
        Bytes(standing_bytes)
    ))
}

/// Waits until what was asked for is written; replicas that stand then.
fn settled(server: &Address) -> anyhow::Result<u64> {
    let bar = output::bar();
    let (mut last, mut since) = (0, Instant::now());
    loop {
        let state: VolumeState = ask(server, None, "/state")?;
        let Some((done, all)) = state.moving_bytes else {
            bar.finish_and_clear();
            return Ok(state.copied_bytes);
        };
        if done != last {
            (last, since) = (done, Instant::now());
        }
        ensure!(
            since.elapsed() < STUCK,
            "asked for, but nothing was written for {STUCK:?}; `seekless volume status` shows how it goes on"
        );
        bar.set_message(format!("{} of replicas to be written", Bytes(all - done.min(all))));
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Where a file lies on the volume, which the device of its file system must be, or a partition of it.
fn lies(path: &Path, volume: u64) -> anyhow::Result<Vec<Extent>> {
    let name = path.display();
    let file = File::open(path).with_context(|| format!("{name}: cannot open it"))?;
    let meta = file.metadata().with_context(|| format!("{name}: cannot look at it"))?;
    ensure!(meta.is_file(), "{name}: is no regular file");
    let from =
        partition(meta.dev(), volume).with_context(|| format!("{name}: not on this volume"))?;
    let runs = extents::map(&file, true)
        .with_context(|| format!("{name}: the kernel does not tell where it lies"))?;
    let own = runs.iter().filter(|r| !r.unwritten && !r.odd && r.len > 0);
    Ok(own
        .map(|r| {
            let first = from + r.physical / SECTOR_BYTES;
            Extent::span(first, from + (r.physical + r.len).div_ceil(SECTOR_BYTES))
        })
        .collect())
}

/// The sector of the volume at which this device of the kernel's begins.
fn partition(device: u64, volume: u64) -> anyhow::Result<u64> {
    let number = (rustix::fs::major(device), rustix::fs::minor(device));
    let dir = PathBuf::from(format!("/sys/dev/block/{}:{}", number.0, number.1));
    let dir = dir.canonicalize().context("its file system does not stand on one block device")?;
    let read = |path: PathBuf| -> anyhow::Result<u64> {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("{}: cannot read it", path.display()))?;
        text.trim().parse().with_context(|| format!("{}: '{}'", path.display(), text.trim()))
    };
    let (disk, from) = if dir.join("partition").exists() {
        (dir.parent().unwrap_or(&dir).to_owned(), read(dir.join("start"))?)
    } else {
        (dir, 0)
    };
    let found = read(disk.join("size"))? * SECTOR_BYTES;
    ensure!(
        found == volume,
        "its device, {}, has {}, and the volume has {}",
        disk.file_name().unwrap_or_default().to_string_lossy(),
        Bytes(found),
        Bytes(volume)
    );
    Ok(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_as_people_write_them() {
        assert_eq!(range("1MiB+64KiB"), Ok(Extent::new(2048, 128)));
        assert_eq!(range("100+1000"), Ok(Extent::span(0, 3)));
        for text in ["", "5", "+", "1MiB+0", "x+1", "18446744073709551615+1"] {
            assert!(range(text).is_err(), "{text}");
        }
    }
}
