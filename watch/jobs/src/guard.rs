//! The guard: what is read in vain takes at most a twentieth of any hour of the disk's time.

use seekless_block::{Duration, SimTime};

/// The span over which the guard counts.
const HOUR: Duration = Duration(3_600_000_000_000);
/// One minute more than an hour: the oldest minute counts until its last moment is an hour ago.
const SLOTS: usize = 61;
const SLOT: u64 = HOUR.0 / 60;
/// Most time of an hour that may be read in vain.
pub(crate) const VAIN_MOST: Duration = Duration(HOUR.0 / 20);

/// The disk's time that was read in vain, by minute.
#[derive(Debug)]
pub(crate) struct Guard {
    minutes: [u64; SLOTS],
    /// Number of the newest minute.
    newest: u64,
}

impl Default for Guard {
    fn default() -> Self {
        Self { minutes: [0; SLOTS], newest: 0 }
    }
}

/// The disk's time for pages, at this price of a read, if so far these reads brought that number of
/// pages. No page costs more than a read.
pub(crate) fn cost(pages: u64, (reads, brought): (u64, u64), price: Duration) -> Duration {
    let price = u128::from(price.0);
    let each = price * u128::from(reads.max(1)) / u128::from(brought.max(1));
    let all = u128::from(pages).saturating_mul(each.min(price));
    Duration(u64::try_from(all).unwrap_or(u64::MAX))
}

impl Guard {
    /// Whether more may be fetched. `at_risk`: what was fetched and not used yet, and may turn out
    /// to be in vain, the next read included.
    pub(crate) fn allows(&mut self, now: SimTime, at_risk: Duration) -> bool {
        self.forget(now);
        self.spent().saturating_add(at_risk.0) <= VAIN_MOST.0
    }

    /// Books what was read in vain.
    pub(crate) fn vain(&mut self, now: SimTime, cost: Duration) {
        self.forget(now);
        let slot = &mut self.minutes[(self.newest % SLOTS as u64) as usize];
        *slot = slot.saturating_add(cost.0);
    }

    /// The disk time of reads in vain in the last hour.
    pub(crate) fn last_hour(&mut self, now: SimTime) -> Duration {
        self.forget(now);
        Duration(self.spent())
    }

    fn spent(&self) -> u64 {
        self.minutes.iter().fold(0, |a, &b| a.saturating_add(b))
    }

    fn forget(&mut self, now: SimTime) {
        let minute = now.0 / SLOT;
        let steps = minute.saturating_sub(self.newest).min(SLOTS as u64);
        for step in 1..=steps {
            self.minutes[((minute - steps + step) % SLOTS as u64) as usize] = 0;
        }
        self.newest = self.newest.max(minute);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE: u64 = SLOT;

    #[test]
    fn the_allowance_returns_after_an_hour() {
        let mut guard = Guard::default();
        assert!(guard.allows(SimTime(0), VAIN_MOST));
        assert!(!guard.allows(SimTime(0), Duration(VAIN_MOST.0 + 1)));
        guard.vain(SimTime(5), VAIN_MOST);
        assert!(guard.allows(SimTime(59 * MINUTE), Duration(0)));
        assert!(!guard.allows(SimTime(59 * MINUTE), Duration(1)));
        assert!(!guard.allows(SimTime(60 * MINUTE), Duration(1)), "the last moment of a minute");
        assert!(guard.allows(SimTime(61 * MINUTE), VAIN_MOST));
        assert_eq!(guard.last_hour(SimTime(61 * MINUTE)), Duration(0));
        guard.vain(SimTime(3), Duration(7));
        assert_eq!(guard.last_hour(SimTime(0)), Duration(7), "a clock that goes back");
    }

    #[test]
    fn a_page_costs_its_share_of_a_read_and_no_more_than_one() {
        let of = |pages, took| cost(pages, took, Duration(1000)).0;
        assert_eq!(of(10, (100, 200)), 5000);
        assert_eq!(of(10, (200, 100)), 10_000);
        assert_eq!(of(10, (0, 0)), 10_000, "nothing is known yet");
        assert_eq!(cost(u64::MAX, (1, 1), Duration(u64::MAX)).0, u64::MAX);
    }

    proptest! {
        #[test]
        fn no_hour_has_more_in_vain_than_its_share(
            steps in prop::collection::vec((0u64..20 * MINUTE, 0u64..VAIN_MOST.0, any::<bool>()), 1..60)
        ) {
            let (mut guard, mut now, mut vain) = (Guard::default(), 0u64, Vec::new());
            for (wait, cost, wasted) in steps {
                now += wait;
                if guard.allows(SimTime(now), Duration(cost)) && wasted {
                    guard.vain(SimTime(now), Duration(cost));
                    vain.push((now, cost));
                }
                let hour = |&&(t, _): &&(u64, u64)| t + HOUR.0 > now;
                let sum: u64 = vain.iter().filter(hour).map(|v| v.1).sum();
                prop_assert!(sum <= VAIN_MOST.0, "{sum}");
            }
        }
    }
}
