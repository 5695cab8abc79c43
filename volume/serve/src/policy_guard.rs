//! The guard of the adaptive policy on a served volume. Once a second, the guard compares the disk
//! time so far with the disk time of the vanilla system. Days are UTC days.

use std::time::{Duration, Instant};

use seekless_disk::Operations;
use seekless_learn::{DayTimes, Guard};

use crate::shadow::{Compared, Counted};
use crate::status::GuardStatus;

const LOOK_EVERY: Duration = Duration::from_secs(1);
const DAY_MS: u64 = 86_400_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct PolicyGuard {
    guard: Guard,
    looked: Option<Instant>,
    /// Disk times and operations so far, and what the watcher missed.
    before: (Compared, Counted, u64),
    /// The latest times leave something out.
    blind: bool,
    aside: bool,
    /// There is nothing to compare with any more.
    lost: bool,
}

impl Default for PolicyGuard {
    fn default() -> Self {
        Self {
            guard: Guard::looking_each(from_s(LOOK_EVERY.as_secs_f64())),
            looked: None,
            before: <(Compared, Counted, u64)>::default(),
            blind: false,
            aside: false,
            lost: false,
        }
    }
}

impl PolicyGuard {
    /// Looks at the disk times so far, and at the operations, if a provider counts them. `Some` if
    /// the policy must stand aside from now on, or may return. `missed` counts requests and I/Os
    /// that the times leave out.
    pub(crate) fn look(
        &mut self,
        unix_ms: u64,
        now: Compared,
        counted: Option<Counted>,
        missed: u64,
    ) -> Option<bool> {
        let took = self.looked.map_or(LOOK_EVERY, |at| at.elapsed());
        if took < LOOK_EVERY {
            return None;
        }
        self.looked = Some(Instant::now());
        let counted = counted.unwrap_or(self.before.1);
        let (before, ops, had_missed) = std::mem::replace(&mut self.before, (now, counted, missed));
        self.blind = missed != had_missed;
        let spent = |now: f64, before: f64, all: Operations, had: Operations| {
            let took = from_s(now - before);
            let new = all.since(&had);
            counted.toll.counts(took, new.reads, new.writes)
        };
        let times = match (self.blind, self.aside) {
            (false, _) => DayTimes {
                vanilla: spent(now.vanilla_s, before.vanilla_s, counted.vanilla, ops.vanilla),
                actual: spent(now.actual_s, before.actual_s, counted.now, ops.now),
            },
            // Times that leave something out cannot be compared: all of this time may be lost.
            (true, false) => DayTimes { actual: from_s(took.as_secs_f64()), ..DayTimes::default() },
            (true, true) => DayTimes::default(),
        };
        let aside = self.guard.look(unix_ms / DAY_MS, times) || self.blind;
        (std::mem::replace(&mut self.aside, aside) != aside).then_some(aside)
    }

    /// There is nothing to compare with any more: the policy stands aside. True the first time.
    pub(crate) const fn lose(&mut self) -> bool {
        self.aside = true;
        !std::mem::replace(&mut self.lost, true)
    }

    /// Why the policy stands aside or is in use, in a sentence.
    pub(crate) const fn why(&self) -> &'static str {
        match (self.aside, self.blind) {
            (true, true) => {
                "Requests come faster than the watcher takes them: the policy stands aside."
            }
            (true, false) => {
                "Today's disk time is above that of the vanilla system: the policy stands aside."
            }
            (false, _) => {
                "Today's disk time is close to that of the vanilla system: the policy returns."
            }
        }
    }

    /// `None` before the first look.
    pub(crate) fn status(&self) -> Option<GuardStatus> {
        self.looked?;
        let today = self.guard.today();
        Some(GuardStatus {
            vanilla_today_s: today.vanilla.as_secs_f64(),
            actual_today_s: today.actual.as_secs_f64(),
            worst_excess_s: self.guard.worst_excess().as_secs_f64(),
            bypassing: self.aside,
            bypassed_s: self.guard.bypassed().as_secs_f64(),
            model_error: self.before.0.model_error,
            measured: self.before.0.measured,
        })
    }
}

fn from_s(s: f64) -> seekless_block::Duration {
    seekless_block::Duration((s.max(0.0) * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use seekless_block::Toll;

    use super::*;

    fn times(vanilla_s: f64, actual_s: f64) -> Compared {
        Compared { vanilla_s, actual_s, ..Compared::default() }
    }

    #[test]
    fn who_is_behind_stands_aside_and_returns() {
        let mut guard = PolicyGuard::default();
        let mut look = |unix_ms, vanilla_s, now_s, missed| {
            guard.looked = None;
            guard.look(unix_ms, times(vanilla_s, now_s), None, missed)
        };
        assert_eq!(look(0, 10.0, 12.0, 0), None, "2 s and a share are allowed");
        assert_eq!(look(1_000, 10.0, 12.5, 0), Some(true));
        assert_eq!(look(2_000, 10.0, 12.5, 0), None, "no change");
        assert_eq!(look(3_000, 10.0, 99.0, 1), None, "some requests were missed");
        assert_eq!(look(4_000, 12.5, 99.0, 1), Some(false), "not behind");
        assert_eq!(look(5_000, 13.0, 99.5, 2), Some(true), "nobody can compare");
        assert_eq!(look(6_000, 13.0, 99.5, 3), None, "still so");
        assert_eq!(look(7_000, 13.0, 99.5, 3), Some(false), "behind by 1 s");
        assert_eq!(look(DAY_MS, 13.0, 99.5, 3), None, "another day");
        let status = guard.status().unwrap();
        assert_eq!((status.vanilla_today_s, status.bypassing), (0.0, false));
        assert!((status.worst_excess_s - 2.5).abs() < 1e-6);
    }

    #[test]
    fn a_loss_is_new_once_whether_the_policy_stood_aside_or_not() {
        let mut guard = PolicyGuard::default();
        assert_eq!(guard.look(0, times(1.0, 100.0), None, 0), Some(true));
        assert!(guard.lose() && guard.aside && !guard.lose());
        let mut guard = PolicyGuard::default();
        assert!(guard.lose() && guard.aside && !guard.lose());
    }

    #[test]
    fn it_looks_once_a_second() {
        let mut guard = PolicyGuard::default();
        assert_eq!(guard.status(), None);
        assert_eq!(guard.look(0, times(1.0, 1.0), None, 0), None);
        assert_eq!(guard.look(0, times(1.0, 100.0), None, 0), None, "too soon");
        assert_eq!(guard.before, (times(1.0, 1.0), Counted::default(), 0));
    }

    /// Flood after flood: what nobody saw counts as lost.
    #[test]
    fn who_misses_something_again_and_again_stands_aside_in_between_too() {
        let mut guard = PolicyGuard::default();
        let mut asides = 0;
        for i in 0..20 {
            guard.looked = None;
            guard.look(i * 1_000, Compared::default(), None, i.div_ceil(2));
            asides += u32::from(guard.aside);
        }
        assert_eq!(asides, 17, "twice for a second, then for the day");
        assert!((guard.status().unwrap().worst_excess_s - 3.0).abs() < 1e-6);
    }

    #[test]
    fn an_operation_counts_its_share_of_the_rate_and_its_price() {
        let second = seekless_block::Duration::from_millis(1_000);
        let toll = Toll { share: second, read: second, ..Toll::default() };
        let read = |reads| Operations { reads, ..Operations::default() };
        let counted = Counted { now: read(10), vanilla: read(5), toll };
        let mut guard = PolicyGuard::default();
        assert_eq!(guard.look(0, times(9.0, 2.0), Some(counted), 0), Some(true));
        let status = guard.status().unwrap();
        assert_eq!((status.vanilla_today_s, status.actual_today_s), (14.0, 20.0));
    }
}
