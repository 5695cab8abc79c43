//! The guard of a disk that was in use before it had an area: pages on the disk's two ends while
//! the area holds its newest data. The guard region behind the area keeps the original pages. The
//! driver handles the guard; the engine does not.

use seekless_block::{PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, Sectors};

use super::Page;
use super::field::{Field, page};
use super::pages::COUNT_MAX;
use super::value::{AreaId, Label};
use crate::core::page_map::HOME_PAGES_MAX;

/// Pages at each end of home that the guard replaces: 128 KiB. The kernel and blkid look there for
/// partition tables and file systems, with Btrfs' mark at 64 KiB and RAID's before the end.
pub const GUARD_PAGES: u64 = 32;
/// Pages of the guard region: its header, home's first pages, home's last.
pub const GUARD_REGION_PAGES: u64 = 1 + 2 * GUARD_PAGES;
/// The words of every sector of a guard, almost complete.
pub const GUARD_WORDS: &[u8] = b"BELONGS TO A SEEKLESS AREA";
/// The fields of a guard page end here, and its words begin.
const WORDS_AT: usize = 128;
const WORDS: usize = PAGE_BYTES as usize - WORDS_AT;

/// The state of the guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuardState {
    /// Home is as clients see it.
    #[default]
    Down = 0,
    /// Each sector of home's ends equals the guard or the region; the region does not change.
    Between = 1,
    /// Home's ends are the guard. Clients see the region in their place.
    Up = 2,
}

impl Field for GuardState {
    const BYTES: usize = 1;
    const FORMAT: &'static str = "u8, 0 down, 1 between, 2 up";
    fn put(&self, out: &mut [u8]) {
        (*self as u8).put(out);
    }
    fn get(bytes: &[u8]) -> Result<Self, &'static str> {
        match bytes {
            [0] => Ok(Self::Down),
            [1] => Ok(Self::Between),
            [2] => Ok(Self::Up),
            _ => Err("0 (down), 1 (between) or 2 (up)"),
        }
    }
}

page! {
    /// Begins the guard region, which stands behind an area on another device than home. All fields
    /// that change are in the first sector. A crash leaves this sector wholly old or wholly new.
    GuardHeader "guard header" = 7, |_| Ok(());
    /// The area's id.
    16 uuid: AreaId,
    /// Counts how often the guard was put up.
    32 generation: u64 where 0..=COUNT_MAX,
    /// Size of home: the guard's last pages stand at its end.
    40 home_capacity: Sectors where 1..=HOME_PAGES_MAX * PAGE_SECTORS,
    /// CRC-32C of the pages behind this one in state `between`; else 0.
    48 sum: u32,
    /// The state of the guard.
    52 state: GuardState,
    /// The area's name at the time when the guard was put up, as in the guard pages.
    56 place: Label,
    /// Of the 64 pages behind this one, those whose checksum stands here, in state `up`: bit `i` is
    /// page `i`. Before such a page is written, its bit is durably cleared.
    120 summed: u64,
    /// CRC-32C of each page; 0 without its bit.
    128 sums: [u32; 2 * GUARD_PAGES as usize],
}

page! {
    /// Stands on home's first 32 and last 32 pages while the area may hold the only copy of some
    /// data. No file system, partition table or RAID begins or ends like this.
    GuardPage "guard page" = 8, |_| Ok(());
    /// The area's id.
    16 uuid: AreaId,
    /// The generation in the guard header.
    32 generation: u64 where 0..=COUNT_MAX,
    /// The page's number, counted through both ends.
    40 number: u32 where 0..=2 * GUARD_PAGES - 1,
    /// The area's name, as its driver gave it.
    48 place: Label,
    /// In the first page: the generation of the area's superblock when the area was attached last,
    /// or when a repair wrote the guard again. An area with a lower generation is an older copy. 0 in
    /// the other pages, and in version 2.
    112 area_generation: u64 where 0..=COUNT_MAX,
    /// Instructions for people. Every sector has a part of them, so that no sector is zero.
    128 words: [u8; WORDS],
}

impl GuardHeader {
    /// The generation of the next guard. `None` at the end of the count, which no guard of seekless
    /// reaches.
    pub fn next_generation(&self) -> Option<u64> {
        (self.generation < COUNT_MAX).then_some(self.generation + 1)
    }
}

impl GuardPage {
    /// The guard page with this number.
    pub fn new(uuid: AreaId, generation: u64, number: u32, place: Label) -> Self {
        let area_generation = 0;
        let text = format!(
            "THIS DISK BELONGS TO A SEEKLESS AREA, {uuid}, which holds its newest data and what stood here. Do not \
             format, check or repair it by itself. Name the area to see it whole: seekless serve (or rescue, or \
             detach) DISK --area AREA, where AREA was {}. ",
            place.as_str()
        );
        let mut words = [b' '; WORDS];
        for (to, from) in words.iter_mut().zip(text.bytes().cycle()) {
            *to = from;
        }
        Self { uuid, generation, number, place, area_generation, words }
    }

    /// The generation that stands in the first sector of a guard page, if the sector is one's.
    pub fn area_generation_in(sector: &[u8]) -> u64 {
        let field = sector.get(const { Self::LAYOUT.part(112).range() });
        field.and_then(|bytes| u64::get(bytes).ok()).unwrap_or(0)
    }

    /// The area of a guard, and the generation that the guard names, by the first sector of its
    /// first page. The rest of the page may be another's already.
    pub fn named_in(sector: &[u8]) -> Option<(AreaId, u64)> {
        fn field<T: Field>(sector: &[u8], at: usize) -> Option<T> {
            T::get(sector.get(GuardPage::LAYOUT.part(at).range())?).ok()
        }
        let (uuid, place) = (field::<AreaId>(sector, 16)?, field::<Label>(sector, 48)?);
        let generation = field::<u64>(sector, 32).filter(|n| *n <= COUNT_MAX)?;
        let (named, first) =
            (Self::area_generation_in(sector), sector.get(..SECTOR_BYTES as usize)?);
        // The checksum of the page stands in this sector, and the rest is known.
        let wrote = |version| Self::all_of_version(version, uuid, generation, place, named);
        let is_one =
            (super::OLDEST..=super::VERSION).any(|version| wrote(version).starts_with(first));
        is_one.then_some((uuid, named))
    }

    /// All guard pages in order, as they stand on home, for an area of this generation.
    pub fn all(uuid: AreaId, generation: u64, place: Label, area_generation: u64) -> Vec<u8> {
        Self::all_of(super::VERSION, &Self::new(uuid, generation, 0, place), area_generation)
    }

    /// The same as a seekless with this version of the format wrote them, one of those that are
    /// read.
    pub fn all_of_version(
        version: u16,
        uuid: AreaId,
        generation: u64,
        place: Label,
        area_generation: u64,
    ) -> Vec<u8> {
        // Version 2 did not name the area's generation.
        let named = if version == 2 { 0 } else { area_generation };
        Self::all_of(version, &Self::new(uuid, generation, 0, place), named)
    }

    fn all_of(version: u16, first: &Self, area_generation: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((2 * GUARD_PAGES * PAGE_BYTES) as usize);
        let mut page: Page = [0; PAGE_BYTES as usize];
        first.encode(&mut page);
        for number in 0..2 * GUARD_PAGES as u32 {
            // The pages differ only in their numbers and in the area's generation.
            let of_area = if number == 0 { area_generation } else { 0 };
            number.put(&mut page[const { Self::LAYOUT.part(40).range() }]);
            of_area.put(&mut page[const { Self::LAYOUT.part(112).range() }]);
            super::seal_as(version, &mut page, Self::LAYOUT.kind);
            bytes.extend_from_slice(&page);
        }
        bytes
    }
}
