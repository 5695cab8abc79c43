//! When the scrub of a lasting area begins: soon after the start, and then once in each period.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seekless_block::SimTime;
use seekless_engine::{Engine, Scrubbed};

use crate::status::ScrubStatus;

/// The first pass begins after one part in this many of the period. A server that is started every
/// day checks its area too.
const FIRST: u32 = 100;

#[derive(Debug)]
pub(super) struct Schedule {
    every: Duration,
    next: SimTime,
    passes: u64,
    last_end_unix_ms: Option<u64>,
}

impl Schedule {
    pub(super) fn new(every: Duration, now: SimTime) -> Self {
        let next = after(now, every / FIRST);
        Self { every, next, passes: 0, last_end_unix_ms: None }
    }

    pub(super) const fn next(&self) -> SimTime {
        self.next
    }

    /// Whether a pass is due; notes the end of the last pass.
    pub(super) fn look(&mut self, engine: &Engine, now: SimTime) -> bool {
        let passes = engine.scrubbed().passes;
        if passes > self.passes {
            self.passes = passes;
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).ok();
            self.last_end_unix_ms = unix.and_then(|d| u64::try_from(d.as_millis()).ok());
        }
        let due = now >= self.next;
        if due {
            self.next = after(now, self.every);
        }
        due
    }

    pub(super) fn status(&self, engine: &Engine) -> ScrubStatus {
        let Scrubbed { passes, running, pages, damaged, lost, .. } = engine.scrubbed();
        let last_end_unix_ms = self.last_end_unix_ms;
        ScrubStatus {
            passes,
            running,
            last_end_unix_ms,
            pages,
            damaged_pages: damaged,
            lost_pages: lost,
        }
    }
}

fn after(now: SimTime, wait: Duration) -> SimTime {
    SimTime(now.0.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use seekless_block::Sectors;
    use seekless_engine::Config;

    use super::*;

    #[test]
    fn the_first_pass_comes_soon_and_each_next_one_after_a_period() {
        let engine = Engine::new(Config::new(Sectors(64)));
        let mut schedule = Schedule::new(Duration::from_secs(1_000), SimTime(5));
        let first = SimTime(5 + 10_000_000_000);
        assert_eq!(schedule.next(), first);
        assert!(!schedule.look(&engine, SimTime(first.0 - 1)));
        assert!(schedule.look(&engine, first));
        assert!(!schedule.look(&engine, first), "once");
        assert_eq!(schedule.next(), SimTime(first.0 + 1_000_000_000_000));
        assert_eq!(schedule.status(&engine), ScrubStatus::default(), "no pass has ended");
    }
}
