//! The access frequency of each cylinder: the distributions of section 4. The only property of a
//! disk is its number of cylinders. Cylinders are counted from 0 here, from 1 in the paper.

use std::f64::consts::SQRT_2;

use serde::Serialize;

/// A normal distribution with its centre in the middle of the disk, cut at the edges.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bell {
    /// Its share of the accesses.
    pub weight: f64,
    /// Standard deviation, as a share of the disk; above 0.
    pub sigma: f64,
}

impl Bell {
    /// Probability that an access falls before `t`, where the disk reaches from 0 to 1.
    fn below(&self, t: f64) -> f64 {
        let part = |x: f64| libm::erf((x - 0.5) / (self.sigma * SQRT_2));
        let edge = part(1.0);
        // So wide that it is flat over the disk.
        if edge < 1e-12 { t } else { 0.5 + part(t) / edge / 2.0 }
    }
}

/// A weighted sum of normal distributions, all centred.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mixture(pub Vec<Bell>);

/// The mixture that matches the authors' traces: `h_p` of section 4.
pub const PERFECT: [Bell; 4] = [
    Bell { weight: 0.3, sigma: 0.001 },
    Bell { weight: 0.3, sigma: 0.01 },
    Bell { weight: 0.2, sigma: 0.05 },
    Bell { weight: 0.2, sigma: 0.1 },
];

impl Mixture {
    /// Probability that an access falls before `t`, 0 to 1.
    pub fn below(&self, t: f64) -> f64 {
        let (sum, of) =
            self.0.iter().fold((0.0, 0.0), |(s, w), b| (s + b.weight * b.below(t), w + b.weight));
        if of > 0.0 { sum / of } else { t }
    }

    /// Share of the accesses to the hottest share `d` of the space: equation 3, continuous.
    pub fn hottest(&self, d: f64) -> f64 {
        let d = d.clamp(0.0, 1.0);
        self.below(0.5 + d / 2.0) - self.below(0.5 - d / 2.0)
    }
}

/// The probability of each cylinder for the next access. Accesses are independent, as in the paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Access(Vec<f64>);

impl Access {
    /// From weights in any unit. `None` if a weight is negative or not finite, or if their sum is
    /// 0.
    pub fn new(mut weights: Vec<f64>) -> Option<Self> {
        let sum: f64 = weights.iter().sum();
        if !sum.is_finite() || sum <= 0.0 || weights.iter().any(|w| *w < 0.0) {
            return None;
        }
        weights.iter_mut().for_each(|w| *w /= sum);
        Some(Self(weights))
    }

    /// Probabilities, cylinder by cylinder.
    pub fn shares(&self) -> &[f64] {
        &self.0
    }

    /// Data placed at random, f_r: equation 2. At least one cylinder.
    pub fn random(cylinders: u32) -> Self {
        let n = cylinders.max(1);
        Self(vec![1.0 / f64::from(n); n as usize])
    }

    /// Data in order of temperature from the middle outwards, under one normal distribution, f_n:
    /// equation 4. `sigma` is a share of the disk; with 0 all accesses are in the middle.
    pub fn normal(cylinders: u32, sigma: f64) -> Self {
        Self::mixture(cylinders, &Mixture(vec![Bell { weight: 1.0, sigma: sigma.max(1e-9) }]))
    }

    /// The same, of a mixture.
    pub fn mixture(cylinders: u32, mixture: &Mixture) -> Self {
        let n = f64::from(cylinders.max(1));
        let edges = (0..=cylinders.max(1)).map(|i| mixture.below(f64::from(i) / n));
        let edges: Vec<f64> = edges.collect();
        Self(edges.windows(2).map(|e| (e[1] - e[0]).max(0.0)).collect())
    }

    /// The paper's traces, perfectly in order of temperature, f_p: equation 5.
    pub fn perfect(cylinders: u32) -> Self {
        Self::mixture(cylinders, &Mixture(PERFECT.to_vec()))
    }

    /// The same layout on the middle share `k` of the disk (at least one cylinder), f_c: equation
    /// 6.
    pub fn concentrated(cylinders: u32, k: f64) -> Self {
        let n = cylinders.max(1);
        let (first, used) = middle(n, k);
        let mut shares = vec![0.0; n as usize];
        let inner = Self::perfect(used);
        shares[first as usize..][..used as usize].copy_from_slice(inner.shares());
        Self(shares)
    }

    /// This layout after drift, f_d: a share `delta` of the accesses goes to data anywhere on the
    /// disk, equation 7. Also for buckets and lazy layouts, which the paper leaves out.
    pub fn drifted(&self, delta: f64) -> Self {
        let (delta, even) = (delta.clamp(0.0, 1.0), 1.0 / self.0.len() as f64);
        Self(self.0.iter().map(|p| (1.0 - delta) * p + delta * even).collect())
    }

    /// This layout with data anywhere in its bucket, f_b: equation 8. Bucket i, from 1 to
    /// `buckets`, has 2^i cylinders, half of them on each side of the buckets before (section 5.2).
    /// One more bucket holds the rest. Buckets that do not fit are left out.
    pub fn in_buckets(&self, buckets: u32) -> Self {
        let n = self.0.len();
        let mut shares = self.0.clone();
        let (mut low, mut high) = (n / 2, n / 2);
        let mut spread = |parts: &[std::ops::Range<usize>]| {
            let of: usize = parts.iter().map(ExactSizeIterator::len).sum();
            let sum: f64 = parts.iter().flat_map(|p| &self.0[p.clone()]).sum();
            for i in parts.iter().flat_map(Clone::clone) {
                shares[i] = sum / of as f64;
            }
        };
        for i in 1..=buckets.min(31) {
            let side = 1usize << (i - 1);
            if low < side || high + side > n {
                break;
            }
            spread(&[low - side..low, high..high + side]);
            (low, high) = (low - side, high + side);
        }
        spread(&[0..low, high..n]);
        Self(shares)
    }

    /// This layout for the hottest share `k` of the data, and other data anywhere in the rest, f_l:
    /// equation 9. The printed equation gives the whole rest to each other cylinder, so that the
    /// sum exceeds 1. Here the other cylinders share the rest.
    pub fn lazily(&self, k: f64) -> Self {
        let n = self.0.len();
        // Less than one cylinder is organized.
        if (k * n as f64).floor() < 1.0 {
            return Self::random(n as u32);
        }
        let (first, used) = middle(n as u32, k);
        let inside = first as usize..(first + used) as usize;
        let kept: f64 = self.0[inside.clone()].iter().sum();
        let rest = (1.0 - kept).max(0.0) / (n - inside.len()).max(1) as f64;
        let share = |(i, p): (usize, &f64)| if inside.contains(&i) { *p } else { rest };
        Self(self.0.iter().enumerate().map(share).collect())
    }

    /// Share of the accesses to the middle share `d` of the disk, G(d): equation 3.
    pub fn hottest(&self, d: f64) -> f64 {
        let (n, d) = (self.0.len() as f64, d.clamp(0.0, 1.0));
        // The paper's sum begins at the next cylinder, counted from 1.
        let (low, high) = (((1.0 - d) * n / 2.0).floor(), ((1.0 + d) * n / 2.0).floor());
        self.0[low as usize..high as usize].iter().sum()
    }
}

/// First cylinder and number of cylinders of the middle share `k`: M, a and b of equation 6.
fn middle(n: u32, k: f64) -> (u32, u32) {
    let m = ((k.clamp(0.0, 1.0) * f64::from(n)).floor() as u32).max(1);
    (n.div_ceil(2).saturating_sub((m - 1) / 2 + 1).min(n - m), m)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(a: &Access) {
        let sum: f64 = a.shares().iter().sum();
        assert!((sum - 1.0).abs() < 1e-9 && a.shares().iter().all(|p| *p >= 0.0), "{sum}");
    }

    #[test]
    fn every_distribution_adds_up_to_one_and_is_even_where_it_should_be() {
        for n in [1, 2, 3, 10, 1000, 1224] {
            let p = Access::perfect(n);
            for a in [
                Access::random(n),
                Access::normal(n, 0.03),
                p.clone(),
                Access::concentrated(n, 0.1),
                Access::concentrated(n, 1.0),
                p.drifted(0.2),
                p.in_buckets(3),
                p.in_buckets(3).drifted(0.3),
                p.lazily(0.08),
                p.lazily(0.08).drifted(0.3),
                p.lazily(1.0),
            ] {
                whole(&a);
                assert_eq!(a.shares().len(), n as usize);
                assert!((a.hottest(1.0) - 1.0).abs() < 1e-9);
            }
            // Symmetric about the middle, and no hotter outwards.
            let s = p.shares();
            for i in 0..n as usize / 2 {
                assert!((s[i] - s[n as usize - 1 - i]).abs() < 1e-12);
                assert!(i == 0 || s[i] >= s[i - 1]);
            }
        }
    }

    #[test]
    fn a_bell_agrees_with_its_integral() {
        // Against sums over the density of equation 4, in a million steps.
        let (sigma, n) = (0.07, 1_000_000);
        let density = |t: f64| (-(t - 0.5_f64).powi(2) / (2.0 * sigma * sigma)).exp();
        let at = |i: usize| density((i as f64 + 0.5) / n as f64);
        let all: f64 = (0..n).map(at).sum();
        let f = Access::normal(10, sigma);
        for (c, share) in f.shares().iter().enumerate() {
            let part: f64 = (c * n / 10..(c + 1) * n / 10).map(at).sum();
            assert!((part / all - share).abs() < 1e-9, "{c}");
        }
    }

    #[test]
    fn the_limits_are_those_of_the_paper() {
        let p = Access::perfect(1224);
        assert_eq!(p.drifted(0.0), p);
        let near = |a: &Access, b: &Access| {
            a.shares().iter().zip(b.shares()).all(|(x, y)| (x - y).abs() < 1e-12)
        };
        assert!(near(&p.drifted(1.0), &Access::random(1224)));
        assert!(near(&p.lazily(1.0), &p) && near(&p.lazily(0.0), &Access::random(1224)));
        assert!(near(&p.in_buckets(0), &Access::random(1224)));
        assert!(near(&Access::concentrated(1224, 1.0), &p));
        // The buckets of 2, 4, 8 cylinders: within, all alike; their sums are kept.
        let b = p.in_buckets(3);
        let s = b.shares();
        for (range, len) in
            [(611..613, 2), (609..611, 2), (613..615, 2), (605..609, 4), (615..619, 4)]
        {
            assert!(s[range.clone()].iter().all(|x| (x - s[range.start]).abs() < 1e-15));
            assert_eq!(range.len(), len);
        }
        assert_eq!(s[609], s[614]);
        assert!(
            (s[605..619].iter().sum::<f64>() - p.shares()[605..619].iter().sum::<f64>()).abs()
                < 1e-12
        );
        // A bell of one cylinder has nothing but its middle.
        assert!(Access::normal(1001, 0.0).shares()[500] > 0.999);
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        assert!(Access::new(vec![]).is_none() && Access::new(vec![0.0]).is_none());
        assert!(Access::new(vec![1.0, -1.0]).is_none() && Access::new(vec![f64::NAN]).is_none());
        assert_eq!(Access::new(vec![1.0, 3.0]).unwrap().shares(), [0.25, 0.75]);
    }
}
