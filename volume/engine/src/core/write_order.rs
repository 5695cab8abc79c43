//! Which writes are in flight, and which came since a read began. So a read that a write overtook
//! puts no old bytes into RAM.

use std::collections::VecDeque;

use seekless_block::Extent;

/// Ended writes kept for reads in flight. Reads older than the first of them count as overtaken.
const KEPT: usize = 4096;

/// A point in the order of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(u64);

#[derive(Debug)]
struct Entry {
    extent: Extent,
    open: bool,
}

/// Writes in order of arrival.
#[derive(Debug)]
pub(crate) struct WriteLog {
    /// Mark of the front entry.
    base: u64,
    entries: VecDeque<Entry>,
}

impl WriteLog {
    pub(crate) fn new() -> Self {
        Self { base: 0, entries: VecDeque::with_capacity(KEPT + 1) }
    }

    /// A write arrives. The write may take effect at any moment until [`Self::end`] with the
    /// returned mark.
    pub(crate) fn begin(&mut self, extent: Extent) -> Mark {
        let mark = Mark(self.base + self.entries.len() as u64);
        self.entries.push_back(Entry { extent, open: true });
        self.trim();
        mark
    }

    /// The write has ended.
    pub(crate) fn end(&mut self, mark: Mark) {
        if let Some(e) =
            mark.0.checked_sub(self.base).and_then(|i| self.entries.get_mut(i as usize))
        {
            e.open = false;
        }
        self.trim();
    }

    /// Drops ended writes from the front, beyond those kept. An open write is never dropped.
    fn trim(&mut self) {
        while self.entries.len() > KEPT && self.entries.front().is_some_and(|e| !e.open) {
            self.entries.pop_front();
            self.base += 1;
        }
    }

    /// A read takes this mark when it begins: before every write that has not ended.
    pub(crate) fn mark(&self, open_writes: usize) -> Mark {
        if open_writes == 0 {
            return Mark(self.base + self.entries.len() as u64);
        }
        let mut left = open_writes;
        // From the back: writes in flight are recent.
        for (i, e) in self.entries.iter().enumerate().rev() {
            left -= usize::from(e.open);
            if left == 0 {
                return Mark(self.base + i as u64);
            }
        }
        Mark(self.base)
    }

    /// Whether a write other than `except` since `mark` overlaps the extent. True if that is not
    /// known any more.
    pub(crate) fn touched(&self, mark: Mark, extent: Extent, except: Option<Mark>) -> bool {
        let Some(from) = mark.0.checked_sub(self.base) else { return true };
        self.entries
            .iter()
            .enumerate()
            .skip(from as usize)
            .any(|(i, e)| e.extent.overlaps(extent) && except != Some(Mark(self.base + i as u64)))
    }

    /// The writes other than `except` since `mark` that overlap the extent; `None` if some are
    /// forgotten.
    pub(crate) fn overlapping(
        &self,
        mark: Mark,
        extent: Extent,
        except: Mark,
    ) -> Option<Vec<Extent>> {
        let from = mark.0.checked_sub(self.base)?;
        let since = self.entries.iter().enumerate().skip(from as usize);
        let others = since
            .filter(|(i, e)| e.extent.overlaps(extent) && except != Mark(self.base + *i as u64));
        Some(others.map(|(_, e)| e.extent).collect())
    }

    /// The writes in flight.
    pub(crate) fn open(&self, open_writes: usize) -> impl Iterator<Item = Extent> + '_ {
        self.entries.iter().rev().filter(|e| e.open).map(|e| e.extent).take(open_writes)
    }

    /// Whether a write in flight overlaps the extent.
    pub(crate) fn open_overlaps(&self, extent: Extent, open_writes: usize) -> bool {
        let mut left = open_writes;
        for e in self.entries.iter().rev() {
            if left == 0 {
                break;
            }
            if e.open {
                left -= 1;
                if e.extent.overlaps(extent) {
                    return true;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_touched_by_writes_in_flight_and_by_later_ones_but_not_by_earlier_ones() {
        let mut log = WriteLog::new();
        let ended = log.begin(Extent::new(0, 8));
        let open = log.begin(Extent::new(100, 8));
        log.end(ended);
        let read = log.mark(1);
        assert!(!log.touched(read, Extent::new(0, 8), None));
        assert!(log.touched(read, Extent::new(104, 8), None));
        assert!(!log.touched(read, Extent::new(104, 8), Some(open)));
        assert!(log.open_overlaps(Extent::new(107, 1), 1));
        log.end(open);
        assert!(log.touched(read, Extent::new(104, 8), None), "it ended after the read began");
        log.begin(Extent::new(200, 8));
        assert!(log.touched(read, Extent::new(200, 1), None));
        assert!(!log.touched(read, Extent::new(300, 1), None));
    }

    #[test]
    fn forgotten_writes_count_as_touching_and_open_ones_are_never_forgotten() {
        let mut log = WriteLog::new();
        let read = log.mark(0);
        let stuck = log.begin(Extent::new(0, 1));
        for i in 0..2 * KEPT as u64 {
            let w = log.begin(Extent::new(1000 + i, 1));
            log.end(w);
        }
        assert!(log.open_overlaps(Extent::new(0, 1), 1));
        log.end(stuck);
        assert!(log.touched(read, Extent::new(999_999, 1), None), "its writes were dropped");
        assert!(log.entries.len() <= KEPT);
    }
}
