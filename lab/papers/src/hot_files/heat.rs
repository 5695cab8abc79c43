//! How hot each file is, from a trace. Requests to the device are traced back to the files that own
//! the blocks; system calls name their files.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustc_hash::FxHashMap;
use seekless_block::{Bytes, Duration, Op, SECTOR_BYTES};
use seekless_learn::Temperature;
use seekless_serve::extents;
use seekless_trace::{FileOp, OpenOptions, Progress, Source};

use super::error::HotFilesError;
use super::list::{HotFile, List};
use super::mounted::Mounted;

/// Up to this many files, temperatures are exact.
const FILES: usize = 1 << 22;
/// Requests from one report of progress to the next.
const REPORT: u64 = 65_536;

/// Which files count as hot, and how the trace is read.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The hottest files up to this share of the stored bytes.
    pub hottest: f64,
    /// And up to this many bytes.
    pub most: Bytes,
    /// Hours after which a transfer counts half.
    pub half_life_hours: u64,
    /// Only this device of the trace.
    pub device: Option<String>,
    /// Sector of the traced disk at which the file system's partition starts.
    pub start_sector: u64,
    /// How to read the trace.
    pub open: OpenOptions,
}

impl Choice {
    fn temperature(&self) -> Temperature<u32> {
        Temperature::new(Duration(self.half_life_hours * 3_600_000_000_000), FILES)
    }
}

/// A file of the trace that exists here.
struct FoundFile {
    path: String,
    inode: u64,
    stored: u64,
}

/// The heat of the files here, by index into `found`.
struct TraceHeat {
    found: Vec<FoundFile>,
    heat: Temperature<u32>,
    /// Bytes transferred of files here, and of anything else.
    here: u64,
    elsewhere: u64,
    notes: Vec<String>,
}

/// The hottest files of a mounted file system, by this trace.
///
/// # Errors
/// If the trace cannot be read, or transfers nothing of any file here.
pub fn hottest(
    choice: &Choice,
    trace: &str,
    mounted: &Mounted,
    progress: &mut dyn FnMut(Progress),
) -> Result<List, HotFilesError> {
    let source = Source::new(trace);
    let of_files = source.open(&choice.open)?.info().format.is_of_files();
    let heat = if of_files {
        from_system_calls(choice, &source, mounted, progress)?
    } else {
        from_device_requests(choice, &source, mounted, progress)?
    };
    if heat.here == 0 {
        let path = mounted.path().display();
        let why = format!("{trace} transfers no data of any file below {path}");
        return Err(HotFilesError::Refused(why));
    }
    let stored = mounted.bytes().saturating_sub(mounted.free_bytes());
    let budget = ((choice.hottest * stored as f64) as u64).min(choice.most.0);
    let mut list = List::new(mounted.path().display().to_string(), trace.to_owned());
    heat.fill(&mut list, budget)?;
    Ok(list)
}

impl TraceHeat {
    /// Puts the hottest files into the list, up to `budget` bytes.
    fn fill(self, list: &mut List, budget: u64) -> Result<(), HotFilesError> {
        let size = |i: u32| self.found.get(i as usize).map(|f| f.stored);
        let hottest = self.heat.hottest(size);
        let (mut sum, mut moved) = (0u64, 0u64);
        for h in hottest.iter().filter(|h| h.moved > 0) {
            if sum + h.stored <= budget {
                sum += h.stored;
                moved += h.moved;
                let f = &self.found[h.key as usize];
                let (path, inode) = (f.path.clone(), f.inode);
                list.files.push(HotFile { path, inode, stored: h.stored, moved: h.moved });
            }
        }
        if list.files.is_empty() {
            let budget = Bytes(budget);
            let why = format!("no file fits in {budget}: raise --hottest or --most");
            return Err(HotFilesError::Refused(why));
        }
        let all: u64 = hottest.iter().map(|h| h.moved).sum();
        list.share = moved as f64 / all.max(1) as f64;
        list.notes = self.notes;
        if self.elsewhere > self.here / 20 {
            list.notes.push(format!(
                "{} of the trace belong to no existing file here: metadata, free space, other file systems, deleted files",
                Bytes(self.elsewhere)
            ));
        }
        if self.heat.off() > 0 {
            list.notes.push(format!(
                "too many files to count each: any file may have up to {} more",
                Bytes(self.heat.off())
            ));
        }
        Ok(())
    }
}

fn from_system_calls(
    choice: &Choice,
    source: &Source,
    mounted: &Mounted,
    progress: &mut dyn FnMut(Progress),
) -> Result<TraceHeat, HotFilesError> {
    let mut reader = source.open_files(&choice.open)?;
    let (mut heat, mut events) = (choice.temperature(), 0u64);
    let mut moved: FxHashMap<u32, u64> = FxHashMap::default();
    while let Some(event) = reader.next_event()? {
        events += 1;
        if events.is_multiple_of(REPORT) {
            progress(reader.progress());
        }
        if matches!(event.op, FileOp::Read | FileOp::Write) && event.len > 0 {
            heat.moved(event.file, event.len, event.time.0);
            *moved.entry(event.file).or_insert(0) += event.len;
        }
    }
    // By inode: several names of one file are one file.
    let mut found = Vec::new();
    let mut of_inode: FxHashMap<u64, u32> = FxHashMap::default();
    let mut joined = choice.temperature();
    let (mut here, mut elsewhere) = (0, 0);
    for (i, file) in reader.files().iter().enumerate() {
        let Some(&bytes) = moved.get(&(i as u32)) else { continue };
        let path = Path::new(&file.path).strip_prefix(mounted.path()).ok().and_then(Path::to_str);
        let opened =
            path.filter(|p| !p.is_empty()).and_then(|p| Some((p, mounted.file(p, false).ok()?)));
        let Some((path, meta)) = opened.and_then(|(p, f)| Some((p, plain(&f, mounted)?))) else {
            elsewhere += bytes;
            continue;
        };
        here += bytes;
        let number = *of_inode.entry(meta.ino()).or_insert_with(|| {
            let stored = (meta.blocks() * 512).max(mounted.block());
            found.push(FoundFile { path: path.to_owned(), inode: meta.ino(), stored });
            found.len() as u32 - 1
        });
        joined.moved(number, heat.bytes(i as u32), 0);
    }
    let notes = vec![
        "the trace is of system calls: requests that the page cache answers count too".to_owned(),
    ];
    Ok(TraceHeat { found, heat: joined, here, elsewhere, notes })
}

fn plain(file: &File, mounted: &Mounted) -> Option<std::fs::Metadata> {
    file.metadata().ok().filter(|m| m.is_file() && m.dev() == mounted.device())
}

#[derive(Clone, Copy)]
struct OwnedRun {
    start: u64,
    end: u64,
    file: u32,
}

/// By the blocks that files have now.
fn from_device_requests(
    choice: &Choice,
    source: &Source,
    mounted: &Mounted,
    progress: &mut dyn FnMut(Progress),
) -> Result<TraceHeat, HotFilesError> {
    let (found, owned) = owned_runs(mounted)?;
    if owned.is_empty() {
        let path = mounted.path().display();
        let why = format!("the kernel reports the blocks of no file below {path}");
        return Err(HotFilesError::Refused(why));
    }
    let mut reader = source.open(&choice.open)?;
    let (mut heat, mut here, mut elsewhere, mut seen) = (choice.temperature(), 0u64, 0u64, 0u64);
    let mut devices = 0;
    while let Some(record) = reader.next_record()? {
        seen += 1;
        if seen.is_multiple_of(REPORT) {
            progress(reader.progress());
        }
        let name = reader.devices().get(record.device as usize).map(|d| d.name.as_str());
        if choice.device.as_deref().is_some_and(|d| name != Some(d)) {
            continue;
        }
        devices = devices.max(record.device + 1);
        if !matches!(record.request.op, Op::Read | Op::Write) {
            continue;
        }
        let byte =
            |sector: u64| sector.saturating_sub(choice.start_sector).saturating_mul(SECTOR_BYTES);
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
    if devices > 1 && choice.device.is_none() {
        let names: Vec<&str> = reader.devices().iter().take(20).map(|d| d.name.as_str()).collect();
        return Err(HotFilesError::Refused(format!(
            "the trace has several devices: name the device of {} with --device: {}",
            mounted.path().display(),
            names.join(" ")
        )));
    }
    let notes = vec![
        "the trace's addresses were looked up in the present locations of files: a file that moved since counts for another file".to_owned(),
    ];
    Ok(TraceHeat { found, heat, here, elsewhere, notes })
}

/// Every plain file below the mount point, once, and all their blocks in order of address.
fn owned_runs(mounted: &Mounted) -> Result<(Vec<FoundFile>, Vec<OwnedRun>), HotFilesError> {
    let (mut found, mut owned): (Vec<FoundFile>, Vec<OwnedRun>) = Default::default();
    let mut seen: rustc_hash::FxHashSet<u64> = Default::default();
    let mut folders = vec![mounted.path().to_owned()];
    // Data that waits to be written has no location yet.
    rustix::fs::syncfs(mounted.root())?;
    while let Some(folder) = folders.pop() {
        // Folders that we may not read, and files that disappear meanwhile, are not counted.
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.dev() != mounted.device() {
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
            let name = path.strip_prefix(mounted.path()).ok().and_then(Path::to_str);
            let Some(name) = name else { continue };
            let Ok(file) = mounted.file(name, false) else { continue };
            let Ok(runs) = extents::map(&file, false) else { continue };
            let Ok(number) = u32::try_from(found.len()) else {
                return Err(HotFilesError::Refused("more than 2^32 files".to_owned()));
            };
            let runs = runs.iter().filter(|r| !r.odd && r.len > 0);
            owned.extend(runs.map(|r| OwnedRun {
                start: r.physical,
                end: r.physical + r.len,
                file: number,
            }));
            found.push(FoundFile {
                path: name.to_owned(),
                inode: meta.ino(),
                stored: meta.blocks() * 512,
            });
        }
    }
    owned.sort_unstable_by_key(|o| o.start);
    Ok((found, owned))
}
