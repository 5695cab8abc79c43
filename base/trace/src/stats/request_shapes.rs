//! Statistics of consecutive requests: operations, sizes, distances, sequentiality, alignment; in
//! total, by device and by process.

use rustc_hash::FxHashMap;
use seekless_block::{Op, PAGE_SECTORS, Request, SECTOR_BYTES};

use super::summary::{DeviceRow, Estimate, OpRow, ProcessRow, Shape};
use super::value_histogram::ValueHistogram;
use crate::{Device, Stream};

/// Maximum number of processes with their own counts; later ones are counted together with unknown
/// ones.
pub(super) const STREAMS_MAX: usize = 1 << 18;
/// Minimum fraction of the page-sized requests that start at the same sector of a page.
const NEARLY_ALL: f64 = 0.8;

/// Counts that devices and processes have in common.
#[derive(Clone, Debug, Default)]
struct ShapeCounts {
    requests: u64,
    reads: u64,
    writes: u64,
    read_sectors: u64,
    written_sectors: u64,
    /// Reads and writes that start at the end of the request before.
    sequential: u64,
}

impl ShapeCounts {
    fn add(&mut self, op: Op, sectors: u64) {
        self.requests += 1;
        match op {
            Op::Read => {
                self.reads += 1;
                self.read_sectors = self.read_sectors.saturating_add(sectors);
            }
            Op::Write | Op::WriteZeroes => {
                self.writes += 1;
                self.written_sectors = self.written_sectors.saturating_add(sectors);
            }
            Op::Discard | Op::Flush => {}
        }
    }

    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.reads += other.reads;
        self.writes += other.writes;
        self.read_sectors = self.read_sectors.saturating_add(other.read_sectors);
        self.written_sectors = self.written_sectors.saturating_add(other.written_sectors);
        self.sequential += other.sequential;
    }

    /// Fraction of all reads and writes; the first request follows none.
    fn sequential_share(&self) -> f64 {
        share(self.sequential, self.reads + self.writes)
    }
}

#[derive(Clone, Debug, Default)]
struct PerDevice {
    counts: ShapeCounts,
    /// The request before: its first sector, and its end.
    before: Option<(u64, u64)>,
    end: u64,
    /// Requests of whole pages, indexed by the sector of the page at which they start.
    whole_pages: [u64; 8],
}

#[derive(Clone, Debug, Default)]
struct PerStream {
    counts: ShapeCounts,
    /// Device and end of the request before.
    before: Option<(u32, u64)>,
}

/// The request before, on the same device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestBefore {
    /// There is none.
    First,
    /// A request that ended at the start of this one.
    Sequential,
    /// A request elsewhere; it started at this sector.
    From(u64),
}

#[derive(Debug, Default)]
pub(super) struct Shapes {
    ops: [(u64, u64); Op::NAMES.len()],
    read_sizes: ValueHistogram,
    write_sizes: ValueHistogram,
    seeks: ValueHistogram,
    backward: u64,
    starts: [u64; 8],
    whole_lengths: u64,
    devices: Vec<PerDevice>,
    streams: Vec<PerStream>,
}

impl Shapes {
    /// Counts a request. Returns the kind of the request before it, or `None` if the request moves
    /// no data.
    #[inline]
    pub(super) fn add(&mut self, request: &Request, device: u32) -> Option<RequestBefore> {
        let (start, sectors) = (request.extent.start.0, request.extent.len.0);
        let (n, sum) = &mut self.ops[request.op as usize];
        *n += 1;
        *sum = sum.saturating_add(sectors);
        let stream = request.stream.0 as usize;
        let stream = if stream < STREAMS_MAX { stream } else { 0 };
        if stream >= self.streams.len() {
            self.streams.resize_with(stream + 1, PerStream::default);
        }
        if device as usize >= self.devices.len() {
            self.devices.resize_with(device as usize + 1, PerDevice::default);
        }
        let (of, by) = (&mut self.devices[device as usize], &mut self.streams[stream]);
        of.counts.add(request.op, sectors);
        by.counts.add(request.op, sectors);
        match request.op {
            Op::Read => self.read_sizes.add(sectors),
            Op::Write | Op::WriteZeroes => self.write_sizes.add(sectors),
            Op::Discard | Op::Flush => return None,
        }
        let end = request.extent.end().0;
        of.end = of.end.max(end);
        let place = (start % PAGE_SECTORS) as usize;
        self.starts[place] += 1;
        if sectors % PAGE_SECTORS == 0 {
            self.whole_lengths += 1;
            of.whole_pages[place] += 1;
        }
        if let Some(before) = by.before.replace((device, end)) {
            by.counts.sequential += u64::from(before == (device, start));
        }
        let Some((from, ended)) = of.before.replace((start, end)) else {
            return Some(RequestBefore::First);
        };
        if ended == start {
            of.counts.sequential += 1;
            return Some(RequestBefore::Sequential);
        }
        self.seeks.add(ended.abs_diff(start));
        self.backward += u64::from(start < ended);
        Some(RequestBefore::From(from))
    }

    /// Number of requests and bytes for each operation.
    pub(super) fn mix(&self) -> Vec<OpRow> {
        let rows = Op::NAMES.iter().map(|&(op, name)| {
            let (requests, sectors) = self.ops[op as usize];
            OpRow { op: name, requests, bytes: sectors.saturating_mul(SECTOR_BYTES) }
        });
        rows.collect()
    }

    pub(super) fn shape(&self, processes: bool) -> Shape {
        let sector = SECTOR_BYTES as f64;
        let mut all = ShapeCounts::default();
        self.devices.iter().for_each(|d| all.merge(&d.counts));
        let mut by = ShapeCounts::default();
        self.streams.iter().for_each(|s| by.merge(&s.counts));
        let moved = all.reads + all.writes;
        Shape {
            read_size_bytes: self.read_sizes.finish(sector),
            write_size_bytes: self.write_sizes.finish(sector),
            seek_bytes: self.seeks.finish(sector),
            backward_share: share(self.backward, self.seeks.count()),
            sequential_share: all.sequential_share(),
            sequential_in_process_share: processes.then(|| by.sequential_share()),
            aligned_start_share: share(self.starts[0], moved),
            aligned_length_share: share(self.whole_lengths, moved),
            start_sector_in_page: self.starts,
        }
    }

    /// Devices with requests, the busiest first. `unique` is indexed by device number.
    pub(super) fn devices(&self, names: &[Device], unique: &[Estimate]) -> Vec<DeviceRow> {
        let rows = self.devices.iter().enumerate().filter(|(_, d)| d.counts.requests > 0);
        let mut rows: Vec<DeviceRow> = rows
            .map(|(i, d)| DeviceRow {
                name: names.get(i).map_or(String::new(), |n| n.name.clone()),
                requests: d.counts.requests,
                reads: d.counts.reads,
                writes: d.counts.writes,
                read_bytes: d.counts.read_sectors.saturating_mul(SECTOR_BYTES),
                written_bytes: d.counts.written_sectors.saturating_mul(SECTOR_BYTES),
                unique_bytes: unique.get(i).copied().unwrap_or_default(),
                end_bytes: d.end.saturating_mul(SECTOR_BYTES),
                sequential_share: d.counts.sequential_share(),
                offset_sectors: offset(&d.whole_pages),
            })
            .collect();
        rows.sort_by_key(|r| std::cmp::Reverse(r.requests));
        rows
    }

    /// Processes by name, the busiest first. `pages` has the number of pages per name; `unseen` is
    /// used for names that it does not contain.
    pub(super) fn processes(
        &self,
        names: &[Stream],
        pages: &FxHashMap<String, Estimate>,
        unseen: Estimate,
    ) -> Vec<ProcessRow> {
        let mut by: FxHashMap<String, (u64, ShapeCounts)> = FxHashMap::default();
        for (i, s) in self.streams.iter().enumerate().filter(|(_, s)| s.counts.requests > 0) {
            let (n, counts) = by.entry(name(names, i)).or_default();
            *n += 1;
            counts.merge(&s.counts);
        }
        let mut rows: Vec<ProcessRow> = by
            .into_iter()
            .map(|(name, (processes, c))| ProcessRow {
                pages: pages.get(&name).copied().unwrap_or(unseen),
                name,
                processes,
                requests: c.requests,
                reads: c.reads,
                writes: c.writes,
                read_bytes: c.read_sectors.saturating_mul(SECTOR_BYTES),
                written_bytes: c.written_sectors.saturating_mul(SECTOR_BYTES),
                sequential_share: c.sequential_share(),
            })
            .collect();
        rows.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.name.cmp(&b.name)));
        rows
    }
}

/// The name of a stream, or its process number; empty if it has neither.
pub(super) fn name(names: &[Stream], stream: usize) -> String {
    match names.get(stream) {
        Some(s) if s.name.is_empty() && s.pid > 0 => format!("pid {}", s.pid),
        Some(s) => s.name.clone(),
        None => String::new(),
    }
}

fn offset(whole_pages: &[u64; 8]) -> Option<u64> {
    let all: u64 = whole_pages.iter().sum();
    let (place, most) = whole_pages.iter().enumerate().max_by_key(|(_, n)| **n)?;
    (all > 0 && *most as f64 >= NEARLY_ALL * all as f64).then_some(place as u64)
}

pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
