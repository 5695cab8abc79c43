//! The knowledge of the clairvoyant policy, which is compared with the adaptive policy. The
//! mechanism is the same, with two differences. A page is worth a read if the next requests read
//! the page. The trail accepts only pages that are read again.

use rustc_hash::FxHashMap;

/// Reads to come, by page.
#[derive(Clone, Debug, Default)]
pub struct Foreseen {
    soon: FxHashMap<u64, u32>,
    left: FxHashMap<u64, u32>,
}

impl Foreseen {
    /// A read of a page is somewhere ahead.
    pub fn is_ahead(&mut self, page: u64) {
        *self.left.entry(page).or_default() += 1;
    }

    /// A read of a page is among the next requests now.
    pub fn is_near(&mut self, page: u64) {
        *self.soon.entry(page).or_default() += 1;
    }

    /// A read of a page is asked now.
    pub fn is_asked(&mut self, page: u64) {
        for reads in [&mut self.soon, &mut self.left] {
            if let Some(n) = reads.get_mut(&page) {
                *n -= 1;
                if *n == 0 {
                    reads.remove(&page);
                }
            }
        }
    }

    /// 1 if the page is read soon, else 0.
    pub(super) fn probability(&self, page: u64) -> f32 {
        if self.soon.contains_key(&page) { 1.0 } else { 0.0 }
    }

    pub(super) fn is_read_again(&self, page: u64) -> bool {
        self.left.contains_key(&page)
    }
}
