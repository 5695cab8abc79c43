//! Statistics of a trace in one pass: BORG's Table 1 and Figure 1, temperature, reuse, sizes,
//! distances, bursts. All numbers are exact while they fit the memory limit. After that a sample
//! represents all pages, and each number has an error bound. docs/using/stat.md defines each
//! number. Input is requests, output is plain data.

mod address_pairs;
mod arrival_times;
mod days;
mod heat_map;
mod pages;
mod ranks;
mod request_shapes;
mod reuse;
mod sampled_map;
mod summary;
#[cfg(test)]
mod tests;
mod value_histogram;

use rustc_hash::FxHashMap;
use seekless_block::{Bytes, Duration, Op, PAGE_SECTORS, Request, SECTOR_BYTES};

pub use summary::*;

use self::address_pairs::Pairs;
use self::arrival_times::Times;
use self::days::WorkingSets;
use self::heat_map::Grid;
use self::pages::Pages;
use self::request_shapes::{RequestBefore, STREAMS_MAX, Shapes};
use self::reuse::{Distances, page_key};
use self::sampled_map::SampledMap;
use self::value_histogram::ValueHistogram;
use crate::{Device, Info, Reader, Record, Skipped, Stream};

/// Maximum number of pages of one request that are counted. No drive accepts such a long request,
/// but a request for zeroes can be longer.
const PAGES_MAX: u64 = (256 << 20) / 4096;
/// Number of devices with their own heat map.
const HEATS: usize = 8;
/// The narrowest column of a heat map is 2^20 ns; the lowest row is 2^11 sectors, or 1 MiB.
const COLUMN: u32 = 20;
const ROW: u32 = 11;

/// Options for gathering statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatOptions {
    /// Memory for data that grows with the trace: pages, pairs, working sets.
    pub memory: Bytes,
    /// Length of a day, if the trace has times and no day numbers.
    pub day: Duration,
    /// Size of the file system or device, if known.
    pub size: Option<Bytes>,
    /// Selects the pages of the sample, if they do not all fit.
    pub seed: u64,
}

impl Default for StatOptions {
    fn default() -> Self {
        Self { memory: Bytes(1 << 30), day: Duration(86_400_000_000_000), size: None, seed: 0 }
    }
}

/// Gathers the statistics of a trace, request by request.
#[derive(Debug)]
pub struct Stats {
    options: StatOptions,
    info: Info,
    requests: u64,
    long: u64,
    merged_streams: bool,
    shapes: Shapes,
    times: Times,
    service: [ValueHistogram; 2],
    pages: Pages,
    pairs: Pairs,
    reuse: Distances,
    days: WorkingSets,
    /// The pages that each process has accessed.
    owners: SampledMap<(u64, u32), ()>,
    heat: Vec<Option<Grid>>,
}

impl Stats {
    /// Statistics for a trace with this information.
    pub fn new(options: &StatOptions, info: Info) -> Self {
        let part = |n: u64| options.memory.0 / 16 * n;
        Self {
            options: *options,
            info,
            requests: 0,
            long: 0,
            merged_streams: false,
            shapes: Shapes::default(),
            times: Times::new(),
            service: Default::default(),
            pages: Pages::within(part(6)),
            pairs: Pairs::within(part(2)),
            reuse: Distances::within(part(2)),
            days: WorkingSets::within(part(4)),
            // Sorting at the end needs the same amount again.
            owners: SampledMap::within(part(1)),
            heat: Vec::new(),
        }
    }

    /// Counts a record.
    pub fn add(&mut self, record: &Record) {
        let Record { request, device, .. } = record;
        let at =
            if self.info.has_times { self.times.add(request.arrival.0) } else { self.requests };
        self.requests += 1;
        let step = self.shapes.add(request, *device);
        let Some(step) = step else { return };
        if let Some(service) = record.service {
            self.service[usize::from(request.op != Op::Read)].add(service.0);
        }
        if let RequestBefore::From(from) = step {
            self.pairs.add(from, request.extent.start.0, *device);
        }
        self.heat(*device, at, request.extent.start.0);
        let day = match record.day {
            Some(day) => Some(u64::from(day)),
            None => self.info.has_times.then(|| at / self.options.day.0.max(1)),
        };
        if let Some(day) = day {
            self.days.request(day);
        }
        self.touch(request, *device, day.is_some());
    }

    fn touch(&mut self, request: &Request, device: u32, has_day: bool) {
        let (start, end) = (request.extent.start.0, request.extent.end().0);
        if start == end {
            return;
        }
        let (first, last) = (start / PAGE_SECTORS, (end - 1) / PAGE_SECTORS);
        let last = if last - first >= PAGES_MAX {
            self.long += 1;
            first + PAGES_MAX - 1
        } else {
            last
        };
        let mut stream = request.stream.0;
        if stream as usize >= STREAMS_MAX {
            self.merged_streams = true;
            stream = 0;
        }
        let writes = request.op != Op::Read;
        for page in first..=last {
            let key = page_key(page, device, self.options.seed);
            let from = start.max(page * PAGE_SECTORS) % PAGE_SECTORS;
            let sectors = (end - page * PAGE_SECTORS).min(PAGE_SECTORS) - from;
            let mask = ((0xFF_u16 >> (PAGE_SECTORS - sectors)) << from) as u8;
            self.pages.touch(key, device as u16, mask, writes);
            self.reuse.touch(key);
            if has_day {
                self.days.touch(key);
            }
            if self.info.has_processes {
                self.owners.get((key, stream));
            }
        }
    }

    fn heat(&mut self, device: u32, at: u64, start: u64) {
        let device = device as usize;
        if device >= HEATS {
            return;
        }
        if device >= self.heat.len() {
            self.heat.resize(device + 1, None);
        }
        let column = if self.info.has_times { COLUMN } else { 0 };
        self.heat[device].get_or_insert_with(|| Grid::new(column, ROW)).add(at, start);
    }

    /// The results. `info`, names and counts of skipped records are those of the reader at its end.
    pub fn finish(
        self,
        info: Info,
        streams: &[Stream],
        devices: &[Device],
        skipped: &Skipped,
    ) -> Summary {
        let notes = self.notes(info);
        let count = |op| {
            self.shapes.mix().iter().find(|r| r.op == op).map_or((0, 0), |r| (r.requests, r.bytes))
        };
        let (reads, writes, zeroes) = (count("read"), count("write"), count("write_zeroes"));
        let mut table1 = Table1 {
            size_bytes: self.options.size.map(|s| s.0),
            reads: reads.0,
            read_bytes: reads.1,
            writes: writes.0 + zeroes.0,
            written_bytes: writes.1.saturating_add(zeroes.1),
            determinism: self.pairs.finish(),
            ..Table1::default()
        };
        self.pages.table1(&mut table1);
        let [read_s, write_s] = self.service.each_ref().map(|s| s.finish(1e-9));
        let unique = self.pages.by_device(devices.len());
        let days = info.has_days || info.has_times;
        let day_s = (!info.has_days).then(|| self.options.day.as_secs_f64());
        let processes = if info.has_processes {
            let unseen = self.owners.total(0.0, 0.0, 1.0);
            self.shapes.processes(streams, &self.pages_by_name(streams), unseen)
        } else {
            Vec::new()
        };
        Summary {
            trace: self.trace_summary(info, skipped),
            mix: self.shapes.mix(),
            shape: self.shapes.shape(info.has_processes),
            time: info.has_times.then(|| self.times.finish()),
            service: (read_s.count + write_s.count > 0).then_some(Service { read_s, write_s }),
            rank_frequency: self.pages.rank_frequency(),
            temperature: self.pages.temperature(),
            reuse: self.reuse.finish(),
            heat: heats(&self.heat, devices, info.has_times),
            devices: self.shapes.devices(devices, &unique),
            days: if days { self.days.finish(day_s) } else { None },
            processes,
            table1,
            notes,
        }
    }

    fn trace_summary(&self, info: Info, skipped: &Skipped) -> TraceSummary {
        TraceSummary {
            path: String::new(),
            format: info.format.name().to_owned(),
            requests: self.requests,
            has_times: info.has_times,
            has_days: info.has_days,
            has_processes: info.has_processes,
            has_service: info.has_service,
            span_s: info.has_times.then(|| self.times.span_s()),
            out_of_order: self.times.backwards(),
            malformed: skipped.malformed,
            zero_length: skipped.zero_length,
            without_operation: skipped.without_op,
            unknown_files: skipped.unknown_files,
            lost_events: skipped.lost_events,
        }
    }

    /// Number of pages accessed by the processes of each name; each page counts once.
    fn pages_by_name(&self, streams: &[Stream]) -> FxHashMap<String, Estimate> {
        let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
        let mut of_stream: FxHashMap<u32, u32> = FxHashMap::default();
        let mut touched: Vec<(u32, u64)> = Vec::with_capacity(self.owners.len());
        for ((page, stream), ()) in self.owners.iter() {
            let number = *of_stream.entry(stream).or_insert_with(|| {
                let next = numbers.len() as u32;
                *numbers.entry(request_shapes::name(streams, stream as usize)).or_insert(next)
            });
            touched.push((number, page));
        }
        touched.sort_unstable();
        touched.dedup();
        let mut counts = vec![0u64; numbers.len()];
        for (number, _) in touched {
            counts[number as usize] += 1;
        }
        let estimate = |n: u64| self.owners.total(n as f64, n as f64, 1.0);
        numbers.into_iter().map(|(name, n)| (name, estimate(counts[n as usize]))).collect()
    }

    fn notes(&self, info: Info) -> Vec<String> {
        let mut notes = Vec::new();
        if self.pages.weight() > 1 {
            notes.push(format!(
                "the pages did not all fit in {}; one page in {} was sampled; use more --memory for more exact numbers",
                self.options.memory,
                self.pages.weight()
            ));
        }
        if self.long > 0 {
            notes.push(format!(
                "{} requests are longer than 256 MiB; their pages after the first 256 MiB are not counted",
                self.long
            ));
        }
        if self.times.backwards() > 0 {
            notes.push(format!(
                "{} requests are older than an earlier request; they count at the time of that request",
                self.times.backwards()
            ));
        }
        if self.merged_streams && info.has_processes {
            notes.push(format!(
                "processes after the first {STREAMS_MAX} are counted together with unknown processes"
            ));
        }
        notes
    }
}

fn heats(grids: &[Option<Grid>], devices: &[Device], times: bool) -> Vec<Heat> {
    let grids = grids.iter().enumerate().filter_map(|(i, g)| Some((i, g.as_ref()?)));
    let heat = |(i, grid): (usize, &Grid)| {
        let (wide, tall, columns, cells) = grid.finish();
        Heat {
            device: devices.get(i).map_or(String::new(), |d| d.name.clone()),
            across: if times { "s" } else { "requests" },
            column: if times { wide as f64 / 1e9 } else { wide as f64 },
            row_bytes: tall.saturating_mul(SECTOR_BYTES),
            columns,
            cells,
        }
    };
    grids.map(heat).collect()
}

/// Gathers the statistics of the rest of `reader`; only for the device with the given name, if
/// there is one. `progress` is called from time to time.
pub fn characterize(
    reader: &mut Reader,
    options: &StatOptions,
    device: Option<&str>,
    progress: &mut dyn FnMut(crate::Progress),
) -> Result<Summary, crate::TraceError> {
    let mut stats = Stats::new(options, reader.info());
    let (mut named, mut wanted) = (u32::MAX, true);
    let mut seen = 0u64;
    while let Some(record) = reader.next_record()? {
        seen += 1;
        if seen.is_multiple_of(65_536) {
            progress(reader.progress());
        }
        if let Some(name) = device {
            if record.device != named {
                named = record.device;
                wanted = reader.devices().get(named as usize).is_some_and(|d| d.name == name);
            }
            if !wanted {
                continue;
            }
        }
        stats.add(&record);
    }
    progress(reader.progress());
    Ok(stats.finish(reader.info(), reader.streams(), reader.devices(), reader.skipped()))
}
