//! A made-up program start: the same reads in the same order every time, scattered over the disk
//! (BORG, FAST'09, 2.3 and
//! 6.4).

use std::collections::BTreeMap;

use seekless_block::{Extent, PAGE_SECTORS, Sectors};

use super::dice::Dice;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StartUp {
    pub reads: u32,
    /// Mean sectors of a read.
    pub sectors: f64,
    /// Mean sectors from the end of one read to the start of the next.
    pub distance: f64,
    /// Size of the file system.
    pub size: Sectors,
}

/// The reads of a start in order, whole pages, no page twice. Equal seeds give equal reads; a
/// shorter start has the first of them.
pub(crate) fn start_up(like: &StartUp, seed: u64) -> Vec<Extent> {
    let mut dice = Dice::new(seed, 4);
    let pages = (like.size.0 / PAGE_SECTORS).max(1);
    let mut at = (dice.unit() * pages as f64) as u64;
    let mut reads = Vec::with_capacity(like.reads as usize);
    let mut taken = BTreeMap::new();
    for _ in 0..like.reads {
        let len = u64::from(dice.count(like.sectors / PAGE_SECTORS as f64)).min(pages);
        let far = dice.exponential(like.distance / PAGE_SECTORS as f64) as u64;
        // Backward or forward; at an end of the file system, away from that end.
        let back = dice.unit() < 0.5;
        at = match (at.checked_sub(far), at + far) {
            (Some(low), _) if back => low,
            (low, high) if high + len > pages => low.unwrap_or(0),
            (_, high) => high,
        };
        at = free(&taken, at.min(pages - len), len, pages);
        taken.insert(at, at + len);
        reads.push(Extent::new(at * PAGE_SECTORS, len * PAGE_SECTORS));
        at += len;
    }
    reads
}

/// The next free place of `len` pages from `at` on; `at` itself if there is none.
fn free(taken: &BTreeMap<u64, u64>, at: u64, len: u64, pages: u64) -> u64 {
    let mut next = at;
    for _ in 0..=taken.len() {
        match taken.range(..next + len).next_back() {
            Some((_, &end)) if end > next => next = if end + len > pages { 0 } else { end },
            _ => return next,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_have_the_requested_length_and_distance() {
        let like =
            StartUp { reads: 20_000, sectors: 37.0, distance: 90_000.0, size: Sectors(31_000_000) };
        let reads = start_up(&like, 7);
        assert_eq!(reads, start_up(&like, 7));
        assert_eq!(reads[..50], start_up(&StartUp { reads: 50, ..like }, 7));
        let mean = reads.iter().map(|e| e.len.0).sum::<u64>() as f64 / 20_000.0;
        assert!((mean / 37.0 - 1.0).abs() < 0.05, "{mean}");
        let far: u64 = reads.windows(2).map(|p| p[0].end().distance(p[1].start).0).sum();
        let far = far as f64 / 20_000.0;
        assert!((far / 90_000.0 - 1.0).abs() < 0.05, "{far}");
        assert!(reads.iter().all(|e| e.end() <= seekless_block::Lba(31_000_000)));
        let mut sorted = reads;
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|p| p[0].end() <= p[1].start), "no page is read twice");
    }
}
