//! `seekless disk emulate`: a modelled disk in real time over a sparse image: `serve` with only the
//! emulation.

use std::path::PathBuf;

use seekless_block::Bytes;
use seekless_disk::{Scheduler, SpinDown};
use seekless_learn::{Policy, PolicyName};
use seekless_serve::{Address, HostQueue};

use crate::serve;
use seekless_cli::args::{number, size};

/// Run a modelled disk in real time: an image file that answers with the delays of this disk
///
/// The model includes the queue, the scheduler and the cache of the disk. seekless itself does not
/// learn, cache or read ahead here. The image is a sparse file with the written data at their own
/// addresses. SIGINT or SIGTERM stops the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless disk emulate wd800jb disk.img --nbd unix:disk.sock
  seekless disk emulate exos-x20 disk.img --size 100GiB --fuse /run/disk --scheduler sptf
  seekless disk emulate travelstar-5k320 disk.img --nbd unix:disk.sock --spin-down 10

  # A disk without a queue of its own, under the host's elevator
  seekless disk emulate wd800jb disk.img --fuse /run/disk --queue-depth 1 --host-scheduler clook")]
pub(crate) struct Args {
    /// The disk: a name from `seekless disk list`, or the path of a TOML file
    name: String,
    /// The image: a file for the disk's data; made if absent
    image: PathBuf,
    /// Size of a new image [default: the disk's]
    #[arg(long, value_parser = size)]
    size: Option<Bytes>,
    /// Serve over NBD: unix:PATH or tcp:HOST:PORT; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    nbd: Vec<Address>,
    #[command(flatten)]
    access: serve::AccessArgs,
    /// Mount the disk over this regular file, which is made if absent
    #[arg(long, value_name = "PATH")]
    fuse: Option<PathBuf>,
    /// Times faster than the real disk; inf: no client waits for the disk, and the modelled time
    /// jumps over waiting times
    #[arg(long, value_name = "X", default_value = "1", value_parser = number::<f64>("a multiple of real time, or inf", 0.001.., 10.0))]
    speed: f64,
    /// The drive's scheduler: fcfs, sstf, look, clook, sptf, asptf, anticipatory or elevator
    #[arg(long, default_value = "fcfs")]
    scheduler: Scheduler,
    #[command(flatten)]
    watching: serve::watching::HttpArgs,
    /// Queue depth: maximum number of commands in the drive; other commands wait at the host
    /// [default: all]
    #[arg(long, value_name = "N", value_parser = number::<u16>("requests", 1.., 32))]
    queue_depth: Option<u16>,
    /// The order in which the host sends waiting commands to the drive
    #[arg(long, value_name = "SCHEDULER", default_value = "fcfs", requires = "queue_depth")]
    host_scheduler: Scheduler,
    /// When the drive stops its platters: none, after SECONDS without work, or adaptive
    #[arg(long, value_name = "none|SECONDS|adaptive", default_value = "none")]
    spin_down: SpinDown,
    /// Write the final counts as JSON (schema seekless.serve/1) to FILE, or to standard output with
    /// -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let spec = seekless_cli::disk::named(&args.name)?;
    let whole = || spec.capacity().bytes();
    let existing = args.image.metadata().ok().filter(std::fs::Metadata::is_file);
    let size = args.size.or(existing.map(|m| Bytes(m.len()))).unwrap_or_else(whole);
    let scheduler = args.host_scheduler;
    let host = args.queue_depth.map(|depth| HostQueue { depth: depth.into(), scheduler });
    let disk = serve::Emulated { name: args.name.clone(), speed: args.speed, host };
    serve::run(&serve::Args {
        size: Some(size),
        nbd: args.nbd.clone(),
        access: args.access.clone(),
        fuse: args.fuse.clone(),
        disk: Some(disk),
        scheduler: args.scheduler,
        spin_down: args.spin_down,
        watching: args.watching.clone(),
        json: args.json.clone(),
        // No learning, no cache, no read-ahead.
        optimized: Some(Bytes(0)),
        policy: Some(Policy::new(PolicyName::Vanilla)),
        background_rate: Bytes(0),
        cache: Some(Bytes(0)),
        read_ahead: Bytes(0),
        cluster: Bytes(0),
        ..serve::Args::defaults(&args.image)
    })
}
