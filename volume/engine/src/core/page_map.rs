//! Which home page stands in which slot of the area, and the state of that copy: an array by slot,
//! and a hash table from home back to slot. This module holds no bytes of data and knows no
//! segments.
//!
//! A slot takes nine bytes for home, state and the table's entry, one more for free space in the
//! table, and six for the checksum. All memory is allocated at construction: a running server
//! cannot lack memory for a map.

use std::ops::{Add, Range, Sub};

/// A whole page of home, counted from the first sector of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HomePage(pub u64);

/// A place for one page: first the slots of the read segments, then those of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub u32);

impl From<HomePage> for u64 {
    fn from(page: HomePage) -> Self {
        page.0
    }
}

impl Add<u64> for HomePage {
    type Output = Self;
    fn add(self, pages: u64) -> Self {
        Self(self.0 + pages)
    }
}

impl Add<u32> for Slot {
    type Output = Self;
    fn add(self, slots: u32) -> Self {
        Self(self.0 + slots)
    }
}

impl Sub for Slot {
    type Output = u32;
    /// The number of slots from `from` to this one.
    fn sub(self, from: Self) -> u32 {
        self.0 - from.0
    }
}

pub(crate) fn slots(numbers: Range<u32>) -> impl DoubleEndedIterator<Item = Slot> + Clone {
    numbers.map(Slot)
}

pub(crate) fn pages(numbers: Range<u64>) -> impl DoubleEndedIterator<Item = HomePage> + Clone {
    numbers.map(HomePage)
}

/// Home pages are numbered below this: 2^38 pages of 4 KiB are 1 PiB.
pub(crate) const HOME_PAGES_MAX: u64 = 1 << 38;

/// 48 bits that differ if the bytes of two pages differ.
pub type PageSum = u64;

/// This value replaces the sum of a copy that was written in place after its last sum. For one page
/// in 2^48 the real sum is this number: the engine uses this page without a check.
pub const UNSUMMED: PageSum = (1 << 48) - 1;

const EMPTY: u32 = u32::MAX;

/// In a full table, one entry in a hundred or fewer is farther away than five bits can tell.
const DISTANCE_BITS: u32 = 5;

/// The state of a slot's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CopyState {
    /// No copy.
    Free = 0,
    /// A copy not proven equal to home since the area was attached.
    Suspect = 1,
    /// A copy that equals home.
    Clean = 2,
    /// A copy newer than home, and the only one.
    Dirty = 3,
}

impl CopyState {
    /// Every state, in the order of its two bits.
    pub const ALL: [Self; 4] = [Self::Free, Self::Suspect, Self::Clean, Self::Dirty];

    /// The state whose number stands in the two lowest bits.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self::ALL[(bits & 3) as usize]
    }

    /// Whether the slot may answer a read.
    const fn is_served(self) -> bool {
        matches!(self, Self::Clean | Self::Dirty)
    }
}

/// The map between slots of the area and home pages. A home page stands in one slot, unless
/// [`Self::add`] gave it more.
#[derive(Debug)]
pub(crate) struct PageMap {
    /// By slot, little endian: home page in the upper 38 bits, state in the lower 2. Zero if free.
    homes: Box<[[u8; 5]]>,
    /// By slot, little endian: the sum of the page's bytes. Without meaning if free.
    sums: Box<[[u8; 6]]>,
    /// Open addressing, linear probing in Robin Hood order (Celis, 1986): entries stand in the order
    /// of the places where their searches start. From the low bits up, an entry has the slot, its
    /// distance from that place, and a part of the hash, as far as there are bits. Distance and hash
    /// rule out most other pages without a look at `homes`, which would be a cache miss each.
    table: Box<[u32]>,
    /// Bits of an entry that are the slot.
    slot_bits: u32,
    /// Bits of an entry that are the distance. All ones are this distance or a longer one.
    distance_bits: u32,
    counts: [u64; 4],
}

impl PageMap {
    /// A map of free slots, none of which is numbered `slots` or higher.
    pub(crate) fn new(slots: u32) -> Self {
        // A load of 0.8 at most, and one empty entry at least: a search always ends.
        let entries = (slots as usize + (slots as usize).div_ceil(4)).max(1);
        // All ones is no slot, so that no entry equals `EMPTY`.
        let slot_bits = u32::BITS - slots.leading_zeros();
        Self {
            homes: vec![[0; 5]; slots as usize].into(),
            sums: vec![[0; 6]; slots as usize].into(),
            table: vec![EMPTY; entries].into(),
            slot_bits,
            distance_bits: (u32::BITS - slot_bits).min(DISTANCE_BITS),
            counts: [u64::from(slots), 0, 0, 0],
        }
    }

    pub(crate) fn state(&self, slot: Slot) -> CopyState {
        CopyState::from_bits(self.word(slot))
    }

    /// The home page whose copy stands in a slot; `None` if the slot is free.
    pub(crate) fn home(&self, slot: Slot) -> Option<HomePage> {
        let word = self.word(slot);
        (CopyState::from_bits(word) != CopyState::Free).then_some(HomePage(word >> 2))
    }

    pub(crate) fn sum(&self, slot: Slot) -> PageSum {
        let [a, b, c, d, e, f] = self.sums[slot.0 as usize];
        PageSum::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }

    /// A slot in which a copy of a home page stands, whatever its state.
    pub(crate) fn find(&self, home: HomePage) -> Option<Slot> {
        self.find_all(home).next()
    }

    /// Loads the entries at which the searches for these pages begin. In a large map each of them is
    /// a cache miss: loaded here, the misses overlap; in the searches, each would wait for the one
    /// before.
    pub(crate) fn warm(&self, homes: impl Iterator<Item = HomePage>) {
        let all = homes.fold(0, |all, home| all ^ self.table[self.start(mix(home))]);
        std::hint::black_box(all);
    }

    /// All slots in which copies of a home page stand.
    pub(crate) fn find_all(&self, home: HomePage) -> impl Iterator<Item = Slot> + '_ {
        let hash = mix(home);
        let part = self.hash_part(hash as u32);
        let (mut at, mut distance) = (self.start(hash), 0);
        std::iter::from_fn(move || {
            loop {
                let entry = self.table[at];
                let (noted, here) = (self.noted(entry), self.farthest().min(distance));
                // Entries of this page would stand before one whose search starts later.
                if entry == EMPTY || noted < here {
                    return None;
                }
                at = self.next(at);
                distance += 1;
                let alike = noted == here && self.hash_part(entry) == part;
                // The table names no free slot.
                if alike && self.word(self.slot_of(entry)) >> 2 == home.0 {
                    return Some(self.slot_of(entry));
                }
            }
        })
    }

    /// The first slots of runs of `pages` slots that hold `home` and the pages after it, each of
    /// them clean or dirty.
    pub(crate) fn runs(&self, home: HomePage, pages: u32) -> impl Iterator<Item = Slot> + '_ {
        self.find_all(home).filter(move |&first| {
            let end = first.0.checked_add(pages).filter(|&end| end as usize <= self.homes.len());
            end.is_some_and(|end| {
                (first.0..end).zip(home.0..).all(|(slot, home)| {
                    let word = self.word(Slot(slot));
                    word >> 2 == home && CopyState::from_bits(word).is_served()
                })
            })
        })
    }

    /// Puts a copy of a home page into a slot. The map forgets the slot's former page, and all
    /// other slots of this page.
    ///
    /// # Panics
    /// If `state` is free or `home` is not below [`HOME_PAGES_MAX`].
    pub(crate) fn set(&mut self, slot: Slot, home: HomePage, state: CopyState, sum: PageSum) {
        let another = |map: &Self| map.find_all(home).find(|&other| other != slot);
        while let Some(other) = another(self) {
            self.clear(other);
        }
        self.add(slot, home, state, sum);
    }

    /// As [`Self::set`], but the page keeps its other slots.
    ///
    /// # Panics
    /// As [`Self::set`].
    pub(crate) fn add(&mut self, slot: Slot, home: HomePage, state: CopyState, sum: PageSum) {
        assert!(state != CopyState::Free, "a copy of {home:?} in {slot:?} cannot be free");
        assert!(home.0 < HOME_PAGES_MAX, "home page {home:?} is past the last that can be mapped");
        if self.home(slot) != Some(home) {
            self.clear(slot);
            self.insert(slot, mix(home));
        }
        self.put(slot, home.0 << 2 | state as u64);
        self.set_sum(slot, sum);
    }

    /// The sum of the bytes that now stand in a slot.
    pub(crate) fn set_sum(&mut self, slot: Slot, sum: PageSum) {
        let [a, b, c, d, e, f, ..] = sum.to_le_bytes();
        self.sums[slot.0 as usize] = [a, b, c, d, e, f];
    }

    /// Changes the state of a slot that holds a copy.
    ///
    /// # Panics
    /// If the slot is free, or `state` is: [`Self::clear`] frees it.
    pub(crate) fn set_state(&mut self, slot: Slot, state: CopyState) {
        let word = self.word(slot);
        assert!(
            CopyState::from_bits(word) != CopyState::Free && state != CopyState::Free,
            "{slot:?} cannot become {state:?} from {:?}",
            CopyState::from_bits(word)
        );
        self.put(slot, word & !3 | state as u64);
    }

    /// Frees a slot. A free slot stays free.
    pub(crate) fn clear(&mut self, slot: Slot) {
        let Some(home) = self.home(slot) else { return };
        self.remove(self.search(slot, home));
        self.put(slot, 0);
    }

    /// Slots that hold a copy.
    pub(crate) fn len(&self) -> u64 {
        self.homes.len() as u64 - self.count(CopyState::Free)
    }

    pub(crate) const fn count(&self, state: CopyState) -> u64 {
        self.counts[state as usize]
    }

    /// Bytes of RAM of the map. They never change.
    #[cfg(test)]
    pub(crate) const fn bytes(&self) -> u64 {
        let arrays =
            size_of_val(&*self.homes) + size_of_val(&*self.sums) + size_of_val(&*self.table);
        (arrays + size_of::<Self>()) as u64
    }

    fn word(&self, slot: Slot) -> u64 {
        let [a, b, c, d, e] = self.homes[slot.0 as usize];
        u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
    }

    /// Writes home and state, and updates the counts.
    fn put(&mut self, slot: Slot, word: u64) {
        self.counts[self.state(slot) as usize] -= 1;
        self.counts[CopyState::from_bits(word) as usize] += 1;
        let [a, b, c, d, e, ..] = word.to_le_bytes();
        self.homes[slot.0 as usize] = [a, b, c, d, e];
    }

    const fn slot_of(&self, entry: u32) -> Slot {
        Slot((entry as u64 & !(u64::MAX << self.slot_bits)) as u32)
    }

    /// The bits of an entry that are neither slot nor distance.
    const fn hash_part(&self, entry: u32) -> u32 {
        let others = self.slot_bits + self.distance_bits;
        (entry as u64 >> others << others) as u32
    }

    /// The distance that all ones stand for, and longer ones.
    const fn farthest(&self) -> usize {
        (1 << self.distance_bits) - 1
    }

    /// The distance that an entry notes.
    const fn noted(&self, entry: u32) -> usize {
        (entry as u64 >> self.slot_bits) as usize & self.farthest()
    }

    /// The entry as it is at another distance from the place where its search starts.
    fn at_distance(&self, entry: u32, distance: usize) -> u32 {
        let noted = distance.min(self.farthest()) as u64;
        self.slot_of(entry).0 | self.hash_part(entry) | (noted << self.slot_bits) as u32
    }

    /// How far behind the place where its search starts an entry stands.
    fn distance(&self, at: usize) -> usize {
        let entry = self.table[at];
        let noted = self.noted(entry);
        if noted < self.farthest() {
            return noted;
        }
        let start = self.start(mix(HomePage(self.word(self.slot_of(entry)) >> 2)));
        if at >= start { at - start } else { at + self.table.len() - start }
    }

    /// Where a search for a hash begins: the upper bits of the hash, scaled to the table. A
    /// multiplication allows any size; a table of a power of two would waste up to half of it.
    fn start(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.table.len() as u128) >> 64) as usize
    }

    const fn next(&self, at: usize) -> usize {
        if at + 1 == self.table.len() { 0 } else { at + 1 }
    }

    /// The entry of a slot that holds a home page.
    fn search(&self, slot: Slot, home: HomePage) -> usize {
        let mut at = self.start(mix(home));
        while self.slot_of(self.table[at]) != slot {
            at = self.next(at);
        }
        at
    }

    /// Adds an entry. On its way, each entry whose search starts later makes place for it.
    fn insert(&mut self, slot: Slot, hash: u64) {
        let mut entry = slot.0 | self.hash_part(hash as u32);
        let (mut at, mut distance) = (self.start(hash), 0);
        while self.table[at] != EMPTY {
            let other = self.distance(at);
            if other < distance {
                let goes_on = self.table[at];
                self.table[at] = self.at_distance(entry, distance);
                (entry, distance) = (goes_on, other);
            }
            at = self.next(at);
            distance += 1;
        }
        self.table[at] = self.at_distance(entry, distance);
    }

    /// Empties an entry. Then moves back the entries behind it, up to one that is at the place where
    /// its search starts. So the table needs no marks of removed entries, which would make searches
    /// longer.
    fn remove(&mut self, mut at: usize) {
        loop {
            let next = self.next(at);
            let entry = self.table[next];
            let distance = if entry == EMPTY { 0 } else { self.distance(next) };
            if distance == 0 {
                break;
            }
            self.table[at] = self.at_distance(entry, distance - 1);
            at = next;
        }
        self.table[at] = EMPTY;
    }
}

/// Spreads neighbouring numbers, and those a power of two apart, over all 64 bits. This is the
/// finalizer of MurmurHash3 (Appleby): each bit of the input changes each bit of the output in half
/// of all cases.
const fn mix(home: HomePage) -> u64 {
    let mut x = home.0 ^ 0x9E37_79B9_7F4A_7C15;
    x = (x ^ (x >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    x = (x ^ (x >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    x ^ (x >> 33)
}

#[cfg(test)]
mod tests;
