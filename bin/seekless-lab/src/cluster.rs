//! `seekless-lab cluster`: the hottest files of a mounted file system moved together, without our device underneath. Makes a
//! list from a trace, or carries one out; decides nothing of its own but what to leave alone.

mod apply;
mod donor;
mod heat;
mod lies;
mod list;
mod place;
mod volume;

use std::path::PathBuf;

use anyhow::bail;
use seekless_block::Bytes;
use seekless_report::{Cell, Column, Table, Unit};

use seekless_cli::args::{ReadArgs, share, size};
use seekless_cli::output;

use apply::Outcome;
use list::List;
use place::Travel;
use volume::Volume;

/// Move the hottest files of a mounted ext4 together, so that the head travels less between them
///
/// First a list is made: how hot each file was in a trace, in bytes moved per byte stored. The trace is of the file system's
/// own device (requests are traced back to files), or of system calls (strace). Nothing is moved; --list FILE keeps
/// the list. Then --apply FILE carries it out: the hottest files' blocks go to one run of free space, hottest in the middle,
/// by ext4's own call (EXT4_IOC_MOVE_EXT), which keeps every byte in place at any moment. It may be ended at any time
/// and run again; what lies together already is not moved. Names, owners, times, holes and links stay as they
/// are. Files that somebody has open for writing, that changed since the list was made, or that are not plain data are
/// left alone and counted. On other file systems the list is all there is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless-lab cluster /srv --trace srv-week.parquet --list hot.json
  seekless-lab cluster /srv --trace strace:app.strace --hottest 5% --disk nearline
  seekless-lab cluster /srv --apply hot.json")]
pub(crate) struct Args {
    /// Where the file system is mounted
    mountpoint: PathBuf,
    /// The trace: PATH, FORMAT:PATH, or - for standard input; compressed or not
    #[arg(long, value_name = "TRACE", required_unless_present = "apply")]
    trace: Option<String>,
    /// Keep the list in FILE
    #[arg(long, value_name = "FILE", conflicts_with = "apply")]
    list: Option<PathBuf>,
    /// Carry out a list: moves data
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "device", "start_sector", "hottest", "most"])]
    apply: Option<PathBuf>,
    /// Only the hottest files that together hold so much of what is stored
    #[arg(long, value_parser = share, default_value = "8%")]
    hottest: f64,
    /// And no more than this
    #[arg(long, value_parser = size, default_value = "4GiB")]
    most: Bytes,
    /// A file counts half after so many hours
    #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=87_600))]
    half_life: u64,
    /// Say how long seeks take on this disk: a name from `seekless disk list`, or the path of a TOML file
    #[arg(long)]
    disk: Option<String>,
    /// Of a trace of a whole disk: the sector at which the file system's partition starts
    #[arg(long, value_name = "SECTOR", default_value_t = 0)]
    start_sector: u64,
    /// Only this device of the trace
    #[arg(long, value_name = "NAME", help_heading = "Reading the trace")]
    device: Option<String>,
    #[command(flatten)]
    read: ReadArgs,
    /// Write the numbers as JSON (schema seekless.cluster/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let volume = Volume::open(&args.mountpoint)?;
    let travel = Travel::new(&volume, args.disk.as_deref())?;
    let Some(path) = &args.apply else {
        let Some(trace) = &args.trace else { bail!("a trace is needed: --trace TRACE") };
        let hot = heat::hottest(args, trace, &volume)?;
        return told(args, &volume, &travel, &hot);
    };
    let list = List::read(path)?;
    let bar = output::bar();
    bar.set_message("moving");
    let outcome = apply::apply(&volume, &travel, &list, &mut |done, all| {
        bar.set_length(all.max(1));
        bar.set_position(done);
    })?;
    bar.finish_and_clear();
    if let Some(path) = &args.json {
        output::json(path, &outcome)?;
    }
    if output::is_stdout(args.json.as_deref()) { Ok(()) } else { done(&outcome) }
}

/// What a list says, and what carrying it out may bring.
fn told(args: &Args, volume: &Volume, travel: &Travel, list: &List) -> anyhow::Result<()> {
    let survey = place::survey(volume, list);
    let (before, after) = (travel.of(&survey.lies()), travel.of(&survey.ideal(volume)));
    if let Some(path) = &args.list {
        output::json(path, list)?;
    }
    if let Some(path) = &args.json {
        let value = serde_json::json!({
            "schema": "seekless.cluster/1",
            "list": list,
            "left_alone": survey.left_alone(),
            "before": before,
            "after": after,
            "can_apply": volume.refusal().is_none(),
        });
        output::json(path, &value)?;
        if output::is_stdout(Some(path)) {
            return Ok(());
        }
    }
    const SHOWN: usize = 20;
    let columns = vec![
        Column::text("file"),
        Column::number("stored", Unit::Bytes),
        Column::number("moved", Unit::Bytes),
        Column::number("temperature", Unit::Number),
    ];
    let mut hottest: Vec<_> = list.files.iter().collect();
    hottest.sort_by(|a, b| b.temperature().total_cmp(&a.temperature()));
    let table = hottest.iter().take(SHOWN).fold(
        Table::new(format!("The hottest of {} files", list.files.len()), columns),
        |table, f| {
            table.row([
                Cell::from(f.path.as_str()),
                Cell::from(f.stored as f64),
                Cell::from(f.moved as f64),
                Cell::from(f.temperature()),
            ])
        },
    );
    output::print(&table.terminal(output::width(), output::colour()))?;
    output::print(&format!(
        "\n{} files of {} take {:.0} % of what the trace asks of files here.",
        list.files.len(),
        Bytes(list.files.iter().map(|f| f.stored).sum()),
        list.share * 100.0
    ))?;
    for note in &list.notes {
        output::say(&format!("note: {note}"));
    }
    for (why, files) in survey.left_alone() {
        output::print(&format!("{files} would be left alone: {why}."))?;
    }
    output::print(&format!(
        "From one to the next the head travels, modelled: {before}; laid together: {after}."
    ))?;
    match volume.refusal() {
        Some(why) => output::print(&format!("Nothing can be moved here: {why}.")),
        None if args.list.is_none() => output::print(
            "Nothing was moved. Keep the list with --list FILE, and carry it out with --apply FILE.",
        ),
        None => output::print("Nothing was moved. Carry the list out with --apply."),
    }
}

fn done(o: &Outcome) -> anyhow::Result<()> {
    if o.moved_files == 0 {
        output::print(&format!(
            "Nothing was moved: {}.",
            o.why_not.as_deref().unwrap_or("no file could be")
        ))?;
    } else {
        output::print(&format!(
            "{} of {} files moved, {}.",
            o.moved_files,
            o.files,
            Bytes(o.moved_bytes)
        ))?;
        output::print(&format!(
            "From one to the next the head travels, modelled: before {}, now {}.",
            o.before, o.after
        ))?;
    }
    for (why, files) in &o.left_alone {
        output::print(&format!("{files} left alone: {why}."))?;
    }
    Ok(())
}
