//! Figures, and their conversion to SVG, HTML and CSV. Each kind of plot draws itself in its own
//! file. Figures do not know the source of their data; the caller gives it.

mod bars;
mod head_path;
mod heat_map;
mod histogram;
mod lines;
mod thinning;

use std::fmt::Write as _;

pub use bars::{BarSeries, BarValue, Bars, StackedBars};
pub use head_path::{HeadKind, HeadMove, HeadPath, HeadRun};
pub use heat_map::HeatMap;
pub use histogram::Histogram;
pub use lines::{Lines, Points, Scatter};

use crate::canvas::{Canvas, px};
use crate::escape::{esc, percent, slug};
use crate::style;
use crate::{Scale, Table, Unit};

/// Widths of a figure in CSS pixels: a page's column and a telephone.
const WIDE: f64 = 760.0;
const NARROW: f64 = 352.0;
/// A report embeds a figure's data up to this many bytes.
const EMBED: usize = 64 << 10;

/// The quantity on an axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// Its name, without the unit.
    pub label: String,
    /// Its unit.
    pub unit: Unit,
    /// The spacing of its values.
    pub scale: Scale,
}

impl Axis {
    /// A linear axis.
    pub fn new(label: impl Into<String>, unit: Unit) -> Self {
        Self { label: label.into(), unit, scale: Scale::Linear }
    }

    /// The same axis, logarithmic.
    #[must_use]
    pub fn log(mut self) -> Self {
        self.scale = Scale::Log;
        self
    }

    fn linear(&self) -> Self {
        Self { scale: Scale::Linear, ..self.clone() }
    }

    pub(crate) fn heading(&self, unit: &str) -> String {
        match (unit, self.scale) {
            ("", Scale::Linear) => self.label.clone(),
            ("", Scale::Log) => format!("{}, log scale", self.label),
            (unit, Scale::Linear) => format!("{} ({unit})", self.label),
            (unit, Scale::Log) => format!("{} ({unit}), log scale", self.label),
        }
    }

    fn column(&self) -> String {
        self.unit.of(&self.label)
    }
}

/// A named row of numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// The name of the series.
    pub name: String,
    /// The numbers.
    pub values: Vec<f64>,
}

impl Values {
    /// A named row of numbers.
    pub fn new(name: impl Into<String>, values: impl Into<Vec<f64>>) -> Self {
        Self { name: name.into(), values: values.into() }
    }
}

/// The origin of a figure's numbers. Every figure shows it beside its title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Computed by a disk model.
    Modelled,
    /// Observed on a real device or in a real trace.
    Measured,
    /// Some of each; the caption explains which.
    Mixed,
    /// Synthetic, to show a kind of figure or for tests.
    Synthetic,
}

impl Basis {
    /// The word shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Modelled => "modelled",
            Self::Measured => "measured",
            Self::Mixed => "measured and modelled",
            Self::Synthetic => "synthetic",
        }
    }
}

/// The content of a figure.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Plot {
    HeadPath(HeadPath),
    StackedBars(StackedBars),
    Bars(Bars),
    Lines(Lines),
    Scatter(Scatter),
    Histogram(Histogram),
    HeatMap(HeatMap),
}

macro_rules! plot_from {
    ($($kind:ident),*) => {$(
        impl From<$kind> for Plot {
            fn from(plot: $kind) -> Self {
                Self::$kind(plot)
            }
        }
    )*};
}
plot_from!(HeadPath, StackedBars, Bars, Lines, Scatter, Histogram, HeatMap);

/// A titled plot with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The finding, or the content.
    pub title: String,
    /// The source of the numbers, and how to read them.
    pub caption: String,
    /// The origin of the numbers.
    pub basis: Basis,
    /// The plot.
    pub plot: Plot,
}

impl Figure {
    /// A figure with an empty caption.
    pub fn new(title: impl Into<String>, basis: Basis, plot: impl Into<Plot>) -> Self {
        Self { title: title.into(), caption: String::new(), basis, plot: plot.into() }
    }

    /// Sets the source of the numbers and how to read them.
    #[must_use]
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// The figure as an SVG file, with its title, and with styles for light and dark.
    pub fn svg(&self) -> String {
        self.alone(&style::standalone())
    }

    /// The same in light colours only, for programs without media queries.
    pub(crate) fn light_svg(&self) -> String {
        self.alone(&style::written(false))
    }

    fn alone(&self, css: &str) -> String {
        let (body, height) = self.draw(WIDE, "f", false);
        let (w, h, pad) = (px(WIDE + 32.0), px(height + 64.0), 16.0);
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fig\" role=\"img\" aria-labelledby=\"f-t f-d\" \
             width=\"{w}\" height=\"{h}\" viewBox=\"-{pad} -48 {w} {h}\">\
             <title id=\"f-t\">{title}</title><desc id=\"f-d\">{desc}</desc><style>{css}</style>\
             <rect class=\"bg\" x=\"-{pad}\" y=\"-48\" width=\"{w}\" height=\"{h}\"/>\
             <text x=\"0\" y=\"-22\" class=\"head\">{title}, {basis}</text>{body}</svg>\n",
            title = esc(&self.title),
            desc = esc(&self.description()),
            basis = self.basis.word(),
        )
    }

    /// The figure for a page with [`crate::Report`]'s styles. `id` is unique on the page.
    pub(crate) fn html(&self, id: &str) -> String {
        let mut out = format!(
            "<figure id=\"{id}\" class=\"{}\"><figcaption><h3>{} <span class=\"basis {}\">{}</span></h3>",
            match self.plot {
                Plot::HeadPath(_) => "zooms",
                _ => "plain",
            },
            esc(&self.title),
            self.basis.word().split(' ').next_back().unwrap_or_default(),
            self.basis.word()
        );
        if !self.caption.is_empty() {
            let _ = write!(out, "<p>{}</p>", esc(&self.caption));
        }
        out.push_str("</figcaption>");
        for (class, width) in [("wide", WIDE), ("narrow", NARROW)] {
            let id = format!("{id}-{}", &class[..1]);
            let (body, height) = self.draw(width, &id, width >= WIDE);
            let _ = write!(
                out,
                "<svg class=\"fig {class}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\" viewBox=\"0 0 {} {}\">\
                 <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>{body}</svg>",
                px(width),
                px(height),
                esc(&self.title),
                esc(&self.description())
            );
        }
        let (csv, whole) = self.csv_within(EMBED);
        let said = if whole { "CSV" } else { "CSV, thinned" };
        let _ = write!(
            out,
            "<div class=\"tools\"><a download=\"{name}.csv\" href=\"data:text/csv;charset=utf-8,{}\">{said}</a></div>",
            percent(&csv),
            name = slug(&self.title)
        );
        if let Some(table) = self.table() {
            let _ = write!(out, "<details><summary>Numbers</summary>{}</details>", table.html());
        }
        out + "</figure>"
    }

    /// All data of the figure as CSV, in base units.
    pub fn csv(&self) -> String {
        self.csv_within(usize::MAX).0
    }

    /// The data as CSV, thinned if it would exceed `limit` bytes; and whether it is complete.
    fn csv_within(&self, limit: usize) -> (String, bool) {
        match &self.plot {
            Plot::HeadPath(p) => p.csv(limit),
            Plot::StackedBars(p) => (p.table().csv(), true),
            Plot::Bars(p) => (p.table().csv(), true),
            Plot::Lines(p) => lines::csv(&p.x, &p.y, &p.series, limit),
            Plot::Scatter(p) => lines::csv(&p.x, &p.y, &p.series, limit),
            Plot::Histogram(p) => p.csv(limit),
            Plot::HeatMap(p) => p.csv(limit),
        }
    }

    fn table(&self) -> Option<Table> {
        match &self.plot {
            Plot::StackedBars(p) => Some(p.table()),
            Plot::Bars(p) => Some(p.table()),
            _ => None,
        }
    }

    /// Draws the plot, or that there is no data for it. `zooms` tells whether the reader can zoom in.
    fn draw(&self, width: f64, id: &str, zooms: bool) -> (String, f64) {
        let mut canvas = Canvas { zooms, ..Canvas::new(width, id) };
        let height = match &self.plot {
            Plot::HeadPath(p) => p.draw(&mut canvas),
            Plot::StackedBars(p) => p.draw(&mut canvas),
            Plot::Bars(p) => p.draw(&mut canvas),
            Plot::Lines(p) => p.draw(&mut canvas),
            Plot::Scatter(p) => p.draw(&mut canvas),
            Plot::Histogram(p) => p.draw(&mut canvas),
            Plot::HeatMap(p) => p.draw(&mut canvas),
        };
        let height = height.unwrap_or_else(|| canvas.no_data());
        (canvas.out, height)
    }

    /// The figure in words, for readers who cannot see it.
    fn description(&self) -> String {
        let kind = match &self.plot {
            Plot::HeadPath(p) => format!(
                "Head position on the disk over time, one panel for each of {} runs",
                p.runs.len()
            ),
            Plot::StackedBars(p) => format!("Stacked bars of {}", p.axis.label),
            Plot::Bars(p) => format!("Bars of {}", p.axis.label),
            Plot::Lines(p) => format!("Lines of {} over {}", p.y.label, p.x.label),
            Plot::Scatter(p) => format!("Points of {} over {}", p.y.label, p.x.label),
            Plot::Histogram(p) => format!("Histogram of {}", p.x.label),
            Plot::HeatMap(p) => {
                format!("Heat map of {} over {} and {}", p.value.label, p.x.label, p.y.label)
            }
        };
        let origin = format!("{kind}. Numbers are {}.", self.basis.word());
        if self.caption.is_empty() { origin } else { format!("{origin} {}", self.caption) }
    }
}

#[cfg(test)]
mod tests;
