//! A disk's controller and buffer: overheads, the interface, segments, read-ahead, write-back.
//!
//! The drive's own work is computed when the next command arrives, from the time that has passed,
//! so it needs no events. The equations and their limits are in `docs/believing/disk-models.md`.

mod read_ahead;
mod transfer;

use seekless_block::{Duration, Extent, SimTime};

use self::transfer::{Inflow, Outflow};
use crate::disk::{Access, Target};
use crate::mechanism::{AccessPhases, Mechanism};
use crate::spec::{ControllerSpec, ReadAhead, WriteBack, ZeroLatency};

/// Times for a command after a read, and for a command after a write.
type AfterReadOrWrite = [Duration; 2];

#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    /// For a read, and for a write.
    bus_sector: AfterReadOrWrite,
    read_hit: AfterReadOrWrite,
    read_miss: AfterReadOrWrite,
    write_hit: AfterReadOrWrite,
    write_miss: AfterReadOrWrite,
    settle: Duration,
    write_data: Duration,
    write_seek: Duration,
    write_gather: [u64; 2],
    /// Overhead, data delay and end delay of a write that follows a write at another address.
    write_elsewhere: Option<[Duration; 3]>,
    reconnect: Duration,
    read_end: Duration,
    write_end: Duration,
    read_watermark: f64,
    segment_sectors: u64,
    own_write_segment: bool,
    read_ahead: ReadAhead,
    read_ahead_sectors: u64,
    over_requested: bool,
    on_hit: bool,
    stops_in_sector: bool,
    write_back: WriteBack,
    write_segments: usize,
    reads_hit_writes: bool,
    segments: Vec<Segment>,
    /// Increases with each use of a segment.
    uses: u64,
    after_write: bool,
    /// End address of the last write.
    written: u64,
    /// Time at which the last write-back ends. The arm is busy until then.
    free_at: SimTime,
    /// End times of the write-backs in progress, oldest first.
    writing: Vec<SimTime>,
    ahead: Option<ReadAheadRun>,
    whole: Option<WholeTrack>,
}

/// The track that a segment will hold completely after the platter has turned once under the
/// waiting head.
#[derive(Clone, Copy, Debug)]
struct WholeTrack {
    segment: usize,
    /// First address of the track.
    start: u64,
    at: SimTime,
}

/// A run of addresses in the buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    start: u64,
    end: u64,
    used: u64,
}

impl Segment {
    fn holds(&self, lbn: u64) -> bool {
        self.start <= lbn && lbn < self.end
    }
}

/// Read-ahead in progress. `next` is the first sector not yet read. `at` is the time at which the
/// head finished the sector before it.
#[derive(Clone, Copy, Debug)]
struct ReadAheadRun {
    segment: usize,
    next: u64,
    at: SimTime,
    limit: u64,
}

/// A read whose sectors are not all in the buffer.
struct PlatterRead {
    /// Time of arrival.
    at: SimTime,
    /// Earliest time at which the arm can start.
    begin: SimTime,
    extent: Extent,
    /// The segment with the first `held` sectors.
    segment: Option<usize>,
    held: u64,
    write: bool,
}

impl Buffer {
    pub(crate) fn new(spec: &ControllerSpec) -> Self {
        let ms = Duration::from_millis_f64;
        Self {
            bus_sector: spec.bus_sector_ms.map(ms),
            read_hit: spec.read_hit_ms.map(ms),
            read_miss: spec.read_miss_ms.map(ms),
            write_hit: spec.write_hit_ms.map(ms),
            write_miss: spec.write_miss_ms.map(ms),
            settle: ms(spec.settle_ms),
            write_data: ms(spec.write_data_ms),
            write_seek: ms(spec.write_seek_ms),
            write_gather: spec.write_gather_sectors.map(u64::from),
            write_elsewhere: spec.write_elsewhere.map(|w| [w.miss_ms, w.data_ms, w.end_ms].map(ms)),
            reconnect: ms(spec.reconnect_ms),
            read_end: ms(spec.read_end_ms),
            write_end: ms(spec.write_end_ms),
            read_watermark: spec.read_watermark,
            segment_sectors: u64::from(spec.segment_sectors),
            own_write_segment: spec.own_write_segment && spec.segments > 1,
            read_ahead: spec.read_ahead,
            read_ahead_sectors: u64::from(spec.read_ahead_sectors),
            over_requested: spec.read_ahead_over_requested,
            on_hit: spec.read_ahead_on_hit,
            stops_in_sector: spec.read_ahead_stops_in_sector,
            write_back: if spec.segments == 0 { WriteBack::None } else { spec.write_back },
            write_segments: spec.write_segments as usize,
            reads_hit_writes: spec.reads_hit_writes,
            segments: vec![Segment::default(); spec.segments as usize],
            ..Self::default()
        }
    }

    pub(crate) fn writes_back(&self) -> bool {
        self.write_back != WriteBack::None
    }

    /// The time at which all accepted data is on the platter and the arm is free.
    pub(crate) const fn free_at(&self) -> SimTime {
        self.free_at
    }

    /// Waits until all accepted data is on the platter.
    pub(crate) fn flush(&mut self, at: SimTime) -> Access {
        Access { overhead: self.free_at.since(at), ..Access::default() }
    }

    /// The number of segments that reads can use.
    fn readable(&self) -> usize {
        self.segments.len() - usize::from(self.own_write_segment)
    }

    fn touch(&mut self, segment: usize) {
        self.uses += 1;
        self.segments[segment].used = self.uses;
    }

    /// Moves the end of a segment to `end`. Drops sectors at its start if the segment is full.
    fn extend(&mut self, segment: usize, end: u64) {
        let s = &mut self.segments[segment];
        s.end = s.end.max(end);
        s.start = s.start.max(s.end.saturating_sub(self.segment_sectors));
    }

    pub(crate) fn read(
        &mut self,
        m: &mut Mechanism,
        at: SimTime,
        target: &Target,
        extent: Extent,
    ) -> Access {
        let mut access = Access::default();
        self.read_on(m, at, &mut access);
        self.take_whole(at);
        let after = usize::from(std::mem::take(&mut self.after_write));
        let (start, end) = (extent.start.0, extent.end().0);
        let found = (0..self.segments.len())
            .filter(|&i| self.segments[i].holds(start))
            .max_by_key(|&i| self.segments[i].end)
            // The head is about to read this sector, or is inside its first sector: treat
            // read-ahead as started.
            .or_else(|| self.ahead.filter(|a| a.next == start).map(|a| a.segment));
        let held = found.map_or(0, |i| self.segments[i].end.min(end) - start);
        let mut out = self.outflow(at, extent, found.map(|_| held), after);
        let streaming = self.ahead.filter(|a| Some(a.segment) == found && held < extent.len.0);
        if let Some(ahead) = streaming {
            // The head is already reading these sectors; it continues.
            self.ahead = Some(ReadAheadRun { limit: ahead.limit.max(end), ..ahead });
            let media_end = self.read_to(m, end, &mut out);
            access.transfer = media_end.since(at);
        } else if held < extent.len.0 {
            let begin = (at + self.read_miss[after]).max(self.free_at);
            let write = target.write;
            let read = PlatterRead { at, begin, extent, segment: found, held, write };
            access = self.read_from_platter(m, &read, &mut out, access);
        }
        if let Some(i) = found {
            self.touch(i);
            if held == extent.len.0 && (self.ahead.is_some_and(|a| a.segment == i) || self.on_hit) {
                self.refresh(m, i, at, extent);
            }
        }
        let mechanical = access.seek + access.rotation + access.transfer;
        access.overhead =
            Duration((out.done + self.read_end).since(at).0.saturating_sub(mechanical.0));
        access
    }

    /// The transfer of a read that arrives at `at`. `held` is the number of its sectors in the
    /// buffer, or `None` if no segment holds its first sector.
    fn outflow(&self, at: SimTime, extent: Extent, held: Option<u64>, after: usize) -> Outflow {
        let mut out = Outflow {
            done: SimTime(0),
            bus: self.bus_sector[0],
            total: extent.len.0 - held.unwrap_or(0),
            watermark: 1,
            reconnect: self.reconnect,
            seen: 0,
        };
        if held.is_some() {
            // The buffered sectors are sent while the arm moves, and the interface stays busy.
            out.reconnect = Duration::ZERO;
            out.done = at + self.read_hit[after] + Duration(self.bus_sector[0].0 * extent.len.0);
        } else if self.read_watermark > 0.0 {
            let most = extent.len.0.min(self.segment_sectors.max(1));
            out.watermark = ((most as f64 * self.read_watermark) as u64).max(1);
        }
        out
    }

    /// Reads the sectors that are not in the buffer from the platter, and starts read-ahead.
    fn read_from_platter(
        &mut self,
        m: &mut Mechanism,
        read: &PlatterRead,
        out: &mut Outflow,
        mut access: Access,
    ) -> Access {
        let &PlatterRead { at, begin, extent, segment, held, write } = read;
        let (start, end) = (extent.start.0, extent.end().0);
        let begin = self.stop_ahead(m, begin, &mut access);
        let rest = Extent::span(start + held, end);
        let target = m.target(rest.start.0, rest.len.0, true, write);
        let begin = self.settled(m, at, begin, &target);
        let AccessPhases { seek, rotation, transfer, cylinders } =
            m.access(begin, &target, rest, &mut |from, sweep, n| {
                out.passed(from, sweep, n);
            });
        let media_end = begin + seek + rotation + transfer;
        out.done = out.done.max(media_end);
        self.free_at = media_end;
        if self.readable() > 0 {
            let i = segment.filter(|&i| i < self.readable()).unwrap_or_else(|| self.victim(start));
            self.extend(i, end);
            self.touch(i);
            self.go_on(m, i, media_end, extent);
            if m.zero_latency != ZeroLatency::None {
                self.whole = Some(WholeTrack {
                    segment: i,
                    start: m.geometry.track_start(end - 1),
                    at: media_end.max(begin + seek + m.turn.revolution()),
                });
            }
        }
        Access { seek, rotation, transfer, cylinders, ..access }
    }

    /// The time at which a movement must begin, so that the arm is on its track no earlier than
    /// `settle` after the command arrived. The movement cannot begin before `begin`.
    fn settled(&self, m: &Mechanism, at: SimTime, begin: SimTime, target: &Target) -> SimTime {
        let there = begin + m.seek_to(&target.key());
        begin + (at + self.settle).since(there)
    }

    /// Chooses the segment for a new run of addresses: an empty one, otherwise the least recently
    /// used.
    fn victim(&mut self, start: u64) -> usize {
        let i = (0..self.readable())
            .min_by_key(|&i| (self.segments[i].end > self.segments[i].start, self.segments[i].used))
            .unwrap_or(0);
        self.segments[i] = Segment { start, end: start, used: 0 };
        i
    }

    /// Serves a write that arrives at `at`. `through` forces the data to the platter.
    pub(crate) fn write(
        &mut self,
        m: &mut Mechanism,
        at: SimTime,
        target: &Target,
        extent: Extent,
        through: bool,
    ) -> Access {
        let mut access = Access::default();
        let after = usize::from(std::mem::replace(&mut self.after_write, true));
        let goes_on = std::mem::replace(&mut self.written, extent.end().0) == extent.start.0;
        self.writing.retain(|&end| end > at);
        let appends = !self.writing.is_empty() && m.next == extent.start;
        let back = !through
            && match self.write_back {
                WriteBack::None => false,
                WriteBack::OneStream => self.writing.is_empty() || appends,
                WriteBack::All => true,
            };
        let [overhead, late, end] = match self.write_elsewhere {
            _ if back => [self.write_hit[after], Duration::ZERO, Duration::ZERO],
            Some(elsewhere) if after == 1 && !goes_on => elsewhere,
            _ => [self.write_miss[after], self.write_data, self.write_end],
        };
        let mut accepted = at + overhead;
        if back && self.writing.len() >= self.write_segments && !appends {
            accepted = accepted.max(self.writing.remove(0));
        }
        let data_from = accepted + late;
        let bus_end = data_from + Duration(self.bus_sector[1].0 * extent.len.0);
        let begin = self.stop_ahead(m, accepted.max(self.free_at), &mut access);
        let mut inflow = Inflow { begin: data_from, bus: self.bus_sector[1], gather: 0 };
        let begin = if back {
            begin
        } else {
            inflow.gather = self.write_gather[usize::from(extent.len.0 >= 45)].min(extent.len.0);
            let seek = m.seek_to(&target.key());
            let begin = begin + Duration(self.write_seek.0.saturating_sub(seek.0));
            self.settled(m, at, begin, target)
        };
        let phases = inflow.write(m, begin, target, extent);
        let media_end = begin + phases.total();
        self.free_at = media_end.max(bus_end);
        self.keep(extent);
        if back {
            self.writing.push(self.free_at);
            let fits = extent.len.0 <= self.segment_sectors;
            let done = if fits { bus_end } else { self.free_at };
            access.overhead = done.since(at);
            access.behind_seek += phases.seek;
            access.behind_rotation_transfer += phases.rotation + phases.transfer;
            return access;
        }
        let AccessPhases { seek, rotation, transfer, cylinders } = phases;
        let done = media_end.max(bus_end) + end;
        let overhead = Duration(done.since(at).0.saturating_sub(phases.total().0));
        Access { overhead, seek, rotation, transfer, cylinders, ..access }
    }

    fn keep(&mut self, extent: Extent) {
        let (start, end) = (extent.start.0, extent.end().0);
        let on = self.segments.iter().position(|s| s.end == start && s.end > s.start);
        for s in &mut self.segments {
            if s.start < end && start < s.end {
                *s = Segment::default();
            }
        }
        if !self.reads_hit_writes || self.segments.is_empty() {
            return;
        }
        let i = match on {
            Some(i) => i,
            None if self.own_write_segment => {
                let i = self.segments.len() - 1;
                self.segments[i] = Segment { start, end: start, used: 0 };
                i
            }
            None => self.victim(start),
        };
        self.extend(i, end);
        self.touch(i);
    }
}
