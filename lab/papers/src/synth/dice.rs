//! Random numbers from a seed, by PCG (M. O'Neill, 2014).

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore as _, SeedableRng as _};

/// A generator for one purpose: more draws for one purpose change nothing for another.
#[derive(Debug)]
pub(super) struct Dice(Pcg64Mcg);

impl Dice {
    /// The generator of this purpose, from a seed.
    pub(super) fn new(seed: u64, purpose: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed ^ purpose.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// Uniform from 0 to below 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform from 0 to below `n`, which is at least 1.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        ((u64::from(n) * (self.0.next_u64() >> 32)) >> 32) as u32
    }

    /// Exponentially distributed, with this mean.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// A whole number of at least 1 with about this mean, and an exponential tail.
    pub(super) fn count(&mut self, mean: f64) -> u32 {
        // floor(Exp) of mean m has the mean 1 / (e^(1/m) - 1): this m makes it mean - 1.
        if mean <= 1.0 {
            return 1;
        }
        let m = 1.0 / (1.0 / (mean - 1.0)).ln_1p();
        1 + self.exponential(m) as u32
    }
}
