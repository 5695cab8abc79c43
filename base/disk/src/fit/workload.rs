//! What to read to learn a disk: runs in order, steps backwards, reads at every distance. No time, no file.

use seekless_block::{Duration, Extent, Lba};

/// Reads start and end on 4 KiB, for direct I/O on any disk.
const UNIT: u64 = 8;
/// Places where runs are read.
const PLACES: u64 = 64;
/// Places where steps are made backwards.
const STEP_PLACES: u64 = 12;
/// Steps at each.
const STEPS: u64 = 16;
/// Disks from here on (64 GiB) have tracks long enough for larger requests.
const LARGE: u64 = 1 << 27;
/// Disks below (1 GiB) have tracks so short that requests must be smaller: of those of 4 KiB one in four would
/// cross from a track to the next. They are older than sectors of 4 KiB.
const SMALL: u64 = 1 << 21;

/// A run of reads in order takes no more than this part of the budget. There are up to 64: a disk that misses
/// each read by a turn would spend a short budget on them, and none on seeks.
const RUN_SHARE: u64 = 200;
/// But it has as many reads as this at least.
const RUN_READS: u32 = 16;

/// Which of the [`workload`]'s reads are made when there is only so much time for all of them.
#[derive(Clone, Debug)]
pub struct Pace {
    budget: Duration,
    end: Lba,
    start: Duration,
    reads: u32,
}

impl Pace {
    /// For reads that may take so long together.
    #[must_use]
    pub fn new(budget: Duration) -> Self {
        Self { budget, end: Lba(0), start: Duration(0), reads: 0 }
    }

    /// Whether the next read is to be made, so long after the first began: a run may have had its share.
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

/// Reads that characterize a disk of `capacity` sectors when made one at a time, each right after the other:
/// about ten seconds of runs and steps, then reads at all distances without end. The same every time. `None`
/// where the disk is smaller than a MiB.
#[must_use]
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
    // A small disk is an old and slow one, with few zones.
    let places = (capacity >> 17).min(capacity / (2 * run)).clamp(1, PLACES);
    let last = capacity - run;
    (0..places).flat_map(move |i| {
        let start = if places == 1 { 0 } else { share(last, i, places - 1) };
        (0..run / len).map(move |n| Extent::new(start + n * len, len))
    })
}

/// Downwards by one and by two reads: what comes next has just gone by, so the platter turns once for it.
fn backward(capacity: u64, unit: u64) -> impl Iterator<Item = Extent> {
    let span = STEPS * 2 * unit;
    let places = if capacity > 4 * span { STEP_PLACES } else { 0 };
    (0..places * 2).flat_map(move |i| {
        // Both strides at each place.
        let top = share(capacity - 2 * span, i / 2, STEP_PLACES) + span;
        let stride = (1 + i % 2) * unit;
        (0..STEPS).map(move |n| Extent::new(top - n * stride, unit))
    })
}

fn share(of: u64, i: u64, n: u64) -> u64 {
    (u128::from(of) * u128::from(i) / u128::from(n)) as u64 / UNIT * UNIT
}

/// Half to places drawn evenly, half at distances drawn evenly in their logarithm.
struct Seeks {
    /// Sectors of a read.
    unit: u64,
    units: u64,
    at: u64,
    dice: u64,
    drawn: u64,
}

impl Seeks {
    fn new(capacity: u64, unit: u64) -> Self {
        Self { unit, units: capacity / unit, at: 0, dice: 0x05ee_d0f5_eec5, drawn: 0 }
    }

    /// Evenly from 0 to 1 (SplitMix64).
    fn draw(&mut self) -> f64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Iterator for Seeks {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        self.drawn += 1;
        let last = self.units - 1;
        self.at = if self.drawn.is_multiple_of(2) {
            (self.draw() * last as f64) as u64
        } else {
            let distance = ((last as f64).powf(self.draw()) as u64).max(1);
            let down = self.at.checked_sub(distance);
            let up = Some(self.at + distance).filter(|&a| a <= last);
            let first = self.draw() < 0.5;
            let (a, b) = if first { (down, up) } else { (up, down) };
            a.or(b).unwrap_or(0)
        };
        Some(Extent { start: Lba(self.at * self.unit), len: seekless_block::Sectors(self.unit) })
    }
}
