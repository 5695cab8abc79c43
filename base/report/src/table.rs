//! A table: its contents, and the format of each number. The caller says for each column which
//! direction is better. `render` writes the table for each medium.

mod render;

use crate::Unit;
use crate::escape::plain;
use crate::number_format::{MISSING, change, decimals, finite, grouped};

/// Alignment of a column's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Align {
    /// Left, for words.
    #[default]
    Left,
    /// Right, for numbers.
    Right,
}

/// The direction in which a number is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

/// The content of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Its heading, without the unit.
    pub name: String,
    /// The common unit of its numbers. The whole column has one prefix, so that its numbers can be
    /// compared.
    pub unit: Unit,
    /// Its alignment.
    pub(crate) align: Align,
    /// The direction that is better. If given, numbers show their change against the table's
    /// baseline row.
    pub better: Option<Better>,
    /// Significant digits of its largest number.
    pub digits: u8,
}

impl Column {
    /// A column of words.
    pub fn text(name: impl Into<String>) -> Self {
        Self { name: name.into(), digits: 3, ..Self::default() }
    }

    /// A column of numbers, three significant digits.
    pub fn number(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit, align: Align::Right, better: None, digits: 3 }
    }

    /// The same column with right alignment, as for numbers.
    #[must_use]
    pub fn right(mut self) -> Self {
        self.align = Align::Right;
        self
    }

    /// The same column, compared with the baseline row.
    #[must_use]
    pub fn better(mut self, better: Better) -> Self {
        self.better = Some(better);
        self
    }

    /// The same column with this many significant digits.
    #[must_use]
    pub fn digits(mut self, digits: u8) -> Self {
        self.digits = digits;
        self
    }
}

/// The content of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// Empty.
    #[default]
    Empty,
    /// Words.
    Text(String),
    /// A number in its column's unit.
    Number(f64),
    /// A number with its own unit, for columns that mix units.
    Quantity(f64, Unit),
    /// The change from `base` to `value` in percent, coloured by `better`.
    Change {
        /// The number.
        value: f64,
        /// The number it is compared with.
        base: f64,
        /// The direction that is better.
        better: Better,
    },
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Number(value as f64)
    }
}

/// A titled table. A row can have fewer cells than there are columns: missing cells are empty.
/// Cells after the last column are not shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its title.
    pub title: String,
    /// A remark below the table; can be empty.
    pub note: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Vec<Cell>>,
    /// The row that columns with [`Column::better`] are compared with.
    pub baseline: Option<usize>,
}

impl Table {
    /// A table with no rows.
    pub fn new(title: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { title: title.into(), columns, ..Self::default() }
    }

    /// Adds a row.
    #[must_use]
    pub fn row(mut self, cells: impl IntoIterator<Item = Cell>) -> Self {
        self.rows.push(cells.into_iter().collect());
        self
    }

    /// Sets the baseline row.
    #[must_use]
    pub fn baseline(mut self, row: usize) -> Self {
        self.baseline = Some(row);
        self
    }

    /// Sets the remark below the table.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    fn cell(&self, row: usize, column: usize) -> &Cell {
        self.rows.get(row).and_then(|r| r.get(column)).unwrap_or(&Cell::Empty)
    }

    fn number(&self, row: usize, column: usize) -> Option<f64> {
        match self.cell(row, column) {
            Cell::Number(v) => finite(*v),
            _ => None,
        }
    }

    /// Every heading and cell as text, the same for every medium.
    fn shown(&self) -> Vec<ShownColumn> {
        (0..self.columns.len()).map(|c| self.shown_column(c)).collect()
    }

    fn shown_column(&self, c: usize) -> ShownColumn {
        let column = &self.columns[c];
        let numbers: Vec<f64> = (0..self.rows.len()).filter_map(|r| self.number(r, c)).collect();
        let max = numbers.iter().fold(0f64, |m, v| m.max(v.abs()));
        let (factor, unit) = column.unit.scale(max);
        let whole = numbers.iter().all(|v| (v / factor).fract() == 0.0);
        let least = numbers.iter().map(|v| v.abs()).filter(|v| *v > 0.0).fold(max, f64::min);
        let places = decimals(max / factor, column.digits);
        // The smallest number keeps a significant digit, within limits.
        let places = decimals(least / factor, 1).clamp(places, places + 2);
        let places = if whole { 0 } else { places };
        let cells = (0..self.rows.len()).map(|r| match self.cell(r, c) {
            Cell::Empty => ShownCell::default(),
            Cell::Text(text) => ShownCell { text: plain(text), ..ShownCell::default() },
            Cell::Quantity(v, unit) => {
                ShownCell { text: unit.format(*v, column.digits), ..ShownCell::default() }
            }
            Cell::Change { value, base, better } => {
                ShownCell { change: Some(judged(*value, *base, *better)), ..ShownCell::default() }
            }
            Cell::Number(v) => ShownCell {
                text: finite(*v).map_or(MISSING.to_owned(), |v| rounded(v / factor, places)),
                change: self.compared(r, c),
            },
        });
        let arrow = match column.better.filter(|_| self.baseline.is_some()) {
            None => "",
            Some(Better::Lower) => "↓",
            Some(Better::Higher) => "↑",
        };
        let unit = if numbers.is_empty() { String::new() } else { unit };
        ShownColumn {
            name: plain(&column.name),
            unit: plain(&unit),
            arrow,
            align: column.align,
            cells: cells.collect(),
        }
    }

    fn compared(&self, row: usize, column: usize) -> Option<(String, Verdict)> {
        let (better, base) = (self.columns.get(column)?.better?, self.baseline?);
        if row == base {
            return None;
        }
        Some(judged(self.number(row, column)?, self.number(base, column)?, better))
            .filter(|(text, _)| text != MISSING)
    }

    /// The meaning of the arrows in the headings, and the baseline of the changes; `None` without
    /// arrows.
    fn legend(&self) -> Option<String> {
        let base = self.baseline.filter(|r| *r < self.rows.len())?;
        let has = |b| self.columns.iter().any(|c| c.better == Some(b));
        let arrows = match (has(Better::Lower), has(Better::Higher)) {
            (false, false) => return None,
            (true, false) => "↓ lower is better",
            (false, true) => "↑ higher is better",
            (true, true) => "↓ lower is better, ↑ higher is better",
        };
        let name = match self.cell(base, 0) {
            Cell::Text(name) => plain(name),
            _ => format!("row {}", base + 1),
        };
        Some(format!("Changes against {name}; {arrows}."))
    }
}

/// The number with `places` decimals. If all of them are zero but the number is not, an upper bound
/// instead.
fn rounded(v: f64, places: usize) -> String {
    let text = grouped(v, places);
    if v == 0.0 || text.contains(|c: char| ('1'..='9').contains(&c)) {
        return text;
    }
    let least = grouped(10f64.powi(-(places as i32)), places);
    if v > 0.0 { format!("<{least}") } else { format!(">−{least}") }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Better,
    Worse,
    Same,
}

fn judged(value: f64, base: f64, better: Better) -> (String, Verdict) {
    let Some((share, text)) = change(value, base) else {
        return (MISSING.to_owned(), Verdict::Same);
    };
    let verdict = match better {
        _ if share == 0.0 => Verdict::Same,
        Better::Lower if share < 0.0 => Verdict::Better,
        Better::Higher if share > 0.0 => Verdict::Better,
        _ => Verdict::Worse,
    };
    (text, verdict)
}

#[derive(Clone, Debug, Default)]
struct ShownCell {
    text: String,
    change: Option<(String, Verdict)>,
}

#[derive(Clone, Debug)]
struct ShownColumn {
    name: String,
    unit: String,
    arrow: &'static str,
    align: Align,
    cells: Vec<ShownCell>,
}

#[cfg(test)]
mod tests;
