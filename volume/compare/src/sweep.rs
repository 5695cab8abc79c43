//! A grid of simulations over one trace. The trace is read once, into memory. Workers take cell
//! after cell, and each cell is the same call as a single simulation: so are its numbers.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use seekless_trace::{Progress, Source};

use crate::error::StudyError;
use crate::outcome::Outcome;
use crate::rolling::{RollingStage, threads};
use crate::settings::Cell;
use crate::simulate::{Options, simulate};

/// Time between two reports of progress.
const REPORT: Duration = Duration::from_millis(100);

/// Progress is counted in these parts of a cell.
const PARTS: u64 = 1000;

/// Simulates every cell, on `workers` threads; none = one per processor. The outcomes have the
/// order of the cells, whatever the order of work, and hold no raw measurements. All cells read the
/// trace with the options of the first one. The first failure ends the sweep. `progress` is called
/// from time to time, by the caller's thread.
pub fn sweep(
    source: &Source,
    cells: &[Cell],
    workers: Option<NonZero<usize>>,
    progress: &mut dyn FnMut(RollingStage, Progress),
) -> Result<Vec<Outcome>, StudyError> {
    let Some(first) = cells.first() else { return Ok(Vec::new()) };
    let open = first.options.rolling.open;
    let held = source.hold(&open, &mut |at| progress(RollingStage::Scan, at))?;
    let work =
        SweepWork { source: &held, cells, next: AtomicUsize::new(0), done: AtomicU64::new(0) };
    let (send, receive) = channel();
    let mut outcomes: Vec<_> = cells.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let workers = threads(workers).min(cells.len());
        let share = NonZero::new(if workers == 1 { threads(None) } else { 1 });
        for _ in 0..workers {
            let (send, work) = (send.clone(), &work);
            scope.spawn(move || work.run(share, &send));
        }
        drop(send);
        let total = cells.len() as u64 * PARTS;
        loop {
            match receive.recv_timeout(REPORT) {
                Ok((index, outcome)) => outcomes[index] = Some(outcome),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let read = work.done.load(Ordering::Relaxed).min(total);
            progress(RollingStage::Run, Progress { read, total });
        }
    });
    // Without a failure every cell has its outcome; cells after a failure have none.
    outcomes.into_iter().flatten().collect()
}

struct SweepWork<'a> {
    source: &'a Source,
    cells: &'a [Cell],
    next: AtomicUsize,
    /// In parts of cells.
    done: AtomicU64,
}

type Answer = (usize, Result<Outcome, StudyError>);

impl SweepWork<'_> {
    fn run(&self, threads: Option<NonZero<usize>>, send: &Sender<Answer>) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = self.cells.get(index) else { return };
            let outcome = self.one(cell, threads);
            let failed = outcome.is_err();
            // The receiver outlives all workers.
            let _ = send.send((index, outcome));
            if failed {
                // No worker begins another cell.
                return self.next.store(self.cells.len(), Ordering::Relaxed);
            }
        }
    }

    fn one(&self, cell: &Cell, threads: Option<NonZero<usize>>) -> Result<Outcome, StudyError> {
        let mut options = Options::clone(&cell.options);
        options.rolling.threads = threads;
        let mut counted = 0;
        let outcome = simulate(self.source, &options, &mut |stage, at| {
            if stage == RollingStage::Run {
                let parts = at.read.saturating_mul(PARTS) / at.total.max(1);
                self.done.fetch_add(parts.saturating_sub(counted), Ordering::Relaxed);
                counted = counted.max(parts);
            }
        });
        self.done.fetch_add(PARTS.saturating_sub(counted), Ordering::Relaxed);
        let outcome = outcome.map_err(|e| match cell.settings.is_empty() {
            true => e,
            false => StudyError::Cell { settings: cell.name(), source: Box::new(e) },
        })?;
        Ok(Outcome { measured: Vec::new(), ..outcome })
    }
}
