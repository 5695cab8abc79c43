//! The guard of a disk that was in use before it had an area: what stands on its two ends while the area holds its
//! newest data, and behind the area, which keeps what stood there. The engine knows nothing of it; the driver does.

use seekless_block::{PAGE_BYTES, PAGE_SECTORS, Sectors};

use super::Page;
use super::field::{Field, page};
use super::pages::COUNT_MAX;
use super::value::{AreaId, Label};
use crate::core::page_map::HOME_PAGES_MAX;

/// Pages at either end of home that the guard replaces: 128 KiB. There stand the marks of partition tables and file
/// systems that the kernel and blkid look for, Btrfs' at 64 KiB and RAID's before the end included.
pub const GUARD_PAGES: u64 = 32;
/// Pages of the guard region: its header, home's first pages, home's last.
pub const GUARD_REGION_PAGES: u64 = 1 + 2 * GUARD_PAGES;
/// What every sector of a guard says, or nearly so.
pub const GUARD_WORDS: &[u8] = b"BELONGS TO A SEEKLESS AREA";
/// The fields of a guard page end here, and the words begin.
const WORDS_AT: usize = 128;
const WORDS: usize = PAGE_BYTES as usize - WORDS_AT;

/// How far the guard has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuardState {
    /// Home is as clients see it.
    #[default]
    Down = 0,
    /// Each sector of home's ends is the guard's or the region's; the region does not change.
    Between = 1,
    /// Home's ends are the guard's, and what clients see of them is the region's.
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
    /// Begins the guard region, which stands behind an area that is not inside. All that changes stands in its
    /// first sector, so that it is wholly old or wholly new after a crash.
    GuardHeader "guard header" = 7, |_| Ok(());
    /// Of which area.
    16 uuid: AreaId,
    /// Counts how often the guard was put up.
    32 generation: u64 where 0..=COUNT_MAX,
    /// Size of home: where its last pages stand.
    40 home_capacity: Sectors where 1..=HOME_PAGES_MAX * PAGE_SECTORS,
    /// CRC-32C of the pages behind this one where the guard is between; else 0.
    48 sum: u32,
    /// How far the guard has come.
    52 state: GuardState,
    /// Where the area stood when the guard was put up, as the guard pages say it.
    56 place: Label,
}

page! {
    /// Stands on home's first 32 and last 32 pages' worth of sectors while the area may hold the only copy of
    /// something. No file system, partition table or RAID begins or ends like this.
    GuardPage "guard page" = 8, |_| Ok(());
    /// Of which area.
    16 uuid: AreaId,
    /// Of which putting up.
    32 generation: u64 where 0..=COUNT_MAX,
    /// Which of the pages it is, counted through both ends.
    40 number: u32 where 0..=2 * GUARD_PAGES - 1,
    /// Where the area stood, as its driver says it.
    48 place: Label,
    /// For people: what to do. Every sector has a part of it, so that none is zero.
    128 words: [u8; WORDS],
}

impl GuardPage {
    /// The guard page with this number.
    #[must_use]
    pub fn new(uuid: AreaId, generation: u64, number: u32, place: Label) -> Self {
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
        Self { uuid, generation, number, place, words }
    }

    /// All of them, one behind the other, as they stand on home.
    #[must_use]
    pub fn all(uuid: AreaId, generation: u64, place: Label) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((2 * GUARD_PAGES * PAGE_BYTES) as usize);
        let mut page: Page = [0; PAGE_BYTES as usize];
        Self::new(uuid, generation, 0, place).encode(&mut page);
        for number in 0..2 * GUARD_PAGES as u32 {
            // They differ in nothing else.
            number.put(&mut page[const { Self::LAYOUT.part(40).range() }]);
            super::seal(&mut page, Self::LAYOUT.kind);
            bytes.extend_from_slice(&page);
        }
        bytes
    }
}
