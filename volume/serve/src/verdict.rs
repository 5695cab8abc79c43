//! The verdict in one sentence: how much less the disk worked in the last hour than the vanilla
//! system's disk, and since when moving data is paid back.

use std::collections::VecDeque;

use crate::shadow::Compared;
use crate::status::VerdictStatus;

const MINUTE_MS: u64 = 60_000;
/// Kept minutes: with the present one they reach back for an hour.
const MINUTES: usize = 60;
/// Below this disk time of the vanilla system, in seconds, one seek decides the share.
const LEAST_S: f64 = 1.0;
/// A smaller share is no difference.
const SAME: f64 = 0.01;

/// Disk times since the start, without times in which the watcher missed something.
#[derive(Clone, Copy, Debug, Default)]
struct DiskTimes {
    vanilla_s: f64,
    actual_s: f64,
}

/// Adds up disk times, and judges.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    sums: DiskTimes,
    /// Disk times so far, and what the watcher missed.
    before: (Compared, u64),
    /// The start of each of the last minutes, and the sums at that time.
    minutes: VecDeque<(u64, DiskTimes)>,
    /// Moving data has cost more than it saved, at some time.
    owed: bool,
    paid_back_since: Option<u64>,
}

impl Judge {
    /// Looks at the disk times so far. `at_ms` is a time that nobody sets, for the window. `missed`
    /// counts requests and I/Os that the disk times leave out, `moved` the bytes that were moved.
    pub(crate) fn look(
        &mut self,
        at_ms: u64,
        unix_ms: u64,
        now: Compared,
        missed: u64,
        moved: u64,
    ) -> VerdictStatus {
        let (before, had_missed) = std::mem::replace(&mut self.before, (now, missed));
        if missed == had_missed {
            self.sums.vanilla_s += (now.vanilla_s - before.vanilla_s).max(0.0);
            self.sums.actual_s += (now.actual_s - before.actual_s).max(0.0);
        }
        if self.minutes.back().is_none_or(|m| at_ms.saturating_sub(m.0) >= MINUTE_MS) {
            self.minutes.push_back((at_ms, self.sums));
            if self.minutes.len() > MINUTES + 1 {
                self.minutes.pop_front();
            }
        }
        let saved_s = self.sums.vanilla_s - self.sums.actual_s;
        if moved > 0 && saved_s < 0.0 {
            (self.owed, self.paid_back_since) = (true, None);
        } else if self.owed && self.paid_back_since.is_none() {
            self.paid_back_since = Some(unix_ms);
        }
        let (since, then) = self.minutes.front().copied().unwrap_or((at_ms, self.sums));
        let mut verdict = VerdictStatus {
            text: String::new(),
            window_s: at_ms.saturating_sub(since) as f64 / 1000.0,
            vanilla_s: self.sums.vanilla_s - then.vanilla_s,
            actual_s: self.sums.actual_s - then.actual_s,
            saved_s,
            paid_back_since_unix_ms: self.paid_back_since,
        };
        verdict.text = text(&verdict, unix_ms, moved > 0);
        verdict
    }
}

fn text(v: &VerdictStatus, unix_ms: u64, moved: bool) -> String {
    let minutes = (v.window_s / 60.0).round();
    let window = match minutes {
        m if m > MINUTES as f64 + 2.0 => format!("last {:.1} hours", m / 60.0),
        m if m >= MINUTES as f64 => "last hour".to_owned(),
        m if m >= 2.0 => format!("last {m:.0} minutes"),
        _ => format!("last {:.0} s", v.window_s),
    };
    let change = (v.actual_s - v.vanilla_s) / v.vanilla_s;
    let percent = |share: f64| match 100.0 * share {
        p if p < 10.0 || (99.0..100.0).contains(&p) => format!("{p:.1}%"),
        p => format!("{p:.0}%"),
    };
    let work = match change {
        _ if v.vanilla_s.max(v.actual_s) < LEAST_S => {
            "the disk had too little work for a comparison".to_owned()
        }
        _ if v.vanilla_s < LEAST_S => format!("the disk worked {:.1} s more", -v.saved_in_window()),
        c if c.abs() < SAME => "the disk worked as much as without seekless".to_owned(),
        c if c < 0.0 => format!("the disk worked {} less", percent(-c)),
        c => format!("the disk worked {} more", percent(c)),
    };
    let moving = match v.paid_back_since_unix_ms {
        _ if !moved => String::new(),
        Some(since) => match unix_ms.saturating_sub(since) / (24 * 60 * MINUTE_MS) {
            0 => {
                let minute = since / MINUTE_MS % (24 * 60);
                let (hours, minutes) = (minute / 60, minute % 60);
                format!("; moving is paid back since {hours:02}:{minutes:02} UTC")
            }
            1 => "; moving is paid back for a day".to_owned(),
            days => format!("; moving is paid back for {days} days"),
        },
        None if v.saved_s < 0.0 => {
            format!("; moving is not paid back yet: {:.1} s are owed", -v.saved_s)
        }
        None => "; moving never cost more than it saved".to_owned(),
    };
    format!("{window}: {work}{moving}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 60 * MINUTE_MS;

    fn times(vanilla_s: f64, actual_s: f64) -> Compared {
        Compared { vanilla_s, actual_s, ..Compared::default() }
    }

    #[test]
    fn moving_is_owed_paid_back_and_said_in_one_sentence() {
        let mut judge = Judge::default();
        let mut look =
            |at, vanilla, now, moved| judge.look(at, at, times(vanilla, now), 0, moved).text;
        assert_eq!(look(0, 0.0, 0.0, 0), "last 0 s: the disk had too little work for a comparison");
        let same = "last 60 s: the disk worked as much as without seekless";
        assert_eq!(look(MINUTE_MS, 10.0, 10.09, 0), same);
        let owed =
            "last 2 minutes: the disk worked 20% more; moving is not paid back yet: 4.0 s are owed";
        assert_eq!(look(2 * MINUTE_MS, 20.0, 24.0, 1), owed);
        // 02:10 on the first day of 1970.
        let at = 130 * MINUTE_MS;
        let paid = "last hour: the disk worked 73% less; moving is paid back since 02:10 UTC";
        assert_eq!(look(at - HOUR_MS - MINUTE_MS, 20.0, 24.0, 1).rsplit(' ').next(), Some("owed"));
        for minute in 0..60 {
            look(at - HOUR_MS + minute * MINUTE_MS, 20.0, 24.0, 1);
        }
        assert_eq!(look(at, 120.0, 51.0, 1), paid);
        let days = look(at + 49 * HOUR_MS, 1000.0, 51.0, 1);
        assert!(days.ends_with("moving is paid back for 2 days"), "{days}");
    }

    #[test]
    fn what_the_watcher_missed_is_left_out_and_debts_return() {
        let mut judge = Judge::default();
        let mut look = |at, now, missed| judge.look(at, at, now, missed, 1);
        look(0, times(0.0, 0.0), 0);
        // The shadow missed requests: these times cannot be compared.
        let verdict = look(1_000, times(10.0, 900.0), 5);
        assert_eq!((verdict.vanilla_s, verdict.actual_s), (0.0, 0.0));
        let verdict = look(2_000, times(20.0, 905.0), 5);
        assert_eq!((verdict.saved_s, verdict.paid_back_since_unix_ms), (5.0, None));
        assert!(verdict.text.ends_with("moving never cost more than it saved"), "{verdict:?}");
        assert!(look(3_000, times(20.0, 912.0), 5).text.contains("2.0 s are owed"));
        assert_eq!(look(4_000, times(23.0, 912.0), 5).paid_back_since_unix_ms, Some(4_000));
        assert_eq!(look(5_000, times(23.0, 930.0), 5).paid_back_since_unix_ms, None);
    }

    #[test]
    fn a_clock_that_is_set_changes_no_window() {
        let mut judge = Judge::default();
        let ten = 10 * HOUR_MS;
        let mut look = |at_ms, unix_ms, s| judge.look(at_ms, unix_ms, times(s, s / 2.0), 0, 1);
        look(ten, ten, 0.0);
        // The clock was five hours fast, and is set back.
        let mut verdict = VerdictStatus::default();
        for minute in 1..=10 {
            let passed = minute * MINUTE_MS;
            verdict = look(ten + passed, ten - 5 * HOUR_MS + passed, minute as f64);
        }
        assert_eq!((verdict.window_s, verdict.vanilla_s), (600.0, 10.0));
        assert!(verdict.text.starts_with("last 10 minutes: "), "{verdict:?}");
        // Nobody looked for three hours.
        let text = look(ten + 3 * HOUR_MS, ten + 3 * HOUR_MS, 100.0).text;
        assert!(text.starts_with("last 3.0 hours: the disk worked 50% less"), "{text}");
    }
}
