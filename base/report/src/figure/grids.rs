//! Counts over ranges and numbers over two others: histograms and heat maps.

use std::fmt::Write as _;

use super::{Axis, Values};
use crate::number::finite;
use crate::svg::{Canvas, Frame, Key, boxed, px};
use crate::text::{csv_line, csv_number, esc};
use crate::ticks::Mapped;
use crate::{Scale, Unit};

/// A histogram draws at most this many bins, a heat map this many cells each way; more are merged.
const BINS: usize = 240;
const CELLS: usize = 120;
/// Steps of shade in a heat map; the style sheet has a rule for each.
const SHADES: usize = 9;

/// Counts over ranges of a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// What was measured.
    pub x: Axis,
    /// What is counted.
    pub y: Axis,
    /// Ends of the ranges, ascending; one more than there are counts.
    pub edges: Vec<f64>,
    /// Counts in each range, one row for each policy.
    pub series: Vec<Values>,
}

impl Histogram {
    /// Counts samples into `bins` ranges, equal on the axis. Samples that are not finite, and on a
    /// logarithmic axis those that are not positive, are left out.
    #[must_use]
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

    pub(super) fn draw(&self, svg: &mut Canvas) -> f64 {
        let bins = self.edges.len().saturating_sub(1);
        let log = self.x.scale == Scale::Log;
        let good = self.edges.iter().all(|e| finite(*e).is_some_and(|v| !log || v > 1e-100));
        if bins == 0 || self.series.is_empty() || !good || !self.edges.is_sorted() {
            return svg.no_data();
        }
        let merge = bins.div_ceil(BINS);
        let merged = |s: usize, from: usize| -> f64 {
            (from..(from + merge).min(bins)).map(|b| self.count(s, b)).sum()
        };
        let starts: Vec<usize> = (0..bins).step_by(merge).collect();
        let counts = (0..self.series.len()).flat_map(|s| starts.iter().map(move |b| merged(s, *b)));
        let linear = Axis { scale: Scale::Linear, ..self.y.clone() };
        let Some(y) = Mapped::over(counts, Scale::Linear, &self.y.unit, (true, false), 5) else {
            return svg.no_data();
        };
        let left = y.label_chars() as f64 * 6.8 + 10.0;
        let want = ((svg.width - left - 10.0) / 75.0) as usize;
        let ends = [self.edges[0], self.edges[bins]].into_iter();
        let Some(x) = Mapped::over(ends, self.x.scale, &self.x.unit, (false, true), want.max(2))
        else {
            return svg.no_data();
        };
        svg.patterns();
        let names = self.series.iter().enumerate().map(|(i, s)| (i, Key::Patch, s.name.as_str()));
        let keys: Vec<_> = names.filter(|_| self.series.len() > 1).collect();
        let top = svg.legend(0.0, &keys) + 32.0;
        let high = if svg.width < 500.0 { 190.0 } else { 240.0 };
        let f = Frame { left, top, right: svg.width - 10.0, bottom: top + high };
        let (x, y) = (x.at(f.left, f.right), y.at(f.bottom, f.top));
        svg.axes(f, (&x, &self.x), (&y, &linear));
        // Several series share each range side by side, so that none hides another.
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
        f.bottom + 42.0
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

/// A number over two others, in equal cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// Across; linear.
    pub x: Axis,
    /// Upwards; linear.
    pub y: Axis,
    /// What the shade says. On a logarithmic axis equal steps of shade are equal ratios of one more than the
    /// value, so that nothing has no shade.
    pub value: Axis,
    /// Where the first column begins and the last ends.
    pub x_range: (f64, f64),
    /// Where the lowest row begins and the highest ends.
    pub y_range: (f64, f64),
    /// Cells in a row.
    pub columns: usize,
    /// The cells, row by row from the lowest, each row from the left.
    pub values: Vec<f64>,
}

impl HeatMap {
    pub(super) fn draw(&self, svg: &mut Canvas) -> f64 {
        let (columns, rows) = (self.columns, self.values.len() / self.columns.max(1));
        let most = self.values.iter().copied().filter_map(finite).fold(f64::NEG_INFINITY, f64::max);
        let least = self.values.iter().copied().filter_map(finite).fold(f64::INFINITY, f64::min);
        let range = |r: (f64, f64)| finite(r.0).is_some() && finite(r.1).is_some() && r.0 < r.1;
        if columns == 0 || rows == 0 || least > most || !range(self.x_range) || !range(self.y_range)
        {
            return svg.no_data();
        }
        let (xl, yl) = (linear(&self.x), linear(&self.y));
        let ends = |r: (f64, f64)| [r.0, r.1].into_iter();
        let Some(y) = Mapped::over(ends(self.y_range), Scale::Linear, &yl.unit, (false, true), 5)
        else {
            return svg.no_data();
        };
        let left = y.label_chars() as f64 * 6.8 + 10.0;
        let want = (((svg.width - left) / 70.0) as usize).max(2);
        let Some(x) =
            Mapped::over(ends(self.x_range), Scale::Linear, &xl.unit, (false, true), want)
        else {
            return svg.no_data();
        };
        let (least, most) =
            (least.min(0.0), if most > least.min(0.0) { most } else { least + 1.0 });
        let log = self.value.scale == Scale::Log;
        let warp = |v: f64| if log { v.max(0.0).ln_1p() } else { v };
        let top = self.scale(svg, least, most) + 36.0;
        let high = if svg.width < 500.0 { 200.0 } else { 260.0 };
        let f = Frame { left, top, right: svg.width - 10.0, bottom: top + high };
        let (x, y) = (x.at(f.left, f.right), y.at(f.bottom, f.top));
        svg.axes(f, (&x, &xl), (&y, &yl));
        svg.rect("none", None, f, "");
        let most_cells = if svg.width < 500.0 { CELLS / 2 } else { CELLS };
        let (mx, my) = (columns.div_ceil(most_cells), rows.div_ceil(most_cells));
        let (wide, tall) = ((f.right - f.left) / columns as f64, (f.bottom - f.top) / rows as f64);
        // One path for each shade, and the values beside them for the tooltip: a rectangle and a title for
        // each cell would be ten times the size.
        let mut shades: [String; SHADES] = Default::default();
        let mut values = String::new();
        for r in (0..rows).step_by(my) {
            for c in (0..columns).step_by(mx) {
                let (r1, c1) = ((r + my).min(rows), (c + mx).min(columns));
                // Merged cells show their greatest value: a hot spot must not vanish.
                let cells = (r..r1).flat_map(|r| (c..c1).map(move |c| (r, c)));
                let value = cells
                    .filter_map(|(r, c)| finite(self.values[r * columns + c]))
                    .reduce(f64::max);
                if let Some(value) = value {
                    let whole = value.fract() == 0.0 && value.abs() < 1e7;
                    let _ = if whole {
                        write!(values, "{value:.0}")
                    } else {
                        write!(values, "{value:.2e}")
                    };
                }
                values.push(',');
                let Some(value) = value.filter(|v| *v > least || least < 0.0) else { continue };
                let t = (warp(value) - warp(least)) / (warp(most) - warp(least));
                let shade = ((t * SHADES as f64).ceil() as usize).clamp(1, SHADES);
                let (left, right) = (f.left + wide * c as f64, f.left + wide * c1 as f64);
                let (top, bottom) = (f.bottom - tall * r1 as f64, f.bottom - tall * r as f64);
                let (left, right, top, bottom) = (px(left), px(right), px(top), px(bottom));
                let _ = write!(shades[shade - 1], "M{left} {top}H{right}V{bottom}H{left}z");
            }
        }
        svg.open_panel(f, "", &x, &y, (xl.unit.base(), yl.unit.base()));
        let _ = write!(
            svg.out,
            "<g class=\"cells\" data-across=\"{}\" data-step=\"{} {}\" data-unit=\"{}\" data-values=\"{values}\">",
            columns.div_ceil(mx),
            px(wide * mx as f64 * 100.0),
            px(tall * my as f64 * 100.0),
            esc(self.value.unit.base())
        );
        for (i, d) in shades.iter().enumerate().filter(|(_, d)| !d.is_empty()) {
            let _ = write!(svg.out, "<path class=\"heat h{}\" d=\"{d}\"/>", i + 1);
        }
        svg.close();
        svg.close();
        f.bottom + 42.0
    }

    /// The key of shades; returns where it ends.
    fn scale(&self, svg: &mut Canvas, least: f64, most: f64) -> f64 {
        let label = self.value.heading("");
        svg.text(0.0, 12.0, "lab", "start", &label);
        let step = 22.0;
        for shade in 1..=SHADES {
            let at = boxed(step * (shade - 1) as f64, 20.0, step, 12.0);
            svg.rect(&format!("heat h{shade}"), None, at, "");
        }
        let _ = write!(
            svg.out,
            "<rect class=\"none\" x=\"0\" y=\"20\" width=\"{}\" height=\"12\"/>",
            px(step * SHADES as f64)
        );
        svg.text(0.0, 46.0, "tick", "start", &self.value.unit.format(least, 2));
        svg.text(step * SHADES as f64, 46.0, "tick", "end", &self.value.unit.format(most, 2));
        54.0
    }

    pub(super) fn csv(&self, limit: usize) -> (String, bool) {
        let (columns, mut out) = (self.columns.max(1), String::new());
        let rows = self.values.len() / columns;
        csv_line(&mut out, [self.x.column(), self.y.column(), self.value.column()]);
        let whole = self.values.len().saturating_mul(50) <= limit;
        let every = if whole { 1 } else { self.values.len().div_ceil(limit / 50).max(1) };
        let at =
            |r: (f64, f64), i: usize, n: usize| r.0 + (r.1 - r.0) * (i as f64 + 0.5) / n as f64;
        for i in (0..rows * columns).step_by(every) {
            let (x, y) =
                (at(self.x_range, i % columns, columns), at(self.y_range, i / columns, rows));
            csv_line(&mut out, [csv_number(x), csv_number(y), csv_number(self.values[i])]);
        }
        (out, whole)
    }
}

fn linear(axis: &Axis) -> Axis {
    Axis { scale: Scale::Linear, ..axis.clone() }
}
