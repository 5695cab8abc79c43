//! The knowledge of the clairvoyant policy, which is compared with the adaptive policy. The
//! mechanism is the same, with two differences. A page is worth a read if the next requests read
//! the page. The trail accepts only pages that are read again.

use rustc_hash::FxHashMap;

/// Reads to come, by page.
#[derive(Clone, Debug, Default)]
pub struct Foreseen {
    soon: FxHashMap<u64, u32>,
    /// The first read of each page, a bit for each of 64 pages: most pages of a trace are read once.
    first: FxHashMap<u64, u64>,
    /// Reads behind the first, by page.
    more: FxHashMap<u64, u32>,
}

/// The page's word in `first`, and its bit there.
const fn bit(page: u64) -> (u64, u64) {
    (page / 64, 1 << (page % 64))
}

fn count_down(reads: &mut FxHashMap<u64, u32>, page: u64) {
    if let Some(n) = reads.get_mut(&page) {
        *n -= 1;
        if *n == 0 {
            reads.remove(&page);
        }
    }
}

impl Foreseen {
    /// A read of a page is somewhere ahead.
    pub fn is_ahead(&mut self, page: u64) {
        let (at, bit) = bit(page);
        let first = self.first.entry(at).or_default();
        if *first & bit == 0 {
            *first |= bit;
        } else {
            *self.more.entry(page).or_default() += 1;
        }
    }

    /// A read of a page is among the next requests now.
    pub fn is_near(&mut self, page: u64) {
        *self.soon.entry(page).or_default() += 1;
    }

    /// A read of a page is asked now.
    pub fn is_asked(&mut self, page: u64) {
        count_down(&mut self.soon, page);
        let (at, bit) = bit(page);
        match self.first.get_mut(&at) {
            Some(first) if *first & bit != 0 => *first &= !bit,
            _ => count_down(&mut self.more, page),
        }
    }

    /// 1 if the page is read soon, else 0.
    pub(super) fn probability(&self, page: u64) -> f32 {
        if self.soon.contains_key(&page) { 1.0 } else { 0.0 }
    }

    pub(super) fn is_read_again(&self, page: u64) -> bool {
        let (at, bit) = bit(page);
        self.first.get(&at).is_some_and(|first| first & bit != 0) || self.more.contains_key(&page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_again_as_often_as_it_is_ahead() {
        let mut foreseen = Foreseen::default();
        let mut counts = FxHashMap::<u64, u32>::default();
        // Squares modulo a prime: some pages are read once, some often.
        let pages: Vec<u64> = (0..2_000).map(|i| i * i % 1_009 * (i % 7)).collect();
        for &page in &pages {
            foreseen.is_ahead(page);
            *counts.entry(page).or_default() += 1;
        }
        for &page in pages.iter().rev() {
            assert!(foreseen.is_read_again(page), "page {page}");
            foreseen.is_asked(page);
            count_down(&mut counts, page);
            assert_eq!(foreseen.is_read_again(page), counts.contains_key(&page), "page {page}");
        }
    }

    #[test]
    fn pages_that_are_read_once_share_their_words() {
        let mut foreseen = Foreseen::default();
        (0..6_400).for_each(|page| foreseen.is_ahead(page));
        assert_eq!((foreseen.first.len(), foreseen.more.len()), (100, 0));
    }
}
