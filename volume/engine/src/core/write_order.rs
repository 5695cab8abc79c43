//! Which writes are in flight, and which ended since a read began. So a read that a write overtook
//! puts no old bytes into RAM.

use std::collections::VecDeque;

use seekless_block::Extent;

/// Ended writes that are kept for reads in flight. A read that is older counts as overtaken.
const KEPT: usize = 4096;

/// A write, by its number in the order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(u64);

/// A moment, by the number of writes that had ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Since(u64);

/// Writes in flight in order of arrival, and ended writes in the order of their ends. So a write
/// that hangs keeps no other write in memory.
#[derive(Debug)]
pub(crate) struct WriteLog {
    /// Number of writes that have begun.
    begun: u64,
    open: Vec<(Mark, Extent)>,
    ended: VecDeque<(Mark, Extent)>,
    /// Number of ended writes that are no longer kept.
    forgotten: u64,
}

impl WriteLog {
    pub(crate) fn new() -> Self {
        let (open, ended) = (Vec::with_capacity(256), VecDeque::with_capacity(KEPT));
        Self { begun: 0, open, ended, forgotten: 0 }
    }

    /// A write arrives. The write may take effect at any moment until [`Self::end`] with the
    /// returned mark.
    pub(crate) fn begin(&mut self, extent: Extent) -> Mark {
        let mark = self.now();
        self.begun += 1;
        self.open.push((mark, extent));
        mark
    }

    pub(crate) fn end(&mut self, mark: Mark) {
        let Ok(at) = self.open.binary_search_by_key(&mark, |open| open.0) else { return };
        let write = self.open.remove(at);
        if self.ended.len() == KEPT {
            self.ended.pop_front();
            self.forgotten += 1;
        }
        self.ended.push_back(write);
    }

    /// The mark after all writes.
    pub(crate) const fn now(&self) -> Mark {
        Mark(self.begun)
    }

    /// The moment that a read or a write takes when it begins.
    pub(crate) fn since(&self) -> Since {
        Since(self.forgotten + self.ended.len() as u64)
    }

    /// Writes other than `except` that overlap the extent, and may have taken effect after `since`:
    /// they are in flight now, or have ended after it. `None` if some of them are forgotten.
    fn others(
        &self,
        since: Since,
        extent: Extent,
        except: Option<Mark>,
    ) -> Option<impl Iterator<Item = Extent> + '_> {
        let from = since.0.checked_sub(self.forgotten)?;
        let all = self.ended.iter().skip(from as usize).chain(&self.open);
        let others = all.filter(move |(mark, e)| e.overlaps(extent) && except != Some(*mark));
        Some(others.map(|(_, e)| *e))
    }

    /// Whether a write other than `except` may have changed the extent after `since`. True if that
    /// is not known any more.
    pub(crate) fn touched(&self, since: Since, extent: Extent, except: Option<Mark>) -> bool {
        self.others(since, extent, except).is_none_or(|mut others| others.next().is_some())
    }

    /// The writes other than `except` that may have changed the extent after `since`; `None` if
    /// some are forgotten.
    pub(crate) fn overlapping(
        &self,
        since: Since,
        extent: Extent,
        except: Mark,
    ) -> Option<Vec<Extent>> {
        self.others(since, extent, Some(except)).map(Iterator::collect)
    }

    /// The writes in flight, newest first.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = (Mark, Extent)> + '_ {
        self.open.iter().rev().copied()
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

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
        let read = log.since();
        assert!(!log.touched(read, Extent::new(0, 8), None));
        assert!(log.touched(read, Extent::new(104, 8), None));
        assert!(!log.touched(read, Extent::new(104, 8), Some(open)));
        assert!(log.open_overlaps(Extent::new(107, 1)));
        log.end(open);
        assert!(log.touched(read, Extent::new(104, 8), None), "it ended after the read began");
        assert!(!log.touched(read, Extent::new(104, 8), Some(open)));
        assert!(!log.touched(log.since(), Extent::new(104, 8), None), "a later read");
        let later = log.begin(Extent::new(200, 8));
        assert!(log.touched(read, Extent::new(200, 1), None));
        assert!(!log.touched(read, Extent::new(300, 1), None));
        assert_eq!(
            log.overlapping(read, Extent::new(0, 300), later),
            Some(vec![Extent::new(100, 8)])
        );
    }

    /// The first write hangs.
    #[test]
    fn forgotten_writes_count_as_touching_and_open_ones_are_never_forgotten() {
        let mut log = WriteLog::new();
        let read = log.since();
        let stuck = log.begin(Extent::new(0, 1));
        for i in 0..2 * KEPT as u64 {
            let w = log.begin(Extent::new(1000 + i, 1));
            log.end(w);
        }
        assert!(log.ended.len() <= KEPT, "a write that hangs keeps others in memory");
        assert!(log.open_overlaps(Extent::new(0, 1)));
        // What ended before a read began is no concern of the read.
        let later = log.since();
        assert!(!log.touched(later, Extent::new(1000, 1), None));
        assert!(log.touched(later, Extent::new(0, 1), None));
        log.end(stuck);
        assert!(log.touched(later, Extent::new(0, 1), None));
        assert!(log.touched(read, Extent::new(999_999, 1), None), "its writes were dropped");
        assert!(log.overlapping(read, Extent::new(999_999, 1), stuck).is_none());
        assert!(log.ended.len() <= KEPT);
    }

    /// Which writes touched an extent, by times of arrival and end: the simplest way to say so.
    #[test]
    fn it_agrees_with_a_naive_twin() {
        let mut log = WriteLog::new();
        let (mut open, mut all, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        let mut random = 1u64;
        for now in 0..3000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (what, at) = (random >> 60, (random >> 40) % 64);
            let extent = Extent::new(at, 1 + (random >> 50) % 4);
            match what {
                0..6 => {
                    open.push((log.begin(extent), all.len()));
                    all.push((extent, u64::MAX));
                }
                6..12 if !open.is_empty() => {
                    let (mark, i): (Mark, usize) = open.swap_remove(at as usize % open.len());
                    log.end(mark);
                    all[i].1 = now;
                }
                _ => reads.push((log.since(), now)),
            }
            for &(since, began) in reads.iter().rev().take(8) {
                let overtaken = all.iter().any(|(e, ended)| *ended > began && e.overlaps(extent));
                assert_eq!(log.touched(since, extent, None), overtaken, "at {now}");
            }
        }
    }
}
