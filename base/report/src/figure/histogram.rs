//! Histograms: counts per range of a value.

use super::{Axis, Values};
use crate::axis_ticks::Mapped;
use crate::canvas::{Canvas, Frame, Key};
use crate::escape::{csv_line, csv_number};
use crate::number_format::finite;
use crate::{Scale, Unit};

const BINS: usize = 240;

/// Counts per range of a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// The quantity measured.
    pub x: Axis,
    /// The quantity counted.
    pub y: Axis,
    /// Ends of the ranges, ascending; one more than there are counts.
    pub edges: Vec<f64>,
    /// Counts per range, one row per policy.
    pub series: Vec<Values>,
}

impl Histogram {
    /// Counts samples in `bins` ranges that are equal on the axis. Samples that are not finite are
    /// left out; on a logarithmic axis also those that are not positive.
    pub fn of(x: Axis, bins: usize, samples: &[Values]) -> Self {
        let bins = bins.clamp(1, 10_000);
        let log = x.scale == Scale::Log;
        let usable = |v: &f64| finite(*v).is_some_and(|v| !log || v > 1e-100);
        let warp = |v: f64| if log { v.ln() } else { v };
        let all = || samples.iter().flat_map(|s| s.values.iter().copied().filter(usable)).map(warp);
        let (lo, hi) =
            all().fold((f64::INFINITY, f64::NEG_INFINITY), |m, v| (m.0.min(v), m.1.max(v)));
        let y = Axis::new("Count", Unit::Count);
        if lo > hi {
            return Self { x, y, ..Self::default() };
        }
        let (lo, hi) = if lo < hi { (lo, hi) } else { (lo - 0.5, hi + 0.5) };
        let edge = |i: usize| lo + (hi - lo) * i as f64 / bins as f64;
        let edges = (0..=bins).map(edge).map(|v| if log { v.exp() } else { v }).collect();
        let count = |s: &Values| {
            let mut counts = vec![0.0; bins];
            for v in s.values.iter().copied().filter(usable).map(warp) {
                counts[(((v - lo) / (hi - lo) * bins as f64) as usize).min(bins - 1)] += 1.0;
            }
            Values::new(&s.name, counts)
        };
        Self { x, y, edges, series: samples.iter().map(count).collect() }
    }

    fn count(&self, series: usize, bin: usize) -> f64 {
        let count = self.series[series].values.get(bin).copied();
        count.and_then(finite).filter(|c| *c > 0.0).unwrap_or(0.0)
    }

    pub(super) fn draw(&self, svg: &mut Canvas) -> Option<f64> {
        let bins = self.edges.len().saturating_sub(1);
        let log = self.x.scale == Scale::Log;
        let good = self.edges.iter().all(|e| finite(*e).is_some_and(|v| !log || v > 1e-100));
        if bins == 0 || self.series.is_empty() || !good || !self.edges.is_sorted() {
            return None;
        }
        let merge = bins.div_ceil(BINS);
        let merged = |s: usize, from: usize| -> f64 {
            (from..(from + merge).min(bins)).map(|b| self.count(s, b)).sum()
        };
        let starts: Vec<usize> = (0..bins).step_by(merge).collect();
        let counts = (0..self.series.len()).flat_map(|s| starts.iter().map(move |b| merged(s, *b)));
        let y = Mapped::over(counts, Scale::Linear, &self.y.unit, (true, false), 5)?;
        let left = y.label_room();
        let want = ((svg.width - left - 10.0) / 75.0) as usize;
        let ends = [self.edges[0], self.edges[bins]].into_iter();
        let x = Mapped::over(ends, self.x.scale, &self.x.unit, (false, true), want.max(2))?;
        svg.patterns();
        let names = self.series.iter().enumerate().map(|(i, s)| (i, Key::Patch, s.name.as_str()));
        let keys: Vec<_> = names.filter(|_| self.series.len() > 1).collect();
        let top = svg.legend(0.0, &keys) + 32.0;
        let high = if svg.width < 500.0 { 190.0 } else { 240.0 };
        let f = Frame { left, top, right: svg.width - 10.0, bottom: top + high };
        let (x, y) = (x.at(f.left, f.right), y.at(f.bottom, f.top));
        svg.axes(f, (&x, &self.x), (&y, &self.y.linear()));
        // Several series share each range side by side, so that each stays visible.
        let n = self.series.len() as f64;
        for (i, &b) in starts.iter().enumerate() {
            let next = starts.get(i + 1).copied().unwrap_or(bins);
            let (Some(a), Some(z)) = (x.place(self.edges[b]), x.place(self.edges[next])) else {
                continue;
            };
            let wide = (z - a) / n;
            for s in 0..self.series.len() {
                let count = merged(s, b);
                let Some(up) = y.place(count).filter(|_| count > 0.0) else { continue };
                let from = a + wide * s as f64;
                let gap = if wide > 4.0 { 1.0 } else { 0.0 };
                let bar = Frame { left: from, right: from + wide - gap, top: up, bottom: f.bottom };
                let unit = &self.x.unit;
                let range = format!(
                    "{} to {}",
                    unit.format(self.edges[b], 3),
                    unit.format(self.edges[next], 3)
                );
                let tip =
                    format!("{}: {}, {range}", self.series[s].name, self.y.unit.format(count, 3));
                svg.patch(s, Some(s), bar, &tip);
            }
        }
        Some(f.bottom + 42.0)
    }

    pub(super) fn csv(&self, limit: usize) -> (String, bool) {
        let bins = self.edges.len().saturating_sub(1);
        let whole = bins.saturating_mul(self.series.len()).saturating_mul(50) <= limit;
        let mut out = String::new();
        let x = self.x.column();
        csv_line(&mut out, ["series", &format!("{x} from"), &format!("{x} to"), &self.y.column()]);
        let most = if whole { bins } else { limit / 50 / self.series.len().max(1) };
        let merge = bins.div_ceil(most.max(1)).max(1);
        for s in 0..self.series.len() {
            for b in (0..bins).step_by(merge) {
                let next = (b + merge).min(bins);
                let count: f64 = (b..next).map(|b| self.count(s, b)).sum();
                let (from, to) = (csv_number(self.edges[b]), csv_number(self.edges[next]));
                csv_line(&mut out, [&self.series[s].name, &from, &to, &csv_number(count)]);
            }
        }
        (out, whole)
    }
}
