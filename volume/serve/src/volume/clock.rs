//! The clock of a volume.

use std::time::{Duration, Instant};

use seekless_block::SimTime;

/// Real time, times a factor. With an infinite factor, time jumps over waits for the emulated disk,
/// and is real otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    speed: f64,
    skipped: u64,
}

impl Clock {
    pub(crate) fn new(speed: f64) -> Self {
        Self { start: Instant::now(), speed, skipped: 0 }
    }

    /// True if waits for the disk are skipped.
    pub(super) const fn jumps(&self) -> bool {
        self.speed.is_infinite()
    }

    pub(super) fn jump(&mut self, then: SimTime) {
        self.skipped += then.since(self.now()).0;
    }

    pub(crate) fn now(&self) -> SimTime {
        let ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if self.speed == 1.0 || self.jumps() {
            return SimTime(ns.saturating_add(self.skipped));
        }
        SimTime((ns as f64 * self.speed) as u64)
    }

    /// Time to sleep from `now` until `then`.
    pub(crate) fn wait(&self, now: SimTime, then: SimTime) -> Duration {
        let ns = then.since(now).0;
        if self.speed == 1.0 || self.jumps() {
            return Duration::from_nanos(ns);
        }
        Duration::from_nanos((ns as f64 / self.speed).ceil() as u64)
    }
}
