//! The reads that characterize a disk: sequential runs, backward steps, and reads at every
//! distance. No clock, no file.

use seekless_block::{Dice, Duration, Extent, Lba};

/// Reads start and end at multiples of 4 KiB, for direct I/O on any disk.
const UNIT: u64 = 8;
/// Number of positions with sequential runs.
const PLACES: u64 = 64;
/// Number of positions with backward steps.
const STEP_PLACES: u64 = 12;
/// Steps at each position.
const STEPS: u64 = 16;
/// Disks of at least this size (64 GiB) have tracks that are long enough for larger requests.
const LARGE: u64 = 1 << 27;
/// Disks below this size (1 GiB) have short tracks and need smaller requests: one in four requests
/// of 4 KiB would cross from a track to the next. These disks are older than sectors of 4 KiB.
const SMALL: u64 = 1 << 21;

/// A sequential run takes at most this fraction of the time budget. There are up to 64 runs. A disk
/// that misses each read by one revolution would otherwise spend a short budget on runs, with no
/// time for seeks.
const RUN_SHARE: u64 = 200;
/// But a run has at least this many reads.
const RUN_READS: u32 = 16;

/// Chooses the reads of [`workload`] that fit into a time budget.
#[derive(Clone, Debug)]
pub struct Pace {
    budget: Duration,
    end: Lba,
    start: Duration,
    reads: u32,
}

impl Pace {
    /// A choice for reads that may take `budget` together.
    pub fn new(budget: Duration) -> Self {
        Self { budget, end: Lba(0), start: Duration(0), reads: 0 }
    }

    /// Whether to make the next read at time `now` after the first read. The answer is no if the
    /// read's run has used its share.
    pub fn wants(&mut self, now: Duration, extent: Extent) -> bool {
        if extent.start != self.end {
            (self.start, self.reads) = (now, 0);
        }
        self.end = extent.end();
        let wanted = self.reads < RUN_READS || now.0 - self.start.0 <= self.budget.0 / RUN_SHARE;
        self.reads += u32::from(wanted);
        wanted
    }
}

/// Reads that characterize a disk of `capacity` sectors if they are made one at a time, each
/// directly after the other. About ten seconds of runs and steps come first, then endless reads at
/// all distances. The sequence is always the same. `None` if the disk is smaller than 1 MiB.
pub fn workload(capacity: u64) -> Option<impl Iterator<Item = Extent>> {
    let unit = if capacity < SMALL { 1 } else { UNIT };
    let capacity = capacity / UNIT * UNIT;
    if capacity < 2048 {
        return None;
    }
    Some(sequential(capacity).chain(backward(capacity, unit)).chain(Seeks::new(capacity, unit)))
}

fn sequential(capacity: u64) -> impl Iterator<Item = Extent> {
    let (len, count) = match capacity {
        LARGE.. => (128, 32),
        SMALL..LARGE => (32, 64),
        _ => (16, 64),
    };
    let run = (len * count).min(capacity / 2 / len * len);
    // A small disk is old and slow, and has few zones.
    let places = (capacity >> 17).min(capacity / (2 * run)).clamp(1, PLACES);
    let last = capacity - run;
    (0..places).flat_map(move |i| {
        let start = if places == 1 { 0 } else { share(last, i, places - 1) };
        (0..run / len).map(move |n| Extent::new(start + n * len, len))
    })
}

/// Steps downwards by one and by two reads. The next read's sectors have just passed, so the
/// platter makes one revolution for each.
fn backward(capacity: u64, unit: u64) -> impl Iterator<Item = Extent> {
    let span = STEPS * 2 * unit;
    let places = if capacity > 4 * span { STEP_PLACES } else { 0 };
    (0..places * 2).flat_map(move |i| {
        // Both strides at each position.
        let top = share(capacity - 2 * span, i / 2, STEP_PLACES) + span;
        let stride = (1 + i % 2) * unit;
        (0..STEPS).map(move |n| Extent::new(top - n * stride, unit))
    })
}

fn share(of: u64, i: u64, n: u64) -> u64 {
    (u128::from(of) * u128::from(i) / u128::from(n)) as u64 / UNIT * UNIT
}

/// Half of the reads at positions drawn evenly, half at distances drawn evenly on a logarithmic
/// scale.
struct Seeks {
    /// Sectors per read.
    unit: u64,
    units: u64,
    at: u64,
    dice: Dice,
    drawn: u64,
}

impl Seeks {
    fn new(capacity: u64, unit: u64) -> Self {
        Self { unit, units: capacity / unit, at: 0, dice: Dice::new(0x05ee_d0f5_eec5), drawn: 0 }
    }
}

impl Iterator for Seeks {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        self.drawn += 1;
        let last = self.units - 1;
        self.at = if self.drawn.is_multiple_of(2) {
            (self.dice.unit() * last as f64) as u64
        } else {
            let distance = ((last as f64).powf(self.dice.unit()) as u64).max(1);
            let down = self.at.checked_sub(distance);
            let up = Some(self.at + distance).filter(|&a| a <= last);
            let first = self.dice.unit() < 0.5;
            let (a, b) = if first { (down, up) } else { (up, down) };
            a.or(b).unwrap_or(0)
        };
        Some(Extent { start: Lba(self.at * self.unit), len: seekless_block::Sectors(self.unit) })
    }
}
