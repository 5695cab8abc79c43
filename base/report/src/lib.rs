//! Tables for terminals, figures as SVG, reports as one HTML file that needs nothing but itself.
//!
//! Plain data in, text out: the room knows no engine and no disk model, and the same input gives the same
//! bytes. Only [`Report::export`] writes files, and only [`Painter`] looks at the host, for its fonts.
//! Numbers that are not finite are shown as missing, never drawn and never printed.
//!
//! ```
//! use seekless_report::{Axis, Basis, Better, Column, Figure, Report, Section, StackedBars, Table, Unit, Values};
//!
//! let table = Table::new(
//!     "Busy time",
//!     vec![Column::text("policy"), Column::number("busy time", Unit::Seconds).better(Better::Lower)],
//! )
//! .row(["vanilla".into(), 200.0.into()])
//! .row(["borg".into(), 150.0.into()])
//! .baseline(0);
//! assert!(table.terminal(80, false).contains("150 −25 %"));
//!
//! let bars = StackedBars {
//!     axis: Axis::new("Disk busy time", Unit::Seconds),
//!     parts: vec!["seek".into(), "rotation".into(), "transfer".into()],
//!     bars: vec![Values::new("vanilla", [90.0, 70.0, 40.0]), Values::new("borg", [50.0, 60.0, 40.0])],
//! };
//! let figure = Figure::new("Seeks shrink most", Basis::Modelled, bars).caption("Simulated, one disk.");
//! assert!(figure.svg().starts_with("<?xml"));
//!
//! let report = Report::new("One trace", "The disk is busy a quarter less.")
//!     .section(Section::new("Where the time went").figure(figure).table(table));
//! assert!(report.html().starts_with("<!DOCTYPE html>"));
//! ```
#![forbid(unsafe_code)]

mod axis_ticks;
mod canvas;
mod escape;
mod figure;
mod figure_files;
mod html_report;
mod number_format;
mod style;
mod table;

pub use axis_ticks::Scale;
pub use figure::{
    Axis, BarSeries, BarValue, Bars, Basis, Figure, HeadKind, HeadMove, HeadPath, HeadRun, HeatMap,
    Histogram, Lines, Plot, Points, Scatter, StackedBars, Values,
};
pub use figure_files::{Exported, Painter, PngError};
pub use html_report::{Block, Provenance, Report, Section, Tile};
pub use number_format::Unit;
pub use table::{Align, Better, Cell, Column, Table};
