//! The first pass over a trace: its facts, and the layout of its devices on one disk.

use std::collections::{BTreeMap, BTreeSet};

use seekless_block::{Extent, Op, Sectors, SimTime};
use seekless_learn::GridCount;
use seekless_trace::{Reader, Record};

use crate::outcome::TraceFacts;

/// Devices of a trace start on the simulated disk at multiples of this many sectors (1 MiB).
const ALIGN: u64 = 2048;

/// More sectors than any disk has. Readers limit sector numbers to 2^55, but not the number of
/// devices.
const CAPACITY_MAX: u64 = 1 << 60;

/// A set of sectors, as disjoint ranges that do not touch.
#[derive(Clone, Debug, Default)]
pub struct RangeSet(BTreeMap<u64, u64>);

impl RangeSet {
    /// Adds every sector of the extent.
    pub fn insert(&mut self, extent: Extent) {
        let (mut start, mut end) = (extent.start.0, extent.end().0);
        if start == end {
            return;
        }
        if let Some((&s, &e)) = self.0.range(..=start).next_back()
            && e >= start
        {
            if e >= end {
                return;
            }
            start = s;
        }
        while let Some((&s, &e)) = self.0.range(start..=end).next() {
            end = end.max(e);
            self.0.remove(&s);
        }
        self.0.insert(start, end);
    }

    /// Takes every sector of the extent out.
    pub fn remove(&mut self, extent: Extent) {
        let (start, end) = (extent.start.0, extent.end().0);
        if start == end {
            return;
        }
        if let Some((&s, &e)) = self.0.range(..start).next_back()
            && e > start
        {
            self.0.insert(s, start);
            if e > end {
                self.0.insert(end, e);
            }
        }
        while let Some((&s, &e)) = self.0.range(start..end).next() {
            self.0.remove(&s);
            if e > end {
                self.0.insert(end, e);
            }
        }
    }

    /// The extents of the set, in order; adjacent extents are one.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.0.iter().map(|(&start, &end)| Extent::span(start, end))
    }

    /// Number of sectors in the set.
    pub fn len(&self) -> Sectors {
        Sectors(self.0.iter().map(|(s, e)| e - s).sum())
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Results of the first pass.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) facts: TraceFacts,
    /// First sector of each device on the simulated disk; `None` for a device left out.
    offsets: Vec<Option<u64>>,
    /// Client addresses: all devices, end to end.
    pub(crate) capacity: Sectors,
    /// First sector of the first page that may be copied. Most reads of the whole trace begin on
    /// this grid: it tells the partitions of the devices, not future requests.
    pub(crate) grid: Sectors,
    /// Notes for the reader of any result.
    pub(crate) notes: Vec<String>,
}

/// Counts over the records.
#[derive(Default)]
struct Count {
    facts: TraceFacts,
    /// By device, the end of the last request; none without a counted request.
    ends: Vec<Option<u64>>,
    /// By device, the sectors read or written.
    footprint: Vec<RangeSet>,
    days: BTreeSet<u32>,
    grid: GridCount,
    first: SimTime,
    last: SimTime,
    /// Requests that are older than one before them, and the number of the first of them.
    behind: (u64, u64),
}

impl Count {
    /// Makes space for device `at`.
    fn know_of(&mut self, at: usize) {
        if self.ends.len() <= at {
            self.ends.resize(at + 1, None);
            self.footprint.resize(at + 1, RangeSet::default());
        }
    }

    /// Counts a record of a device.
    fn take(&mut self, at: usize, record: &Record) {
        let Record { request, day, .. } = record;
        self.facts.requests += 1;
        match request.op {
            Op::Read => self.facts.reads += 1,
            Op::Write | Op::WriteZeroes => self.facts.writes += 1,
            Op::Discard | Op::Flush => {}
        }
        if matches!(request.op, Op::Read | Op::Write | Op::WriteZeroes) {
            self.facts.bytes = self.facts.bytes.saturating_add(request.extent.bytes().0);
            self.footprint[at].insert(request.extent);
        }
        self.grid.observe(request);
        self.ends[at] = self.ends[at].max(Some(request.extent.end().0));
        if request.arrival < self.last {
            if self.behind.0 == 0 {
                self.behind.1 = self.facts.requests;
            }
            self.behind.0 += 1;
        }
        self.first = self.first.min(request.arrival);
        self.last = self.last.max(request.arrival);
        self.days.extend(day);
    }
}

impl Scan {
    /// Counts a trace; only requests of `device`, if it is given. `each(reader, record, count so
    /// far)` sees every counted request.
    pub(crate) fn new(
        reader: &mut Reader,
        device: Option<&str>,
        mut each: impl FnMut(&Reader, &Record, u64),
    ) -> Result<Self, ScanError> {
        let mut count = Count { first: SimTime::MAX, ..Count::default() };
        while let Some(record) = reader.next_record()? {
            let at = record.device as usize;
            count.know_of(at);
            if wanted(reader, &record, device) {
                count.take(at, &record);
                each(reader, &record, count.facts.requests);
            }
        }
        let Count { mut facts, ends, footprint, days, grid, first, last, behind } = count;
        if facts.requests == 0 {
            let names = reader.devices().iter().map(|d| d.name.clone()).collect();
            return Err(ScanError::Empty { device: device.map(ToOwned::to_owned), names });
        }
        let info = reader.info();
        facts.format = info.format.name().to_owned();
        facts.has_times = info.has_times;
        facts.has_processes = info.has_processes;
        facts.span_s = info.has_times.then(|| last.since(first).as_secs_f64());
        facts.footprint_bytes =
            footprint.iter().fold(0, |sum: u64, f| sum.saturating_add(f.len().bytes().0));
        facts.days = if info.has_days { days.len() as u64 } else { 0 };
        facts.skipped = reader.skipped().malformed;
        let mut offsets = Vec::with_capacity(ends.len());
        let mut capacity = 0u64;
        for &end in &ends {
            let start = capacity.next_multiple_of(ALIGN);
            // A device that has flushes alone takes no space. Its requests are replayed too.
            offsets.push(end.map(|_| start));
            if let Some(end) = end.filter(|&end| end > 0) {
                facts.devices += 1;
                // More than this fits no disk, and is refused before any request is placed.
                capacity = (start + end).min(CAPACITY_MAX);
            }
        }
        let notes = notes(reader, &facts, behind);
        let (capacity, grid) = (Sectors(capacity), grid.grid());
        Ok(Self { facts, offsets, capacity, grid, notes })
    }

    /// The record's request at its address on the simulated disk; `None` if its device is left out.
    pub(crate) fn place(&self, record: &Record) -> Option<seekless_block::Request> {
        let offset = Sectors((*self.offsets.get(record.device as usize)?)?);
        let mut request = record.request;
        if request.op != Op::Flush {
            request.extent.start = request.extent.start + offset;
        }
        Some(request)
    }
}

fn wanted(reader: &Reader, record: &Record, device: Option<&str>) -> bool {
    let Some(name) = device else { return true };
    reader.devices().get(record.device as usize).is_some_and(|d| d.name == name)
}

fn notes(reader: &Reader, facts: &TraceFacts, (behind, first): (u64, u64)) -> Vec<String> {
    let mut notes: Vec<String> =
        reader.info().format.caveat().map(ToOwned::to_owned).into_iter().collect();
    if facts.devices > 1 {
        notes
            .push(format!("the trace's {} devices are laid end to end on one disk", facts.devices));
    }
    let skipped = reader.skipped();
    notes.extend(skipped.notes());
    // A reader that sorts has counted these.
    if skipped.late == 0 && behind > 0 {
        notes.push(format!(
            "not in order of time: {behind} requests are older than one before them, first request {first}; they are served in the order of the trace",
        ));
    }
    notes
}

#[derive(Debug)]
pub(crate) enum ScanError {
    Trace(seekless_trace::TraceError),
    Empty { device: Option<String>, names: Vec<String> },
}

impl From<seekless_trace::TraceError> for ScanError {
    fn from(error: seekless_trace::TraceError) -> Self {
        Self::Trace(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_set_counts_each_sector_once() {
        let mut set = RangeSet::default();
        let mut twin = [false; 100];
        let mut dice = seekless_block::Dice::new(7);
        for _ in 0..400 {
            let (start, len) = (dice.below(90), dice.below(6));
            set.insert(Extent::new(start, len));
            twin[start as usize..(start + len) as usize].fill(true);
            assert_eq!(set.len().0, twin.iter().filter(|&&b| b).count() as u64);
            let (start, len) = (dice.below(90), dice.below(9));
            set.remove(Extent::new(start, len));
            twin[start as usize..(start + len) as usize].fill(false);
            let mut found = [false; 100];
            set.iter().for_each(|e| found[e.start.0 as usize..e.end().0 as usize].fill(true));
            assert_eq!((found, set.len().0), (twin, twin.iter().filter(|&&b| b).count() as u64));
        }
        assert!(!set.is_empty());
    }
}
