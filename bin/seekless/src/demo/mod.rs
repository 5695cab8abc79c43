//! `seekless demo`: a first true result in a minute, with built-in data. An emulated disk serves a
//! recorded desktop over NBD, vanilla and adaptive, and every byte is checked.

mod content;
mod replay;
mod show;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use seekless_block::{Bytes, Op, Request};
use seekless_disk::{Device, DeviceSpec, Scheduler, SpinDown};
use seekless_learn::{Policy, PolicyName};
use seekless_serve::{Backing, Builder, DiskStats, Emulation, HeadSample, Learning};
use seekless_trace::{Event, OpenOptions, Source};

use content::Content;
use replay::{Replayed, replay};
use seekless_cli::output;

/// Six days at a computer, recorded for this purpose; see `sample/README.md`.
const SAMPLE: &[u8] = include_bytes!("../../../../sample/desktop.trace.zst");
/// The volume is as large as the disk the sample was recorded on.
const VOLUME: Bytes = Bytes(8 << 30);
/// For the trail.
const AREA: Bytes = Bytes(512 << 20);
const CACHE: Bytes = Bytes(16 << 20);
const AHEAD: Bytes = Bytes(64 << 10);
/// Head positions kept for the report.
const PATH: usize = 1 << 18;

/// A first true result in a minute: a recorded desktop served from an emulated disk, without and
/// with seekless
///
/// The demo needs no setup and no rights. An emulated disk serves six recorded days over NBD, once
/// by a vanilla server, and once by a server with the adaptive policy. This policy starts without
/// knowledge. It learns how far to read ahead, and keeps a trail of copies in the order of use.
/// Every read byte is checked.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless demo
  seekless demo --disk exos-x20 --speed 5 --report /tmp/demo.html
  seekless demo --json - | jq '.runs[] | {policy, busy_s}'

The JSON: disk, speed, cache_bytes, read_ahead_bytes, area_bytes, and runs[], vanilla and adaptive: requests,
bytes_checked, busy_s and its parts seek_s, rotation_s, transfer_s, energy_busy_j, disk_ios, copy_reads (of the trail) and
home_reads; background_s is the part of busy_s for writing the trail, and moved_bytes its bytes; prefetched_pages and
prefetch_used_pages count pages of 4 KiB that were read before a client asked for them.")]
pub(crate) struct Args {
    /// The disk to emulate: a name from `seekless disk list`, or the path of a TOML file
    #[arg(long, default_value = "wd800jb")]
    disk: String,
    /// Times faster than the real disk
    #[arg(long, default_value_t = 15.0, value_parser = speed)]
    speed: f64,
    /// Path of the report
    #[arg(long, value_name = "FILE.html", default_value = "seekless-demo.html")]
    report: PathBuf,
    /// Write the numbers as JSON (schema seekless.demo/1) to FILE, or, in place of the table, to
    /// standard output with -
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if (0.01..=1000.0).contains(&x) => Ok(x),
        _ => Err(format!("'{text}' is not a speed: a number from 0.01 to 1000")),
    }
}

/// The work of one server.
pub(crate) struct Run {
    name: &'static str,
    replayed: Replayed,
    disk: DiskStats,
    served: seekless_engine::Stats,
    path: Vec<HeadSample>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let spec = seekless_cli::disk::named(&args.disk)?;
    let requests = sample()?;
    let mut content = Content::new(VOLUME.0 / 512);
    requests.iter().for_each(|r| content.touch(r.extent));
    let file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    file.as_file().set_len(VOLUME.0).context("cannot size the temporary file")?;
    content.store(file.as_file()).context("cannot fill the temporary file")?;

    output::say(&format!(
        "Six recorded days at a computer: {} disk requests of real programs starting cold.\n\
         Served over NBD from an emulated {}, {} times faster than real.\n",
        requests.len(),
        spec.title(),
        args.speed
    ));
    let vanilla = serve(args, &spec, &file, PolicyName::Vanilla, &requests, &mut content)?;
    let adaptive = serve(args, &spec, &file, PolicyName::Adaptive, &requests, &mut content)?;
    let (vanilla, adaptive) = (&vanilla, &adaptive);
    let json = args.json.as_deref();
    if !output::is_stdout(json) {
        output::print(&show::table(vanilla, adaptive).terminal(output::width(), output::colour()))?;
        output::print(&show::finding(vanilla, adaptive))?;
    }
    let report = show::report(vanilla, adaptive, &spec, args.speed);
    output::write(&args.report, &report.html())?;
    if let Some(path) = json {
        output::json(path, &show::document(vanilla, adaptive, &spec, args.speed))?;
    }
    let told = format!(
        "Every byte was checked: {} read back right. The head's path, without and with seekless: {}\nThat took {:.0} s.",
        Bytes(vanilla.replayed.bytes_checked + adaptive.replayed.bytes_checked),
        args.report.display(),
        started.elapsed().as_secs_f64()
    );
    if output::is_stdout(json) {
        output::say(&told);
        return Ok(());
    }
    output::print(&told)
}

/// The sample's requests as they reached the disk.
fn sample() -> anyhow::Result<Vec<Request>> {
    let mut file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    file.write_all(SAMPLE).context("cannot write the temporary file")?;
    let options = OpenOptions { event: Event::Issue, lenient: false };
    let reader = Source::from_path(file.path(), None).open(&options)?;
    let fits = |r: &Request| r.op == Op::Flush || r.extent.end().0 <= VOLUME.0 / 512;
    let mut requests = Vec::new();
    for record in reader {
        requests.push(record?.request);
    }
    requests.retain(fits);
    Ok(requests)
}

/// Serves all requests by a policy, from cold.
fn serve(
    args: &Args,
    spec: &DeviceSpec,
    file: &tempfile::NamedTempFile,
    policy: PolicyName,
    requests: &[Request],
    content: &mut Content,
) -> anyhow::Result<Run> {
    let adapts = policy == PolicyName::Adaptive;
    let mut builder = Builder::new(Backing::Path(file.path().to_owned()))
        .area(AREA)
        .engine(|config| {
            config.cache_bytes = CACHE;
            config.read_ahead = AHEAD;
            config.cluster = AHEAD;
        })
        .emulate(Emulation {
            disk: Device::new(spec)?,
            scheduler: Scheduler::Fcfs,
            spin_down: SpinDown::None,
            speed: args.speed,
            host: None,
            path_max: PATH,
        });
    if adapts {
        builder = builder.learning(Learning::default().policy(Policy::new(policy)));
    }
    let server = builder.spawn()?;
    let name = policy.text();
    let bar = output::bar();
    bar.set_length(requests.len() as u64);
    bar.set_message(name);
    let replayed = replay(&server, requests, content, || bar.inc(1))?;
    bar.finish_and_clear();
    let served = server.stats()?;
    let path = server.head_path()?;
    server.stop()?;
    let disk = served.disk.unwrap_or_default();
    Ok(Run { name, replayed, disk, served: served.engine, path })
}
