//! `seekless demo`: a first true result in a minute, with built-in data. An emulated disk serves
//! recorded requests over NBD, vanilla and adaptive, and every byte is checked.

mod show;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use seekless_block::{Bytes, Op, Request};
use seekless_cli::args::number;
use seekless_disk::{Device, DeviceSpec, Scheduler, SpinDown};
use seekless_learn::{Policy, PolicyName};
use seekless_serve::{Backing, Builder, DiskStats, Emulation, HeadSample, Learning};
use seekless_trace::{Event, OpenOptions, Source};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::emulate_default_handler;

use seekless_cli::output;
use seekless_cli::signals::on_signal;
use seekless_serve::client::{Content, Replayed, replay};

const CACHE: Bytes = Bytes(16 << 20);
const AHEAD: Bytes = Bytes(64 << 10);
/// Head positions kept for the report.
const PATH: usize = 1 << 18;

/// A recording with the disk that serves it.
#[derive(Debug)]
pub(crate) struct DemoRecording {
    which: DemoPart,
    /// The recorded time, in words.
    pub(crate) span: &'static str,
    /// The client and its requests, in words.
    source: &'static str,
    /// How the requests were recorded: a file of the repository.
    pub(crate) told_in: &'static str,
    recording: &'static [u8],
    disk: &'static str,
    /// Times faster than real. A faster disk makes the host's delays look like clients that think.
    speed: f64,
    /// As large as the recorded disk.
    pub(crate) volume: Bytes,
    /// For the trail.
    pub(crate) area: Bytes,
    /// Most requests in flight.
    depth: usize,
    /// Mounts of the file system that make up one of the parts, if it has parts.
    mounts: Option<usize>,
}

/// Six days at a computer: programs and kernel also send requests ahead.
const DESKTOP: DemoRecording = DemoRecording {
    which: DemoPart::Desktop,
    span: "six days",
    source: "Six recorded days at a computer: real programs starting cold.",
    told_in: "sample/README.md",
    recording: include_bytes!("../../../../sample/desktop.trace.zst"),
    disk: "wd800jb",
    speed: 15.0,
    volume: Bytes(8 << 30),
    area: Bytes(512 << 20),
    depth: 4,
    mounts: None,
};

/// Four nights: du, find and tar of a tree of 100,000 files.
const NIGHTS: DemoRecording = DemoRecording {
    which: DemoPart::Nights,
    span: "four nights",
    source: "Four recorded nights on a file system of 100,000 small files: du, find, tar of a tenth.",
    told_in: "sample/README.md",
    recording: include_bytes!("../../../../sample/nights.parquet"),
    disk: "exos-x20",
    speed: 10.0,
    volume: Bytes(200 << 30),
    area: Bytes(2 << 30),
    depth: 1,
    mounts: Some(3),
};

/// A part of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DemoPart {
    /// Six days at a computer
    Desktop,
    /// Four nights of du, find and tar over 100,000 files
    Nights,
}

/// Show a real result in a minute: an emulated disk serves recorded requests without and with
/// seekless
///
/// The demo needs no setup and no rights. Two servers answer the same recorded requests over NBD,
/// each from an emulated disk: a vanilla server, and a server with the adaptive policy. The policy
/// starts without knowledge, and learns how far to read ahead. It keeps a trail: copies of data in
/// the order of use. The demo checks every byte that it reads.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless demo
  seekless demo nights
  seekless demo desktop --disk exos-x20 --speed 5 --report demo.html
  seekless demo --json - | jq '.runs[] | {policy, busy_s}'

The JSON has disk, speed, cache_bytes, read_ahead_bytes, area_bytes and runs[], one for vanilla and
one for adaptive. A run has:
  requests, bytes_checked, disk_ios, home_reads, copy_reads (reads from the trail)
  busy_s and its parts seek_s, rotation_s, transfer_s; energy_busy_j
  background_s   the part of busy_s that wrote the trail; moved_bytes are its bytes
  prefetched_pages, prefetch_used_pages
                 pages of 4 KiB that were read before a client asked for them
  parts[]        busy_s of each night
If both recordings are served, these fields are those of the desktop, and the field `nights` holds
the same fields of the nights.")]
pub(crate) struct Args {
    /// The recording to serve [default: both]
    which: Option<DemoPart>,
    /// The disk to emulate: a name from `seekless disk list`, or the path of a TOML file [default:
    /// wd800jb for the desktop, exos-x20 for the nights]
    #[arg(long)]
    disk: Option<String>,
    /// Times faster than the real disk [default: 15 for the desktop, 10 for the nights]
    #[arg(long, value_parser = number::<f64>("a multiple of real time", 0.01..=1000.0, 10.0))]
    speed: Option<f64>,
    /// Path of the report
    #[arg(long, value_name = "FILE.html", default_value = "seekless-demo.html", value_parser = seekless_cli::args::out_file())]
    report: PathBuf,
    /// Write the numbers as JSON (schema seekless.demo/1) to FILE, or, in place of the tables, to
    /// standard output with -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

/// The work of one server.
pub(crate) struct Run {
    name: &'static str,
    replayed: Replayed,
    disk: DiskStats,
    served: seekless_engine::Stats,
    path: Vec<HeadSample>,
    /// Seconds of disk time, by part.
    parts: Vec<f64>,
}

/// A recording, served twice.
pub(crate) struct Played {
    scene: &'static DemoRecording,
    spec: DeviceSpec,
    speed: f64,
    vanilla: Run,
    adaptive: Run,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    output::ensure_apart([Some(args.report.as_path()), args.json.as_deref()], [])?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let path = folder.path().to_owned();
    on_signal(&[SIGINT, SIGTERM], move |signal| {
        let _ = std::fs::remove_dir_all(&path);
        emulate_default_handler(signal).is_ok()
    })?;
    let started = Instant::now();
    let to_stdout = output::is_stdout(args.json.as_deref());
    let mut played = Vec::new();
    for scene in [&DESKTOP, &NIGHTS] {
        if args.which.is_none_or(|which| which == scene.which) {
            let one = play(args, scene, folder.path())?;
            if !to_stdout {
                output::tables([show::table(&one)].into_iter().chain(show::parts(&one)))?;
                output::print(&format!("{}\n", show::finding(&one)))?;
            }
            played.push(one);
        }
    }
    if let Some(path) = &args.json {
        output::json(path, &show::documents(&played))?;
    }
    output::write(&args.report, &show::report(&played).html())?;
    let bytes = played.iter().flat_map(Played::runs).map(|run| run.replayed.bytes_checked).sum();
    let told = format!(
        "Every byte was checked: all {} are correct. The head's path, without and with seekless: {}\nThat took {:.0} s.",
        Bytes(bytes),
        args.report.display(),
        started.elapsed().as_secs_f64()
    );
    if to_stdout {
        output::say(&told);
        return Ok(());
    }
    output::print(&told)
}

fn play(args: &Args, scene: &'static DemoRecording, folder: &Path) -> anyhow::Result<Played> {
    let spec = seekless_cli::disk::named(args.disk.as_deref().unwrap_or(scene.disk))?;
    let speed = args.speed.unwrap_or(scene.speed);
    let requests = scene.requests()?;
    let mut content = Content::default();
    requests.iter().for_each(|r| content.touch(r.extent));
    let file = tempfile::NamedTempFile::new_in(folder).context("cannot make a temporary file")?;
    file.as_file().set_len(scene.volume.0).context("cannot size the temporary file")?;
    content.store(file.as_file()).context("cannot fill the temporary file")?;
    output::say(&format!(
        "{} {} disk requests.\nServed over NBD from an emulated {}, {} times faster than real.\n",
        scene.source,
        requests.len(),
        spec.title(),
        speed
    ));
    let mut serve = |policy| scene.serve(speed, &spec, &file, policy, &requests, &mut content);
    let (vanilla, adaptive) = (serve(PolicyName::Vanilla)?, serve(PolicyName::Adaptive)?);
    Ok(Played { scene, spec, speed, vanilla, adaptive })
}

impl Played {
    fn runs(&self) -> [&Run; 2] {
        [&self.vanilla, &self.adaptive]
    }
}

impl DemoRecording {
    /// The recorded requests as they reached the disk.
    fn requests(&self) -> anyhow::Result<Vec<Request>> {
        let mut file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        file.write_all(self.recording).context("cannot write the temporary file")?;
        let options = OpenOptions { event: Event::Issue, ..OpenOptions::default() };
        let reader = Source::from_path(file.path(), None).open(&options)?;
        let fits = |r: &Request| r.op == Op::Flush || r.extent.end().0 <= self.volume.0 / 512;
        let mut requests = Vec::new();
        for record in reader {
            requests.push(record?.request);
        }
        requests.retain(fits);
        Ok(requests)
    }

    /// The first request of each part but the first.
    fn marks(&self, requests: &[Request]) -> Vec<usize> {
        let Some(mounts) = self.mounts else { return Vec::new() };
        // A mount of ext4 reads the superblock: 1 KiB at 1 KiB.
        let mount = |r: &&Request| r.op == Op::Read && (r.extent.start.0, r.extent.len.0) == (2, 2);
        let indices = requests.iter().enumerate().filter(|(_, r)| mount(r)).map(|(i, _)| i);
        indices.step_by(mounts).skip(1).collect()
    }

    /// Serves all requests by a policy, from cold.
    fn serve(
        &self,
        speed: f64,
        spec: &DeviceSpec,
        file: &tempfile::NamedTempFile,
        policy: PolicyName,
        requests: &[Request],
        content: &mut Content,
    ) -> anyhow::Result<Run> {
        let adapts = policy == PolicyName::Adaptive;
        let server = Builder::new(Backing::Path(file.path().to_owned()))
            .area(self.area)
            .learning(adapts.then(|| Learning::default().policy(Policy::new(policy))))
            .engine(|config| {
                config.cache_bytes = CACHE;
                config.read_ahead = AHEAD;
                config.cluster = AHEAD;
            })
            .emulate(Emulation {
                disk: Device::new(spec)?,
                scheduler: Scheduler::Fcfs,
                spin_down: SpinDown::None,
                speed,
                host: None,
                path_max: PATH,
            })
            .spawn()?;
        let name = policy.name();
        let bar = output::bar();
        bar.set_length(requests.len() as u64);
        bar.set_message(name);
        let (mut replayed, mut parts, mut from) = (Replayed::default(), Vec::new(), 0);
        let busy = || anyhow::Ok(server.stats()?.disk.unwrap_or_default().busy.as_secs_f64());
        for to in self.marks(requests).into_iter().chain([requests.len()]) {
            let before = busy()?;
            let part = &requests[from..to];
            replayed += replay(&server, part, self.depth, content, || bar.inc(1))?;
            parts.push(busy()? - before);
            from = to;
        }
        bar.finish_and_clear();
        let served = server.stats()?;
        let path = server.head_path()?;
        server.stop()?;
        let disk = served.disk.unwrap_or_default();
        Ok(Run { name, replayed, disk, served: served.engine, path, parts })
    }
}
