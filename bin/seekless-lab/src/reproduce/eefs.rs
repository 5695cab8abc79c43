//! `seekless-lab reproduce eefs`.

use std::path::PathBuf;

use seekless_block::Bytes;
use seekless_cli::args::{Out, command_line, number, size};
use seekless_cli::output::with_bar;
use seekless_disk::SpinDown;
use seekless_papers::eefs::{EefsOptions, reproduce};
use seekless_papers::synth::Synthetic;
use seekless_trace::Source;

/// Scale of `--quick`.
const QUICK: f64 = 0.25;
const DISK: &str = "toshiba-pccard";

/// EEFS: files in groups against a fast file system, from made-up days that match its Table 1, on a
/// modelled disk
///
/// Compares three systems with the same memory: a fast file system, the same with plain read-ahead
/// of one cluster, and EEFS. With --trace, the requests are those of your own trace of files.
/// docs/believing/groups.md names the modelled and the invented parts.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab reproduce eefs --quick
  seekless-lab reproduce eefs --report eefs.html --json eefs.json
  seekless-lab reproduce eefs --spin-down adaptive --quick
  seekless-lab reproduce eefs --sensitivity --report eefs.html
  seekless-lab reproduce eefs --trace build.strace --shuffle 1000 --cache 16MiB")]
pub(crate) struct Args {
    /// A quarter of the requests, files, hours, memory and of the interval between shuffles
    #[arg(long, conflicts_with = "scale")]
    quick: bool,
    /// Requests, files, hours, memory and the interval between shuffles as a multiple of the
    /// paper's: 0.001 to 1
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = number::<f64>("a multiple", 0.001..=1.0, 0.05))]
    scale: f64,
    /// Seed of the made-up days
    #[arg(long, value_name = "N", default_value_t = Synthetic::SEED, value_parser = number::<u64>("a seed", 0.., 7))]
    seed: u64,
    /// A trace of files (strace, Process Monitor) instead of the made-up days
    #[arg(long, value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Memory of each system; default: fitted to the hit rates that the paper prints of FFS (1.5
    /// or 3.5 MiB, times the scale), and 128 MiB for a trace
    #[arg(long, value_name = "SIZE", value_parser = size)]
    cache: Option<Bytes>,
    /// The files of a whole made-up day lie evenly in N directories; default: fitted to the
    /// requests that the paper prints of FFS. The fast file system puts the inodes of each
    /// directory together
    #[arg(long, value_name = "N", conflicts_with = "trace", value_parser = number::<u32>("directories", 1.., 30))]
    directories: Option<u32>,
    /// Also show how the gain depends on settings: INS and RES with 10 to 1,000 directories, each
    /// with the fitted memory, 4 times and 16 times as much
    #[arg(long, conflicts_with_all = ["trace", "cache", "directories"])]
    sensitivity: bool,
    /// Requests from one shuffle to the next; default: the paper's 100,000 times the scale (light
    /// day: 3,589, because it has fewer than 100,000 in all)
    #[arg(long, value_name = "N", value_parser = number::<u64>("requests", 0.., 1000))]
    shuffle: Option<u64>,
    /// When the platters stop: none, adaptive, or seconds without work
    #[arg(long, value_name = "POLICY", default_value = "none")]
    spin_down: SpinDown,
    /// The disk, by its name in the catalogue
    #[arg(long, value_name = "NAME", default_value = DISK)]
    disk: String,
    /// The fast file system delays no write, as if mounted with `sync`; the group store still
    /// delays writes
    #[arg(long, conflicts_with = "sensitivity")]
    sync: bool,
    /// A program that writes a file from its beginning empties the file first (`O_TRUNC`); the
    /// made-up days overwrite
    #[arg(long, conflicts_with_all = ["trace", "sensitivity"])]
    truncate: bool,
    #[command(flatten)]
    out: Out,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let trace = args.trace.as_ref().map(Source::new);
    args.out.ensure_apart_from(trace.iter().map(Source::path))?;
    let options = EefsOptions {
        scale: if args.quick { QUICK } else { args.scale },
        seed: args.seed,
        trace: args.trace.clone(),
        cache: args.cache,
        directories: args.directories,
        sensitivity: args.sensitivity,
        shuffle: args.shuffle,
        spin_down: args.spin_down,
        disk: args.disk.clone(),
        sync: args.sync,
        truncate: args.truncate,
    };
    let command = command_line();
    let results = with_bar(|p| reproduce(&options, &command, p))?;
    super::show(&args.out, results, "")
}
