//! `seekless-lab synth`: a made-up week that matches what a paper prints of a real one, written as a trace. Knows how to
//! say what was matched, not how it is made.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use seekless_papers::synth::{
    FILE_DAYS, FileDay, FilePlay, PERSONALITIES, Printed, Synthetic, strace_line,
};
use seekless_report::{Column, Table, Unit};
use seekless_trace::stats::{StatOptions, Table1, characterize};
use seekless_trace::{OpenOptions, Source, Target, convert};
use serde_json::json;

use seekless_cli::output;

/// Make up a week of requests whose statistics match those a paper prints of a trace that nobody has
///
/// The four weeks of BORG's Table 1 (FAST 2009), and one of which no numbers are printed; and four days of file requests of
/// EEFS's Table 1, which are written as text of strace. What is written is then counted as `seekless stat` counts any
/// trace, and the counts are printed beside the paper's. Everything is made up; docs/lab/synth.md says what was
/// matched and what was invented. The same name, scale and seed give the same trace. Other commands can also
/// read `synth:NAME` in place of a file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab synth borg-svn                                  writes borg-svn.parquet, about 20,000 requests
  seekless-lab synth borg-office -o office.csv.zst --seed 7
  seekless-lab synth borg-web --scale 0.1 -o fio:web.log
  seekless-lab synth borg-developer -o dev.parquet && seekless stat dev.parquet --size 45.59GiB
  seekless-lab synth eefs-light -o light.strace && seekless-lab reproduce eefs --trace light.strace
  seekless simulate synth:borg-office --disk maxtor-6l020")]
pub(crate) struct Args {
    /// Which week
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(PERSONALITIES.map(|p| p.name).into_iter().chain(FILE_DAYS.map(|d| d.name))))]
    name: String,
    /// Where to: PATH or FORMAT:PATH, FORMAT:- for standard output; formats as of `seekless convert`. Default:
    /// NAME.parquet
    #[arg(short, long = "output", value_name = "OUT", value_parser = Target::new)]
    output: Option<Target>,
    /// Seed of all that is drawn
    #[arg(long, value_name = "N", default_value_t = Synthetic::SEED)]
    seed: u64,
    /// Size of the file system and of what is asked of it, as a multiple of the paper's: 0.001 to 16
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    scale: f64,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Write what was matched as JSON (schema seekless.synth/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

/// A number of Table 1: what it is, its unit, the paper's at this scale, ours.
pub(crate) type Matched = (&'static str, Unit, f64, f64);

/// Ours beside the paper's, sizes at the trace's scale.
pub(crate) fn matched(synthetic: &Synthetic, ours: &Table1) -> [Matched; 8] {
    let Printed { size_gb, read_gb, unique_read_gb, written_gb, unique_written_gb, .. } =
        synthetic.personality.printed;
    let Printed { accessed, top20, determinism, .. } = synthetic.personality.printed;
    let size = |what, gb: f64, ours: f64| {
        (what, Unit::Bytes, gb * f64::from(1 << 30) * synthetic.scale, ours)
    };
    let share = |what, printed, ours| (what, Unit::Share, printed, ours);
    [
        size("file system", size_gb, synthetic.size().0 as f64),
        size("reads, total", read_gb, ours.read_bytes as f64),
        size("reads, unique", unique_read_gb, ours.unique_read_bytes.value),
        size("writes, total", written_gb, ours.written_bytes as f64),
        size("writes, unique", unique_written_gb, ours.unique_written_bytes.value),
        share("file system accessed", accessed, ours.accessed_share.map_or(0.0, |e| e.value)),
        share("top 20% data access", top20, ours.top20_share.value),
        share("partial determinism", determinism, ours.determinism.share.value),
    ]
}

/// What `stat` counts of the trace.
pub(crate) fn counted(synthetic: &Synthetic, source: &Source) -> anyhow::Result<Table1> {
    let options = StatOptions { size: Some(synthetic.size()), ..StatOptions::default() };
    let mut reader = source.open(&OpenOptions::default())?;
    let bar = output::bar();
    bar.set_message("counting");
    let summary = characterize(&mut reader, &options, None, &mut |at| {
        bar.set_length(at.total.max(1));
        bar.set_position(at.read);
    });
    bar.finish_and_clear();
    Ok(summary?.table1)
}

/// A day of file requests, as text of strace: whole or not at all.
fn of_files(day: &FileDay, args: &Args) -> anyhow::Result<()> {
    if !(0.001..=1.0).contains(&args.scale) {
        bail!("a scale of {}: for days of files give one from 0.001 to 1", args.scale);
    }
    if args.json.is_some() {
        bail!(
            "--json is for weeks of a disk; `seekless-lab reproduce eefs --json` says how days of files match Table 1"
        );
    }
    let default = || PathBuf::from(format!("{}.strace", args.name));
    let to = args.output.clone().map_or_else(default, |t| t.path);
    if !args.force && to.symlink_metadata().is_ok_and(|m| m.is_file() || m.is_symlink()) {
        bail!("{} exists; give --force to replace it, or another name", to.display());
    }
    let mut play = FilePlay::new(*day, args.scale, args.seed);
    let files = play.files().to_vec();
    let mut count = 0u64;
    let mut write = |out: &mut dyn std::io::Write| -> std::io::Result<()> {
        for event in play.by_ref() {
            count += 1;
            let path =
                files.get(event.file as usize).map_or_else(String::new, |f| f.path(event.file));
            writeln!(out, "{}", strace_line(&event, &path))?;
        }
        out.flush()
    };
    if to.as_os_str() == "-" {
        write(&mut std::io::BufWriter::new(std::io::stdout().lock()))?;
    } else {
        let fail = || format!("cannot write {}", to.display());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        let part = output::part(&to, mode).with_context(fail)?;
        write(&mut std::io::BufWriter::new(part.as_file())).with_context(fail)?;
        output::keep(part, &to).with_context(fail)?;
    }
    output::say(&format!(
        "{}: {count} requests of {} files, made up ({})",
        to.display(),
        files.len(),
        day.title
    ));
    Ok(())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(day) = FILE_DAYS.iter().find(|d| d.name == args.name) {
        return of_files(day, args);
    }
    let synthetic =
        Synthetic::new(&args.name, args.scale, args.seed).map_err(anyhow::Error::msg)?;
    let default = || Target::from(&PathBuf::from(format!("{}.parquet", args.name)));
    let target = args.output.clone().unwrap_or_else(default);
    let to = target.path.clone();
    let to_stdout = to.as_os_str() == "-";
    if !args.force && to.symlink_metadata().is_ok_and(|m| m.is_file() || m.is_symlink()) {
        bail!("{} exists; give --force to replace it, or another name", to.display());
    }
    if output::is_stdout(args.json.as_deref()) && to_stdout {
        bail!(
            "the trace and --json cannot both go to standard output: name a file for one of them"
        );
    }
    let source = synthetic.source();
    let bar = output::bar();
    bar.set_message("writing");
    let done = convert(&source, &OpenOptions::default(), target.clone(), &mut |at| {
        bar.set_length(at.total.max(1));
        bar.set_position(at.read);
    });
    bar.finish_and_clear();
    let done = done?;
    let rows = matched(&synthetic, &counted(&synthetic, &source)?);
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
    let requests = Unit::Count.format(done.records as f64, 3);
    let said = if to_stdout { "standard output".into() } else { to.to_string_lossy() };
    let told = format!("{said}: {requests} requests, made up ({})", synthetic.personality.title);
    if to_stdout || output::is_stdout(args.json.as_deref()) {
        output::say(&told);
        return Ok(());
    }
    output::print(&told)?;
    output::print(&table(&synthetic, &rows).terminal(output::width(), output::colour()))?;
    output::print(&format!("To see more: seekless stat {said} --size {}", synthetic.size().0))
}

fn table(synthetic: &Synthetic, rows: &[Matched]) -> Table {
    let right = |name: &str| Column::text(name).right();
    let (title, aim) = match synthetic.personality.printed_in {
        Some(place) => (place, "paper"),
        None => ("What was aimed at: our own numbers, printed nowhere", "aim"),
    };
    let columns = vec![Column::text(""), right(aim), right("this trace"), right("off by")];
    let mut table = Table::new(title, columns);
    for (what, unit, printed, ours) in rows {
        let off = Unit::Share.format((ours / printed - 1.0).abs(), 2);
        table = table.row([
            (*what).into(),
            unit.format(*printed, 4).into(),
            unit.format(*ours, 4).into(),
            off.into(),
        ]);
    }
    let scaled = if synthetic.scale == 1.0 {
        String::new()
    } else {
        format!(" Its sizes are given times {}.", synthetic.scale)
    };
    table.note(format!(
        "A GB is taken for 2^30 bytes.{scaled} Counted as `seekless stat` counts; matched, not measured."
    ))
}
