//! Read-ahead: its limit, its progress between commands, and its end when a command needs the arm.

use seekless_block::{Duration, Extent, Lba, SimTime};

use super::transfer::Outflow;
use super::{Buffer, ReadAheadRun};
use crate::disk::Access;
use crate::mechanism::Mechanism;
use crate::rotation::wait;
use crate::spec::ReadAhead;

impl Buffer {
    /// The end address of read-ahead for a request.
    fn limit(&self, m: &Mechanism, segment: usize, extent: Extent) -> u64 {
        let geometry = &m.geometry;
        let capacity = geometry.capacity().0;
        let track_end = |lbn: u64| lbn + geometry.run(lbn, capacity - lbn).len;
        let end = extent.end().0;
        let last = end - 1;
        let mut least = end;
        let limit = match self.read_ahead {
            ReadAhead::None => end,
            ReadAhead::Track => track_end(last),
            ReadAhead::Cylinder => {
                let cylinder = |lbn| geometry.run(lbn, 1).place.cylinder;
                let mut to = track_end(last);
                while to < capacity && cylinder(to) == cylinder(last) {
                    to = track_end(to);
                }
                to
            }
            ReadAhead::Segment => capacity,
            ReadAhead::TrackOrNext => {
                // The track is read to its end, even into a shorter segment. The segment then holds
                // the last sectors.
                least = track_end(last);
                let began_before = self.segments[segment].start < geometry.track_start(last);
                if began_before && least < capacity { track_end(least) } else { least }
            }
        };
        let limit = limit.min(end.saturating_add(self.read_ahead_sectors));
        if self.over_requested {
            limit.max(least)
        } else {
            limit.min(extent.start.0.saturating_add(self.segment_sectors)).max(least)
        }
    }

    /// Starts read-ahead at the end of a read.
    pub(super) fn go_on(&mut self, m: &Mechanism, segment: usize, at: SimTime, extent: Extent) {
        let next = extent.end().0;
        let limit = self.limit(m, segment, extent);
        self.ahead = (limit > next).then_some(ReadAheadRun { segment, next, at, limit });
    }

    /// For a read found completely in the buffer: extends the limit of read-ahead, or starts
    /// read-ahead again.
    pub(super) fn refresh(&mut self, m: &Mechanism, segment: usize, at: SimTime, extent: Extent) {
        let limit = self.limit(m, segment, extent);
        match &mut self.ahead {
            Some(a) if a.segment == segment => a.limit = a.limit.max(limit),
            None if self.free_at <= at && limit > self.segments[segment].end => {
                let next = self.segments[segment].end;
                if m.next == Lba(next) {
                    self.ahead = Some(ReadAheadRun { segment, next, at, limit });
                }
            }
            _ => {}
        }
    }

    /// Advances read-ahead to `now`. Returns the time at which the arm is free for other work.
    pub(super) fn read_on(
        &mut self,
        m: &mut Mechanism,
        now: SimTime,
        access: &mut Access,
    ) -> SimTime {
        let Some(mut a) = self.ahead else { return now };
        let begun = a.at;
        let mut free = now;
        while a.next < a.limit {
            let step = ReadAheadStep::new(m, &a);
            if now < step.begin {
                // A movement that has begun is completed.
                if now > a.at && step.arrived > a.at {
                    free = now.max(step.arrived);
                }
                break;
            }
            let n = if now >= step.end { step.len } else { step.passed_by(now) };
            m.cylinder = step.cylinder;
            m.head = step.head;
            a.next += n;
            a.at = step.after(n);
            if n < step.len {
                free = now.max(if self.stops_in_sector { now } else { step.after(n + 1) });
                break;
            }
        }
        m.next = Lba(a.next);
        access.behind_rotation_transfer += a.at.since(begun);
        self.extend(a.segment, a.next);
        self.ahead = (a.next < a.limit).then_some(a);
        free
    }

    /// Continues read-ahead until sector `end` has passed the head. Returns the time of that.
    pub(super) fn read_to(&mut self, m: &mut Mechanism, end: u64, out: &mut Outflow) -> SimTime {
        let Some(mut a) = self.ahead else { return SimTime(0) };
        while a.next < end {
            let step = ReadAheadStep::new(m, &ReadAheadRun { limit: end, ..a });
            m.cylinder = step.cylinder;
            m.head = step.head;
            out.passed(step.begin, Duration(step.end.0 - step.begin.0), step.len);
            a.next += step.len;
            a.at = step.end;
        }
        m.next = Lba(a.next);
        self.extend(a.segment, a.next);
        self.ahead = (a.next < a.limit).then_some(a);
        a.at
    }

    /// Adds the beginning of the track, if the platter has passed it by `now`.
    pub(super) fn take_whole(&mut self, now: SimTime) {
        if let Some(w) = self.whole.take_if(|w| w.at <= now) {
            let s = &mut self.segments[w.segment];
            let room = s.end.saturating_sub(self.segment_sectors);
            s.start = s.start.min(w.start.max(room));
        }
    }

    /// Ends read-ahead for a command that needs the arm at `begin`. Returns the time at which the
    /// arm is available.
    pub(super) fn stop_ahead(
        &mut self,
        m: &mut Mechanism,
        begin: SimTime,
        access: &mut Access,
    ) -> SimTime {
        let free = self.read_on(m, begin, access);
        if free > begin {
            // The sector under the head is read to its end. A movement in progress ends on its
            // track.
            self.read_on(m, free, access);
            let step = self.ahead.map(|a| ReadAheadStep::new(m, &a));
            if let Some(step) = step.filter(|s| s.arrived == free) {
                m.cylinder = step.cylinder;
                m.head = step.head;
            }
        }
        self.take_whole(begin);
        (self.ahead, self.whole) = (None, None);
        free.max(begin)
    }
}

/// The next part of read-ahead: one run on one track.
struct ReadAheadStep {
    cylinder: u32,
    head: u32,
    len: u64,
    /// The times when the arm is on the track, when the first sector begins to pass, and when the
    /// last has passed.
    arrived: SimTime,
    begin: SimTime,
    end: SimTime,
}

impl ReadAheadStep {
    fn new(m: &Mechanism, a: &ReadAheadRun) -> Self {
        let run = m.geometry.run(a.next, a.limit - a.next);
        let turn = m.turn;
        let arrived = a.at + m.step_to(&run, false);
        let begin = arrived + Duration(turn.nanos(wait(turn.angle_at(arrived), run.angle)));
        let end = begin + Duration(turn.nanos(run.sweep));
        let (cylinder, head) = (run.place.cylinder, run.place.head);
        Self { cylinder, head, len: run.len, arrived, begin, end }
    }

    fn after(&self, sectors: u64) -> SimTime {
        let sweep = u128::from(self.end.0 - self.begin.0);
        SimTime(self.begin.0 + (sweep * u128::from(sectors) / u128::from(self.len)) as u64)
    }

    fn passed_by(&self, now: SimTime) -> u64 {
        let sweep = u128::from((self.end.0 - self.begin.0).max(1));
        (u128::from(now.since(self.begin).0) * u128::from(self.len) / sweep) as u64
    }
}
