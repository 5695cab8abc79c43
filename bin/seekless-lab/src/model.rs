//! `seekless-lab model`: the gain of clustered hot data on a disk, by analysis alone.

use std::path::PathBuf;

use anyhow::Context as _;
use seekless_block::Bytes;
use seekless_cli::args::{number, size};
use seekless_cli::{disk, output};
use seekless_disk::Disk;
use seekless_papers::clustering::{Effort, Layout, Model, Start};

use crate::reproduce::account;
use seekless_cli::output::with_bar;

/// Compute the gain of clustered hot data on a disk, by analysis alone: seek time, utilization,
/// queues
///
/// The model is that of Staelin and Garcia-Molina: docs/believing/clustering.md. A layout gives the
/// share of accesses to each cylinder: random; perfect (as in their traces, hottest in the middle);
/// normal:SIGMA; concentrated:SHARE (the rest of the disk is unused); buckets:N; lazy:SHARE (only the
/// hottest part is organized). +drift:SHARE after a layout moves this share of accesses to any
/// cylinder. Expected seeks and rotational delays are exact. Queues are drawn at random.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab model
  seekless-lab model --disk wd800jb --layout perfect,lazy:5%,buckets:6+drift:20%
  seekless-lab model --disk nearline --block 4KiB --queue 1,32,256 --json -")]
pub(crate) struct Args {
    /// The disk: a name from `seekless disk list`, or the path of a TOML file
    #[arg(long, default_value = "rz55")]
    disk: String,
    /// Layouts to compare with a random one
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "perfect,perfect+drift:20%,lazy:1%,lazy:8%,buckets:3,buckets:6"
    )]
    layout: Vec<Layout>,
    /// Size of a request
    #[arg(long, value_parser = size, default_value = "2KiB")]
    block: Bytes,
    /// Lengths of the queue, 1 to 300
    #[arg(long, value_delimiter = ',', default_value = "1,10,50,300", value_parser = number::<u32>("requests in the queue", 1..=300, 50))]
    queue: Vec<u32>,
    /// Runs of the loaded disk for each point
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number::<u32>("runs", 1..=1000, 3))]
    runs: u32,
    /// Seed of all draws
    #[arg(long, value_name = "N", default_value_t = 1990, value_parser = number::<u64>("a seed", 0.., 7))]
    seed: u64,
    /// How to count the delay before the first block: from the head's arrival, or half a
    /// revolution, as the paper does
    #[arg(long, value_parser = account(), default_value = "arrival")]
    account: Start,
    /// Write the numbers as JSON (schema seekless.model/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    output::ensure_apart([args.json.as_deref()], disk::file(&args.disk))?;
    let spec = disk::named(&args.disk)?;
    let plain = spec.plain_disk().with_context(|| {
        format!(
            "'{}' has no single arm to analyse: choose one of kind disk (seekless disk list)",
            args.disk
        )
    })?;
    let model = Model {
        disk: &args.disk,
        layouts: &args.layout,
        block: args.block,
        queues: &args.queue,
        effort: Effort { runs: args.runs, seed: args.seed, start: args.account },
    };
    let disk = Disk::new(plain)?;
    let modelled = with_bar(|progress| model.compute(&disk, progress))?;
    if !output::json_beside(args.json.as_deref(), &modelled.json())? {
        return Ok(());
    }
    for table in modelled.tables() {
        output::tables([&table])?;
        output::print("")?;
    }
    output::print(
        "All numbers are modelled: accesses are independent of each other, every cylinder has the mean length.",
    )
}
