//! Transfers over the interface: when the sectors of a write arrive at the platter, and when the
//! sectors of a read leave the drive.

use seekless_block::{Duration, Extent, SimTime};

use crate::disk::Target;
use crate::mechanism::{AccessPhases, Mechanism};

/// Sectors of a write on their way over the interface, from time `begin` on. No sector is written
/// before it has arrived.
pub(super) struct Inflow {
    pub(super) begin: SimTime,
    pub(super) bus: Duration,
    /// Number of sectors that must arrive before the first is written.
    pub(super) gather: u64,
}

impl Inflow {
    /// The time at which sector `i` of the request has arrived and can be written.
    fn came(&self, i: u64) -> SimTime {
        self.begin + Duration(self.bus.0 * (i + 1).max(self.gather))
    }

    /// Writes `extent`. If the head reaches a sector that has not arrived, that sector waits for
    /// its next turn.
    pub(super) fn write(
        &self,
        m: &mut Mechanism,
        begin: SimTime,
        target: &Target,
        extent: Extent,
    ) -> AccessPhases {
        let mut whole = AccessPhases::default();
        let mut done = 0;
        let mut target = *target;
        loop {
            let rest = Extent::span(extent.start.0 + done, extent.end().0);
            let mut at = begin + whole.total();
            let there = at + m.seek_to(&target.key());
            at += self.came(done).since(there);
            let before = m.arm();
            let mut seen = done;
            let mut missing = None;
            let mut phases = m.access(at, &target, rest, &mut |from, sweep, n| {
                missing = missing.or_else(|| self.first_missing(seen, from, sweep, n));
                seen += n;
            });
            if let Some(i) = missing.filter(|&i| i > done) {
                m.put_back(before);
                let part = Extent::span(rest.start.0, extent.start.0 + i);
                phases = m.access(at, &target, part, &mut |_, _, _| {});
                done = i;
            } else {
                done = extent.len.0;
            }
            let waited = at.since(begin + whole.total());
            if whole == AccessPhases::default() {
                whole = AccessPhases { rotation: phases.rotation + waited, ..phases };
            } else {
                whole.transfer += waited + phases.total();
            }
            if done == extent.len.0 {
                return whole;
            }
            target = m.target(extent.start.0 + done, extent.len.0 - done, true, true);
        }
    }

    /// The first sector of a run that passes the head before it has arrived, counted from the
    /// request's start.
    fn first_missing(&self, seen: u64, from: SimTime, sweep: Duration, n: u64) -> Option<u64> {
        let passes =
            |j: u64| from + Duration((u128::from(sweep.0) * u128::from(j) / u128::from(n)) as u64);
        // Both times are linear, except for the first sectors, which arrive together. So after the
        // first late sector all are late.
        let late = |j: &u64| passes(*j) < self.came(seen + j);
        if late(&0) {
            return Some(seen);
        }
        if !late(&(n - 1)) {
            return None;
        }
        let (mut in_time, mut behind) = (0, n - 1);
        while behind - in_time > 1 {
            let middle = u64::midpoint(in_time, behind);
            if late(&middle) { behind = middle } else { in_time = middle }
        }
        Some(seen + behind)
    }
}

/// Sectors of a read on their way from the platter over the interface. No sector leaves before it
/// is read, and each one takes the interface's time.
pub(super) struct Outflow {
    /// The time at which the last sector known so far has left.
    pub(super) done: SimTime,
    pub(super) bus: Duration,
    /// Number of sectors to read from the platter.
    pub(super) total: u64,
    /// Number of sectors that must be read before the first leaves.
    pub(super) watermark: u64,
    /// Delay before the first leaves.
    pub(super) reconnect: Duration,
    pub(super) seen: u64,
}

impl Outflow {
    /// Records that `n` sectors pass the head in `sweep`, starting at `from`.
    pub(super) fn passed(&mut self, from: SimTime, sweep: Duration, n: u64) {
        let came = |j: u64| {
            let part = u128::from(sweep.0) * u128::from(j + 1) / u128::from(n);
            from + Duration(part as u64)
        };
        // Inside a run the bound is linear, so its first and last sector decide.
        for j in [0, n - 1] {
            let left = self.total - (self.seen + j).min(self.total);
            self.done = self.done.max(came(j) + Duration(self.bus.0 * left));
        }
        let mark = self.watermark - 1;
        if (self.seen..self.seen + n).contains(&mark) {
            let begin = came(mark - self.seen) + self.reconnect;
            self.done = self.done.max(begin + Duration(self.bus.0 * self.total));
        }
        self.seen += n;
    }
}
