//! Line charts and scatter plots over two axes: distributions of response times, and distance
//! against time.

use std::fmt::Write as _;

use super::Axis;
use super::thinning::{thin_line, thin_points};
use crate::axis_ticks::Mapped;
use crate::canvas::{Canvas, Frame, GLYPHS, Key, STYLES, polyline, shape, text_px, xy};
use crate::escape::{csv_line, csv_number, esc};
use crate::number_format::finite;
use crate::{Scale, Unit};

/// Number of quantiles of a cumulative distribution.
const QUANTILES: usize = 400;

/// A named series of points (x, y).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    /// The name of the series.
    pub name: String,
    /// The points; those that are not finite are left out.
    pub points: Vec<(f64, f64)>,
}

impl Points {
    /// A named series.
    pub fn new(name: impl Into<String>, points: impl Into<Vec<(f64, f64)>>) -> Self {
        Self { name: name.into(), points: points.into() }
    }
}

/// Curves. Points are connected in order of x.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Lines {
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Points>,
}

impl Lines {
    /// Cumulative distributions of samples, on a logarithmic axis: for each value the fraction of
    /// samples that are not larger. Samples that are not finite are left out.
    pub fn cdf(
        label: &str,
        unit: Unit,
        samples: impl IntoIterator<Item = (String, Vec<f64>)>,
    ) -> Self {
        let curve = |(name, mut v): (String, Vec<f64>)| {
            v.retain(|s| finite(*s).is_some());
            v.sort_by(f64::total_cmp);
            let (n, steps) = (v.len(), v.len().min(QUANTILES));
            let points = (0..steps).map(|i| {
                // From the smallest sample to the largest; both are exact.
                let at = if steps < 2 { 0 } else { i * (n - 1) / (steps - 1) };
                (v[at], (at + 1) as f64 / n as f64)
            });
            Points { name, points: points.collect() }
        };
        Self {
            x: Axis::new(label, unit).log(),
            y: Axis::new("Share of requests served", Unit::Share),
            series: samples.into_iter().map(curve).collect(),
        }
    }

    pub(super) fn draw(&self, svg: &mut Canvas) -> Option<f64> {
        // Amounts start at zero, so that double height is double amount.
        let zero =
            self.y.scale == Scale::Linear && !matches!(self.y.unit, Unit::Number | Unit::Other(_));
        let field = Field::new(svg, &self.x, &self.y, &self.series, Key::Line, zero)?;
        for (s, series) in self.series.iter().enumerate() {
            let mut points = field.places(&series.points);
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let points = thin_line(&points, field.frame.left, field.frame.right, 400);
            if points.is_empty() {
                continue;
            }
            let style = s % STYLES;
            let (dash, name, path) = (shape(s), esc(&series.name), polyline(&points));
            let _ = write!(
                svg.out,
                "<g class=\"s{style}\" data-s=\"{s}\"><path class=\"ln d{dash} series\" data-name=\"{name}\" d=\"M{path}\"/>"
            );
            // A few symbols per curve, shifted per series so that they do not cover each other.
            let every = points.len().div_ceil(6).max(1);
            for p in points.iter().skip((every / 2 + s * every / 7) % every).step_by(every) {
                svg.bead(s, p.0, p.1);
            }
            svg.close();
        }
        svg.close();
        Some(field.frame.bottom + 42.0)
    }
}

/// Points over two axes, such as logical seek distance against access time.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Scatter {
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Points>,
}

impl Scatter {
    pub(super) fn draw(&self, svg: &mut Canvas) -> Option<f64> {
        let field = Field::new(svg, &self.x, &self.y, &self.series, Key::Glyph(0), false)?;
        let f = field.frame;
        for (s, series) in self.series.iter().enumerate() {
            let points = field.places(&series.points);
            let (wide, high) = (f.right - f.left, f.bottom - f.top);
            let spot = if points.len() > 5_000 { 3.0 } else { 1.0 };
            let (columns, rows) = ((wide / spot) as usize, (high / spot) as usize);
            let kept = thin_points(&points, (f.left, f.right), (f.top, f.bottom), columns, rows);
            if kept.is_empty() {
                continue;
            }
            let (style, g) = (s % STYLES, shape(s));
            let _ = write!(
                svg.out,
                "<path class=\"mk g{g} s{style} series\" data-s=\"{s}\" data-name=\"{}\" d=\"",
                esc(&series.name)
            );
            for p in kept.iter().map(|i| points[*i]) {
                let _ = write!(svg.out, "M{}{}", xy(p), GLYPHS[g]);
            }
            svg.out.push_str("\"/>");
        }
        svg.close();
        Some(f.bottom + 42.0)
    }
}

struct Field {
    frame: Frame,
    x: Mapped,
    y: Mapped,
}

impl Field {
    fn new(
        svg: &mut Canvas,
        x: &Axis,
        y: &Axis,
        series: &[Points],
        key: Key,
        zero: bool,
    ) -> Option<Self> {
        let drawable = |p: &&(f64, f64)| {
            let usable =
                |v: f64, s: Scale| finite(v).is_some_and(|v| s == Scale::Linear || v > 0.0);
            usable(p.0, x.scale) && usable(p.1, y.scale)
        };
        let points = || series.iter().flat_map(|s| s.points.iter()).filter(drawable);
        let high = if svg.width < 500.0 { 220.0 } else { 290.0 };
        let my = Mapped::over(points().map(|p| p.1), y.scale, &y.unit, (zero, false), 5)?;
        let left = my.label_room();
        let wide = svg.width - left - 10.0;
        let widest = text_px(&x.unit.format(500e-6, 1)) + 18.0;
        let want = (wide / widest.max(60.0)) as usize;
        let mx = Mapped::over(points().map(|p| p.0), x.scale, &x.unit, (false, true), want.max(4))?;
        let names = series.iter().enumerate().map(|(i, s)| {
            let key = if key == Key::Line { key } else { Key::Glyph(shape(i)) };
            (i, key, s.name.as_str())
        });
        let keys: Vec<_> = names.filter(|_| series.len() > 1).collect();
        let top = svg.legend(0.0, &keys) + 32.0;
        let frame = Frame { left, top, right: svg.width - 10.0, bottom: top + high };
        let field =
            Self { frame, x: mx.at(frame.left, frame.right), y: my.at(frame.bottom, frame.top) };
        svg.axes(frame, (&field.x, x), (&field.y, y));
        svg.open_panel(frame, "", &field.x, &field.y, (x.unit.base(), y.unit.base()));
        Some(field)
    }

    fn places(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        points.iter().filter_map(|p| Some((self.x.place(p.0)?, self.y.place(p.1)?))).collect()
    }
}

/// The points of all series; every n-th point if all would exceed `limit` bytes.
pub(super) fn csv(x: &Axis, y: &Axis, series: &[Points], limit: usize) -> (String, bool) {
    let total: usize = series.iter().map(|s| s.points.len()).sum();
    let whole = total.saturating_mul(40) <= limit;
    let every = if whole { 1 } else { total.div_ceil(limit / 40).max(1) };
    let mut out = String::new();
    csv_line(&mut out, ["series".to_owned(), x.column(), y.column()]);
    for s in series {
        for p in s.points.iter().step_by(every) {
            csv_line(&mut out, [s.name.clone(), csv_number(p.0), csv_number(p.1)]);
        }
    }
    (out, whole)
}
