//! `seekless-lab synth`: a made-up week or day with the statistics that a paper prints of a real
//! one, written as a trace.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use seekless_cli::args::number;
use seekless_cli::{output, signals};
use seekless_papers::synth::{
    FILE_DAYS, FileDay, Matched, PERSONALITIES, Synthetic, counted, matched, write_strace,
};
use seekless_report::{Table, Unit};
use seekless_trace::{OpenOptions, Target, TraceError, convert};
use serde_json::json;

use seekless_cli::output::with_bar;

/// Make up a week of requests with the statistics that a paper prints of its trace
///
/// Use such a week where the trace of the paper is not published.
/// borg-office, borg-developer, borg-svn and borg-web are the four weeks of BORG's Table 1 (FAST
/// 2009). The paper prints no numbers of borg-vmm. The four days of EEFS's Table 1 are file
/// requests, written as text of strace. The command counts the written trace as `seekless stat`
/// counts any trace, and prints the counts beside the paper's. Everything is made up.
/// docs/lab/synth.md lists the matched and the invented parts. The same name, scale and seed give
/// the same trace. Other commands can also read `synth:NAME` in place of a file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # Writes borg-svn.parquet, about 20,000 requests
  seekless-lab synth borg-svn

  seekless-lab synth borg-office -o office.csv.zst --seed 7
  seekless-lab synth borg-web --scale 0.1 -o fio:web.log
  seekless-lab synth borg-developer -o dev.parquet && seekless stat dev.parquet --size 45.59GiB
  seekless-lab synth eefs-light -o light.strace && seekless-lab reproduce eefs --trace light.strace
  seekless simulate synth:borg-office --disk maxtor-6l020

  # Many disks
  seekless-lab synth fleet --disks 1000 --scale 0.2 -o fleet
  seekless advise --fleet fleet --disk exos-x20")]
pub(crate) struct Args {
    /// The week or day, or `fleet`: weeks of many disks, each with its own seed, in a folder
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(PERSONALITIES.map(|p| p.name).into_iter().chain(FILE_DAYS.map(|d| d.name)).chain([FLEET])))]
    name: String,
    /// Disks of the fleet
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = number::<u32>("disks", 1.., 1000))]
    disks: u32,
    /// Destination: PATH or FORMAT:PATH, FORMAT:- for standard output, in a format that `seekless
    /// convert` writes [default: NAME.parquet]
    #[arg(short, long = "output", value_name = "OUT", value_parser = Target::new)]
    output: Option<Target>,
    /// Seed of all draws
    #[arg(long, value_name = "N", default_value_t = Synthetic::SEED, value_parser = number::<u64>("a seed", 0.., 7))]
    seed: u64,
    /// Size of the file system and number of requests, as a multiple of the paper's: 0.001 to 16
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = number::<f64>("a multiple", 0.001..=16.0, 0.1))]
    scale: f64,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Write the matched numbers as JSON (schema seekless.synth/1) to FILE, or to standard output
    /// with -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

/// The name of a made-up fleet.
const FLEET: &str = "fleet";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.name == FLEET {
        return of_a_fleet(args);
    }
    match FILE_DAYS.iter().find(|d| d.name == args.name) {
        Some(day) => of_files(day, args),
        None => of_a_disk(args),
    }
}

/// A day of file requests, as text of strace. A file is written whole or not at all.
fn of_files(day: &FileDay, args: &Args) -> anyhow::Result<()> {
    if !(0.001..=1.0).contains(&args.scale) {
        bail!("a scale of {}: for days of files, give a scale from 0.001 to 1", args.scale);
    }
    if args.json.is_some() {
        bail!(
            "--json is for weeks of a disk; for days of files use `seekless-lab reproduce eefs --json`"
        );
    }
    let default = || PathBuf::from(format!("{}.strace", args.name));
    let to = args.output.clone().map_or_else(default, |t| t.path);
    output::ensure_new(&to, args.force)?;
    let write = |out: &mut dyn Write| write_strace(day, args.scale, args.seed, out);
    let written = if to.as_os_str() == "-" {
        let unwritten = |source| TraceError::WriteFailed { path: to.clone(), source };
        write(&mut BufWriter::new(io::stdout().lock())).map_err(unwritten)?
    } else {
        let fail = || format!("cannot write {}", to.display());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        // A stop removes the unfinished output.
        let stop = signals::stop_flag()?;
        let part = output::part(&to, mode).with_context(fail)?;
        let out = Stoppable { out: part.as_file(), stop };
        let written = write(&mut BufWriter::new(out)).with_context(fail)?;
        output::keep(part, &to).with_context(fail)?;
        written
    };
    output::say(&format!(
        "{}: {} requests of {} files, made up ({})",
        to.display(),
        written.requests,
        written.files,
        day.title
    ));
    Ok(())
}

/// An output that fails once `stop` is set.
struct Stoppable<W> {
    out: W,
    stop: Arc<AtomicBool>,
}

impl<W: Write> Write for Stoppable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("it was stopped, and no part of it is left"));
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A week of each disk of a fleet, one native file a disk. The disks take turns with the
/// personalities.
fn of_a_fleet(args: &Args) -> anyhow::Result<()> {
    if args.json.is_some() {
        bail!("--json is for the week of one disk");
    }
    let folder = args.output.clone().map_or_else(|| PathBuf::from(FLEET), |t| t.path);
    let fail = || format!("cannot make {}", folder.display());
    std::fs::create_dir_all(&folder).with_context(fail)?;
    let stop = signals::stop_flag()?;
    let bar = output::bar();
    bar.set_length(args.disks.into());
    let mut requests = 0;
    for (disk, personality) in (0..args.disks).zip(PERSONALITIES.into_iter().cycle()) {
        let seed = args.seed.wrapping_add(disk.into());
        let week =
            Synthetic::new(personality.name, args.scale, seed).map_err(anyhow::Error::msg)?;
        let path = folder.join(format!("disk-{disk:05}.parquet"));
        output::ensure_new(&path, args.force)?;
        let source = week.source().stopped_by(stop.clone());
        let written = convert(&source, &OpenOptions::default(), Target::from(&path), &mut |_| {})?;
        requests += written.records;
        bar.inc(1);
    }
    bar.finish_and_clear();
    let (disks, folder) = (args.disks, folder.display());
    output::print(&format!("{folder}: {requests} requests of {disks} disks, made up"))
}

/// A week of requests to a disk, as a trace in any format.
fn of_a_disk(args: &Args) -> anyhow::Result<()> {
    let synthetic =
        Synthetic::new(&args.name, args.scale, args.seed).map_err(anyhow::Error::msg)?;
    let default = || Target::from(&PathBuf::from(format!("{}.parquet", args.name)));
    let target = args.output.clone().unwrap_or_else(default);
    let to = target.path.clone();
    let to_stdout = to.as_os_str() == "-";
    output::ensure_new(&to, args.force)?;
    if output::is_stdout(args.json.as_deref()) && to_stdout {
        bail!(
            "the trace and --json cannot both go to standard output: name a file for one of them"
        );
    }
    output::ensure_apart([Some(to.as_path()), args.json.as_deref()], [])?;
    // A stop removes the unfinished output.
    let source = synthetic.source().stopped_by(signals::stop_flag()?);
    let done = with_bar(|p| {
        let options = OpenOptions::default();
        convert(&source, &options, target.clone(), &mut |at| p("writing", at.read, at.total))
    })?;
    let rows = matched(&synthetic, &with_bar(|p| counted(&synthetic, &source, p))?);
    if let Some(path) = &args.json {
        let document = json!({
            "schema": "seekless.synth/1",
            "name": args.name,
            "title": synthetic.personality.title,
            "printed_in": synthetic.personality.printed_in,
            "seed": args.seed,
            "scale": args.scale,
            "size_bytes": synthetic.size().0,
            "to": { "path": to.to_string_lossy(), "format": target.format.name() },
            "requests": done.records,
            "matched": rows.iter().map(|(what, unit, printed, ours)| json!({
                "what": what, "unit": if *unit == Unit::Bytes { "bytes" } else { "share" },
                "printed": printed, "ours": ours,
            })).collect::<Vec<_>>(),
        });
        output::json(path, &document)?;
    }
    let requests = Unit::count(done.records);
    let name = if to_stdout { "standard output".into() } else { to.to_string_lossy() };
    let summary = format!("{name}: {requests} requests, made up ({})", synthetic.personality.title);
    if to_stdout || output::is_stdout(args.json.as_deref()) {
        output::say(&summary);
        return Ok(());
    }
    output::print(&summary)?;
    output::tables([&table(&synthetic, &rows)])?;
    output::print(&format!("To see more: seekless stat {name} --size {}", synthetic.size().0))
}

fn table(synthetic: &Synthetic, rows: &[Matched]) -> Table {
    let (title, aim) = match synthetic.personality.printed_in {
        Some(place) => (place, "paper"),
        None => ("Our own targets, printed in no paper", "aim"),
    };
    let table = Table::of(title, rows)
        .text("", |r| r.0)
        .right(aim, |r| r.1.format(r.2, 4))
        .right("this trace", |r| r.1.format(r.3, 4))
        .right("off by", |r| Unit::Share.format((r.3 / r.2 - 1.0).abs(), 2))
        .done();
    let scaled = if synthetic.scale == 1.0 {
        String::new()
    } else {
        format!(" Sizes of the paper are multiplied by {}.", synthetic.scale)
    };
    table.note(format!(
        "A GB is 2^30 bytes.{scaled} Counted as `seekless stat` counts; matched, not measured."
    ))
}
