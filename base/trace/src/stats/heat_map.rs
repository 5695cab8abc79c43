//! A heat map: requests over time and address, in a grid that becomes coarser as either axis grows.
//! One pass, constant memory, no units.

/// Maximum number of columns and rows. A grid that has grown uses at least half of them.
pub(super) const CELLS: usize = 128;

#[derive(Clone, Debug)]
pub(super) struct Grid {
    cells: Vec<u64>,
    /// Binary logarithms of a cell's width and height.
    wide: u32,
    tall: u32,
    /// Highest used column and row.
    column: usize,
    row: usize,
}

impl Grid {
    /// The minimum width of a cell is 2^wide, the minimum height 2^tall.
    pub(super) fn new(wide: u32, tall: u32) -> Self {
        Self { cells: vec![0; CELLS * CELLS], wide, tall, column: 0, row: 0 }
    }

    #[inline]
    pub(super) fn add(&mut self, x: u64, y: u64) {
        while x >> self.wide >= CELLS as u64 {
            self.fold(|c, r| (c / 2, r));
            self.wide += 1;
            self.column /= 2;
        }
        while y >> self.tall >= CELLS as u64 {
            self.fold(|c, r| (c, r / 2));
            self.tall += 1;
            self.row /= 2;
        }
        let (column, row) = ((x >> self.wide) as usize, (y >> self.tall) as usize);
        self.column = self.column.max(column);
        self.row = self.row.max(row);
        self.cells[row * CELLS + column] += 1;
    }

    #[cold]
    fn fold(&mut self, to: impl Fn(usize, usize) -> (usize, usize)) {
        let old = std::mem::replace(&mut self.cells, vec![0; CELLS * CELLS]);
        for (i, n) in old.into_iter().enumerate() {
            let (column, row) = to(i % CELLS, i / CELLS);
            self.cells[row * CELLS + column] += n;
        }
    }

    /// Width and height of a cell, number of used columns, and the used cells row by row.
    pub(super) fn finish(&self) -> (u64, u64, usize, Vec<u64>) {
        let columns = self.column + 1;
        let rows = self.cells.chunks(CELLS).take(self.row + 1);
        let cells = rows.flat_map(|r| r[..columns].iter().copied()).collect();
        (1 << self.wide, 1 << self.tall, columns, cells)
    }
}
