//! Repeated measurements of one quantity: mean, Student's t interval, deviation, outliers; and the
//! difference of two samples (Welch, 1947). A mean includes all values, outliers too.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Several measurements of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Sample {
    /// The values in order of measurement.
    pub values: Vec<f64>,
    pub mean: f64,
    /// Standard deviation, of the sample; 0 for one value.
    pub deviation: f64,
    /// Half the width of the 95% interval of the mean; infinite for one value.
    pub half_width: f64,
    /// Values further than one and a half interquartile ranges outside the middle half (Tukey,
    /// 1977): shown, never dropped.
    pub outliers: Vec<f64>,
}

impl Sample {
    /// The sample of these values; `None` if there are none.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let deviation = if n > 1.0 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        let half_width =
            if n > 1.0 { student_t(n - 1.0, 0.975) * deviation / n.sqrt() } else { f64::INFINITY };
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (q1, q3) = (quantile(&sorted, 0.25), quantile(&sorted, 0.75));
        let reach = 1.5 * (q3 - q1);
        let out = |v: &&f64| values.len() >= 4 && (**v < q1 - reach || **v > q3 + reach);
        let outliers = values.iter().filter(out).copied().collect();
        Some(Self { values: values.to_vec(), mean, deviation, half_width, outliers })
    }

    /// Half the width of the interval as a share of the mean.
    pub(super) fn relative_half_width(&self) -> f64 {
        if self.mean == 0.0 { f64::INFINITY } else { self.half_width / self.mean.abs() }
    }

    /// The deviation as a share of the mean.
    pub(super) fn variation(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { self.deviation / self.mean.abs() }
    }
}

/// By linear interpolation between ranks.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let (low, part) = (at.floor() as usize, at.fract());
    let high = sorted.get(low + 1).copied().unwrap_or(sorted[low]);
    sorted[low] + part * (high - sorted[low])
}

/// The difference of two means.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Welch {
    /// Probability of a difference this large or larger between equal means.
    pub p: f64,
    /// Degrees of freedom, by Welch and Satterthwaite.
    pub freedom: f64,
    /// Half the width of the 95% interval of the difference.
    pub reach: f64,
}

impl Welch {
    /// Whether the difference is significant: p below 5%.
    pub(super) fn differs(&self) -> bool {
        self.p < 0.05
    }
}

/// Welch's test; `None` if a sample has fewer than two values.
pub(super) fn welch(a: &Sample, b: &Sample) -> Option<Welch> {
    if a.values.len() < 2 || b.values.len() < 2 {
        return None;
    }
    let part = |s: &Sample| s.deviation.powi(2) / s.values.len() as f64;
    let (va, vb) = (part(a), part(b));
    let (na, nb) = (a.values.len() as f64, b.values.len() as f64);
    if va + vb == 0.0 {
        let p = if a.mean == b.mean { 1.0 } else { 0.0 };
        return Some(Welch { p, freedom: na + nb - 2.0, reach: 0.0 });
    }
    let t = (a.mean - b.mean).abs() / (va + vb).sqrt();
    let freedom = (va + vb).powi(2) / (va.powi(2) / (na - 1.0) + vb.powi(2) / (nb - 1.0));
    let reach = student_t(freedom, 0.975) * (va + vb).sqrt();
    Some(Welch { p: 2.0 * t_above(t, freedom), freedom, reach })
}

/// The quantile `q` of Student's t.
pub(super) fn student_t(freedom: f64, q: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(q))
}

/// The probability that Student's t exceeds `t`.
fn t_above(t: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(0.0, |distribution| distribution.sf(t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_agrees_with_printed_tables() {
        for (freedom, q, t) in [
            (1.0, 0.975, 12.706),
            (4.0, 0.975, 2.776),
            (9.0, 0.975, 2.262),
            (29.0, 0.975, 2.045),
            (4.0, 0.95, 2.132),
            (1000.0, 0.975, 1.962),
        ] {
            assert!(
                (student_t(freedom, q) - t).abs() < 6e-4,
                "{freedom} {q}: {}",
                student_t(freedom, q)
            );
        }
    }

    #[test]
    fn an_interval_by_hand() {
        // 9, 10, 11, 10, 10: mean 10, deviation sqrt(2/4); 2.776 * 0.70711 / sqrt 5 = 0.8779.
        let s = Sample::of(&[9.0, 10.0, 11.0, 10.0, 10.0]).unwrap();
        assert!((s.mean - 10.0).abs() < 1e-12 && (s.half_width - 0.8779).abs() < 1e-3, "{s:?}");
        assert!(Sample::of(&[]).is_none());
        assert!(Sample::of(&[1.0]).unwrap().half_width.is_infinite());
        let s = Sample::of(&[10.0, 10.1, 9.9, 10.0, 30.0]).unwrap();
        assert_eq!(s.outliers, [30.0]);
        assert!((s.mean - 14.0).abs() < 1e-9, "an outlier stays in the mean");
    }

    #[test]
    fn welch_as_printed() {
        // Welch's test of a textbook: means 20.82 and 22.98... two samples with t = -2.8352, df =
        // 27.713, p = 0.008453.
        let a = [
            27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7,
            21.4,
        ];
        let b = [
            27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5,
            24.4,
        ];
        let w = welch(&Sample::of(&a).unwrap(), &Sample::of(&b).unwrap()).unwrap();
        assert!((w.p - 0.0085).abs() < 0.0015 && (w.freedom - 27.7).abs() < 0.5, "{w:?}");
        assert!(w.differs());
        let same = Sample::of(&[1.0, 2.0, 3.0]).unwrap();
        assert!((welch(&same, &same).unwrap().p - 1.0).abs() < 1e-9);
        let (one, two) = (Sample::of(&[1.0, 1.0]).unwrap(), Sample::of(&[2.0, 2.0]).unwrap());
        assert!(welch(&one, &two).unwrap().differs() && !welch(&one, &one).unwrap().differs());
    }

    /// About one in twenty pairs of samples from one distribution differs significantly; failures
    /// print the seed.
    #[test]
    fn one_in_twenty_equal_pairs_differs_significantly() {
        for seed in 1..=2u64 {
            let mut dice = seekless_block::Dice::new(seed);
            let mut normal = || (0..12).map(|_| dice.unit()).sum::<f64>() - 6.0;
            let (mut wrong, rounds) = (0, 2000);
            let (mut held, mut five) =
                (0, || (0..5).map(|_| 100.0 + 7.0 * normal()).collect::<Vec<_>>());
            for _ in 0..rounds {
                let (a, b) = (Sample::of(&five()).unwrap(), Sample::of(&five()).unwrap());
                wrong += u32::from(welch(&a, &b).unwrap().differs());
                held += u32::from((a.mean - 100.0).abs() <= a.half_width);
            }
            let share = |n: u32| f64::from(n) / f64::from(rounds);
            assert!((0.03..0.065).contains(&share(wrong)), "seed {seed}: {}", share(wrong));
            assert!((0.93..0.97).contains(&share(held)), "seed {seed}: {}", share(held));
        }
    }
}
