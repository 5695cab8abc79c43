//! Probability that a candidate page will be worth having: a table of counts, and online logistic
//! regression above it.

use super::features::Features;

/// Least step of a weight.
const STEP_MIN: f32 = 0.004;
/// The step of a weight is [`STEP_MIN`] after it was learned so often.
pub(super) const STEPS: u16 = 2499;
/// The same, rounded up to a power of two.
const STEPS_MOST: usize = 1 << 12;
const STEP_BIAS: f32 = 0.0005;
/// A cell that counts this number of outcomes is halved: fine, coarse.
const HALVED: (f32, f32) = (4096.0, 8192.0);

/// Uses among outcomes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) used: f32,
    pub(super) all: f32,
}

impl Cell {
    fn add(&mut self, y: f32, most: f32) {
        self.used += y;
        self.all += 1.0;
        if self.all > most {
            self.used /= 2.0;
            self.all /= 2.0;
        }
    }
}

/// Counts of outcomes by cell.
#[derive(Debug)]
pub(crate) struct OutcomeCounts {
    pub(super) coarse: Vec<Cell>,
    pub(super) fine: Vec<Cell>,
}

impl OutcomeCounts {
    fn new(coarse: usize, fine: usize, prior: fn(usize) -> f32) -> Self {
        let coarse = (0..coarse).map(|at| Cell { used: prior(at), all: 8.0 }).collect();
        Self { coarse, fine: vec![Cell::default(); fine] }
    }

    /// Probability, from the fine cell as far as it has been seen.
    pub(crate) fn probability(&self, (coarse, fine): (u16, u16)) -> f32 {
        let (c, f) = (self.coarse[usize::from(coarse)], self.fine[usize::from(fine)]);
        (f.used + 6.0 * c.used / c.all) / (f.all + 6.0)
    }

    pub(crate) fn odds(&self, cells: (u16, u16)) -> f32 {
        odds(self.probability(cells))
    }
}

/// The odds of a probability, for a class of them.
pub(crate) fn odds(p: f32) -> f32 {
    let p = p.clamp(0.001, 0.999);
    p / (1.0 - p)
}

/// Most weights. A power of two: an index needs no check of its bounds.
pub(crate) const WEIGHTS_MOST: usize = 1 << 13;

/// The predictor of candidates with `N` features.
#[derive(Debug)]
pub(crate) struct Predictor<const N: usize> {
    pub(crate) counts: OutcomeCounts,
    pub(super) weights: Box<[f32; WEIGHTS_MOST]>,
    /// By weight: how often it was learned, as far as [`Self::steps`] goes.
    pub(super) seen: Box<[u16; WEIGHTS_MOST]>,
    /// Step of a weight that was learned so often.
    steps: Box<[f32; STEPS_MOST]>,
    pub(super) bias: f32,
}

impl<const N: usize> Predictor<N> {
    /// With these numbers of cells of the count table: coarse, fine. `prior` is the number of uses among 8
    /// outcomes that a coarse cell begins with.
    pub(crate) fn new((coarse, fine): (usize, usize), prior: fn(usize) -> f32) -> Self {
        let step = |seen: u16| (0.2 / (1.0 + f32::from(seen)).sqrt()).max(STEP_MIN);
        Self {
            counts: OutcomeCounts::new(coarse, fine, prior),
            weights: Box::new([0.0; WEIGHTS_MOST]),
            seen: Box::new([0; WEIGHTS_MOST]),
            steps: Box::new(std::array::from_fn(|seen| step(seen as u16))),
            bias: -1.0,
        }
    }

    /// Probability of a candidate, 0 to 1.
    pub(crate) fn probability(&self, features: &Features) -> f32 {
        // Two sums: the processor adds them at the same time.
        let (mut even, mut odd) = (self.bias, 0.0);
        for i in 0..N / 2 {
            even += self.weights[usize::from(features.at[2 * i]) % WEIGHTS_MOST];
            odd += self.weights[usize::from(features.at[2 * i + 1]) % WEIGHTS_MOST];
        }
        1.0 / (1.0 + (-(even + odd)).exp())
    }

    /// A candidate came to a worth of `y`, 0 to 1.
    pub(crate) fn learn(&mut self, features: &Features, y: f32) {
        let error = y - self.probability(features);
        self.bias += STEP_BIAS * error;
        for i in 0..N {
            let at = usize::from(features.at[i]) % WEIGHTS_MOST;
            let seen = self.seen[at];
            self.weights[at] += self.steps[usize::from(seen) % STEPS_MOST] * error;
            self.seen[at] = seen + u16::from(seen < STEPS);
        }
        let (coarse, fine) = features.cells;
        self.counts.coarse[usize::from(coarse)].add(y, HALVED.1);
        self.counts.fine[usize::from(fine)].add(y, HALVED.0);
    }
}
