//! Whether the directory's disk sleeps, told by the kernel's counters of what it was asked for, by anybody, and by a timer that
//! is the disk's own: nothing is asked of the disk itself. What waits for it is decided by [`seekless_store::SleepClock`].

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use seekless_block::{Duration, Energy, SimTime};
use seekless_disk::PowerStates;
use seekless_host::HostError;
use seekless_store::{DiskPhase, SleepClock, SleepStats};

use crate::error::MountError;
use crate::mounted_dir::held;

/// What a directory's disk does when nobody asks it for anything.
#[derive(Clone, Copy, Debug)]
pub struct DiskSleep {
    /// It sleeps after so long: what it was told, as by `hdparm -S`.
    pub after: Duration,
    /// What it takes in each state, where that is known.
    pub power: Option<PowerStates>,
}

/// How a disk's time and energy were spent.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskUsage {
    pub(super) rest: SleepStats,
    /// At work.
    pub(super) busy: Duration,
    /// At work, idle with its platters turning, at rest, and on its way to and from there.
    pub(super) energy: Option<[Energy; 4]>,
}

/// What the kernel has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    /// Reads, writes, discards and flushes that have ended.
    requests: u64,
    /// Those under way.
    open: u64,
    /// Milliseconds with any under way.
    busy: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct WatchedDisk {
    counters: PathBuf,
    sleep: DiskSleep,
    started: Instant,
    seen: Mutex<(SleepClock, Counted, Counted)>,
}

impl Counted {
    /// From a block device's `stat`; Documentation/block/stat.rst of Linux.
    fn of(text: &str) -> Option<Self> {
        let fields: Vec<u64> = text.split_whitespace().map_while(|f| f.parse().ok()).collect();
        let all = [0, 4, 11, 15].iter().filter_map(|&i| fields.get(i)).sum();
        Some(Self { requests: all, open: *fields.get(8)?, busy: *fields.get(9)? })
    }
}

impl WatchedDisk {
    /// The disk under a directory.
    ///
    /// # Errors
    /// Where its file system stands on no block device.
    pub(super) fn new(dir: &Path, sleep: &DiskSleep) -> Result<Self, MountError> {
        let fail = |what| {
            let path = dir.to_owned();
            move |source| HostError::Path { path, what, source }
        };
        let device = dir.metadata().map_err(fail("look at it"))?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let link = format!("/sys/dev/block/{major}:{minor}");
        let mut place = Path::new(&link)
            .canonicalize()
            .map_err(fail("find the disk of its file system, to see when it sleeps"))?;
        if place.join("partition").exists() {
            place.pop();
        }
        let counters = place.join("stat");
        let text = std::fs::read_to_string(&counters).map_err(fail("read its disk's counters"))?;
        let now = Counted::of(&text).unwrap_or_default();
        let rest = SleepClock::new(sleep.after, SimTime(0));
        let seen = Mutex::new((rest, now, now));
        Ok(Self { counters, sleep: *sleep, started: Instant::now(), seen })
    }

    fn now(&self) -> SimTime {
        SimTime(self.started.elapsed().as_nanos() as u64)
    }

    /// Looks what the disk was asked for since the last time; what it does now.
    pub(super) fn look(&self) -> DiskPhase {
        let text = std::fs::read_to_string(&self.counters).unwrap_or_default();
        let (mut seen, now) = (held(&self.seen), self.now());
        if let Some(counted) = Counted::of(&text) {
            if counted != seen.2 || counted.open > 0 {
                seen.0.used(now);
            }
            seen.2 = counted;
        }
        seen.0.phase(now)
    }

    /// Whether work that has been due since `due` may begin.
    pub(super) fn may_begin(&self, due: Instant) -> bool {
        let due = due.saturating_duration_since(self.started).as_nanos() as u64;
        held(&self.seen).0.may_begin(self.now(), SimTime(due))
    }

    pub(super) fn spent(&self) -> DiskUsage {
        let (rest, first, last) = *held(&self.seen);
        let rest = rest.stats(self.now());
        let busy = Duration::from_millis(last.busy.saturating_sub(first.busy)).min(rest.awake);
        let energy = self.sleep.power.as_ref().map(|p| {
            let idle = Duration(rest.awake.0 - busy.0);
            let Some(standby) = p.standby else {
                return [
                    p.rotation_transfer * busy,
                    p.idle * idle,
                    p.idle * rest.asleep,
                    Energy::ZERO,
                ];
            };
            let moves = standby.down.energy.0 + standby.up.energy.0;
            let moves = Energy(moves * u128::from(rest.sleeps));
            [p.rotation_transfer * busy, p.idle * idle, standby.power * rest.asleep, moves]
        });
        DiskUsage { rest, busy, energy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_devices_counters_are_read() {
        let text = "  100 2 3 4 50 6 7 8 1 900 11 20 0 0 0 7 8\n";
        assert_eq!(Counted::of(text), Some(Counted { requests: 177, open: 1, busy: 900 }));
        // Linux 4.17 has no discards.
        let old = Counted { requests: 150, open: 1, busy: 900 };
        assert_eq!(Counted::of("100 2 3 4 50 6 7 8 1 900 11"), Some(old));
        assert_eq!(Counted::of("100 2 3"), None);
        assert_eq!(Counted::of(""), None);
    }
}
