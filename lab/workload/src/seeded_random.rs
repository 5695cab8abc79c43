//! Random numbers from a seed, by a named generator (PCG, O'Neill 2014), and the gamma distribution
//! of file sizes and directories.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore as _, SeedableRng as _};

/// A random generator. Each purpose has its own, so that one more number for one purpose changes
/// nothing for the others.
#[derive(Clone, Debug)]
pub(crate) struct SeededRandom(Pcg64Mcg);

impl SeededRandom {
    /// The generator for purpose number `purpose` of a seed.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed ^ purpose.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
    }

    /// A number from 0 to less than 1, evenly distributed.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from 0 to less than `n`, evenly distributed; 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(n) * u128::from(self.0.next_u64())) >> 64) as u64
    }

    /// A normally distributed number with mean 0 and variance 1 (Box and Muller, 1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// A gamma-distributed number with this mean and shape, both above 0 (Marsaglia and Tsang,
    /// 2000).
    pub(crate) fn gamma(&mut self, mean: f64, shape: f64) -> f64 {
        if shape < 1.0 {
            // Gamma(a) is Gamma(a + 1) times U^(1/a); the means are a and a + 1.
            let lifted = self.gamma(shape + 1.0, shape + 1.0);
            return lifted * (1.0 - self.unit()).powf(1.0 / shape) * mean / shape;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v <= 0.0 {
                continue;
            }
            let u = 1.0 - self.unit();
            if u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v * mean / shape;
            }
        }
    }

    /// Fills `bytes` with data that cannot be compressed.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

/// The fraction of a gamma distribution with this shape and mean that is not above `x`.
#[cfg(test)]
pub(crate) fn gamma_cdf(x: f64, mean: f64, shape: f64) -> f64 {
    use statrs::distribution::{ContinuousCDF as _, Gamma};
    Gamma::new(shape, shape / mean).unwrap().cdf(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Kolmogorov-Smirnov test against the distribution function, for shapes below and above 1.
    #[test]
    fn draws_are_gamma_distributed() {
        for (seed, shape) in [(1, 1.5), (2, 0.5), (3, 1.0), (4, 7.0)] {
            let (mut chance, n) = (SeededRandom::new(seed, 0), 20_000);
            let mut draws: Vec<f64> = (0..n).map(|_| chance.gamma(16384.0, shape)).collect();
            draws.sort_by(f64::total_cmp);
            let far = |(i, x): (usize, &f64)| {
                let f = gamma_cdf(*x, 16384.0, shape);
                (f - i as f64 / f64::from(n)).abs().max((f - (i + 1) as f64 / f64::from(n)).abs())
            };
            let d = draws.iter().enumerate().map(far).fold(0.0, f64::max);
            // 1.63 / sqrt(n): 1% of correct samples exceed it.
            assert!(d < 1.63 / f64::from(n).sqrt(), "seed {seed}, shape {shape}: {d}");
        }
    }
}
