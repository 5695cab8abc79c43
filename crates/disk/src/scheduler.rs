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
    /// The next higher address, from the lowest again after the highest (circular look).
    CLook,
    /// Shortest positioning time (seek and rotation) first.
    Sptf,
}

impl Scheduler {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Fcfs, Self::CLook, Self::Sptf];
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fcfs => "fcfs",
            Self::CLook => "clook",
            Self::Sptf => "sptf",
        })
    }
}

/// Not the name of a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no scheduler: choose fcfs, clook or sptf")]
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
    pub(crate) target: Target,
}

impl Scheduler {
    /// Index of the command to serve next among `queue`, which may be in any order; `None` where it is
    /// empty. `last` is where the previous command started, from which C-LOOK goes on.
    pub(crate) fn choose<T>(
        self,
        queue: &[T],
        waiting: impl Fn(&T) -> Waiting,
        disk: &Disk,
        at: SimTime,
        last: Lba,
    ) -> Option<usize> {
        let all = queue.iter().map(waiting).enumerate();
        match self {
            Self::Fcfs => all.min_by_key(|(_, w)| w.order).map(|(i, _)| i),
            Self::CLook => all
                .min_by_key(|(_, w)| (w.target.lba < last, w.target.lba, w.order))
                .map(|(i, _)| i),
            Self::Sptf => {
                let angle = disk.turn().angle_at(at);
                let mut best = None;
                let mut best_key = (Duration(u64::MAX), u64::MAX);
                for (i, w) in all {
                    let bound = Duration(best_key.0.0.saturating_add(1));
                    let key = (disk.positioning_to(angle, &w.target, bound), w.order);
                    if key < best_key {
                        (best, best_key) = (Some(i), key);
                    }
                }
                best
            }
        }
    }
}
