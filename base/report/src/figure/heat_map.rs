//! Heat maps: a number as a function of two others, shown as shades.

use std::fmt::Write as _;

use super::Axis;
use crate::Scale;
use crate::axis_ticks::Mapped;
use crate::canvas::{Canvas, Frame, boxed, px};
use crate::escape::{csv_line, csv_number, esc};
use crate::number_format::finite;

/// Maximum number of cells drawn per direction; more are merged.
const CELLS: usize = 120;
/// Number of shades; the style sheet has a rule for each.
const SHADES: usize = 9;

/// A number as a function of two others, in equal cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// The horizontal axis; linear.
    pub x: Axis,
    /// The vertical axis; linear.
    pub y: Axis,
    /// The quantity of the shade. On a logarithmic axis, equal steps of shade are equal ratios of
    /// the value plus one, so that zero has no shade.
    pub value: Axis,
    /// Start of the first column and end of the last.
    pub x_range: (f64, f64),
    /// Start of the lowest row and end of the highest.
    pub y_range: (f64, f64),
    /// Number of cells in a row.
    pub columns: usize,
    /// The cells, row by row from the lowest, each row from the left.
    pub values: Vec<f64>,
}

impl HeatMap {
    pub(super) fn draw(&self, svg: &mut Canvas) -> Option<f64> {
        let (columns, rows) = (self.columns, self.values.len() / self.columns.max(1));
        let most = self.values.iter().copied().filter_map(finite).fold(f64::NEG_INFINITY, f64::max);
        let least = self.values.iter().copied().filter_map(finite).fold(f64::INFINITY, f64::min);
        let range = |r: (f64, f64)| finite(r.0).is_some() && finite(r.1).is_some() && r.0 < r.1;
        if columns == 0 || rows == 0 || least > most || !range(self.x_range) || !range(self.y_range)
        {
            return None;
        }
        let (xl, yl) = (self.x.linear(), self.y.linear());
        let ends = |r: (f64, f64)| [r.0, r.1].into_iter();
        let y = Mapped::over(ends(self.y_range), Scale::Linear, &yl.unit, (false, true), 5)?;
        let left = y.label_room();
        let want = (((svg.width - left) / 70.0) as usize).max(2);
        let x = Mapped::over(ends(self.x_range), Scale::Linear, &xl.unit, (false, true), want)?;
        let (least, most) =
            (least.min(0.0), if most > least.min(0.0) { most } else { least + 1.0 });
        let top = self.legend(svg, least, most) + 36.0;
        let high = if svg.width < 500.0 { 200.0 } else { 260.0 };
        let f = Frame { left, top, right: svg.width - 10.0, bottom: top + high };
        let (x, y) = (x.at(f.left, f.right), y.at(f.bottom, f.top));
        svg.axes(f, (&x, &xl), (&y, &yl));
        svg.rect("none", None, f, "");
        let most_cells = if svg.width < 500.0 { CELLS / 2 } else { CELLS };
        let merged = (columns.div_ceil(most_cells), rows.div_ceil(most_cells));
        let (shades, values) = self.cells(f, merged, (least, most));
        let (wide, tall) = self.cell_size(f);
        svg.open_panel(f, "", &x, &y, (xl.unit.base(), yl.unit.base()));
        let _ = write!(
            svg.out,
            "<g class=\"cells\" data-across=\"{}\" data-step=\"{} {}\" data-unit=\"{}\" data-values=\"{values}\">",
            columns.div_ceil(merged.0),
            px(wide * merged.0 as f64 * 100.0),
            px(tall * merged.1 as f64 * 100.0),
            esc(self.value.unit.base())
        );
        for (i, d) in shades.iter().enumerate().filter(|(_, d)| !d.is_empty()) {
            let _ = write!(svg.out, "<path class=\"heat h{}\" d=\"{d}\"/>", i + 1);
        }
        svg.close();
        svg.close();
        Some(f.bottom + 42.0)
    }

    fn cell_size(&self, f: Frame) -> (f64, f64) {
        let rows = self.values.len() / self.columns.max(1);
        ((f.right - f.left) / self.columns as f64, (f.bottom - f.top) / rows as f64)
    }

    /// One path per shade, and the values in an attribute for the tooltip. A rectangle and a title
    /// for each cell would need ten times the size. `merged` columns and rows become one cell.
    fn cells(
        &self,
        f: Frame,
        merged: (usize, usize),
        (least, most): (f64, f64),
    ) -> ([String; SHADES], String) {
        let (columns, rows) = (self.columns, self.values.len() / self.columns.max(1));
        let log = self.value.scale == Scale::Log;
        let warp = |v: f64| if log { v.max(0.0).ln_1p() } else { v };
        let (wide, tall) = self.cell_size(f);
        let mut shades: [String; SHADES] = Default::default();
        let mut values = String::new();
        for r in (0..rows).step_by(merged.1) {
            for c in (0..columns).step_by(merged.0) {
                let (r1, c1) = ((r + merged.1).min(rows), (c + merged.0).min(columns));
                // Merged cells show their largest value: a hot spot must not disappear.
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
        (shades, values)
    }

    /// Draws the legend of the shades. Returns its lower end.
    fn legend(&self, svg: &mut Canvas, least: f64, most: f64) -> f64 {
        let label = self.value.heading("");
        svg.text(0.0, 12.0, "lab", "start", &label);
        let step = 22.0;
        for shade in 1..=SHADES {
            let at = boxed(step * (shade - 1) as f64, 20.0, step, 12.0);
            svg.rect(&format!("heat h{shade}"), None, at, "");
        }
        svg.rect("none", None, boxed(0.0, 20.0, step * SHADES as f64, 12.0), "");
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
