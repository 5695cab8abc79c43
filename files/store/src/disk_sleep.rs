//! A disk that sleeps when nobody asks it for anything, and work that nobody waits for: when it may begin, so that it neither
//! wakes the disk nor keeps it from going to sleep. The same for the simulator and for a mount. It knows no disk: whoever
//! drives it tells when the disk did something.

use crate::successors::Successors;
use seekless_block::{Duration, SimTime};

use crate::{FileNumber, GroupStore};

/// How long background work waits for a sleeping disk; then it wakes it. What waits is changes that no sync covered.
pub(crate) const PATIENCE: Duration = Duration::from_millis(600_000);
/// Idle times are counted below each of these, and beyond, in seconds.
pub const IDLE_CLASSES: [u64; 5] = [1, 10, 60, 600, 3600];

/// What a disk is taken to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskPhase {
    /// Its platters turn, and it was asked for something lately.
    Turning,
    /// They turn, and half of the time until it sleeps has passed: what is to be done is done now.
    Drowsy,
    /// They rest.
    Asleep,
}

/// How a disk's time was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SleepStats {
    /// With the platters turning.
    pub awake: Duration,
    /// At rest.
    pub asleep: Duration,
    /// How often it went to rest.
    pub sleeps: u64,
    /// Times without work that have ended, by length: below each of [`IDLE_CLASSES`], and beyond the last.
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
    /// A disk that has just done something at `now`, and sleeps when it has done nothing for `after`.
    #[must_use]
    pub const fn new(after: Duration, now: SimTime) -> Self {
        let stats = SleepStats { awake: Duration(0), asleep: Duration(0), sleeps: 0, idle: [0; 6] };
        Self { after, last: now, since: now, stats }
    }

    /// The disk does something, for whomever.
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

    /// What it does at `now`.
    #[must_use]
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

    /// When it will be in another phase, if it does nothing.
    #[must_use]
    pub fn next(&self, now: SimTime) -> Option<SimTime> {
        match self.phase(now) {
            DiskPhase::Turning => Some(self.last + Duration(self.after.0 / 2)),
            DiskPhase::Drowsy => Some(self.last + self.after),
            DiskPhase::Asleep => None,
        }
    }

    /// Whether work that has been due since `due` may begin at `now`.
    #[must_use]
    pub fn may_begin(&self, now: SimTime, due: SimTime) -> bool {
        self.phase(now) != DiskPhase::Asleep || due + PATIENCE <= now
    }

    /// How its time was spent until `now`; the time without work that has not ended counts as time alone.
    #[must_use]
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

/// What is likely to be read next, while the disk turns: a file was asked for, and of each group that the files stand in which
/// it leads to and that is not in memory, one file. `number` knows which files are in groups.
pub fn ahead(
    gfs: &GroupStore,
    graph: &Successors,
    file: u64,
    number: impl Fn(u64) -> Option<FileNumber>,
) -> Vec<FileNumber> {
    let mut found: Vec<(u32, FileNumber)> = Vec::new();
    for (to, _) in graph.predictions(file) {
        if let Some(number) = number(to)
            && let Some(group) = gfs.absent_group(number)
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
    fn it_sleeps_after_its_time_and_work_waits_for_it_but_not_for_ever() {
        let mut rest = SleepClock::new(Duration::from_millis(20_000), at(0));
        assert_eq!(rest.phase(at(9)), DiskPhase::Turning);
        assert_eq!(rest.phase(at(10)), DiskPhase::Drowsy);
        assert_eq!(rest.phase(at(20)), DiskPhase::Asleep);
        assert_eq!([9, 10, 20].map(|t| rest.next(at(t))), [Some(at(10)), Some(at(20)), None]);
        assert!(rest.may_begin(at(19), at(19)));
        assert!(!rest.may_begin(at(20), at(19)) && !rest.may_begin(at(618), at(19)));
        assert!(rest.may_begin(at(619), at(19)));
        rest.used(at(100));
        assert_eq!(rest.phase(at(100)), DiskPhase::Turning);
        assert!(rest.may_begin(at(101), at(19)));
        // A clock that is behind is not in the past.
        rest.used(at(50));
        assert_eq!(rest.phase(at(110)), DiskPhase::Drowsy);
    }

    #[test]
    fn every_second_is_awake_or_asleep() {
        let mut rest = SleepClock::new(Duration::from_millis(20_000), at(5));
        for second in [5, 6, 16, 136, 137, 5_000] {
            rest.used(at(second));
        }
        let s = rest.stats(at(5_030));
        // 100 of the 120 seconds, 4,843 of the 4,863, and the last ten.
        assert_eq!(s.asleep, Duration::from_millis((100 + 4_843 + 10) * 1_000));
        assert_eq!(s.awake + s.asleep, Duration::from_millis(5_025_000));
        assert_eq!((s.sleeps, s.idle), (3, [0, 2, 1, 1, 0, 1]));
    }
}
