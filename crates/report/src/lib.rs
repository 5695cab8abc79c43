//! Tables for terminals, figures as SVG, reports as one HTML file that needs nothing but itself.
//!
//! Everything here is a pure function: plain data in, text out. The room knows no engine, no disk model
//! and no file; who calls it writes the text where it belongs. The same input gives the same bytes.
//! Numbers that are not finite are shown as missing, never drawn and never printed.
#![forbid(unsafe_code)]

mod figure;
mod number;
mod report;
mod style;
mod svg;
mod table;
mod text;
mod ticks;

pub use figure::{
    Axis, BarSeries, BarValue, Bars, Basis, Figure, HeadKind, HeadMove, HeadPath, HeadRun, HeatMap,
    Histogram, Lines, Plot, Points, Scatter, StackedBars, Values,
};
pub use number::Unit;
pub use report::{Block, Provenance, Report, Section, Tile};
pub use table::{Align, Better, Cell, Column, Table};
pub use ticks::Scale;
