//! Bar charts: totals with their parts, and numbers side by side with confidence intervals. Bars
//! are horizontal, so that names stay readable. They start at zero, because readers compare their
//! lengths.

use super::{Axis, Values};
use crate::axis_ticks::Mapped;
use crate::canvas::{Canvas, Frame, Key, boxed, fit, text_px};
use crate::number_format::finite;
use crate::{Cell, Column, Scale, Table};

/// Space for the number at the right of a bar.
const NUMBER: f64 = 74.0;
/// Below this width names are above their bars instead of at their left.
const BESIDE: f64 = 500.0;

/// Totals with their parts, one bar per policy: busy time as seek, rotation, transfer, background.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StackedBars {
    /// The stacked quantity.
    pub axis: Axis,
    /// Names of the parts, from left to right.
    pub parts: Vec<String>,
    /// The bars, each with one number per part. A number that is missing, negative or not finite
    /// counts as zero.
    pub bars: Vec<Values>,
}

impl StackedBars {
    fn part(&self, bar: usize, part: usize) -> f64 {
        let value = self.bars[bar].values.get(part).copied();
        value.and_then(finite).filter(|v| *v > 0.0).unwrap_or(0.0)
    }

    pub(super) fn draw(&self, svg: &mut Canvas) -> Option<f64> {
        let parts = self.parts.len();
        let drawable =
            self.bars.iter().any(|b| b.values.iter().take(parts).any(|v| finite(*v).is_some()));
        if !drawable {
            return None;
        }
        let totals: Vec<f64> =
            (0..self.bars.len()).map(|b| (0..parts).map(|p| self.part(b, p)).sum()).collect();
        svg.patterns();
        let keys: Vec<_> =
            self.parts.iter().enumerate().map(|(i, n)| (i, Key::Patch, n.as_str())).collect();
        let top = svg.legend(0.0, &keys);
        let names: Vec<&str> = self.bars.iter().map(|b| b.name.as_str()).collect();
        let lay = Layout::new(svg.width, top, &names, 26.0, 14.0);
        let x = lay.axis(totals.iter().copied(), &self.axis)?;
        lay.frame(svg, &x, &self.axis);
        for (b, name) in names.iter().enumerate() {
            let row = lay.row(svg, b, name);
            let mut sum = 0.0;
            for (p, part) in self.parts.iter().enumerate() {
                let value = self.part(b, p);
                let (Some(from), Some(to)) = (x.place(sum), x.place(sum + value)) else { continue };
                sum += value;
                if to - from < 0.05 {
                    continue;
                }
                let share = crate::Unit::Share.format(value / totals[b], 3);
                let said = self.axis.unit.format(value, 3);
                let tip = format!("{name}, {part}: {said} ({share})");
                svg.patch(p, Some(p), Frame { left: from, right: to, ..row }, &tip);
            }
            let end = x.place(sum).unwrap_or(row.left);
            let said = self.axis.unit.format(sum, 3);
            svg.text(end + 7.0, (row.top + row.bottom) / 2.0 + 4.0, "val", "start", &said);
        }
        Some(lay.frame.bottom + 40.0)
    }

    pub(super) fn table(&self) -> Table {
        let mut columns = vec![Column::text("")];
        let number = |name: &String| Column::number(name, self.axis.unit.clone());
        columns.extend(self.parts.iter().map(number));
        let mut table = Table::new(&self.axis.label, columns);
        for bar in &self.bars {
            let cells = bar.values.iter().map(|v| Cell::Number(*v));
            table = table.row([Cell::from(bar.name.as_str())].into_iter().chain(cells));
        }
        table
    }
}

/// A number, with the ends of its confidence interval if it was sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BarValue {
    /// The number.
    pub value: f64,
    /// Lower and upper end of its interval, as values, not as distances.
    pub spread: Option<(f64, f64)>,
}

impl From<f64> for BarValue {
    fn from(value: f64) -> Self {
        Self { value, spread: None }
    }
}

/// The bars of one policy, one per category.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarSeries {
    /// The name of the series.
    pub name: String,
    /// One value per category.
    pub values: Vec<BarValue>,
}

/// Numbers side by side: categories (traces, disks) by series (policies).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// The quantity of the bars.
    pub axis: Axis,
    /// Names of the groups.
    pub categories: Vec<String>,
    /// The series; each has one bar in every group.
    pub series: Vec<BarSeries>,
}

impl Bars {
    fn value(&self, series: usize, category: usize) -> Option<BarValue> {
        let value = self.series[series].values.get(category).copied()?;
        finite(value.value)?;
        let spread = value.spread.filter(|(a, b)| finite(*a).is_some() && finite(*b).is_some());
        Some(BarValue { spread, ..value })
    }

    pub(super) fn draw(&self, svg: &mut Canvas) -> Option<f64> {
        let (rows, n) = (self.categories.len(), self.series.len());
        let values: Vec<BarValue> =
            (0..n).flat_map(|s| (0..rows).filter_map(move |c| self.value(s, c))).collect();
        if values.is_empty() {
            return None;
        }
        let ends = values.iter().flat_map(|v| {
            let (a, b) = v.spread.unwrap_or((v.value, v.value));
            [v.value, a, b]
        });
        svg.patterns();
        let names = self.series.iter().enumerate().map(|(i, s)| (i, Key::Patch, s.name.as_str()));
        let keys: Vec<_> = names.filter(|_| n > 1).collect();
        let top = svg.legend(0.0, &keys);
        let thick = if n == 1 { 24.0 } else { 17.0 };
        let categories: Vec<&str> = self.categories.iter().map(String::as_str).collect();
        let lay = Layout::new(svg.width, top, &categories, thick * n as f64, 16.0);
        let x = lay.axis(ends, &self.axis)?;
        lay.frame(svg, &x, &self.axis);
        let zero = x.place(0.0).unwrap_or(lay.frame.left);
        for (c, name) in categories.iter().enumerate() {
            let row = lay.row(svg, c, name);
            for s in 0..n {
                let Some(v) = self.value(s, c) else { continue };
                let Some(end) = x.place(v.value) else { continue };
                let top = row.top + thick * s as f64;
                let bar = Frame {
                    left: zero.min(end),
                    right: zero.max(end),
                    top,
                    bottom: top + thick - 2.0,
                };
                let said = self.axis.unit.format(v.value, 3);
                let spread = v.spread.map_or(String::new(), |(a, b)| {
                    let unit = &self.axis.unit;
                    format!(" (interval {} to {})", unit.format(a, 3), unit.format(b, 3))
                });
                let who = &self.series[s].name;
                svg.patch(s, Some(s), bar, &format!("{name}, {who}: {said}{spread}"));
                let mid = top + thick / 2.0 - 1.0;
                let mut right = zero.max(end);
                svg.out.push_str(&format!("<g data-s=\"{s}\">"));
                if let Some((a, b)) = v.spread
                    && let (Some(a), Some(b)) = (x.place(a.min(b)), x.place(a.max(b)))
                {
                    svg.line("whisker", (a, mid), (b, mid));
                    svg.line("whisker", (a, mid - 4.0), (a, mid + 4.0));
                    svg.line("whisker", (b, mid - 4.0), (b, mid + 4.0));
                    right = right.max(b);
                }
                svg.text(right + 7.0, mid + 4.0, "val", "start", &said);
                svg.close();
            }
        }
        Some(lay.frame.bottom + 40.0)
    }

    pub(super) fn table(&self) -> Table {
        let mut columns = vec![Column::text("")];
        for series in &self.series {
            columns.push(Column::number(&series.name, self.axis.unit.clone()));
            if series.values.iter().any(|v| v.spread.is_some()) {
                for end in ["low", "high"] {
                    let name = format!("{} {end}", series.name);
                    columns.push(Column::number(name, self.axis.unit.clone()));
                }
            }
        }
        let mut table = Table::new(&self.axis.label, columns);
        for (c, name) in self.categories.iter().enumerate() {
            let mut row = vec![Cell::from(name.as_str())];
            for (s, series) in self.series.iter().enumerate() {
                let value = self.value(s, c);
                row.push(value.map_or(Cell::Empty, |v| Cell::Number(v.value)));
                if series.values.iter().any(|v| v.spread.is_some()) {
                    let spread = value.and_then(|v| v.spread);
                    row.push(spread.map_or(Cell::Empty, |(a, _)| Cell::Number(a)));
                    row.push(spread.map_or(Cell::Empty, |(_, b)| Cell::Number(b)));
                }
            }
            table.rows.push(row);
        }
        table
    }
}

/// The positions of the rows of bars and of their names.
struct Layout {
    frame: Frame,
    thick: f64,
    pitch: f64,
    above: bool,
}

impl Layout {
    fn new(width: f64, top: f64, names: &[&str], thick: f64, gap: f64) -> Self {
        let above = width < BESIDE;
        let longest = names.iter().map(|n| text_px(n)).fold(0.0, f64::max);
        let left = if above { 1.0 } else { (longest + 10.0).min(width * 0.32) };
        let pitch = thick + gap + if above { 16.0 } else { 0.0 };
        let top = top + 6.0;
        let bottom = top + pitch * names.len() as f64;
        Self { frame: Frame { left, top, right: width - NUMBER, bottom }, thick, pitch, above }
    }

    fn axis(&self, values: impl Iterator<Item = f64>, axis: &Axis) -> Option<Mapped> {
        let want = ((self.frame.right - self.frame.left) / 90.0) as usize;
        let x = Mapped::over(values, Scale::Linear, &axis.unit, (true, false), want.max(2))?;
        Some(x.at(self.frame.left, self.frame.right))
    }

    fn frame(&self, svg: &mut Canvas, x: &Mapped, axis: &Axis) {
        svg.x_axis(self.frame, x, &axis.linear().heading(&x.unit), true);
    }

    /// Writes the name of a row. Returns the frame for its bars.
    fn row(&self, svg: &mut Canvas, row: usize, name: &str) -> Frame {
        let f = self.frame;
        let mut top = f.top + self.pitch * row as f64 + 4.0;
        if self.above {
            svg.text(f.left, top + 9.0, "name", "start", &fit(name, svg.width));
            top += 15.0;
        } else {
            let name = fit(name, f.left - 8.0);
            svg.text(f.left - 9.0, top + self.thick / 2.0 + 3.0, "name", "end", &name);
        }
        boxed(f.left, top, f.right - f.left, self.thick)
    }
}
