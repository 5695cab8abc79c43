//! Ghosts: candidate pages that the policy did not read. The policy watches each ghost as long as a
//! page stays in RAM, to learn whether a read of the ghost would have saved a miss.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::features::Features;

/// Ghosts at a time.
const MOST: usize = 1 << 14;
/// Pages of a part of the disk, and counters of parts. Most parts have no ghost, and no page there
/// need be searched.
const PART: u64 = 64;
const PARTS: u32 = 1 << 15;
/// Shortest time that a ghost is watched, in insertions and touches of RAM.
const LIFETIME_MIN: f32 = 2048.0;

/// Ghosts in the order of their age.
#[derive(Debug)]
pub(super) struct Ghosts {
    watched: VecDeque<(u64, u32, Features)>,
    /// By page, the number of its ghost.
    by_page: FxHashMap<u64, u64>,
    /// By part of the disk, the pages that are watched there: several parts share a counter.
    near: Vec<u16>,
    /// Number of the oldest.
    first: u64,
    /// Mean age of a page of RAM when it is evicted.
    lifetime: f32,
}

impl Ghosts {
    pub(super) fn new() -> Self {
        let mut by_page = FxHashMap::default();
        by_page.reserve(2 * MOST);
        let watched = VecDeque::with_capacity(MOST);
        let near = vec![0; PARTS as usize];
        Self { watched, by_page, near, first: 0, lifetime: LIFETIME_MIN }
    }

    /// The counter of a page's part. The multiplier is 2^64 divided by the golden ratio.
    fn near(&mut self, page: u64) -> &mut u16 {
        let hash = (page / PART).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &mut self.near[(hash >> (u64::BITS - PARTS.ilog2())) as usize]
    }

    pub(super) fn evicted(&mut self, age: u32) {
        self.lifetime += 0.01 * (age as f32 - self.lifetime);
    }

    /// Watches a page from now on, unless it is watched already.
    pub(super) fn watch(&mut self, page: u64, now: u32, features: Features) {
        if self.watched.len() < MOST && !self.by_page.contains_key(&page) {
            *self.near(page) += 1;
            self.by_page.insert(page, self.first + self.watched.len() as u64);
            self.watched.push_back((page, now, features));
        }
    }

    /// The page is no ghost any more: its features, if it was one.
    pub(super) fn take(&mut self, page: u64) -> Option<Features> {
        // Long reads and writes ask for many pages.
        if *self.near(page) == 0 {
            return None;
        }
        let number = self.by_page.remove(&page)?;
        *self.near(page) -= 1;
        self.watched.get((number - self.first) as usize).map(|ghost| ghost.2)
    }

    /// A ghost that nobody missed in its time.
    pub(super) fn expired(&mut self, now: u32) -> Option<Features> {
        let lifetime = self.lifetime.max(LIFETIME_MIN) as u32;
        loop {
            let &(page, born, features) = self.watched.front()?;
            let is_ghost = self.by_page.get(&page) == Some(&self.first);
            if is_ghost && now.wrapping_sub(born) <= lifetime {
                return None;
            }
            self.watched.pop_front();
            self.first += 1;
            if is_ghost {
                self.by_page.remove(&page);
                *self.near(page) -= 1;
                return Some(features);
            }
        }
    }
}
