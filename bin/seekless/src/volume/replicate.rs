//! `seekless volume replicate`: replicates files or ranges of a served volume near a given place
//! (FS2-static).

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use seekless_block::{Bytes, Extent, SECTOR_BYTES};
use seekless_cli::args::size;
use seekless_cli::output;
use seekless_serve::control::{Administered, extents_of_file};
use serde::Serialize;

/// Replicate files or ranges of a served volume, near a place of your choice (FS2-static)
///
/// The volume must have been made with `seekless volume format --replicas`, and must have discarded
/// space near that place. The files belong to the file system that is mounted from the volume. The
/// kernel names their blocks (FIEMAP). The replicas are side by side in the given order. A write to
/// a file sends reads of the written part home again. A replaced file has no replicas. Existing
/// replicas stay.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # A shared library beside the program that loads it
  seekless volume replicate /dev/sda --file /usr/lib/libbig.so --near /usr/bin/program

  # The first 64 MiB, near the middle of a disk
  seekless volume replicate disk.img --range 0+64MiB --near 250GiB --json")]
pub(crate) struct ReplicateArgs {
    /// The served file or block device
    backing: PathBuf,
    /// A file on the mounted volume; may be repeated
    #[arg(long, value_name = "PATH", required_unless_present = "range")]
    file: Vec<PathBuf>,
    /// A range of the volume, as START+LENGTH, both sizes; may be repeated
    #[arg(long, value_name = "START+LENGTH", value_parser = range)]
    range: Vec<Extent>,
    /// Place: beside this file on the mounted volume, or at this distance from the volume's start
    #[arg(long, value_name = "PATH|SIZE")]
    near: String,
    /// As JSON (schema seekless.replicate/1)
    #[arg(long)]
    json: bool,
}

/// The result: schema `seekless.replicate/1`.
#[derive(Debug, Serialize)]
struct Outcome {
    schema: &'static str,
    /// Whole pages of the named files and ranges.
    asked_bytes: u64,
    /// Those with new replicas; the rest have replicas already, are free themselves, or found no
    /// space.
    placed_bytes: u64,
    /// Usable replicas of the whole volume.
    standing_bytes: u64,
}

fn range(text: &str) -> Result<Extent, String> {
    let bad = || format!("'{text}' is not a range: write START+LENGTH, for example 1GiB+64KiB");
    let (start, len) = text.split_once('+').ok_or_else(bad)?;
    let (start, len) = (size(start)?, size(len)?);
    start.0.checked_add(len.0).filter(|_| len.0 > 0).ok_or_else(bad)?;
    let first = start.0 / SECTOR_BYTES;
    Ok(Extent::span(first, (start.0 + len.0).div_ceil(SECTOR_BYTES)))
}

pub(crate) fn replicate(args: &ReplicateArgs) -> anyhow::Result<()> {
    let volume = Administered::served(&args.backing)?;
    let size_bytes = volume.state()?.size_bytes;
    let near = match size(&args.near) {
        Ok(at) if !Path::new(&args.near).exists() => Extent::new(at.0 / SECTOR_BYTES, 0),
        _ => {
            let extents = extents_of_file(Path::new(&args.near), size_bytes)?;
            let first = extents.first();
            *first.with_context(|| format!("{}: has no blocks of its own", args.near))?
        }
    };
    let mut homes = args.range.clone();
    for path in &args.file {
        homes.extend(extents_of_file(path, size_bytes)?);
    }
    let (placed, Bytes(standing_bytes)) = output::with_bar(|bar| {
        let left = &mut |left: Bytes| bar(&format!("{left} of replicas to be written"), 0, 1);
        volume.replicate(near, &homes, left)
    })?;
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
        n => format!("; {} had replicas already, or found no space", Bytes(n)),
    };
    output::print(&format!(
        "replicas of {} of {} were placed{rest}; there are {} in all",
        Bytes(outcome.placed_bytes),
        Bytes(outcome.asked_bytes),
        Bytes(standing_bytes)
    ))
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
