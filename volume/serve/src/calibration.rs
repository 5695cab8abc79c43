//! Fits a modelled disk to the service times of the real one, while the volume works.
//!
//! The predicted service time is `a * positioning + b * transfer`, where the model gives both
//! parts. Weighted least squares over the latest reads give the factors `a` and `b`. The weight of
//! a read is one divided by its modelled time. So the sum of the predicted times equals the sum of
//! the measured times.

/// Weight of the reads so far, at each new read: some 2,000 reads count.
const KEEP: f64 = 1.0 - 1.0 / 2_000.0;
/// Reads of typical parts by which the factors are 1 before anything was measured.
const PRIOR: f64 = 2.0;
/// Reads after which the predicted and the measured times are compared.
const COMPARE_EVERY: u32 = 256;
/// Weight of the latest comparison.
const LATEST: f64 = 0.3;

/// A modelled service time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ServiceTime {
    /// Overhead, seek and rotation.
    pub(crate) positioning_s: f64,
    pub(crate) transfer_s: f64,
}

impl ServiceTime {
    /// The part that was added since an earlier sum.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            positioning_s: self.positioning_s - before.positioning_s,
            transfer_s: self.transfer_s - before.transfer_s,
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Calibration {
    /// Weighted sums of products: positioning squared, positioning and transfer, transfer squared;
    /// positioning and measured, transfer and measured.
    sums: [f64; 5],
    factors: (f64, f64),
    /// Since the last comparison: reads, predicted and measured seconds.
    window: (u32, f64, f64),
    /// Of the latest comparison: measured by predicted time.
    ratio: Option<f64>,
    error: Option<f64>,
}

impl Default for Calibration {
    fn default() -> Self {
        let mut new = Self {
            sums: [0.0; 5],
            factors: (1.0, 1.0),
            window: (0, 0.0, 0.0),
            ratio: None,
            error: None,
        };
        for (positioning_s, transfer_s) in [(0.01, 0.0), (0.0, 0.001)] {
            new.add(ServiceTime { positioning_s, transfer_s }, positioning_s + transfer_s, PRIOR);
        }
        new
    }
}

impl Calibration {
    /// Takes a read of the real disk: its modelled parts, and its measured time in seconds.
    pub(crate) fn observe(&mut self, modelled: ServiceTime, measured_s: f64) {
        if modelled.positioning_s + modelled.transfer_s <= 0.0 {
            return;
        }
        let (reads, predicted_s, sum_s) = self.window;
        self.window = (reads + 1, predicted_s + self.predict(modelled), sum_s + measured_s);
        self.compare();
        self.sums.iter_mut().for_each(|s| *s *= KEEP);
        self.add(modelled, measured_s, 1.0);
        self.solve();
    }

    fn add(&mut self, modelled: ServiceTime, measured_s: f64, times: f64) {
        let ServiceTime { positioning_s: p, transfer_s: t } = modelled;
        let weight = times / (p + t);
        let products = [p * p, p * t, t * t, p * measured_s, t * measured_s];
        for (sum, product) in self.sums.iter_mut().zip(products) {
            *sum += weight * product;
        }
    }

    /// No factor is below zero: then the other one alone predicts.
    fn solve(&mut self) {
        let [pp, pt, tt, pm, tm] = self.sums;
        let determinant = pp * tt - pt * pt;
        let both = ((pm * tt - tm * pt) / determinant, (tm * pp - pm * pt) / determinant);
        let total = |sum: f64| (pm + tm) / sum;
        self.factors = match both {
            (a, b) if a >= 0.0 && b >= 0.0 && (a + b).is_finite() => (a, b),
            (a, _) if a < 0.0 => (0.0, total(pt + tt)),
            _ => (total(pp + pt), 0.0),
        };
    }

    fn compare(&mut self) {
        let (reads, predicted_s, measured_s) = self.window;
        if reads < COMPARE_EVERY || measured_s <= 0.0 || predicted_s <= 0.0 {
            return;
        }
        self.window = (0, 0.0, 0.0);
        // The first reads were predicted before there was a fit.
        if self.ratio.replace(measured_s / predicted_s).is_some() {
            let error = (predicted_s - measured_s).abs() / measured_s;
            self.error = Some(self.error.map_or(error, |e| e + LATEST * (error - e)));
        }
    }

    /// The predicted service time in seconds.
    pub(crate) fn predict(&self, modelled: ServiceTime) -> f64 {
        self.factors.0 * modelled.positioning_s + self.factors.1 * modelled.transfer_s
    }

    /// The predicted service time, multiplied so that the latest predictions add up to the measured
    /// times.
    pub(crate) fn measured_like(&self, modelled: ServiceTime) -> f64 {
        self.predict(modelled) * self.ratio.unwrap_or(1.0)
    }

    /// The error of the latest sums of predicted times, as a share of the measured; `None` before
    /// enough reads were measured.
    pub(crate) fn error(&self) -> Option<f64> {
        self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads whose parts vary; the time of each is `time` of its parts.
    fn after(reads: u32, time: impl Fn(f64, f64) -> f64) -> Calibration {
        let mut calibration = Calibration::default();
        for i in 0..reads {
            let positioning_s = 0.002 + 0.001 * f64::from(i * 7 % 13);
            let transfer_s = 0.0001 * f64::from(1 + i * 5 % 17);
            let parts = ServiceTime { positioning_s, transfer_s };
            calibration.observe(parts, time(positioning_s, transfer_s));
        }
        calibration
    }

    #[test]
    fn another_disk_is_met_by_its_factors() {
        let calibration = after(20_000, |p, t| 0.4 * p + 3.0 * t);
        let (a, b) = calibration.factors;
        assert!((a - 0.4).abs() < 0.01 && (b - 3.0).abs() < 0.05, "{a} {b}");
        assert!(calibration.error().unwrap() < 0.01, "{:?}", calibration.error());
    }

    #[test]
    fn a_time_that_the_parts_do_not_explain_still_adds_up() {
        let calibration = after(20_000, |_, _| 0.003);
        assert!(calibration.error().unwrap() < 0.02, "{:?}", calibration.error());
        let calibration = after(20_000, |p, t| 0.002 + 0.1 * p - t);
        let (a, b) = calibration.factors;
        assert!(a >= 0.0 && b >= 0.0, "{a} {b}");
    }

    #[test]
    fn before_any_read_the_model_is_believed_and_an_erratic_disk_is_told() {
        let calibration = Calibration::default();
        let parts = ServiceTime { positioning_s: 0.01, transfer_s: 0.002 };
        assert!((calibration.predict(parts) - 0.012).abs() < 1e-12);
        assert_eq!(calibration.error(), None);
        // Ten times slower in every second 256 reads.
        let mut calibration = Calibration::default();
        for i in 0..20_000 {
            let slower = if (i / COMPARE_EVERY).is_multiple_of(2) { 1.0 } else { 10.0 };
            calibration.observe(parts, 0.012 * slower);
        }
        assert!(calibration.error().unwrap() > 0.3, "{:?}", calibration.error());
    }
}
