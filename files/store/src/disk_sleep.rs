//! A disk that sleeps after an idle time, and background work that neither wakes the disk nor keeps
//! it awake. The simulator and the mount both use this clock. The clock sees no disk: its driver
//! reports each use.

use crate::successors::Successors;
use seekless_block::{Duration, SimTime};

use crate::{FileNumber, GroupStore};

/// Time after which waiting background work wakes a sleeping disk. Only changes without a sync
/// wait.
pub(crate) const PATIENCE: Duration = Duration::from_millis(600_000);
/// Upper limits of the classes of idle times, in seconds; longer idle times form the last class.
const IDLE_CLASSES: [u64; 5] = [1, 10, 60, 600, 3600];

/// The assumed phase of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskPhase {
    /// The platters turn, and the last use was recent.
    Turning,
    /// The platters turn, and half of the time before sleep has passed: waiting work is done now.
    Drowsy,
    /// The platters stand still.
    Asleep,
}

/// The time of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SleepStats {
    /// Time with turning platters.
    pub awake: Duration,
    /// Time asleep.
    pub asleep: Duration,
    /// Number of times the disk fell asleep.
    pub sleeps: u64,
    /// Number of ended idle times by class: below 1 s, 10 s, 1 min, 10 min, 1 h, and longer.
    pub idle: [u64; 6],
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct SleepClock {
    after: Duration,
    last: SimTime,
    since: SimTime,
    stats: SleepStats,
}

impl SleepClock {
    /// A disk that was used at `now`, and sleeps after the idle time `after`.
    pub const fn new(after: Duration, now: SimTime) -> Self {
        let stats = SleepStats { awake: Duration(0), asleep: Duration(0), sleeps: 0, idle: [0; 6] };
        Self { after, last: now, since: now, stats }
    }

    /// The disk is used at `now`, by any program.
    pub fn used(&mut self, now: SimTime) {
        let now = now.max(self.last);
        let idle = now.since(self.last);
        if idle > Duration(0) {
            let class = IDLE_CLASSES.iter().filter(|s| idle.0 >= **s * 1_000_000_000).count();
            self.stats.idle[class] += 1;
        }
        let asleep = Duration(idle.0.saturating_sub(self.after.0));
        self.stats.sleeps += u64::from(asleep > Duration(0));
        self.stats.asleep += asleep;
        self.last = now;
    }

    /// The phase at `now`.
    pub fn phase(&self, now: SimTime) -> DiskPhase {
        let idle = now.max(self.last).since(self.last);
        if idle >= self.after {
            DiskPhase::Asleep
        } else if idle.0 >= self.after.0 / 2 {
            DiskPhase::Drowsy
        } else {
            DiskPhase::Turning
        }
    }

    /// Time of the next phase, if the disk is not used.
    pub fn next(&self, now: SimTime) -> Option<SimTime> {
        match self.phase(now) {
            DiskPhase::Turning => Some(self.last + Duration(self.after.0 / 2)),
            DiskPhase::Drowsy => Some(self.last + self.after),
            DiskPhase::Asleep => None,
        }
    }

    /// True if work that has been due since `due` may begin at `now`.
    pub fn may_begin(&self, now: SimTime, due: SimTime) -> bool {
        self.phase(now) != DiskPhase::Asleep || due + PATIENCE <= now
    }

    /// The time of the disk until `now`. The current idle time counts in `awake` and `asleep`, but
    /// in no class.
    pub fn stats(&self, now: SimTime) -> SleepStats {
        let now = now.max(self.last);
        let resting = Duration(now.since(self.last).0.saturating_sub(self.after.0));
        let asleep = self.stats.asleep + resting;
        SleepStats {
            awake: Duration(now.since(self.since).0.saturating_sub(asleep.0)),
            asleep,
            sleeps: self.stats.sleeps + u64::from(resting > Duration(0)),
            ..self.stats
        }
    }
}

/// Groups that are likely to be read next, after a use of `file`: for each group that is not in
/// memory and has a predicted successor of `file`, one of its files. `number` maps files of the
/// learner to files of the store.
pub fn groups_to_read_ahead(
    group_store: &GroupStore,
    graph: &Successors,
    file: u64,
    number: impl Fn(u64) -> Option<FileNumber>,
) -> Vec<FileNumber> {
    let mut found: Vec<(u32, FileNumber)> = Vec::new();
    for (to, _) in graph.predictions(file) {
        if let Some(number) = number(to)
            && let Some(group) = group_store.absent_group(number)
            && found.iter().all(|(g, _)| *g != group)
        {
            found.push((group, number));
        }
    }
    found.into_iter().map(|(_, number)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> SimTime {
        SimTime(seconds * 1_000_000_000)
    }

    #[test]
    fn a_disk_sleeps_after_its_idle_time_and_work_waits_but_not_for_ever() {
        let mut clock = SleepClock::new(Duration::from_millis(20_000), at(0));
        assert_eq!(clock.phase(at(9)), DiskPhase::Turning);
        assert_eq!(clock.phase(at(10)), DiskPhase::Drowsy);
        assert_eq!(clock.phase(at(20)), DiskPhase::Asleep);
        assert_eq!([9, 10, 20].map(|t| clock.next(at(t))), [Some(at(10)), Some(at(20)), None]);
        assert!(clock.may_begin(at(19), at(19)));
        assert!(!clock.may_begin(at(20), at(19)) && !clock.may_begin(at(618), at(19)));
        assert!(clock.may_begin(at(619), at(19)));
        clock.used(at(100));
        assert_eq!(clock.phase(at(100)), DiskPhase::Turning);
        assert!(clock.may_begin(at(101), at(19)));
        // An earlier time counts as the latest time.
        clock.used(at(50));
        assert_eq!(clock.phase(at(110)), DiskPhase::Drowsy);
    }

    #[test]
    fn every_second_is_awake_or_asleep() {
        let mut clock = SleepClock::new(Duration::from_millis(20_000), at(5));
        for second in [5, 6, 16, 136, 137, 5_000] {
            clock.used(at(second));
        }
        let s = clock.stats(at(5_030));
        // 100 of the 120 seconds, 4,843 of the 4,863, and the last ten.
        assert_eq!(s.asleep, Duration::from_millis((100 + 4_843 + 10) * 1_000));
        assert_eq!(s.awake + s.asleep, Duration::from_millis(5_025_000));
        assert_eq!((s.sleeps, s.idle), (3, [0, 2, 1, 1, 0, 1]));
    }
}
