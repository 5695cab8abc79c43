//! Fits a mixture of normal distributions to a measured curve of accesses over space, by
//! likelihood. The paper's authors found h_p (section 4) by eye.

use super::{Bell, Mixture};

/// Normal distributions of a mixture, as in the paper.
const BELLS: usize = 4;
/// Number of rounds; each sets the weights (expectation and maximization), then each width
/// (search).
const ROUNDS: usize = 60;
/// Narrowest and widest standard deviation. The widest is flat.
const NARROWEST: f64 = 1e-7;
const WIDEST: f64 = 3.0;

/// A mixture and how well it fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The narrowest first, without distributions that weigh less than 0.001.
    pub mixture: Mixture,
    /// Largest distance between the two curves, as a share of the accesses.
    pub off_most: f64,
}

/// Fits a mixture to points (share of the space, share of the accesses), hottest first, both rising
/// to 1. `None` if there are fewer than two points.
pub fn fit(curve: &[(f64, f64)]) -> Option<Fit> {
    let sound = |p: &&(f64, f64)| (0.0..=1.0).contains(&p.0) && (0.0..=1.0).contains(&p.1);
    let mut points: Vec<(f64, f64)> = curve.iter().filter(sound).copied().collect();
    points.extend([(0.0, 0.0), (1.0, 1.0)]);
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    points.dedup_by(|b, a| {
        a.0 == b.0 && {
            a.1 = a.1.max(b.1);
            true
        }
    });
    if points.len() < 4 {
        return None;
    }
    points[0].1 = 0.0;
    // The accesses of each part of the space.
    let parts: Vec<(f64, f64, f64)> =
        points.windows(2).map(|w| (w[0].0, w[1].0, (w[1].1 - w[0].1).max(0.0))).collect();
    // Start from widths that the points can distinguish, and from widths with given shares of
    // accesses.
    let least = (points[1].0 / 2.0).clamp(NARROWEST, 0.1);
    let step = (0.5 / least).powf(1.0 / (BELLS - 1) as f64);
    let even = std::array::from_fn(|i| least * step.powi(i as i32));
    let holding = |share: f64| {
        let at = points.partition_point(|p| p.1 < share).min(points.len() - 1);
        (points[at].0 / 2.0).clamp(NARROWEST, WIDEST)
    };
    let starts = [even, [0.1, 0.35, 0.6, 0.85].map(holding), [0.2, 0.5, 0.8, 0.95].map(holding)];
    let fits = starts.into_iter().map(|sigmas| from(sigmas, &points, &parts));
    fits.min_by(|a, b| a.off_most.total_cmp(&b.off_most))
}

/// The mixture found from these initial widths.
fn from(sigmas: [f64; BELLS], points: &[(f64, f64)], parts: &[(f64, f64, f64)]) -> Fit {
    let mut bells = sigmas.map(|sigma| Bell { weight: 1.0 / BELLS as f64, sigma }).to_vec();
    for _ in 0..ROUNDS {
        for _ in 0..20 {
            weigh(&mut bells, parts);
        }
        for i in 0..BELLS {
            widen(&mut bells, i, parts);
        }
    }
    bells.retain(|b| b.weight >= 1e-3);
    bells.sort_by(|a, b| a.sigma.total_cmp(&b.sigma));
    let mixture = Mixture(bells);
    let off = points.iter().map(|p| (mixture.hottest(p.0) - p.1).abs());
    Fit { off_most: off.fold(0.0, f64::max), mixture }
}

/// Share of one bell's accesses within a part of the space.
fn within(bell: &Bell, from: f64, to: f64) -> f64 {
    let one = |d| Mixture(vec![Bell { weight: 1.0, ..*bell }]).hottest(d);
    (one(to) - one(from)).max(1e-300)
}

/// One step of expectation and maximization for the weights.
fn weigh(bells: &mut [Bell], parts: &[(f64, f64, f64)]) {
    let mut weights = [0.0; BELLS];
    for &(from, to, mass) in parts {
        let each: Vec<f64> = bells.iter().map(|b| b.weight * within(b, from, to)).collect();
        let sum: f64 = each.iter().sum();
        for (w, e) in weights.iter_mut().zip(&each) {
            *w += mass * e / sum.max(1e-300);
        }
    }
    let all: f64 = weights.iter().sum();
    for (bell, w) in bells.iter_mut().zip(weights) {
        bell.weight = w / all.max(1e-300);
    }
}

/// Sets the width of one bell to the likeliest within a factor of two; the others stay.
fn widen(bells: &mut [Bell], i: usize, parts: &[(f64, f64, f64)]) {
    let others: Vec<f64> = parts
        .iter()
        .map(|&(from, to, _)| {
            let rest = bells.iter().enumerate().filter(|(j, _)| *j != i);
            rest.map(|(_, b)| b.weight * within(b, from, to)).sum()
        })
        .collect();
    let Bell { weight, sigma } = bells[i];
    let likelihood = |log: f64| -> f64 {
        let bell = Bell { weight, sigma: log.exp() };
        let each = parts.iter().zip(&others);
        each.map(|(p, o)| p.2 * (o + weight * within(&bell, p.0, p.1)).max(1e-300).ln()).sum()
    };
    // Golden section.
    let golden = 0.618_033_988_749_895;
    let (mut low, mut high) = (sigma.ln() - 0.7, sigma.ln() + 0.7);
    let mut x = [high - golden * (high - low), low + golden * (high - low)];
    let mut y = x.map(likelihood);
    for _ in 0..12 {
        if y[0] > y[1] {
            high = x[1];
            x = [high - golden * (high - low), x[0]];
            y = [likelihood(x[0]), y[0]];
        } else {
            low = x[0];
            x = [x[1], low + golden * (high - low)];
            y = [y[1], likelihood(x[1])];
        }
    }
    let best = f64::midpoint(low, high);
    if likelihood(best) >= likelihood(sigma.ln()) {
        bells[i].sigma = best.exp().clamp(NARROWEST, WIDEST);
    }
}

#[cfg(test)]
mod tests {
    use super::super::PERFECT;
    use super::*;

    fn curve_of(mixture: &Mixture) -> Vec<(f64, f64)> {
        (0..60).map(|i| 1e-4 * 1.17f64.powi(i)).map(|d| (d, mixture.hottest(d))).collect()
    }

    #[test]
    fn the_papers_own_mixture_is_found_again() {
        let fit = fit(&curve_of(&Mixture(PERFECT.to_vec()))).unwrap();
        assert!(fit.off_most < 0.003, "{fit:?}");
        let weights: Vec<f64> = fit.mixture.0.iter().map(|b| b.weight).collect();
        assert!((weights[0] - 0.3).abs() < 0.02 && (weights[1] - 0.3).abs() < 0.05, "{fit:?}");
        assert!((fit.mixture.0[0].sigma / 0.001 - 1.0).abs() < 0.1, "{fit:?}");
    }

    #[test]
    fn what_is_even_is_found_flat_and_what_is_one_bell_is_one() {
        let even: Vec<(f64, f64)> = (1..=20).map(|i| f64::from(i) / 20.0).map(|d| (d, d)).collect();
        let flat = fit(&even).unwrap();
        assert!(flat.off_most < 0.02, "{flat:?}");
        let bell = Mixture(vec![Bell { weight: 1.0, sigma: 0.02 }]);
        let one = fit(&curve_of(&bell)).unwrap();
        assert!(one.off_most < 0.003, "{one:?}");
        let off = one.mixture.0.iter().map(|b| b.weight * (b.sigma - 0.02).abs()).sum::<f64>();
        assert!(off < 0.004, "{one:?}");
    }

    #[test]
    fn little_and_bad_data_fit_nothing_or_something() {
        assert!(fit(&[]).is_none() && fit(&[(0.5, f64::NAN)]).is_none());
        let steep = fit(&[(1e-9, 0.999), (0.5, 1.0), (0.5, 1.0)]).unwrap();
        assert!(steep.off_most.is_finite());
    }
}
