//! `seekless disk probe`: reads a device or file past the host's caches, and fits a description to
//! the service times. It only reads: this module has no code that writes.

use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rustix::fs::OFlags;
use seekless_block::Op;
use seekless_disk::fit::{Pace, Sample, workload};

use super::fit::FitOutputs;
use seekless_cli::args::duration;
use seekless_cli::output;

/// Alignment of memory and lengths for direct I/O.
const ALIGN: usize = 4096;
/// The longest read of the workload.
const READ_MAX: usize = 128 * 512;

/// Describe a disk by reading it
///
/// Reads sequential runs, then backwards in a few steps, then at all distances. One read at a time
/// bypasses the host's caches, until the time budget is used. Then fits a model, as `seekless disk
/// fit` does. Never writes to the disk. Other requests to the disk during this time change the
/// result.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless disk probe /dev/sdb --budget 60s -o sdb.toml --plot sdb.svg")]
pub(crate) struct Args {
    /// The block device or file
    path: PathBuf,
    /// Time for reading: 30s, 2m
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "60s")]
    budget: Duration,
    #[command(flatten)]
    to: FitOutputs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    args.to.ensure_apart(&args.path)?;
    let (file, bytes) = open(&args.path)?;
    let capacity = bytes / 512;
    let samples = measure(&file, capacity, args.budget)
        .with_context(|| format!("cannot read {}", args.path.display()))?;
    let from = format!("measured by {} reads of {}", samples.len(), args.path.display());
    args.to.hand_out(capacity / 8 * 8, &samples, &from)
}

/// Opens for reading, past the page cache.
fn open(path: &Path) -> anyhow::Result<(File, u64)> {
    let cannot = || format!("cannot open {} for direct reads", path.display());
    let meta = path.metadata().with_context(cannot)?;
    ensure!(!meta.is_dir(), "{} is a folder; give a block device or a file", path.display());
    let flags = OFlags::DIRECT | OFlags::CLOEXEC;
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .with_context(cannot)?;
    let bytes = file.seek(SeekFrom::End(0)).with_context(cannot)?;
    ensure!(
        bytes >= 1 << 20,
        "{} holds {bytes} bytes; a probe needs at least 1 MiB",
        path.display()
    );
    Ok((file, bytes))
}

fn measure(file: &File, capacity: u64, budget: Duration) -> anyhow::Result<Vec<Sample>> {
    let mut memory = vec![0u8; READ_MAX + ALIGN];
    let skip = memory.as_ptr().align_offset(ALIGN);
    let room = memory.get_mut(skip..skip + READ_MAX).context("no aligned memory")?;
    let reads = workload(capacity).context("too small to learn from")?;
    let bar = output::bar();
    bar.set_message("reading");
    bar.set_length(budget.as_millis() as u64);
    let mut samples = Vec::new();
    let start = Instant::now();
    let mut now = start;
    let nanos = |time: Duration| seekless_block::Duration(time.as_nanos() as u64);
    let mut pace = Pace::new(nanos(budget));
    for extent in reads {
        if !pace.wants(nanos(now - start), extent) {
            continue;
        }
        let at = extent.start.0 * 512;
        let part = room.get_mut(..extent.len.bytes().0 as usize).context("a read too long")?;
        file.read_exact_at(part, at).with_context(|| format!("at byte {at}"))?;
        // From end to end: between two immediate reads the platter turns on.
        let end = Instant::now();
        samples.push(Sample { op: Op::Read, extent, service: nanos(end - now) });
        now = end;
        if samples.len().is_multiple_of(16) {
            bar.set_position((now - start).as_millis() as u64);
        }
        if now - start >= budget {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(samples)
}
