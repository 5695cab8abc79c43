//! A histogram of whole numbers (HdrHistogram): count, sum, minimum and maximum are exact; the rest
//! has three significant digits in a few hundred kilobytes. It has no unit; the caller gives the
//! unit.

use hdrhistogram::Histogram;

use super::summary::Distribution;

/// Maximum relative error of three significant digits: half of one in a thousand in either
/// direction.
const ERROR: f64 = 0.001;
/// Maximum number of points of a curve.
const POINTS: usize = 200;

#[derive(Clone, Debug)]
pub(super) struct ValueHistogram {
    histogram: Histogram<u64>,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for ValueHistogram {
    fn default() -> Self {
        // 3 significant digits are in the crate's allowed range (0 to 5).
        let histogram = Histogram::new(3).unwrap_or_else(|_| unreachable!());
        Self { histogram, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl ValueHistogram {
    #[inline]
    pub(super) fn add(&mut self, value: u64) {
        // A resizable histogram of 64-bit values takes every value.
        let _ = self.histogram.record(value);
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    pub(super) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The distribution in the caller's unit; one counted unit is `unit`.
    pub(super) fn finish(&self, unit: f64) -> Distribution {
        let count = self.count();
        if count == 0 {
            return Distribution::default();
        }
        let within = |v: u64| v.clamp(self.min, self.max) as f64 * unit;
        let quantile = |q| within(self.histogram.value_at_quantile(q));
        let mut curve = Vec::new();
        let mut seen = 0;
        for step in self.histogram.iter_recorded() {
            seen += step.count_at_value();
            curve.push((within(step.value_iterated_to()), seen as f64 / count as f64));
        }
        Distribution {
            count,
            mean: self.sum as f64 / count as f64 * unit,
            min: self.min as f64 * unit,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max: self.max as f64 * unit,
            // Below 2,048 every value has its own bucket.
            plus_minus_share: if self.max < 2048 { 0.0 } else { ERROR },
            curve: thin(curve),
        }
    }
}

/// Selects points so that the steps in share stay small, and keeps both ends.
fn thin(curve: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if curve.len() <= POINTS {
        return curve;
    }
    let last = curve.len() - 1;
    let (mut shown, mut position) = (f64::NEG_INFINITY, 0);
    let every = curve.len() / (POINTS / 2);
    let step = 2.0 / POINTS as f64;
    let keep = |(i, p): &(usize, (f64, f64))| {
        let take = *i == last || p.1 - shown >= step || *i >= position + every;
        if take {
            (shown, position) = (p.1, *i);
        }
        take
    };
    let mut keep = keep;
    curve.into_iter().enumerate().filter(|p| keep(p)).map(|(_, p)| p).collect()
}
