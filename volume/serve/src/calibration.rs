//! Fits a modelled disk to the service times of the real one, while the volume works.
//!
//! The predicted service time is `a * positioning + b * transfer`, where the model gives both
//! parts. The real platter stands elsewhere than the modelled one, so the modelled times of rotation
//! are random beside the real ones. Least squares would then take positioning for transfer. So the
//! factors come from two sums over the latest reads, in which the randomness cancels out: the sum of
//! the errors is zero, and so is the sum of the errors multiplied by the transfer (instrumental
//! variables). As long as too few long reads show `b`, it stays near `a`.

/// Weight of the reads so far, at each new read: some 2,000 reads count.
const KEEP: f64 = 1.0 - 1.0 / 2_000.0;
/// Reads of typical parts by which the factors are 1 before anything was measured.
const PRIOR: f64 = 2.0;
/// Reads after which the predicted and the measured times are compared.
const COMPARE_EVERY: u32 = 256;
/// Weight of the latest comparison.
const LATEST: f64 = 0.3;
/// Long reads show `b` once the sum of their squared transfer times is above the square of this share
/// of a mean read.
const SHOWN: f64 = 0.25;

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

/// Sums over the latest reads.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    reads: f64,
    positioning: f64,
    transfer: f64,
    measured: f64,
    /// Products of the transfer with each of these three.
    by_transfer: [f64; 3],
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Calibration {
    sums: Sums,
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
            sums: Sums::default(),
            factors: (1.0, 1.0),
            window: (0, 0.0, 0.0),
            ratio: None,
            error: None,
        };
        new.add(ServiceTime { positioning_s: 0.01, transfer_s: 0.001 }, 0.011, PRIOR);
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
        self.add(modelled, measured_s, 1.0);
        self.solve();
    }

    fn add(&mut self, modelled: ServiceTime, measured_s: f64, times: f64) {
        let ServiceTime { positioning_s: p, transfer_s: t } = modelled;
        let Sums { reads, positioning, transfer, measured, by_transfer: [tp, tt, tm] } =
            &mut self.sums;
        for (sum, new) in [
            (reads, 1.0),
            (positioning, p),
            (transfer, t),
            (measured, measured_s),
            (tp, t * p),
            (tt, t * t),
            (tm, t * measured_s),
        ] {
            *sum = *sum * KEEP + times * new;
        }
    }

    /// No factor is below zero: then one factor is that of both parts.
    fn solve(&mut self) {
        let Sums { reads, positioning: p, transfer: t, measured: m, by_transfer } = self.sums;
        let near = (SHOWN * m / reads).powi(2);
        let [tp, tt, tm] = [by_transfer[0] - near, by_transfer[1] + near, by_transfer[2]];
        let determinant = p * tt - t * tp;
        let (a, b) = ((m * tt - t * tm) / determinant, (p * tm - tp * m) / determinant);
        let both = m / (p + t);
        let fits = a >= 0.0 && b >= 0.0 && (a + b).is_finite();
        self.factors = if fits { (a, b) } else { (both, both) };
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

    /// Short reads, and a few long ones at first, of a disk whose platter stands elsewhere than the
    /// modelled one. Long reads of another system are predicted from that.
    #[test]
    fn rotation_that_the_model_cannot_know_is_not_taken_for_transfer() {
        let mut random = 1_u64;
        let mut turn = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as f64 / f64::from(1_u32 << 31)
        };
        let mut calibration = Calibration::default();
        for i in 0..1_500 {
            let pages = if i < 10 { 64.0 } else { 1.0 };
            let modelled = ServiceTime { positioning_s: 0.008 * turn(), transfer_s: 14e-6 * pages };
            calibration.observe(modelled, 0.004 + 0.011 * turn() + 70e-6 * pages);
        }
        let of_vanilla = ServiceTime { positioning_s: 0.004, transfer_s: 14e-6 * 16.0 };
        let expected_s = 0.004 + 0.0055 + 70e-6 * 16.0;
        let ratio = calibration.predict(of_vanilla) / expected_s;
        assert!((ratio - 1.0).abs() < 0.12, "{ratio} {:?}", calibration.factors);
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
