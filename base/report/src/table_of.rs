//! A table with a row for each item: every column stands beside the rule for its cells.

use crate::{Cell, Column, Table, Unit};

/// A table that grows column by column; [`Table::of`] begins it.
#[derive(Clone, Debug)]
pub struct TableOf<T> {
    table: Table,
    items: Vec<T>,
}

impl Table {
    /// A table with a row for each item, and no column yet.
    pub fn of<T: Copy>(title: impl Into<String>, items: impl IntoIterator<Item = T>) -> TableOf<T> {
        let items: Vec<T> = items.into_iter().collect();
        let rows = vec![Vec::new(); items.len()];
        TableOf { table: Self { rows, ..Self::new(title, Vec::new()) }, items }
    }
}

impl<T: Copy> TableOf<T> {
    /// Adds a column, with a cell for each item.
    #[must_use]
    pub fn column<C: Into<Cell>>(mut self, column: Column, cell: impl Fn(T) -> C) -> Self {
        self.table.columns.push(column);
        for (row, item) in self.table.rows.iter_mut().zip(&self.items) {
            row.push(cell(*item).into());
        }
        self
    }

    /// Adds a column of words.
    #[must_use]
    pub fn text<C: Into<Cell>>(self, name: &str, cell: impl Fn(T) -> C) -> Self {
        self.column(Column::text(name), cell)
    }

    /// Adds a column of words at the right, as for numbers.
    #[must_use]
    pub fn right<C: Into<Cell>>(self, name: &str, cell: impl Fn(T) -> C) -> Self {
        self.column(Column::text(name).right(), cell)
    }

    /// Adds a column of numbers.
    #[must_use]
    pub fn number<C: Into<Cell>>(self, name: &str, unit: Unit, cell: impl Fn(T) -> C) -> Self {
        self.column(Column::number(name, unit), cell)
    }

    /// The table.
    pub fn done(self) -> Table {
        self.table
    }
}

/// Without a value, the cell is empty.
impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Empty, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_a_cell_of_each_item() {
        let items = [("a", Some(1.0)), ("b", None)];
        let built = Table::of("t", &items)
            .text("name", |i| i.0)
            .number("n", Unit::Count, |i| i.1)
            .right("both", |i| format!("{i:?}"))
            .done();
        let columns = vec![
            Column::text("name"),
            Column::number("n", Unit::Count),
            Column::text("both").right(),
        ];
        let table = Table::new("t", columns)
            .row(["a".into(), 1.0.into(), "(\"a\", Some(1.0))".into()])
            .row(["b".into(), Cell::Empty, "(\"b\", None)".into()]);
        assert_eq!(built, table);
    }
}
