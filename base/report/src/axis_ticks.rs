//! The ticks of an axis, and the conversion of values to pixels.

use crate::Unit;
use crate::number_format::{decimals, finite, grouped, significant};

/// The spacing of values on an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences have equal distances.
    #[default]
    Linear,
    /// Equal ratios have equal distances; values that are not positive are left out.
    Log,
}

/// Round values in `lo..=hi`: steps of 1, 2 or 5 times a power of ten, about `want` of them.
pub(crate) fn linear_ticks(lo: f64, hi: f64, want: usize) -> (Vec<f64>, f64) {
    let span = hi - lo;
    let raw = span / want.max(1) as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = match raw / power {
        r if r <= 1.0 + 1e-9 => power,
        r if r <= 2.0 + 1e-9 => 2.0 * power,
        r if r <= 5.0 + 1e-9 => 5.0 * power,
        _ => 10.0 * power,
    };
    let first = (lo / step - 1e-9).ceil();
    let count = ((hi / step + 1e-9).floor() - first).clamp(0.0, 40.0) as usize;
    let ticks =
        (0..=count).map(|i| (first + i as f64) * step).map(|v| if v == 0.0 { 0.0 } else { v });
    (ticks.collect(), step)
}

/// Powers of ten in `lo..=hi`, thinned to about `want`; if there are few, also 2 and 5 times them.
pub(crate) fn log_ticks(lo: f64, hi: f64, want: usize) -> Vec<f64> {
    let (a, b) = ((lo.log10() - 1e-9).ceil() as i32, (hi.log10() + 1e-9).floor() as i32);
    let decades = (b - a + 1).max(0) as usize;
    let inside = |v: f64| v >= lo * (1.0 - 1e-9) && v <= hi * (1.0 + 1e-9);
    if (decades < 3 && want >= 3) || decades * 3 <= want + 1 {
        return ((a - 1)..=b)
            .flat_map(|e| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(e)))
            .filter(|&v| inside(v))
            .collect();
    }
    let every = decades.div_ceil(want.max(1)).max(1);
    (a..=b).step_by(every).map(|e| 10f64.powi(e)).collect()
}

/// Powers of two in `lo..=hi`, about `want`, including kibibytes, mebibytes and so on.
fn binary_ticks(lo: f64, hi: f64, want: usize) -> Vec<f64> {
    let (a, b) = ((lo.log2() - 1e-9).ceil() as i32, (hi.log2() + 1e-9).floor() as i32);
    let raw = (b - a).max(1) as usize / want.max(1) + 1;
    let every =
        [1, 2, 5, 10, 20, 40, 80, 160].into_iter().find(|e| *e >= raw).unwrap_or(320) as i32;
    let first = a + (-a).rem_euclid(every);
    (first..=b).step_by(every as usize).map(|e| 2f64.powi(e)).collect()
}

fn log_label(v: f64, unit: &Unit) -> String {
    match unit {
        Unit::Count | Unit::Number if v >= 1e4 => {
            Unit::Other(String::new()).format(v, 1).trim_end().to_owned()
        }
        _ => unit.format(v, 1),
    }
}

/// Values of an axis mapped to pixels, with its ticks.
#[derive(Clone, Debug)]
pub(crate) struct Mapped {
    pub(crate) scale: Scale,
    pub(crate) lo: f64,
    pub(crate) hi: f64,
    px: (f64, f64),
    /// Positions and labels of the ticks.
    pub(crate) ticks: Vec<(f64, String)>,
    /// The unit of the labels; empty if the labels contain it.
    pub(crate) unit: String,
}

impl Mapped {
    /// An axis over `values`. With `zero`, a linear axis starts at zero. With `exact`, its ends are
    /// the ends of the values. `None` if no value can be drawn. `want` is the approximate number of
    /// ticks.
    pub(crate) fn over(
        values: impl Iterator<Item = f64>,
        scale: Scale,
        unit: &Unit,
        (zero, exact): (bool, bool),
        want: usize,
    ) -> Option<Self> {
        let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
        for v in values.filter_map(finite).filter(|v| usable(*v, scale)) {
            lo = lo.min(v);
            hi = hi.max(v);
        }
        if lo > hi {
            return None;
        }
        if scale == Scale::Log {
            if hi / lo < 1.5 {
                (lo, hi) = (lo / 2.0, hi * 2.0);
            }
            let ticks = match unit {
                Unit::Bytes => binary_ticks(lo, hi, want),
                _ => log_ticks(lo, hi, want),
            };
            let ticks = ticks.into_iter().map(|v| (v, log_label(v, unit))).collect();
            return Some(Self { scale, lo, hi, px: (0.0, 1.0), ticks, unit: String::new() });
        }
        if zero {
            (lo, hi) = (lo.min(0.0), hi.max(0.0));
        }
        // All values are equal, or their difference is only rounding: use a window around them.
        if hi - lo <= 1e-9 * lo.abs().max(hi.abs()) || hi - lo < 1e-100 {
            let room = if lo.abs() < 1e-100 { 1.0 } else { lo.abs() * 0.5 };
            (lo, hi) = if zero && lo == 0.0 { (0.0, room) } else { (lo - room, hi + room) };
        }
        let (factor, name) = unit.scale(lo.abs().max(hi.abs()));
        let (mut a, mut b) = (lo / factor, hi / factor);
        // Counts have no fractions.
        let whole = *unit == Unit::Count && factor == 1.0 && b - a >= 1.0;
        let want = if whole { want.min((b - a).ceil() as usize) } else { want };
        let (_, step) = linear_ticks(a, b, want);
        if !exact {
            (a, b) = ((a / step + 1e-9).floor() * step, (b / step - 1e-9).ceil() * step);
        }
        let (ticks, step) = linear_ticks(a, b, want);
        let (lo, hi) = if exact { (lo, hi) } else { (a * factor, b * factor) };
        let ticks = ticks.into_iter().map(|v| (v * factor, tick_label(v, step))).collect();
        Some(Self { scale, lo, hi, px: (0.0, 1.0), ticks, unit: name })
    }

    /// The same axis mapped to the pixels `from..to`.
    pub(crate) fn at(mut self, from: f64, to: f64) -> Self {
        self.px = (from, to);
        self
    }

    /// The position of a value, limited to the axis; `None` if the value cannot be drawn.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let v = finite(value).filter(|v| usable(*v, self.scale))?;
        let t = match self.scale {
            Scale::Linear => (v - self.lo) / (self.hi - self.lo),
            Scale::Log => (v / self.lo).ln() / (self.hi / self.lo).ln(),
        };
        Some(self.px.0 + t.clamp(0.0, 1.0) * (self.px.1 - self.px.0))
    }

    /// Space for the labels at the left of a vertical axis.
    pub(crate) fn label_room(&self) -> f64 {
        let widest = self.ticks.iter().map(|(_, label)| label.chars().count()).max();
        widest.unwrap_or(1) as f64 * 6.8 + 10.0
    }
}

fn usable(v: f64, scale: Scale) -> bool {
    scale == Scale::Linear || v > 1e-100
}

fn tick_label(v: f64, step: f64) -> String {
    if v.abs() >= 1e15 || step < 1e-9 {
        return significant(v, 3);
    }
    grouped(v, decimals(step, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_inside() {
        assert_eq!(linear_ticks(0.0, 10.0, 5).0, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(linear_ticks(0.0, 74.5, 4).0, [0.0, 20.0, 40.0, 60.0]);
        assert_eq!(linear_ticks(-3.0, 3.0, 6).0, [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]);
        assert_eq!(linear_ticks(101.0, 104.0, 3).0, [101.0, 102.0, 103.0, 104.0]);
    }

    #[test]
    fn log_ticks_are_decades_or_fill_in() {
        assert_eq!(log_ticks(0.5, 2e4, 9), [1.0, 10.0, 100.0, 1e3, 1e4]);
        assert_eq!(log_ticks(1.0, 20.0, 6), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(log_ticks(1.0, 1e9, 5), [1.0, 100.0, 1e4, 1e6, 1e8]);
        assert_eq!(binary_ticks(3000.0, 3e9, 3), [1_048_576.0, 1_073_741_824.0]);
        assert_eq!(binary_ticks(1.0, 40.0, 8), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
        assert_eq!(log_label(1e6, &Unit::Count), "1 M");
    }

    #[test]
    fn an_axis_names_its_unit_and_holds_its_values() {
        let m = Mapped::over(
            [0.0, 0.0123].into_iter(),
            Scale::Linear,
            &Unit::Seconds,
            (true, false),
            4,
        )
        .unwrap()
        .at(0.0, 100.0);
        assert_eq!(m.unit, "ms");
        let labels: Vec<&str> = m.ticks.iter().map(|(_, l)| l.as_str()).collect();
        assert_eq!(labels, ["0", "5", "10", "15"]);
        assert_eq!(m.place(0.015), Some(100.0));
        assert_eq!(m.place(0.0075).map(|v| (v * 1e6).round() / 1e6), Some(50.0));
        assert_eq!(m.place(f64::NAN), None);
    }

    #[test]
    fn one_value_still_makes_an_axis() {
        for v in [0.0, 7.0, -7.0, 1e-120, 1e140] {
            for zero in [false, true] {
                let m =
                    Mapped::over([v].into_iter(), Scale::Linear, &Unit::Number, (zero, false), 5);
                let m = m.unwrap();
                assert!(m.lo < m.hi && m.place(v).is_some(), "{v} {m:?}");
            }
        }
        assert!(
            Mapped::over([0.0, -1.0].into_iter(), Scale::Log, &Unit::Number, (false, false), 5)
                .is_none()
        );
    }
}
