//! Which slot of RAM holds a page: a table of slots with open addressing. Eight pages that follow each
//! other have places beside each other, so that one look serves eight. It never allocates after its
//! construction. And the order of use of the slots, which are linked among themselves.

/// An entry of a slot.
pub(super) trait Keyed {
    /// The page that it is found by.
    fn key(&self) -> u64;
    fn neighbours(&mut self) -> &mut Neighbours;
}

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// The slots that were used before and after a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbours {
    pub(super) older: u32,
    newer: u32,
}

impl Neighbours {
    pub(super) const NONE: Self = Self { older: NONE, newer: NONE };
}

/// The ends of the list of slots in the order of use.
#[derive(Debug)]
pub(super) struct UseOrder {
    pub(super) newest: u32,
    pub(super) oldest: u32,
}

impl UseOrder {
    pub(super) const EMPTY: Self = Self { newest: NONE, oldest: NONE };

    pub(super) fn push(&mut self, slot: u32, slots: &mut [impl Keyed]) {
        let older = std::mem::replace(&mut self.newest, slot);
        *slots[slot as usize].neighbours() = Neighbours { older, newer: NONE };
        match older {
            NONE => self.oldest = slot,
            older => slots[older as usize].neighbours().newer = slot,
        }
    }

    pub(super) fn remove(&mut self, slot: u32, slots: &mut [impl Keyed]) {
        let Neighbours { older, newer } = *slots[slot as usize].neighbours();
        match newer {
            NONE => self.newest = older,
            newer => slots[newer as usize].neighbours().older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => slots[older as usize].neighbours().newer = newer,
        }
    }
}

const EMPTY: u32 = u32::MAX;
/// Entries for each slot: searches stay short.
const SPARE: usize = 4;

#[derive(Debug)]
pub(super) struct RamIndex {
    /// A power of two, and at least eight.
    table: Vec<u32>,
    /// Bits by which a hash is shifted to become the number of a group of eight entries.
    shift: u32,
}

impl RamIndex {
    pub(super) fn new(slots: u32) -> Self {
        let groups = (slots as usize * SPARE).div_ceil(8).next_power_of_two().max(2);
        Self { table: vec![EMPTY; groups * 8], shift: u64::BITS - groups.ilog2() }
    }

    /// The place of the first of eight pages. The multiplier is 2^64 divided by the golden ratio
    /// (Knuth 6.4).
    const fn group(&self, page: u64) -> usize {
        ((page >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize * 8
    }

    const fn start(&self, page: u64) -> usize {
        self.group(page) + (page & 7) as usize
    }

    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.table.len() - 1)
    }

    /// Searches from an entry on.
    fn look(&self, mut at: usize, page: u64, slots: &[impl Keyed]) -> Option<u32> {
        loop {
            let slot = self.table[at];
            if slot == EMPTY {
                return None;
            }
            if slots[slot as usize].key() == page {
                return Some(slot);
            }
            at = self.next(at);
        }
    }

    pub(super) fn find(&self, page: u64, slots: &[impl Keyed]) -> Option<u32> {
        self.look(self.start(page), page, slots)
    }

    /// The slots of a page that eight divides and of the seven behind it.
    pub(super) fn find_eight(&self, first: u64, slots: &[impl Keyed]) -> [Option<u32>; 8] {
        let start = self.group(first);
        let mut found = [None; 8];
        for (i, found) in found.iter_mut().enumerate() {
            // Most are empty.
            if self.table[start + i] != EMPTY {
                *found = self.look(start + i, first + i as u64, slots);
            }
        }
        found
    }

    /// The page is not in the table.
    pub(super) fn insert(&mut self, page: u64, slot: u32) {
        let mut at = self.start(page);
        while self.table[at] != EMPTY {
            at = self.next(at);
        }
        self.table[at] = slot;
    }

    /// The slot is in the table. Moves back the entries behind it that stand away from their place.
    pub(super) fn remove(&mut self, slot: u32, slots: &[impl Keyed]) {
        let mask = self.table.len() - 1;
        let mut hole = self.start(slots[slot as usize].key());
        while self.table[hole] != slot {
            hole = self.next(hole);
        }
        let mut at = self.next(hole);
        while self.table[at] != EMPTY {
            let wants = self.start(slots[self.table[at] as usize].key());
            if at.wrapping_sub(wants) & mask >= at.wrapping_sub(hole) & mask {
                self.table[hole] = self.table[at];
                hole = at;
            }
            at = self.next(at);
        }
        self.table[hole] = EMPTY;
    }
}
