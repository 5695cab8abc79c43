//! The choice of the next command: a name for each scheduling policy, and the choice as a pure
//! function.

use std::str::FromStr;

use seekless_block::{Duration, Lba, SimTime, named};

use crate::disk::{Disk, Key};

/// A queueing policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// First come, first served.
    #[default]
    Fcfs,
    /// The nearest address to the end of the last command first.
    Sstf,
    /// In one direction of addresses; back when no command is left in that direction.
    Look,
    /// The next higher address; after the highest, again from the lowest (circular look).
    CLook,
    /// Shortest positioning time (seek and rotation) first.
    Sptf,
    /// As SPTF, but subtracts 6/1000 of a command's waiting time from its positioning time.
    /// Worthington, Ganger and Patt (SIGMETRICS 1994) found that this weight is fair to all at
    /// little cost.
    Asptf,
    /// As C-LOOK, but after a read the disk stays idle for up to 6 ms if the same stream is
    /// expected to read again soon and nearby (Iyer and Druschel, SOSP 2001; FS2's baseline).
    Anticipatory,
    /// As C-LOOK, and waiting commands that adjoin are served as one command of at most 512 KiB, as
    /// in the block layer of Linux above a drive. A host's queue above a disk's queue does not
    /// merge: see [`crate::Drive::with_host`].
    Elevator,
}

named!(names Scheduler:
    Fcfs = "fcfs",
    Sstf = "sstf",
    Look = "look",
    CLook = "clook",
    Sptf = "sptf",
    Asptf = "asptf",
    Anticipatory = "anticipatory",
    Elevator = "elevator",
);

impl FromStr for Scheduler {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|s| s.name() == text).ok_or_else(|| {
            let known = "fcfs, sstf, look, clook, sptf, asptf, anticipatory or elevator";
            format!("'{text}' is not a scheduler; choose {known}")
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) key: Key,
    /// Increases with arrival.
    pub(crate) order: u64,
    pub(crate) submitted: SimTime,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Its start address, and the address after its end.
    pub(crate) start: Lba,
    pub(crate) end: Lba,
    pub(crate) upward: bool,
}

impl Memory {
    pub(crate) const NEW: Self = Self { start: Lba(0), end: Lba(0), upward: true };
}

impl Scheduler {
    /// Index of the command to serve next in `queue`, which may be in any order; `None` if it is
    /// empty. If two are equal, the earlier arrival wins.
    pub(crate) fn choose(
        self,
        queue: &[Waiting],
        disk: &Disk,
        at: SimTime,
        memory: Memory,
    ) -> Option<usize> {
        let all = queue.iter().enumerate();
        let Memory { start, end, upward } = memory;
        match self {
            Self::Fcfs => all.min_by_key(|(_, w)| w.order).map(|(i, _)| i),
            Self::Sstf => {
                all.min_by_key(|(_, w)| (w.key.lba.distance(end), w.order)).map(|(i, _)| i)
            }
            Self::Look => all
                .min_by_key(|(_, w)| {
                    let back = if upward { w.key.lba < start } else { w.key.lba > start };
                    (back, w.key.lba.distance(start), w.order)
                })
                .map(|(i, _)| i),
            Self::CLook | Self::Anticipatory | Self::Elevator => {
                all.min_by_key(|(_, w)| (w.key.lba < start, w.key.lba, w.order)).map(|(i, _)| i)
            }
            Self::Sptf => nearest(queue, disk, at, |_| Duration::ZERO),
            Self::Asptf => {
                nearest(queue, disk, at, |w| Duration(at.since(w.submitted).0 / 1_000 * 6))
            }
        }
    }
}

/// Index of the command with the smallest positioning time minus its bonus. Commands whose seek
/// alone is too long are skipped without computing the rotation.
fn nearest(
    queue: &[Waiting],
    disk: &Disk,
    at: SimTime,
    bonus: impl Fn(&Waiting) -> Duration,
) -> Option<usize> {
    let turn = disk.spindle();
    let angle = turn.angle_at(at);
    let mut best: Option<usize> = None;
    let mut best_key = (i64::MAX, u64::MAX);
    for (i, w) in queue.iter().enumerate() {
        // Ticks of 5 s times 30,000 rpm are far below 2^63. A bonus that does not fit becomes the
        // maximum.
        let bonus =
            i64::try_from(bonus(w).0.saturating_mul(turn.ticks(Duration(1)))).unwrap_or(i64::MAX);
        let bound = best_key.0.saturating_add(bonus).saturating_add(1).max(0) as u64;
        let time = disk.positioning_ticks(angle, &w.key, bound) as i64;
        let key = (time.saturating_sub(bonus), w.order);
        if key < best_key {
            (best, best_key) = (Some(i), key);
        }
    }
    best
}
