//! The guard of the adaptive policy on a served volume: once a second it compares the disk time so
//! far with that of the vanilla system. Days are UTC days.

use std::time::{Duration, Instant};

use seekless_learn::{DayTimes, Guard};

use crate::status::{BusyStatus, GuardStatus};

const LOOK_EVERY: Duration = Duration::from_secs(1);
const DAY_MS: u64 = 86_400_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct PolicyGuard {
    guard: Guard,
    looked: Option<Instant>,
    /// Busy time so far, in seconds, and what the watcher missed.
    before: (f64, f64, u64),
}

impl PolicyGuard {
    /// Looks at the busy times so far. `Some` if the policy must stand aside from now on, or may
    /// return. `missed` counts requests and I/Os that the busy times leave out.
    pub(crate) fn look(&mut self, unix_ms: u64, busy: &BusyStatus, missed: u64) -> Option<bool> {
        let vanilla = busy.vanilla?.total_s();
        if self.looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return None;
        }
        self.looked = Some(Instant::now());
        let now = (vanilla, busy.now.total_s(), missed);
        let before = std::mem::replace(&mut self.before, now);
        // Times that leave something out cannot be compared.
        let whole = missed == before.2;
        let spent = |now: f64, before: f64| {
            let s = if whole { (now - before).max(0.0) } else { 0.0 };
            seekless_block::Duration((s * 1e9) as u64)
        };
        let times = DayTimes { vanilla: spent(now.0, before.0), actual: spent(now.1, before.1) };
        let bypassed = self.guard.bypasses();
        let bypasses = self.guard.look(unix_ms / DAY_MS, times);
        (bypasses != bypassed).then_some(bypasses)
    }

    pub(crate) fn status(&self) -> GuardStatus {
        let today = self.guard.today();
        GuardStatus {
            vanilla_today_s: today.vanilla.as_secs_f64(),
            actual_today_s: today.actual.as_secs_f64(),
            worst_excess_s: self.guard.worst_excess().as_secs_f64(),
            bypassing: self.guard.bypasses(),
            bypassed_s: self.guard.bypassed().as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Busy;

    fn busy(vanilla_s: f64, now_s: f64) -> BusyStatus {
        let of = |seek_s| Busy { seek_s, ..Busy::default() };
        BusyStatus { now: of(now_s), vanilla: Some(of(vanilla_s)), ..BusyStatus::default() }
    }

    #[test]
    fn who_is_behind_stands_aside_and_returns() {
        let mut guard = PolicyGuard::default();
        let mut look = |unix_ms, vanilla_s, now_s, missed| {
            guard.looked = None;
            guard.look(unix_ms, &busy(vanilla_s, now_s), missed)
        };
        assert_eq!(look(0, 10.0, 13.0, 0), None, "3 s and a share are allowed");
        assert_eq!(look(1_000, 10.0, 13.5, 0), Some(true));
        assert_eq!(look(2_000, 10.0, 13.5, 0), None, "no change");
        assert_eq!(look(3_000, 10.0, 99.0, 1), None, "some requests were missed");
        assert_eq!(look(4_000, 12.5, 99.0, 1), Some(false), "behind by 1 s");
        assert_eq!(look(DAY_MS, 12.5, 99.0, 1), None, "another day");
        let status = guard.status();
        assert_eq!((status.vanilla_today_s, status.bypassing), (0.0, false));
        assert!((status.worst_excess_s - 3.5).abs() < 1e-6);
    }

    #[test]
    fn it_looks_once_a_second_and_only_where_vanilla_is_known() {
        let mut guard = PolicyGuard::default();
        assert_eq!(guard.look(0, &BusyStatus::default(), 0), None);
        assert!(guard.looked.is_none());
        assert_eq!(guard.look(0, &busy(1.0, 1.0), 0), None);
        assert_eq!(guard.look(0, &busy(1.0, 100.0), 0), None, "too soon");
        assert_eq!(guard.before, (1.0, 1.0, 0));
    }
}
