//! The cost of a run: disk busy time by phase, energy by state, response times. Busy time is BORG's
//! primary metric (FAST'09, 6); its phases and their energy are FS2's (SOSP'05, 4.2).

use hdrhistogram::Histogram;
use seekless_block::{Duration, Energy, Op};
use seekless_disk::{Access, Completion, EnergyByState, Operations, TimeByState};
use seekless_engine::{Class, Stats, Target};

use crate::path::HeadPath;

/// Busy time by phase, and waits for the platters to spin up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Controller time.
    pub overhead: Duration,
    /// The arm moves.
    pub seek: Duration,
    /// Waiting for the sector.
    pub rotation: Duration,
    /// Data passes under the head.
    pub transfer: Duration,
    /// Waiting for the platters to turn; not a part of busy time.
    pub spin_up: Duration,
}

impl Phases {
    /// Overhead, seek, rotation and transfer.
    pub fn busy(&self) -> Duration {
        self.overhead + self.seek + self.rotation + self.transfer
    }

    /// Adds the times of one access.
    pub fn add(&mut self, access: &Access) {
        self.overhead += access.overhead;
        self.seek += access.seek;
        self.rotation += access.rotation;
        self.transfer += access.transfer;
        self.spin_up += access.spin_up;
    }
}

impl std::ops::Add for Phases {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            overhead: self.overhead + other.overhead,
            seek: self.seek + other.seek,
            rotation: self.rotation + other.rotation,
            transfer: self.transfer + other.transfer,
            spin_up: self.spin_up + other.spin_up,
        }
    }
}

/// The cost of I/Os of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCost {
    /// Their number.
    pub ios: u64,
    /// Sectors that they moved.
    pub sectors: u64,
    /// Their busy time.
    pub phases: Phases,
    /// The drive's own work before or after them: writing its cache, reading ahead. Not a part of
    /// busy time.
    pub behind: Duration,
}

/// The cost of each kind of I/O: for clients or in the background, at home or in the area, reading
/// or writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCosts([IoCost; 8]);

impl IoCosts {
    const fn index(class: Class, target: Target, writes: bool) -> usize {
        let background = class.is_background() as usize;
        let area = matches!(target, Target::Area) as usize;
        4 * background + 2 * area + writes as usize
    }

    /// Of one kind.
    pub const fn of(&self, class: Class, target: Target, writes: bool) -> &IoCost {
        &self.0[Self::index(class, target, writes)]
    }

    /// The drive's own work, of all kinds together.
    pub fn behind(&self) -> Duration {
        self.0.iter().fold(Duration::ZERO, |sum, cost| sum + cost.behind)
    }

    pub(crate) fn add(&mut self, class: Class, target: Target, op: Op, done: &Completion) {
        let cost = &mut self.0[Self::index(class, target, op != Op::Read)];
        cost.ios += 1;
        cost.sectors += done.extent.len.0;
        cost.phases.add(&done.access);
        cost.behind += done.access.behind_seek + done.access.behind_rotation_transfer;
    }
}

/// Response times of client requests: exact mean and maximum, percentiles to three significant
/// digits.
#[derive(Clone, Debug)]
pub struct Response {
    histogram: Histogram<u64>,
    sum: u128,
    max: u64,
}

impl Default for Response {
    fn default() -> Self {
        // 3 significant digits is within what the crate accepts (0 to 5).
        let histogram = Histogram::new(3).unwrap_or_else(|_| unreachable!());
        Self { histogram, sum: 0, max: 0 }
    }
}

impl Response {
    pub(crate) fn push(&mut self, took: Duration) {
        // A resizable histogram of 64-bit values takes every value.
        let _ = self.histogram.record(took.0);
        self.sum += u128::from(took.0);
        self.max = self.max.max(took.0);
    }

    /// Requests answered.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Mean in milliseconds; zero without requests.
    pub fn mean_ms(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum as f64 / self.count() as f64 / 1e6 }
    }

    /// The time within which a share `q` (0 to 1) of requests ended, in milliseconds.
    pub fn quantile_ms(&self, q: f64) -> f64 {
        if self.count() == 0 {
            return 0.0;
        }
        self.histogram.value_at_quantile(q).min(self.max) as f64 / 1e6
    }

    /// Longest, in milliseconds.
    pub fn max_ms(&self) -> f64 {
        self.max as f64 / 1e6
    }

    /// The distribution: `(milliseconds, share of requests not above)`, ascending.
    pub fn cdf(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let total = self.count().max(1) as f64;
        let mut below = 0;
        self.histogram.iter_recorded().map(move |v| {
            below += v.count_since_last_iteration();
            (v.value_iterated_to() as f64 / 1e6, below as f64 / total)
        })
    }
}

/// The results of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Client requests.
    pub requests: u64,
    /// Foreground I/Os that moved data at the disk. Read-ahead directly behind an I/O is a part of
    /// this I/O.
    pub device_ios: u64,
    /// Of these, the number that did not start at the end of the I/O before.
    pub nonsequential: u64,
    /// Sectors between the end of one foreground I/O and the start of the next, summed.
    pub seek_distance_sectors: u128,
    /// Foreground busy time.
    pub foreground: Phases,
    /// Reconfiguration's busy time.
    pub background: Phases,
    /// Of it, that before the span.
    pub before: Duration,
    /// Both, by kind of I/O; flushes count as writes.
    pub costs: IoCosts,
    /// Energy within the span, without that of the background.
    pub energy: EnergyByState,
    /// Energy of the background, also before the span.
    pub background_energy: Energy,
    /// Time in each state, with background work; the sum is the span.
    pub state_time: TimeByState,
    /// How often the platters were stopped.
    pub spin_downs: u64,
    /// Operations as a provider counts them, also background ones before the first request; none
    /// for disks.
    pub operations: Option<Operations>,
    /// From the first request to the last answer, and to the end of the I/Os in flight at that
    /// time, if the run waited for them. After [`crate::Simulation::lap_on_time`], the pause before
    /// the first request counts too.
    pub span: Duration,
    /// Response times.
    pub response: Response,
    /// The engine's own counts.
    pub engine: Stats,
    /// The positions of the head.
    pub path: HeadPath,
}

impl Measured {
    pub(crate) fn foreground_io(&mut self, done: &Completion, ahead: bool) {
        // A merged command is a part of the I/O that has its access. Read-ahead that goes on where
        // the I/O before it ended is a part of that I/O: the arm does not move.
        let part = done.access == Access::default() || (ahead && done.sequential);
        self.device_ios += u64::from(!part);
        self.nonsequential += u64::from(!done.sequential);
        self.seek_distance_sectors += u128::from(done.seek_distance_sectors);
        self.foreground.add(&done.access);
    }
}
