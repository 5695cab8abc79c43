//! The guard of the adaptive policy on a served volume: once a second it compares the disk time so
//! far with that of the vanilla system. Days are UTC days.

use std::time::{Duration, Instant};

use seekless_learn::{DayTimes, Guard};

use crate::shadow::Compared;
use crate::status::GuardStatus;

const LOOK_EVERY: Duration = Duration::from_secs(1);
const DAY_MS: u64 = 86_400_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct PolicyGuard {
    guard: Guard,
    looked: Option<Instant>,
    /// Disk times so far, and what the watcher missed.
    before: (Compared, u64),
}

impl PolicyGuard {
    /// Looks at the disk times so far. `Some` if the policy must stand aside from now on, or may
    /// return. `missed` counts requests and I/Os that the times leave out.
    pub(crate) fn look(&mut self, unix_ms: u64, now: Compared, missed: u64) -> Option<bool> {
        if self.looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return None;
        }
        self.looked = Some(Instant::now());
        let (before, had_missed) = std::mem::replace(&mut self.before, (now, missed));
        // Times that leave something out cannot be compared.
        let whole = missed == had_missed;
        let spent = |now: f64, before: f64| {
            let s = if whole { (now - before).max(0.0) } else { 0.0 };
            seekless_block::Duration((s * 1e9) as u64)
        };
        let times = DayTimes {
            vanilla: spent(now.vanilla_s, before.vanilla_s),
            actual: spent(now.actual_s, before.actual_s),
        };
        let bypassed = self.guard.bypasses();
        let bypasses = self.guard.look(unix_ms / DAY_MS, times);
        (bypasses != bypassed).then_some(bypasses)
    }

    /// `None` before the first look.
    pub(crate) fn status(&self) -> Option<GuardStatus> {
        self.looked?;
        let today = self.guard.today();
        Some(GuardStatus {
            vanilla_today_s: today.vanilla.as_secs_f64(),
            actual_today_s: today.actual.as_secs_f64(),
            worst_excess_s: self.guard.worst_excess().as_secs_f64(),
            bypassing: self.guard.bypasses(),
            bypassed_s: self.guard.bypassed().as_secs_f64(),
            model_error: self.before.0.model_error,
            measured: self.before.0.measured,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(vanilla_s: f64, actual_s: f64) -> Compared {
        Compared { vanilla_s, actual_s, ..Compared::default() }
    }

    #[test]
    fn who_is_behind_stands_aside_and_returns() {
        let mut guard = PolicyGuard::default();
        let mut look = |unix_ms, vanilla_s, now_s, missed| {
            guard.looked = None;
            guard.look(unix_ms, times(vanilla_s, now_s), missed)
        };
        assert_eq!(look(0, 10.0, 13.0, 0), None, "3 s and a share are allowed");
        assert_eq!(look(1_000, 10.0, 13.5, 0), Some(true));
        assert_eq!(look(2_000, 10.0, 13.5, 0), None, "no change");
        assert_eq!(look(3_000, 10.0, 99.0, 1), None, "some requests were missed");
        assert_eq!(look(4_000, 12.5, 99.0, 1), Some(false), "behind by 1 s");
        assert_eq!(look(DAY_MS, 12.5, 99.0, 1), None, "another day");
        let status = guard.status().unwrap();
        assert_eq!((status.vanilla_today_s, status.bypassing), (0.0, false));
        assert!((status.worst_excess_s - 3.5).abs() < 1e-6);
    }

    #[test]
    fn it_looks_once_a_second() {
        let mut guard = PolicyGuard::default();
        assert_eq!(guard.status(), None);
        assert_eq!(guard.look(0, times(1.0, 1.0), 0), None);
        assert_eq!(guard.look(0, times(1.0, 100.0), 0), None, "too soon");
        assert_eq!(guard.before, (times(1.0, 1.0), 0));
    }
}
