//! Probability that a candidate page will be worth having: a table of counts, and online logistic regression above it.

use super::features::Features;

/// Least step of a weight.
const STEP_MIN: f32 = 0.004;
/// Step of the bias.
const STEP_BIAS: f32 = 0.0005;
/// A cell that counts so many outcomes is halved: fine, coarse.
const HALVED: (f32, f32) = (4096.0, 8192.0);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weight {
    pub(super) value: f32,
    pub(super) seen: f32,
}

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
pub(crate) struct Counts {
    pub(super) coarse: Vec<Cell>,
    pub(super) fine: Vec<Cell>,
}

impl Counts {
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
        let p = self.probability(cells).clamp(0.001, 0.999);
        p / (1.0 - p)
    }
}

/// The predictor.
#[derive(Debug)]
pub(crate) struct Predictor {
    pub(crate) counts: Counts,
    pub(super) weights: Vec<Weight>,
    pub(super) bias: f32,
    /// Features that a candidate has.
    features: usize,
}

impl Predictor {
    /// With so many features and weights, and cells of the count table: coarse, fine. `prior` is the number of uses among 8
    /// outcomes that a coarse cell begins with.
    pub(crate) fn new(
        (features, weights): (usize, usize),
        (coarse, fine): (usize, usize),
        prior: fn(usize) -> f32,
    ) -> Self {
        let counts = Counts::new(coarse, fine, prior);
        Self { counts, weights: vec![Weight::default(); weights], bias: -1.0, features }
    }

    /// Probability of a candidate, 0 to 1.
    pub(crate) fn probability(&self, features: &Features) -> f32 {
        let at = &features.at[..self.features];
        let sum: f32 = at.iter().map(|&at| self.weights[usize::from(at)].value).sum();
        1.0 / (1.0 + (-(sum + self.bias)).exp())
    }

    /// A candidate came to a worth of `y`, 0 to 1.
    pub(crate) fn learn(&mut self, features: &Features, y: f32) {
        let error = y - self.probability(features);
        self.bias += STEP_BIAS * error;
        for &at in &features.at[..self.features] {
            let weight = &mut self.weights[usize::from(at)];
            let step = (0.2 / (1.0 + weight.seen).sqrt()).max(STEP_MIN);
            weight.value += step * error;
            weight.seen += 1.0;
        }
        let (coarse, fine) = features.cells;
        self.counts.coarse[usize::from(coarse)].add(y, HALVED.1);
        self.counts.fine[usize::from(fine)].add(y, HALVED.0);
    }

    /// Bytes that it holds.
    pub(crate) const fn bytes(&self) -> u64 {
        let cells = (self.counts.coarse.len() + self.counts.fine.len()) * size_of::<Cell>();
        (cells + self.weights.len() * size_of::<Weight>()) as u64
    }
}
