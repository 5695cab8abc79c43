//! How hot each file is, from a trace: of the device, requests traced back to the files whose blocks they touched; of
//! system calls, by name.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use rustc_hash::FxHashMap;
use seekless_block::{Bytes, Duration, Op, SECTOR_BYTES};
use seekless_learn::Temperature;
use seekless_serve::extents;
use seekless_trace::{FileOp, Progress, Source};

use super::Args;
use super::list::{Hot, List};
use super::volume::Volume;
use seekless_cli::output;

/// Files whose temperature is kept: exact for fewer.
const FILES: usize = 1 << 22;

/// A file as it was found.
struct Found {
    path: String,
    inode: u64,
    stored: u64,
}

/// What a trace says of files here.
struct Heard {
    found: Vec<Found>,
    heat: Temperature<u32>,
    /// Bytes moved of files here, and elsewhere.
    here: u64,
    elsewhere: u64,
    notes: Vec<String>,
}

/// The hottest files, as much of them as is asked for.
pub(super) fn hottest(args: &Args, trace: &str, volume: &Volume) -> anyhow::Result<List> {
    let source = Source::new(trace);
    let bar = output::bar();
    let mut progress = |what: &str, at: Progress| {
        bar.set_message(what.to_owned());
        bar.set_length(at.total.max(1));
        bar.set_position(at.read);
    };
    let of_files = source.open(&args.read.options())?.info().format.is_of_files();
    let heard = if of_files {
        by_name(args, &source, volume, &mut progress)?
    } else {
        by_block(args, &source, volume, &mut progress)?
    };
    bar.finish_and_clear();
    let Heard { found, heat, here, elsewhere, notes } = heard;
    if here == 0 {
        bail!("{trace} moves nothing of any file below {}", volume.path.display());
    }
    let size = |i: u32| found.get(i as usize).map(|f| f.stored);
    let stored = (volume.blocks - volume.free.min(volume.blocks)).saturating_mul(volume.block);
    let budget = ((args.hottest * stored as f64) as u64).min(args.most.0);
    let mut list = List::new(volume.path.display().to_string(), trace.to_owned());
    let (mut sum, mut moved) = (0u64, 0u64);
    for h in heat.hottest(size).into_iter().filter(|h| h.moved > 0) {
        if sum + h.stored <= budget {
            sum += h.stored;
            moved += h.moved;
            let f = &found[h.key as usize];
            list.files.push(Hot {
                path: f.path.clone(),
                inode: f.inode,
                stored: h.stored,
                moved: h.moved,
            });
        }
    }
    if list.files.is_empty() {
        bail!("no file fits in {}: raise --hottest or --most", Bytes(budget));
    }
    let all: u64 = heat.hottest(size).iter().map(|h| h.moved).sum();
    list.share = moved as f64 / all.max(1) as f64;
    list.notes = notes;
    if elsewhere > here / 20 {
        list.notes.push(format!(
            "{} of the trace are of no file that is here now: metadata, free space, other file systems, files gone",
            Bytes(elsewhere)
        ));
    }
    if heat.off() > 0 {
        list.notes.push(format!(
            "too many files to count each: any may have moved up to {} more",
            Bytes(heat.off())
        ));
    }
    Ok(list)
}

fn temperature(args: &Args) -> Temperature<u32> {
    Temperature::new(Duration(args.half_life * 3_600_000_000_000), FILES)
}

/// From system calls.
fn by_name(
    args: &Args,
    source: &Source,
    volume: &Volume,
    progress: &mut dyn FnMut(&str, Progress),
) -> anyhow::Result<Heard> {
    let mut reader = source.open_files(&args.read.options())?;
    let (mut heat, mut events) = (temperature(args), 0u64);
    let mut moved: FxHashMap<u32, u64> = FxHashMap::default();
    while let Some(event) = reader.next_event()? {
        events += 1;
        if events.is_multiple_of(65_536) {
            progress("reading", reader.progress());
        }
        if matches!(event.op, FileOp::Read | FileOp::Write) && event.len > 0 {
            heat.moved(event.file, event.len, event.time.0);
            *moved.entry(event.file).or_insert(0) += event.len;
        }
    }
    // By inode: names of one file are one file.
    let mut found = Vec::new();
    let mut of_inode: FxHashMap<u64, u32> = FxHashMap::default();
    let mut joined = temperature(args);
    let (mut here, mut elsewhere) = (0, 0);
    for (i, file) in reader.files().iter().enumerate() {
        let Some(&bytes) = moved.get(&(i as u32)) else { continue };
        let path = Path::new(&file.path).strip_prefix(&volume.path).ok().and_then(Path::to_str);
        let opened =
            path.filter(|p| !p.is_empty()).and_then(|p| Some((p, volume.file(p, false).ok()?)));
        let Some((path, meta)) = opened.and_then(|(p, f)| Some((p, plain(&f, volume)?))) else {
            elsewhere += bytes;
            continue;
        };
        here += bytes;
        let number = *of_inode.entry(meta.ino()).or_insert_with(|| {
            let stored = (meta.blocks() * 512).max(volume.block);
            found.push(Found { path: path.to_owned(), inode: meta.ino(), stored });
            found.len() as u32 - 1
        });
        joined.moved(number, heat.bytes(i as u32), 0);
    }
    let notes =
        vec!["the trace is of system calls: what the page cache answers counts too".to_owned()];
    Ok(Heard { found, heat: joined, here, elsewhere, notes })
}

fn plain(file: &File, volume: &Volume) -> Option<std::fs::Metadata> {
    file.metadata().ok().filter(|m| m.is_file() && m.dev() == volume.device)
}

/// A run of blocks and whose it is.
#[derive(Clone, Copy)]
struct Owned {
    start: u64,
    end: u64,
    file: u32,
}

/// From requests to the device, by the blocks that files have now.
fn by_block(
    args: &Args,
    source: &Source,
    volume: &Volume,
    progress: &mut dyn FnMut(&str, Progress),
) -> anyhow::Result<Heard> {
    let (found, owned) = owners(volume)?;
    if owned.is_empty() {
        bail!("no file below {} tells where it lies", volume.path.display());
    }
    let mut reader = source.open(&args.read.options())?;
    let (mut heat, mut here, mut elsewhere, mut seen) = (temperature(args), 0u64, 0u64, 0u64);
    let mut devices = 0;
    while let Some(record) = reader.next_record()? {
        seen += 1;
        if seen.is_multiple_of(65_536) {
            progress("reading", reader.progress());
        }
        let name = reader.devices().get(record.device as usize).map(|d| d.name.as_str());
        if args.device.as_deref().is_some_and(|d| name != Some(d)) {
            continue;
        }
        devices = devices.max(record.device + 1);
        if !matches!(record.request.op, Op::Read | Op::Write) {
            continue;
        }
        let byte =
            |sector: u64| sector.saturating_sub(args.start_sector).saturating_mul(SECTOR_BYTES);
        let extent = record.request.extent;
        let (start, end) = (byte(extent.start.0), byte(extent.end().0));
        let first = owned.partition_point(|o| o.end <= start);
        let mut inside = 0;
        for o in owned[first..].iter().take_while(|o| o.start < end) {
            let bytes = o.end.min(end) - o.start.max(start);
            heat.moved(o.file, bytes, record.request.arrival.0);
            inside += bytes;
        }
        here += inside;
        elsewhere += (end - start).saturating_sub(inside);
    }
    if devices > 1 && args.device.is_none() {
        let names: Vec<&str> = reader.devices().iter().take(20).map(|d| d.name.as_str()).collect();
        bail!(
            "the trace has several devices: name that of {} with --device: {}",
            volume.path.display(),
            names.join(" ")
        );
    }
    let notes = vec![
        "the trace's addresses were looked up where files lie now: a file that moved since counts under another's name".to_owned(),
    ];
    Ok(Heard { found, heat, here, elsewhere, notes })
}

/// Every plain file below the mount point, once, and all of their blocks in order.
fn owners(volume: &Volume) -> anyhow::Result<(Vec<Found>, Vec<Owned>)> {
    let (mut found, mut owned): (Vec<Found>, Vec<Owned>) = Default::default();
    let mut seen: rustc_hash::FxHashSet<u64> = Default::default();
    let mut folders = vec![volume.path.clone()];
    // What waits to be written has no place yet.
    rustix::fs::syncfs(&volume.root)?;
    while let Some(folder) = folders.pop() {
        // What we may not see, or what goes away under us, is not counted.
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.dev() != volume.device {
                continue;
            }
            if meta.is_dir() {
                folders.push(entry.path());
                continue;
            }
            if !meta.is_file() || meta.blocks() == 0 || !seen.insert(meta.ino()) {
                continue;
            }
            let path = entry.path();
            let name = path.strip_prefix(&volume.path).ok().and_then(Path::to_str);
            let Some(name) = name else { continue };
            let Ok(file) = volume.file(name, false) else { continue };
            let Ok(runs) = extents::map(&file, false) else { continue };
            let number = u32::try_from(found.len()).context("more than 2^32 files")?;
            let runs = runs.iter().filter(|r| !r.odd && r.len > 0);
            owned.extend(runs.map(|r| Owned {
                start: r.physical,
                end: r.physical + r.len,
                file: number,
            }));
            found.push(Found {
                path: name.to_owned(),
                inode: meta.ino(),
                stored: meta.blocks() * 512,
            });
        }
    }
    owned.sort_unstable_by_key(|o| o.start);
    Ok((found, owned))
}
