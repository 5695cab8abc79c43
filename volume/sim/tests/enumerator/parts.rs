//! A file system whose blocks are shorter than a page: several requests to parts of one page at a
//! time.

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use seekless_block::{Op, PAGE_SECTORS};

use super::history::HistoryStep;
use super::machine::Setup;

/// A block of a file system, in sectors.
const BLOCK: u64 = 2;

/// The history of a file system with blocks shorter than a page.
pub(super) struct Parts<'a> {
    pub(super) rng: &'a mut Pcg64Mcg,
    grid: u64,
    pages: u64,
    /// Pages around which most requests fall.
    hot: [u64; 3],
}

impl<'a> Parts<'a> {
    pub(super) fn new(rng: &'a mut Pcg64Mcg, setup: &Setup) -> Self {
        let (grid, pages) = (setup.grid, (setup.home - setup.grid) / PAGE_SECTORS);
        let hot = std::array::from_fn(|_| rng.random_range(0..pages));
        Self { rng, grid, pages, hot }
    }

    fn page(&mut self) -> u64 {
        let hot = self.hot[self.rng.random_range(0..self.hot.len())];
        if self.rng.random_ratio(1, 8) { self.rng.random_range(0..self.pages) } else { hot }
    }

    /// Blocks from a position in a page on: most often fewer than the rest of the page.
    fn blocks(&mut self) -> (u64, u64) {
        let first = self.page() * PAGE_SECTORS / BLOCK + self.rng.random_range(0..4);
        let most = if self.rng.random_ratio(1, 4) { 24 } else { 4 };
        let count = self.rng.random_range(1..=most);
        let all = self.pages * PAGE_SECTORS / BLOCK;
        (self.grid + first * BLOCK, count.min(all - first) * BLOCK)
    }

    pub(super) fn steps(&mut self, steps: &mut Vec<HistoryStep>) {
        let ask = |op, (start, len)| HistoryStep::Ask { op, start, len, fua: false };
        let grid = self.grid;
        let page = |at: u64| (grid + at * PAGE_SECTORS, PAGE_SECTORS);
        match self.rng.random_range(0..24) {
            // Several at once, without waiting for any.
            0..8 => {
                for _ in 0..self.rng.random_range(1..5) {
                    let op =
                        [Op::Write, Op::Write, Op::Write, Op::WriteZeroes, Op::Discard, Op::Read]
                            [self.rng.random_range(0..6)];
                    let at = self.blocks();
                    steps.push(ask(op, at));
                }
            }
            8..11 => {
                let (start, len) = page(self.page());
                let pages = self
                    .rng
                    .random_range(1..6)
                    .min(self.pages - (start - self.grid) / PAGE_SECTORS);
                let op = [Op::WriteZeroes, Op::Discard][self.rng.random_range(0..2)];
                steps.push(ask(op, (start, len * pages)));
            }
            11..14 => {
                let place = self.page();
                let home = self.rng.random_range(0..self.pages);
                let many = self.rng.random_range(1..5).min(self.pages - home);
                steps.push(HistoryStep::Replicate(vec![(place, vec![(home, many)])]));
            }
            14 | 15 => steps.push(ask(Op::Flush, (0, 0))),
            16..20 => {
                for _ in 0..self.rng.random_range(1..12) {
                    steps.push(HistoryStep::Execute(self.rng.random_range(0..64)));
                }
            }
            20 => steps.push(HistoryStep::Settle(self.rng.random())),
            21 => steps.push(HistoryStep::Pass),
            22 if self.rng.random_ratio(1, 3) => {
                steps.push(HistoryStep::Kill { choice: self.rng.random() });
            }
            22 => steps.push(HistoryStep::Pass),
            // New hot pages.
            _ => self.hot[self.rng.random_range(0..3)] = self.rng.random_range(0..self.pages),
        }
    }
}
