//! Which pages were read: the kernel says which pages a thread adds to the page cache, and then
//! which reads that thread sends to the disk. Pages that are added to be written, or to be zeroed,
//! are followed by no read, and are forgotten.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// Most ranges of a thread that wait for their read.
const RANGES: usize = 1024;
/// Most threads that are remembered.
const THREADS: usize = 512;

/// Pages in a row of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Inode number, or [`crate::DEVICE`].
    pub file: u64,
    /// The first page.
    pub first: u64,
    /// The number of pages.
    pub count: u64,
}

/// The pages that wait for their read, by thread.
#[derive(Debug, Default)]
pub struct Fills(FxHashMap<u32, Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    ranges: VecDeque<Pages>,
    /// A read was sent since the last page was added. What is older than that is not read any more.
    reading: bool,
}

impl Fills {
    /// A thread has added pages.
    pub fn added(&mut self, thread: u32, pages: Pages) {
        if self.0.len() >= THREADS && !self.0.contains_key(&thread) {
            self.0.clear();
        }
        let of_thread = self.0.entry(thread).or_default();
        if std::mem::take(&mut of_thread.reading) {
            of_thread.ranges.clear();
        }
        let waiting = &mut of_thread.ranges;
        if let Some(last) = waiting.back_mut()
            && last.file == pages.file
            && last.first.checked_add(last.count) == Some(pages.first)
        {
            last.count = last.count.saturating_add(pages.count);
            return;
        }
        if waiting.len() >= RANGES {
            waiting.pop_front();
        }
        waiting.push_back(pages);
    }

    /// A thread has sent a read of `count` pages: the newest pages that it added. `each` receives
    /// them, the newest first. Older ones stay, for further reads of the same batch.
    pub fn sent(&mut self, thread: u32, count: u64, mut each: impl FnMut(Pages)) {
        let Some(of_thread) = self.0.get_mut(&thread) else { return };
        of_thread.reading = true;
        let waiting = &mut of_thread.ranges;
        let mut rest = count;
        while rest > 0 {
            let Some(last) = waiting.back_mut() else { break };
            if last.count > rest {
                last.count -= rest;
                each(Pages { first: last.first + last.count, count: rest, ..*last });
                return;
            }
            rest -= last.count;
            each(*last);
            waiting.pop_back();
        }
        if waiting.is_empty() {
            self.0.remove(&thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(fills: &mut Fills, thread: u32, count: u64) -> Vec<(u64, u64, u64)> {
        let mut all = Vec::new();
        fills.sent(thread, count, |p| all.push((p.file, p.first, p.count)));
        all
    }

    #[test]
    fn a_read_confirms_the_newest_pages_of_its_thread() {
        let mut fills = Fills::default();
        let pages = |file, first, count| Pages { file, first, count };
        fills.added(1, pages(5, 0, 4)); // a write: nobody reads it
        fills.added(1, pages(6, 8, 2));
        fills.added(1, pages(6, 10, 2));
        fills.added(2, pages(9, 1, 1));
        assert_eq!(sent(&mut fills, 3, 4), []);
        assert_eq!(sent(&mut fills, 1, 3), [(6, 9, 3)]);
        assert_eq!(sent(&mut fills, 1, 1), [(6, 8, 1)]);
        fills.added(1, pages(7, 0, 1));
        assert_eq!(sent(&mut fills, 1, 9), [(7, 0, 1)], "the write is older than the last read");
        assert_eq!(sent(&mut fills, 2, 1), [(9, 1, 1)]);
        assert_eq!(sent(&mut fills, 2, 1), []);
    }

    #[test]
    fn what_is_never_read_takes_bounded_memory() {
        let mut fills = Fills::default();
        for i in 0..10_000 {
            fills.added(1, Pages { file: 1, first: i * 2, count: 1 });
            fills.added(i as u32 + 2, Pages { file: 1, first: 0, count: u64::MAX });
            fills.added(i as u32 + 2, Pages { file: 1, first: u64::MAX, count: u64::MAX });
        }
        assert!(fills.0.len() <= THREADS && fills.0.values().all(|w| w.ranges.len() <= RANGES));
        assert!(sent(&mut fills, 10_001, u64::MAX).len() <= 2);
    }
}
