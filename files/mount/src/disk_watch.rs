//! Whether the disk of the directory sleeps. The answer comes from the request counters of the
//! kernel and the sleep timer of the disk; the disk itself is never asked.
//! [`seekless_store::SleepClock`] decides which work waits.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use seekless_block::{Duration, Energy, SimTime};
use seekless_disk::PowerStates;
use seekless_host::blocks::{folder, numbers_of, whole_disk};
use seekless_host::cannot_at;
use seekless_store::{DiskPhase, SleepClock, SleepStats};

use crate::error::MountError;
use crate::mounted_dir::held;

/// How a disk behaves without requests.
#[derive(Clone, Copy, Debug)]
pub struct DiskSleep {
    /// Idle time after which the disk sleeps, as set by `hdparm -S`.
    pub after: Duration,
    /// Power in each state, if known.
    pub power: Option<PowerStates>,
}

/// Time and energy of a disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskUsage {
    pub(super) sleep: SleepStats,
    pub(super) busy: Duration,
    /// Energy busy, idle with turning platters, asleep, and for spin-down and spin-up.
    pub(super) energy: Option<[Energy; 4]>,
}

/// Counters of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    /// Ended reads, writes, discards and flushes.
    requests: u64,
    /// Requests in flight.
    in_flight: u64,
    /// Milliseconds with a request in flight.
    busy: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct WatchedDisk {
    counters: PathBuf,
    sleep: DiskSleep,
    started: Instant,
    /// The clock, the counters at the mount, and the latest counters.
    seen: Mutex<(SleepClock, Counted, Counted)>,
}

impl Counted {
    /// Parses the `stat` of a block device; see Documentation/block/stat.rst of Linux.
    fn of(text: &str) -> Option<Self> {
        let fields: Vec<u64> = text.split_whitespace().map_while(|f| f.parse().ok()).collect();
        let all = [0, 4, 11, 15].iter().filter_map(|&i| fields.get(i)).sum();
        Some(Self { requests: all, in_flight: *fields.get(8)?, busy: *fields.get(9)? })
    }
}

impl WatchedDisk {
    /// The disk of a directory.
    ///
    /// # Errors
    /// The file system of the directory is on no block device.
    pub(super) fn new(dir: &Path, sleep: &DiskSleep) -> Result<Self, MountError> {
        let device = dir.metadata().map_err(cannot_at(dir, "look at it"))?.dev();
        let what = "find the disk of its file system, whose sleep is to be watched";
        let place = folder(numbers_of(device)).canonicalize().map_err(cannot_at(dir, what))?;
        let counters = whole_disk(place).join("stat");
        let text = std::fs::read_to_string(&counters)
            .map_err(cannot_at(dir, "read the counters of its disk"))?;
        let now = Counted::of(&text).unwrap_or_default();
        let clock = SleepClock::new(sleep.after, SimTime(0));
        let seen = Mutex::new((clock, now, now));
        Ok(Self { counters, sleep: *sleep, started: Instant::now(), seen })
    }

    fn now(&self) -> SimTime {
        SimTime(self.started.elapsed().as_nanos() as u64)
    }

    /// Reads the counters, and returns the phase of the disk.
    pub(super) fn look(&self) -> DiskPhase {
        let text = std::fs::read_to_string(&self.counters).unwrap_or_default();
        let (mut seen, now) = (held(&self.seen), self.now());
        if let Some(counted) = Counted::of(&text) {
            if counted != seen.2 || counted.in_flight > 0 {
                seen.0.used(now);
            }
            seen.2 = counted;
        }
        seen.0.phase(now)
    }

    /// True if work that has been due since `due` may begin.
    pub(super) fn may_begin(&self, due: Instant) -> bool {
        let due = due.saturating_duration_since(self.started).as_nanos() as u64;
        held(&self.seen).0.may_begin(self.now(), SimTime(due))
    }

    pub(super) fn usage(&self) -> DiskUsage {
        let (clock, first, last) = *held(&self.seen);
        let sleep = clock.stats(self.now());
        let busy = Duration::from_millis(last.busy.saturating_sub(first.busy)).min(sleep.awake);
        let energy = self.sleep.power.as_ref().map(|p| {
            let idle = Duration(sleep.awake.0 - busy.0);
            let Some(standby) = p.standby else {
                return [
                    p.rotation_transfer * busy,
                    p.idle * idle,
                    p.idle * sleep.asleep,
                    Energy::ZERO,
                ];
            };
            let spins = standby.down.energy.0 + standby.up.energy.0;
            let spins = Energy(spins * u128::from(sleep.sleeps));
            [p.rotation_transfer * busy, p.idle * idle, standby.power * sleep.asleep, spins]
        });
        DiskUsage { sleep, busy, energy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_a_device_are_parsed() {
        let text = "  100 2 3 4 50 6 7 8 1 900 11 20 0 0 0 7 8\n";
        assert_eq!(Counted::of(text), Some(Counted { requests: 177, in_flight: 1, busy: 900 }));
        // Linux 4.17 has no discards.
        let old = Counted { requests: 150, in_flight: 1, busy: 900 };
        assert_eq!(Counted::of("100 2 3 4 50 6 7 8 1 900 11"), Some(old));
        assert_eq!(Counted::of("100 2 3"), None);
        assert_eq!(Counted::of(""), None);
    }
}
