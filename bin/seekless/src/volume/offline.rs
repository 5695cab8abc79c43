//! Verbs for a volume without a server: check, repair, dump and resize its area.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use seekless_block::{Bytes, PAGE_SECTORS, Sectors};
use seekless_engine::format::{AreaFlags, CopyState};
use seekless_engine::{Examined, Repair, examine, repair as repair_area};
use seekless_serve::area::{self, At, Lasting};
use serde::Serialize;

use seekless_serve::control::{ensure_unserved, mode_name, open_unserved};

use super::{VolumeArgs, format::told};
use seekless_cli::args::size;
use seekless_cli::output;

/// Check an area, and with --data the checksum of every copy; writes nothing
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume check /dev/sdb --data
  seekless volume check disk.img --area disk.area")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// Read every copy
    #[arg(long)]
    data: bool,
}

/// Repair an area that cannot be attached, or whose copies are damaged
///
/// If a repair would lose data that only the area has, the command lists these data. It writes
/// nothing then, unless --lose-data is given.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume repair /dev/sdb
  seekless volume repair disk.img --area disk.area --lose-data")]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// Give up data that cannot be saved: home's older bytes replace them
    #[arg(long)]
    lose_data: bool,
}

/// Print the contents of an area: superblock, log, map; writes nothing
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless volume dump /dev/sdb
  seekless volume dump disk.img --area disk.area --json | jq '.map | length'")]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// As JSON (schema seekless.dump/1), the map included
    #[arg(long)]
    json: bool,
}

/// Fit an area to a backing or a device of another size, or change the area's size
///
/// The area must be drained and detached, so that home is complete. The copies are dropped, and the
/// area is divided again; its name stays. An area within its device keeps its size and its place,
/// because a move of the area would move the volume's data: there only the volume grows.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The disk has grown: write all data home, then use the new size
  seekless volume detach disk.img --area disk.area
  truncate -s 20G disk.img
  seekless volume resize disk.img --area disk.area

  # A larger area
  seekless volume resize disk.img --area disk.area --optimized 2GiB")]
pub(crate) struct ResizeArgs {
    #[command(flatten)]
    volume: VolumeArgs,
    /// New size of the area [default: that of its file or device]
    #[arg(long, value_parser = size)]
    optimized: Option<Bytes>,
}

fn open(volume: &VolumeArgs, write: bool) -> anyhow::Result<Lasting> {
    Ok(open_unserved(&volume.backing, volume.area.as_deref(), write)?)
}

fn examined(lasting: &mut Lasting) -> anyhow::Result<Examined> {
    let place = lasting.place().display().to_string();
    examine(lasting.area()).with_context(|| format!("{place}: cannot be attached as it is"))
}

pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<()> {
    let mut lasting = open(&args.volume, false)?;
    let found = examined(&mut lasting)?;
    let bar = output::bar();
    bar.set_length(found.copies().last().map_or(0, |(slot, ..)| u64::from(slot) + 1));
    let findings = found.check(lasting.area(), args.data, &mut |slots| bar.set_position(slots))?;
    bar.finish_and_clear();
    let mut text: String = findings.iter().map(|f| format!("{f}\n")).collect();
    let replicas = found.superblock().free_map_pages > 0;
    let (found, home) = (found.superblock().home_capacity, lasting.home_capacity());
    if found != home {
        let _ = writeln!(
            text,
            "harmless: made for a device of {found}, and this one has {home}; run `seekless volume resize`"
        );
    }
    if let Err(why) = lasting.is_guarded() {
        output::print(text.trim_end())?;
        bail!("{}: {why}", args.volume.backing.display());
    }
    let lost = findings.iter().filter(|f| f.loss).count();
    if lost > 0 {
        output::print(text.trim_end())?;
        bail!(
            "{lost} pages that only the area has are damaged; `seekless volume repair --lose-data` gives them up"
        );
    }
    text += if args.data && replicas {
        "sound: superblock, map, free map and log, and every copy in the write buffer matches its checksum; replicas are checked when they are read"
    } else if args.data {
        "sound: every copy matches its checksum"
    } else {
        "sound: superblock, map and log; --data reads every copy too"
    };
    output::print(&text)
}

pub(crate) fn repair(args: &RepairArgs) -> anyhow::Result<()> {
    let mut lasting = open(&args.volume, true)?;
    let guard = lasting.repair_guard(args.lose_data)?;
    if let Some((why, true)) = &guard
        && !args.lose_data
    {
        bail!("{}: {why}", args.volume.backing.display());
    }
    match repair_area(lasting.area(), args.lose_data)? {
        Repair::Done(report) => {
            let mut text: String = report.mended.iter().map(|f| format!("{f}\n")).collect();
            if let Some((why, loses)) = guard {
                let _ = writeln!(text, "{}: {why}", if loses { "given up" } else { "harmless" });
            }
            let _ = match report.lost.len() {
                0 => write!(text, "repaired: the area can be attached; nothing was lost"),
                n => write!(
                    text,
                    "repaired: the area can be attached; {n} pages of home have older bytes now"
                ),
            };
            output::print(&text)
        }
        Repair::WouldLose(report) => {
            let text: Vec<String> = report.mended.iter().map(ToString::to_string).collect();
            output::print(&text.join("\n"))?;
            bail!("nothing was written: these data would be lost; --lose-data gives them up");
        }
    }
}

/// Schema `seekless.dump/1`. Addresses and sizes are in sectors of 512 bytes, unless the name says
/// pages.
#[derive(Serialize)]
struct Dump {
    schema: &'static str,
    superblock: SuperblockDump,
    log_records_behind_checkpoint: u64,
    clean: bool,
    /// Home's two ends are in the area; `null` if that is unknown.
    guarded: Option<bool>,
    /// Discarded sectors of home, and those of them that may hold bytes of replicas.
    free: u64,
    stained: u64,
    map: Vec<CopyDump>,
}

#[derive(Serialize)]
struct SuperblockDump {
    uuid: String,
    generation: u64,
    label: String,
    home_capacity: u64,
    area_size: u64,
    area_at: Option<u64>,
    grid: u8,
    mode: &'static str,
    flags: Vec<&'static str>,
    segment_pages: u32,
    read_segments: u32,
    log_segments: u32,
    /// Pages of the free map, if copies are replicas in home's discarded pages.
    free_map_pages: u32,
    checkpoint_slot: u8,
    checkpoint_generation: u64,
    log_segment: u32,
    log_page: u32,
    tail_segment: u32,
    next_sequence: u64,
}

#[derive(Serialize)]
struct CopyDump {
    slot: u32,
    home: u64,
    state: &'static str,
    crc32c: String,
}

const fn state_name(state: CopyState) -> &'static str {
    match state {
        CopyState::Free => "free",
        CopyState::Suspect => "suspect",
        CopyState::Clean => "clean",
        CopyState::Dirty => "dirty",
    }
}

impl SuperblockDump {
    fn of(found: &Examined) -> Self {
        let s = found.superblock();
        let flags = [(AreaFlags::DIRTY, "dirty"), (AreaFlags::CLEAN, "clean")];
        let flags = flags.into_iter().filter(|(f, _)| s.flags.contains(*f)).map(|(_, name)| name);
        Self {
            uuid: s.uuid.to_string(),
            generation: s.generation,
            label: s.label.as_str().to_owned(),
            home_capacity: s.home_capacity.0,
            area_size: s.area_size.0,
            area_at: s.inside.then_some(s.area_at.0),
            grid: s.grid,
            mode: mode_name(s.mode),
            flags: flags.collect(),
            segment_pages: s.segment_pages,
            read_segments: s.read_segments,
            log_segments: s.log_segments,
            free_map_pages: s.free_map_pages,
            checkpoint_slot: s.checkpoint_slot,
            checkpoint_generation: s.checkpoint_generation,
            log_segment: s.position.segment,
            log_page: s.position.page,
            tail_segment: s.tail,
            next_sequence: s.next_sequence,
        }
    }
}

pub(crate) fn dump(args: &DumpArgs) -> anyhow::Result<()> {
    let mut lasting = open(&args.volume, false)?;
    let found = examined(&mut lasting)?;
    let superblock = SuperblockDump::of(&found);
    let map = found.copies().map(|(slot, page, state, sum)| CopyDump {
        slot,
        home: found.home_of(page).start.0,
        state: state_name(state),
        crc32c: format!("{sum:08x}"),
    });
    let guarded = lasting.is_guarded();
    if !args.json {
        return output::print(dump_text(&found, &superblock, guarded, map)?.trim_end());
    }
    let (free, stained) = found.free();
    let dump = Dump {
        schema: "seekless.dump/1",
        superblock,
        log_records_behind_checkpoint: found.records(),
        clean: found.is_clean(),
        guarded: guarded.ok(),
        free: free.0,
        stained: stained.0,
        map: map.collect(),
    };
    output::print(&serde_json::to_string_pretty(&dump)?)
}

fn dump_text(
    found: &Examined,
    superblock: &SuperblockDump,
    guarded: Result<bool, String>,
    map: impl Iterator<Item = CopyDump>,
) -> anyhow::Result<String> {
    let mut text = String::new();
    if let serde_json::Value::Object(fields) = serde_json::to_value(superblock)? {
        for (name, value) in fields {
            let value = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            let _ = writeln!(text, "{name:<22} {value}");
        }
    }
    let _ = writeln!(text, "{:<22} {}", "detached in order", found.is_clean());
    let guarded = guarded.map_or_else(|why| why, |up| up.to_string());
    let _ = writeln!(text, "{:<22} {guarded}", "guarded");
    let _ = writeln!(text, "{:<22} {} records behind the checkpoint", "log", found.records());
    if superblock.free_map_pages > 0 {
        let (free, stained) = found.free();
        let _ = writeln!(text, "{:<22} {}", "discarded", free.bytes());
        let _ = writeln!(text, "{:<22} {}", "stained by replicas", stained.bytes());
    }
    let mut counts = [(CopyState::Dirty, 0u64), (CopyState::Clean, 0), (CopyState::Suspect, 0)];
    for (.., state, _) in found.copies() {
        counts.iter_mut().filter(|(s, _)| *s == state).for_each(|(_, n)| *n += 1);
    }
    for (state, pages) in counts {
        let bytes = Sectors(pages * PAGE_SECTORS).bytes();
        let _ = writeln!(text, "{:<22} {pages} pages ({bytes})", state_name(state));
    }
    let _ = writeln!(text, "\n{:>10} {:>16} {:<8} crc32c", "slot", "home sector", "state");
    for copy in map {
        let _ =
            writeln!(text, "{:>10} {:>16} {:<8} {}", copy.slot, copy.home, copy.state, copy.crc32c);
    }
    Ok(text)
}

pub(crate) fn resize(args: &ResizeArgs) -> anyhow::Result<()> {
    let backing = &args.volume.backing;
    ensure_unserved(backing)?;
    let made = area::resize(backing, args.volume.area.as_deref(), args.optimized)?;
    let at: At = args.volume.area.clone().map_or(At::Start, |p: PathBuf| At::Beside(p));
    output::print(&told(backing, &at, &made))
}
