//! Tables for terminals, figures as SVG, and reports as one HTML file without external parts.
//!
//! Input is plain data and output is text. The same input gives the same bytes. Only
//! [`Report::export`] touches the host: it writes files, and finds fonts for PNG. Numbers that are
//! not finite are shown as missing; they are never drawn and never printed.
//!
//! ```
//! use seekless_report::{Axis, Basis, Better, Column, Figure, Report, Section, StackedBars};
//! use seekless_report::{Table, Unit, Values};
//!
//! let busy = Column::number("busy time", Unit::Seconds).better(Better::Lower);
//! let table = Table::new("Busy time", vec![Column::text("policy"), busy])
//!     .row(["vanilla".into(), 200.0.into()])
//!     .row(["borg".into(), 150.0.into()])
//!     .baseline(0);
//! assert!(table.terminal(80, false).contains("150 −25 %"));
//!
//! let bars = StackedBars {
//!     axis: Axis::new("Disk busy time", Unit::Seconds),
//!     parts: vec!["seek".into(), "rotation".into(), "transfer".into()],
//!     bars: vec![Values::new("vanilla", [9.0, 7.0, 4.0]), Values::new("borg", [5.0, 6.0, 4.0])],
//! };
//! let figure = Figure::new("Seeks shrink most", Basis::Modelled, bars);
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
mod table_of;

pub use axis_ticks::Scale;
pub use escape::visible;
pub use figure::{
    Axis, BarSeries, BarValue, Bars, Basis, Figure, HeadKind, HeadMove, HeadPath, HeadRun, HeatMap,
    Histogram, Lines, Plot, Points, Scatter, StackedBars, Values,
};
pub use html_report::{Block, Provenance, Report, Section, Tile};
pub use number_format::Unit;
pub use table::{Better, Cell, Column, Table};
pub use table_of::TableOf;
