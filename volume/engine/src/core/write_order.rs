//! Which writes are in flight, and which came since a read began. So a read that a write overtook
//! puts no old bytes into RAM.

use std::collections::VecDeque;

use seekless_block::Extent;

/// Ended writes kept for reads in flight. Reads older than the first of them count as overtaken.
const KEPT: usize = 4096;

/// A point in the order of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(u64);

/// Writes in order of arrival.
#[derive(Debug)]
pub(crate) struct WriteLog {
    /// Mark of the front entry.
    base: u64,
    entries: VecDeque<Extent>,
    /// Writes that have not ended. A write may wait behind many others, so it has a list of its own.
    open: Vec<(Mark, Extent)>,
}

impl WriteLog {
    pub(crate) fn new() -> Self {
        Self { base: 0, entries: VecDeque::with_capacity(KEPT + 1), open: Vec::with_capacity(256) }
    }

    /// A write arrives. The write may take effect at any moment until [`Self::end`] with the
    /// returned mark.
    pub(crate) fn begin(&mut self, extent: Extent) -> Mark {
        let mark = self.now();
        self.open.push((mark, extent));
        self.entries.push_back(extent);
        self.trim();
        mark
    }

    pub(crate) fn end(&mut self, mark: Mark) {
        if let Ok(at) = self.open.binary_search_by_key(&mark, |open| open.0) {
            self.open.remove(at);
        }
        self.trim();
    }

    /// Drops ended writes from the front, beyond those kept. An open write is never dropped.
    fn trim(&mut self) {
        let oldest = self.mark();
        while self.entries.len() > KEPT && Mark(self.base) < oldest {
            self.entries.pop_front();
            self.base += 1;
        }
    }

    /// The mark after all writes.
    pub(crate) fn now(&self) -> Mark {
        Mark(self.base + self.entries.len() as u64)
    }

    /// A read takes this mark when it begins: before every write that has not ended.
    pub(crate) fn mark(&self) -> Mark {
        self.open.first().map_or(self.now(), |open| open.0)
    }

    /// Whether a write other than `except` since `mark` overlaps the extent. True if that is not
    /// known any more.
    pub(crate) fn touched(&self, mark: Mark, extent: Extent, except: Option<Mark>) -> bool {
        let Some(from) = mark.0.checked_sub(self.base) else { return true };
        self.entries
            .iter()
            .enumerate()
            .skip(from as usize)
            .any(|(i, e)| e.overlaps(extent) && except != Some(Mark(self.base + i as u64)))
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
        let others =
            since.filter(|(i, e)| e.overlaps(extent) && except != Mark(self.base + *i as u64));
        Some(others.map(|(_, e)| *e).collect())
    }

    /// The writes in flight, newest first.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = (Mark, Extent)> + '_ {
        self.open.iter().rev().copied()
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether a write in flight overlaps the extent.
    pub(crate) fn open_overlaps(&self, extent: Extent) -> bool {
        self.in_flight().any(|(_, e)| e.overlaps(extent))
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
        let read = log.mark();
        assert!(!log.touched(read, Extent::new(0, 8), None));
        assert!(log.touched(read, Extent::new(104, 8), None));
        assert!(!log.touched(read, Extent::new(104, 8), Some(open)));
        assert!(log.open_overlaps(Extent::new(107, 1)));
        log.end(open);
        assert!(log.touched(read, Extent::new(104, 8), None), "it ended after the read began");
        log.begin(Extent::new(200, 8));
        assert!(log.touched(read, Extent::new(200, 1), None));
        assert!(!log.touched(read, Extent::new(300, 1), None));
    }

    #[test]
    fn forgotten_writes_count_as_touching_and_open_ones_are_never_forgotten() {
        let mut log = WriteLog::new();
        let read = log.mark();
        let stuck = log.begin(Extent::new(0, 1));
        for i in 0..2 * KEPT as u64 {
            let w = log.begin(Extent::new(1000 + i, 1));
            log.end(w);
        }
        assert!(log.open_overlaps(Extent::new(0, 1)));
        log.end(stuck);
        assert!(log.touched(read, Extent::new(999_999, 1), None), "its writes were dropped");
        assert!(log.entries.len() <= KEPT);
    }
}
