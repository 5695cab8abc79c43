//! Which waiting command is served next: a name for each policy, and the choice itself as a pure function.

use std::fmt;
use std::str::FromStr;

use seekless_block::{Duration, Lba, SimTime};

use crate::disk::{Disk, Target};

/// A queueing policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// In order of arrival.
    #[default]
    Fcfs,
    /// Nearest address to the end of the last command first.
    Sstf,
    /// On in one direction of addresses, back where none is left that way.
    Look,
    /// The next higher address, from the lowest again after the highest (circular look).
    CLook,
    /// Shortest positioning time (seek and rotation) first.
    Sptf,
    /// As SPTF, each command's positioning time less 6/1000 of the time it has waited (Worthington, Ganger
    /// and Patt, SIGMETRICS 1994, found that weight to serve all fairly at little cost).
    Asptf,
}

impl Scheduler {
    /// Every policy.
    pub const ALL: [Self; 6] =
        [Self::Fcfs, Self::Sstf, Self::Look, Self::CLook, Self::Sptf, Self::Asptf];
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fcfs => "fcfs",
            Self::Sstf => "sstf",
            Self::Look => "look",
            Self::CLook => "clook",
            Self::Sptf => "sptf",
            Self::Asptf => "asptf",
        })
    }
}

/// Not the name of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no scheduler: choose fcfs, sstf, look, clook, sptf or asptf")]
pub struct ParseSchedulerError(pub String);

impl FromStr for Scheduler {
    type Err = ParseSchedulerError;
    fn from_str(text: &str) -> Result<Self, ParseSchedulerError> {
        Self::ALL
            .into_iter()
            .find(|s| s.to_string() == text)
            .ok_or_else(|| ParseSchedulerError(text.to_owned()))
    }
}

/// A command as a policy sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// Rises with arrival.
    pub(crate) order: u64,
    pub(crate) submitted: SimTime,
    pub(crate) target: Target,
}

/// What a policy remembers of the command served last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Where it started, and the address after its end.
    pub(crate) start: Lba,
    pub(crate) end: Lba,
    /// LOOK's direction.
    pub(crate) upward: bool,
}

impl Memory {
    pub(crate) const NEW: Self = Self { start: Lba(0), end: Lba(0), upward: true };
}

impl Scheduler {
    /// Index of the command to serve next among `queue`, which may be in any order; `None` where it is
    /// empty. Ties go to the earliest arrival.
    pub(crate) fn choose<T>(
        self,
        queue: &[T],
        waiting: impl Fn(&T) -> Waiting,
        disk: &Disk,
        at: SimTime,
        memory: Memory,
    ) -> Option<usize> {
        let all = queue.iter().map(waiting).enumerate();
        let Memory { start, end, upward } = memory;
        match self {
            Self::Fcfs => all.min_by_key(|(_, w)| w.order).map(|(i, _)| i),
            Self::Sstf => {
                all.min_by_key(|(_, w)| (w.target.lba.distance(end), w.order)).map(|(i, _)| i)
            }
            Self::Look => all
                .min_by_key(|(_, w)| {
                    let back = if upward { w.target.lba < start } else { w.target.lba > start };
                    (back, w.target.lba.distance(start), w.order)
                })
                .map(|(i, _)| i),
            Self::CLook => all
                .min_by_key(|(_, w)| (w.target.lba < start, w.target.lba, w.order))
                .map(|(i, _)| i),
            Self::Sptf => nearest(all, disk, at, |_| 0),
            Self::Asptf => nearest(all, disk, at, |w| at.since(w.submitted).0 / 1_000 * 6),
        }
    }
}

/// Index of the least positioning time less a bonus, in nanoseconds; commands whose seek alone is too
/// long are passed over without asking for the platter.
fn nearest(
    all: impl Iterator<Item = (usize, Waiting)>,
    disk: &Disk,
    at: SimTime,
    bonus: impl Fn(&Waiting) -> u64,
) -> Option<usize> {
    let angle = disk.turn().angle_at(at);
    let mut best: Option<(i64, u64, usize)> = None;
    for (i, w) in all {
        let bonus = i64::try_from(bonus(&w)).unwrap_or(i64::MAX);
        let bound = best.map_or(i64::MAX, |b| b.0.saturating_add(bonus).saturating_add(1));
        if bound <= 0 {
            continue;
        }
        let time = disk.positioning_to(angle, &w.target, Duration(bound as u64)).0;
        let key = i64::try_from(time).unwrap_or(i64::MAX).saturating_sub(bonus);
        if best.is_none_or(|b| (key, w.order) < (b.0, b.1)) {
            best = Some((key, w.order, i));
        }
    }
    best.map(|b| b.2)
}
