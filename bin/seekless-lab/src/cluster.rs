//! `seekless-lab cluster`: the hottest files of a mounted file system moved together, without our
//! device underneath.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use seekless_block::Bytes;
use seekless_cli::args::{ReadArgs, number, share, size};
use seekless_cli::{disk, output};
use seekless_papers::hot_files::{
    Choice, HotFile, List, Mounted, Outcome, Survey, Travel, apply, hottest, survey,
};
use seekless_report::{Table, Unit};
use seekless_trace::Source;

use seekless_cli::output::with_bar;

/// Files of the table on the terminal.
const SHOWN: usize = 20;

/// Move the hottest files of a mounted ext4 together, so that the head travels less between them
///
/// The first call makes a list: how hot each file was in a trace, in bytes transferred per byte
/// stored. The trace is of the file system's own device, or of system calls (strace). In the first
/// case the command finds the file of each request. The first call moves nothing. --list FILE keeps
/// the list.
///
/// The second call, --apply FILE, moves blocks of the hottest files into one run of free space, the
/// hottest in the middle. ext4 itself moves the blocks (EXT4_IOC_MOVE_EXT): every byte is readable
/// at any moment. You may end the command at any time, and run it again. Files that lie together
/// already stay where they are. Names, owners, times, holes and links stay unchanged. The command
/// leaves out and counts files that a program has open for writing, files that changed since the
/// list was made, and files that are not plain data. On other file systems the command only makes
/// the list.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab cluster /srv --trace srv-week.parquet --list hot.json
  seekless-lab cluster /srv --trace strace:app.strace --hottest 5% --disk nearline
  seekless-lab cluster /srv --apply hot.json")]
pub(crate) struct Args {
    /// The mount point of the file system
    mountpoint: PathBuf,
    /// The trace: PATH, FORMAT:PATH, or - for standard input; compressed or not
    #[arg(long, value_name = "TRACE", required_unless_present = "apply")]
    trace: Option<String>,
    /// Keep the list in FILE
    #[arg(long, value_name = "FILE", conflicts_with = "apply", value_parser = seekless_cli::args::out_file())]
    list: Option<PathBuf>,
    /// Apply a list: moves data
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "device", "start_sector", "hottest", "most"])]
    apply: Option<PathBuf>,
    /// Only the hottest files, up to this share of the stored bytes
    #[arg(long, value_parser = share, default_value = "8%")]
    hottest: f64,
    /// Only the hottest files, up to this number of bytes
    #[arg(long, value_parser = size, default_value = "4GiB")]
    most: Bytes,
    /// Hours after which a transfer counts half
    #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = number::<u64>("hours", 1..=87_600, 24))]
    half_life: u64,
    /// Also print seek times on this disk: a name from `seekless disk list`, or the path of a TOML
    /// file
    #[arg(long)]
    disk: Option<String>,
    /// If the trace is of a whole disk: the sector at which the file system's partition starts
    #[arg(long, value_name = "SECTOR", default_value_t = 0, value_parser = number::<u64>("a sector", 0.., 2048))]
    start_sector: u64,
    #[command(flatten)]
    read: ReadArgs,
    /// Write the numbers as JSON (schema seekless.cluster/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let trace = args.trace.as_ref().map(Source::new);
    let disk = args.disk.as_deref().and_then(disk::file);
    let inputs = trace.iter().map(Source::path).chain(args.apply.as_deref()).chain(disk);
    output::ensure_apart([args.list.as_deref(), args.json.as_deref()], inputs)?;
    let mounted = Mounted::open(&args.mountpoint)?;
    let travel = travel(args, &mounted)?;
    match (&args.apply, &args.trace) {
        (Some(path), _) => apply_list(args, &mounted, &travel, &List::read(path)?),
        (None, Some(trace)) => make_list(args, &mounted, &travel, trace),
        (None, None) => bail!("a trace is needed: --trace TRACE"),
    }
}

fn travel(args: &Args, mounted: &Mounted) -> anyhow::Result<Travel> {
    let Some(name) = &args.disk else { return Ok(Travel::new(mounted, None)?) };
    let spec = disk::named(name)?;
    let plain = spec.plain_disk().with_context(|| {
        format!("'{name}' has no single arm: choose a disk of kind disk (seekless disk list)")
    })?;
    Ok(Travel::new(mounted, Some((name, plain)))?)
}

fn make_list(args: &Args, mounted: &Mounted, travel: &Travel, trace: &str) -> anyhow::Result<()> {
    let choice = Choice {
        hottest: args.hottest,
        most: args.most,
        half_life_hours: args.half_life,
        device: args.read.device.clone(),
        start_sector: args.start_sector,
        open: args.read.options(),
    };
    let list =
        with_bar(|p| hottest(&choice, trace, mounted, &mut |at| p("reading", at.read, at.total)))?;
    let found = survey(mounted, &list);
    let [before, after] = found.trips(mounted, travel);
    if let Some(path) = &args.list {
        output::json(path, &list)?;
    }
    let value = serde_json::json!({
        "schema": "seekless.cluster/1",
        "list": list,
        "left_alone": found.left_alone(),
        "before": before,
        "after": after,
        "can_apply": mounted.refusal().is_none(),
    });
    if !output::json_beside(args.json.as_deref(), &value)? {
        return Ok(());
    }
    print_list(&list, &found)?;
    output::print(&format!(
        "Mean head travel between accesses, modelled: {before}; with all files side by side: {after}."
    ))?;
    match mounted.refusal() {
        Some(why) => output::print(&format!("Nothing can be moved here: {why}.")),
        None if args.list.is_none() => output::print(
            "Nothing was moved. Keep the list with --list FILE, and apply it with --apply FILE.",
        ),
        None => output::print("Nothing was moved. Apply the list with --apply."),
    }
}

fn print_list(list: &List, found: &Survey) -> anyhow::Result<()> {
    let mut hottest: Vec<_> = list.files.iter().collect();
    hottest.sort_by(|a, b| b.temperature().total_cmp(&a.temperature()));
    let title = format!("The hottest of {} files", list.files.len());
    let table = Table::of(title, hottest.iter().take(SHOWN).copied())
        .text("file", |f| f.path.as_str())
        .number("stored", Unit::Bytes, |f| f.stored as f64)
        .number("moved", Unit::Bytes, |f| f.moved as f64)
        .number("temperature", Unit::Number, HotFile::temperature)
        .done();
    output::tables([&table])?;
    output::print(&format!(
        "\n{} files with {} take {:.0} % of the trace's transfers of files here.",
        list.files.len(),
        Bytes(list.files.iter().map(|f| f.stored).sum()),
        list.share * 100.0
    ))?;
    output::notes(&list.notes);
    for (why, files) in found.left_alone() {
        output::print(&format!("{files} would be left alone: {why}."))?;
    }
    Ok(())
}

fn apply_list(args: &Args, mounted: &Mounted, travel: &Travel, list: &List) -> anyhow::Result<()> {
    let outcome =
        with_bar(|p| apply(mounted, travel, list, &mut |done, all| p("moving", done, all)))?;
    let goes_on = output::json_beside(args.json.as_deref(), &outcome)?;
    if goes_on { print_outcome(&outcome) } else { Ok(()) }
}

fn print_outcome(o: &Outcome) -> anyhow::Result<()> {
    if o.moved_files == 0 {
        let why = o.why_not.as_deref().unwrap_or("every file was left alone");
        output::print(&format!("Nothing was moved: {why}."))?;
    } else {
        let bytes = Bytes(o.moved_bytes);
        output::print(&format!("{} of {} files moved, {bytes}.", o.moved_files, o.files))?;
        output::print(&format!(
            "Mean head travel between accesses, modelled: before {}, now {}.",
            o.before, o.after
        ))?;
    }
    for (why, files) in &o.left_alone {
        output::print(&format!("{files} left alone: {why}."))?;
    }
    Ok(())
}
