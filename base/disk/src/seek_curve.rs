//! The seek curve: the arm's time for a distance, in whole nanoseconds.

use seekless_block::Duration;

use crate::spec::SeekSpec;

/// A seek curve, prepared for fast queries.
#[derive(Clone, Debug)]
pub enum SeekCurve {
    /// Nanoseconds for each distance in cylinders. Distance 0 takes 0.
    Cylinders(Vec<u32>),
    /// Over logical distance in sectors.
    Sectors {
        /// Coefficients in milliseconds.
        cubic: [f64; 4],
        /// Coefficients in milliseconds.
        linear: [f64; 2],
        /// Distance in sectors from which the line applies.
        threshold: f64,
    },
}

impl SeekCurve {
    /// The curve of a checked specification, for a disk with `cylinders` cylinders.
    pub fn new(spec: &SeekSpec, cylinders: u32) -> Self {
        if let SeekSpec::CubicLinear { cubic, linear, threshold_sectors } = spec {
            return Self::Sectors { cubic: *cubic, linear: *linear, threshold: *threshold_sectors };
        }
        let three = three_point(spec, cylinders);
        let time = |d: u32| match spec {
            SeekSpec::Table { points } => interpolate(points, d),
            SeekSpec::ThreePoint { .. } => {
                let x = f64::from(d - 1);
                three[0] + three[1] * x.sqrt() + three[2] * x
            }
            SeekSpec::SquareRoot { constant_ms, factor_ms } => {
                constant_ms + factor_ms * f64::from(d).sqrt()
            }
            SeekSpec::RootLinear {
                first_ms,
                threshold,
                short_constant_ms,
                short_root_ms,
                long_constant_ms,
                long_linear_ms,
            } => match first_ms.get(d as usize - 1) {
                Some(ms) => *ms,
                None if d < *threshold => short_constant_ms + short_root_ms * f64::from(d).sqrt(),
                None => long_constant_ms + long_linear_ms * f64::from(d),
            },
            SeekSpec::CubicLinear { .. } => 0.0,
        };
        let table = (0..cylinders.max(1)).map(|d| if d == 0 { 0 } else { nanos(time(d)) });
        Self::Cylinders(table.collect())
    }

    /// Time of a movement by a number of cylinders, or by a logical distance in sectors. Zero if
    /// both are 0.
    pub fn time(&self, cylinders: u32, sectors: u64) -> Duration {
        match self {
            Self::Cylinders(table) => {
                let i = (cylinders as usize).min(table.len() - 1);
                Duration(u64::from(table[i]))
            }
            Self::Sectors { cubic, linear, threshold } => {
                if sectors == 0 {
                    return Duration::ZERO;
                }
                let x = sectors as f64;
                let ms = if x < *threshold {
                    ((cubic[0] * x + cubic[1]) * x + cubic[2]) * x + cubic[3]
                } else {
                    linear[0] * x + linear[1]
                };
                Duration(u64::from(nanos(ms)))
            }
        }
    }
}

/// Milliseconds to nanoseconds, between 0 and 4.29 s. The cast saturates and maps NaN to 0.
fn nanos(ms: f64) -> u32 {
    (ms * 1e6).round() as u32
}

/// Interpolates the table of measured points with straight lines.
fn interpolate(points: &[(u32, f64)], d: u32) -> f64 {
    let line = |(d0, t0): (u32, f64), (d1, t1): (u32, f64)| {
        t0 + (t1 - t0) * (f64::from(d) - f64::from(d0)) / (f64::from(d1) - f64::from(d0))
    };
    let after = points.partition_point(|p| p.0 < d);
    match (after.checked_sub(1).map(|i| points[i]), points.get(after)) {
        (_, Some(p)) if p.0 == d => p.1,
        (Some(low), Some(high)) => line(low, *high),
        (None, Some(high)) => line((0, 0.0), *high),
        (Some(last), None) if after >= 2 => line(points[after - 2], last),
        (Some(last), None) => line((0, 0.0), last),
        (None, None) => 0.0,
    }
}

/// `a`, `b` and `c` of `a + b sqrt(d - 1) + c (d - 1)` through the three published times: Lee and
/// Katz's closed form. The mean uses the triangular density of random pairs of cylinders.
fn three_point(spec: &SeekSpec, cylinders: u32) -> [f64; 3] {
    let SeekSpec::ThreePoint { single_ms, average_ms, full_ms } = spec else {
        return [0.0; 3];
    };
    // The longest seek crosses cylinders - 1, which is d - 1 = cylinders - 2.
    let n = f64::from(cylinders.max(4) - 2);
    let root = (-10.0 * single_ms + 15.0 * average_ms - 5.0 * full_ms) / (3.0 * n.sqrt());
    let line = (7.0 * single_ms - 15.0 * average_ms + 8.0 * full_ms) / (3.0 * n);
    [*single_ms, root, line]
}
