//! `seekless demo`: a first true result in a minute, with built-in data. An emulated disk serves a
//! recorded desktop over NBD, vanilla and learned, and every byte is checked.

mod content;
mod replay;
mod show;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

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
const AREA: Bytes = Bytes(256 << 20);
const CACHE: Bytes = Bytes(16 << 20);
const AHEAD: Bytes = Bytes(64 << 10);
/// Head positions kept for the report.
const PATH: usize = 1 << 18;

/// A first true result in a minute: a recorded desktop served from an emulated disk, before and
/// after
///
/// The demo needs no setup and no rights. An emulated disk serves the first half of six recorded
/// days over NBD. seekless learns from it, and lays copies side by side. The second half is then
/// served from the result. A vanilla server does the same without learning. Every read byte is
/// checked.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless demo
  seekless demo --disk exos-x20 --speed 5 --report /tmp/demo.html
  seekless demo --json - | jq '.runs[] | {policy, busy_s}'

The JSON: disk, speed, cache_bytes, read_ahead_bytes, area_bytes, and runs[], vanilla and borg, over days 4 to 6: requests,
bytes_checked, busy_s and its parts seek_s, rotation_s, transfer_s, energy_busy_j, disk_ios, copy_reads and home_reads;
moving_s and moved_bytes are of the moving of data, once, before day 4, and in no other number.")]
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

/// The work of one server for the measured half.
pub(crate) struct Half {
    name: &'static str,
    replayed: Replayed,
    disk: DiskStats,
    served: seekless_engine::Stats,
    path: Vec<HeadSample>,
    /// The disk's counts while data moved.
    moving: DiskStats,
    moved_bytes: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let spec = seekless_cli::disk::named(&args.disk)?;
    let requests = sample()?;
    let (before, after) = requests.split_at(requests.len() / 2);
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
    let mut halves = Vec::new();
    for learns in [false, true] {
        halves.push(serve(args, &spec, &file, learns, (before, after), &mut content)?);
    }
    let [vanilla, borg] = &halves[..] else { unreachable!("two servers ran") };
    let json = args.json.as_deref();
    if !output::is_stdout(json) {
        output::print(&show::table(vanilla, borg).terminal(output::width(), output::colour()))?;
        output::print(&show::finding(vanilla, borg))?;
    }
    let report = show::report(vanilla, borg, &spec, args.speed);
    output::write(&args.report, &report.html())?;
    if let Some(path) = json {
        output::json(path, &show::document(vanilla, borg, &spec, args.speed))?;
    }
    let told = format!(
        "Every byte was checked: {} read back right. The head's path, before and after: {}\nThat took {:.0} s.",
        Bytes(vanilla.replayed.bytes_checked + borg.replayed.bytes_checked),
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

/// Serves both halves; measures the second.
fn serve(
    args: &Args,
    spec: &DeviceSpec,
    file: &tempfile::NamedTempFile,
    learns: bool,
    (before, after): (&[Request], &[Request]),
    content: &mut Content,
) -> anyhow::Result<Half> {
    let name = if learns { "borg" } else { "vanilla" };
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
    if learns {
        builder = builder.learning(Learning::default().policy(Policy::new(PolicyName::Borg)));
    }
    let server = builder.spawn()?;
    let bar = output::bar();
    bar.set_length((before.len() + after.len()) as u64);
    bar.set_message(format!("{name}: days 1 to 3"));
    replay(&server, before, content, || bar.inc(1))?;
    server.reset_disk_stats()?;
    if learns {
        bar.set_message("borg: moving data");
        server.relearn()?;
        server.wait_settled(Duration::from_secs(120))?;
    }
    let moved = server.stats()?;
    server.reset_disk_stats()?;
    bar.set_message(format!("{name}: days 4 to 6"));
    let replayed = replay(&server, after, content, || bar.inc(1))?;
    bar.finish_and_clear();
    let served = server.stats()?;
    let path = server.head_path()?;
    server.stop()?;
    Ok(Half {
        name,
        replayed,
        disk: served.disk.unwrap_or_default(),
        served: served.engine,
        path,
        moving: moved.disk.unwrap_or_default(),
        moved_bytes: moved.engine.moved_bytes,
    })
}
