//! The guard: prevents a mount of the bare disk while its newest data are in an area elsewhere. The
//! guard moves the two ends of home to the guard region behind the area. Pages that belong to no
//! file system replace these ends. After a power cut at any moment, home is either as before, or
//! can be restored: the order of writes guarantees this. See docs/changing/on-disk-format.md.

pub(crate) mod repair;

use std::ops::Range;

use seekless_block::{Device, DeviceError, Extent, PAGE_BYTES, SECTOR_BYTES, Sectors};
use seekless_engine::format::{
    AreaId, FormatError, GUARD_PAGES, GUARD_REGION_PAGES, GuardHeader, GuardPage, GuardState,
    Label, OLDEST, Page, VERSION, page_extent,
};

pub(crate) use repair::GuardFault;

/// Sectors of each end of home that the guard replaces.
pub(crate) const EDGE: u64 = GUARD_PAGES * PAGE_BYTES / SECTOR_BYTES;
pub(crate) const REGION: u64 = GUARD_REGION_PAGES * PAGE_BYTES / SECTOR_BYTES;
/// The least home with two ends.
pub(crate) const HOME_MIN: u64 = 2 * EDGE;
const SECTOR: usize = SECTOR_BYTES as usize;
/// Pages of the region behind its header.
pub(crate) const PAGES: usize = 2 * GUARD_PAGES as usize;
const EDGE_BYTES: usize = EDGE as usize * SECTOR;
/// Where each page of seekless has its area's id.
const UUID_AT: Range<usize> = 16..32;
const HEADER_DAMAGED: &str =
    "the header of its guard region is damaged; run `seekless volume repair`";

/// Why a guard can be neither used nor moved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuardError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The parts do not fit together; nothing was changed.
    #[error("{why}")]
    Wrong {
        /// The fault; the remedy follows the first semicolon.
        why: String,
        /// True if a repair gives up bytes that a program wrote.
        loses: bool,
        /// True if the region still has home's ends.
        here: bool,
        /// True if the area's records may be out of date: another program wrote to home over the
        /// guard, or the end of the area is lost.
        outdated: bool,
    },
}

/// State of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// No space for one: the area is older than guards, or was cut.
    Nowhere,
    /// Home is as clients see it.
    Down,
    /// A move was cut short; `lacking`: the ends of home are only in the region.
    Between { lacking: bool },
    /// Home's ends are in the region.
    Up,
}

impl Standing {
    /// True if clients see the region's bytes as home's ends.
    pub(crate) const fn is_in_region(self) -> bool {
        matches!(self, Self::Up | Self::Between { lacking: true })
    }
}

/// A disk, the guard region of its area, and the keys of both.
pub(crate) struct Guard<'a> {
    /// The disk without its guard.
    pub(crate) home: &'a mut dyn Device,
    pub(crate) region: &'a mut dyn Device,
    pub(crate) uuid: AreaId,
    /// Sectors of home, as the area knows them.
    pub(crate) capacity: Sectors,
    /// The generation of the area, which the guard names when it goes up.
    pub(crate) area_generation: u64,
}

/// A failed raise of the guard.
#[derive(Debug)]
pub(crate) struct HalfUp {
    pub(crate) error: GuardError,
    /// True if guard pages may have been written over home.
    pub(crate) touched: bool,
}

/// Contents of home's ends, in sectors.
#[derive(Clone, Copy, Debug, Default)]
struct EndContents {
    guard: usize,
    region: usize,
    other: usize,
}

fn wrong<T>(loses: bool, why: impl Into<String>) -> Result<T, GuardError> {
    Err(GuardError::Wrong { why: why.into(), loses, here: false, outdated: false })
}

/// Home has neither its ends nor the guard, or the region lost home's ends; `here`: the region has
/// home's ends.
fn overwritten<T>(here: bool, why: impl Into<String>) -> Result<T, GuardError> {
    Err(GuardError::Wrong { why: why.into(), loses: true, here, outdated: true })
}

/// The guard on home is later than the area.
fn older<T>(page: &GuardPage) -> Result<T, GuardError> {
    wrong(
        true,
        format!(
            "the disk carries guard {} of this area, and the area does not know this guard: it is an older copy of the area; name the newest copy, which has the disk's newest data",
            page.generation
        ),
    )
}

/// Home's two ends in memory.
const fn ends() -> [Range<usize>; 2] {
    [0..EDGE_BYTES, EDGE_BYTES..2 * EDGE_BYTES]
}

/// The guard page in a first page, if there is one.
pub(crate) fn of_page(page: &Page) -> Option<GuardPage> {
    GuardPage::decode(page).ok()
}

/// Makes the region of a new area.
pub(crate) fn make(
    region: &mut dyn Device,
    uuid: AreaId,
    capacity: Sectors,
) -> Result<(), DeviceError> {
    write_header(region, &header_down(uuid, capacity))
}

fn header_down(uuid: AreaId, home_capacity: Sectors) -> GuardHeader {
    let (state, place) = (GuardState::Down, Label::new(""));
    let sums = [0; PAGES];
    GuardHeader { uuid, generation: 0, home_capacity, sum: 0, state, place, summed: 0, sums }
}

/// The checksum of a page of the region.
pub(crate) fn sum_of(page: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(page)
}

fn header_of(region: &mut dyn Device) -> Result<Result<GuardHeader, FormatError>, DeviceError> {
    let mut page: Page = [0; PAGE_BYTES as usize];
    region.read(page_extent(0, 1), &mut page)?;
    Ok(GuardHeader::decode(&page))
}

/// Home's two ends, as the region has them.
fn region_bytes(region: &mut dyn Device) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = vec![0; 2 * EDGE_BYTES];
    region.read(page_extent(1, 2 * GUARD_PAGES), &mut bytes)?;
    Ok(bytes)
}

/// Some pages are about to be written: durably, their checksums hold no longer.
pub(crate) fn open_pages(region: &mut dyn Device, pages: u64) -> Result<(), GuardError> {
    let Ok(mut header) = header_of(region)? else {
        return wrong(false, HEADER_DAMAGED);
    };
    header.summed &= !pages;
    for (i, sum) in header.sums.iter_mut().enumerate() {
        *sum = if header.summed >> i & 1 == 1 { *sum } else { 0 };
    }
    Ok(write_header(region, &header)?)
}

/// Nobody writes: each page gets its checksum. All writes before become durable. No effect unless
/// the guard is up.
pub(crate) fn sum_pages(region: &mut dyn Device) -> Result<(), GuardError> {
    let Ok(header) = header_of(region)? else { return Ok(()) };
    if header.state == GuardState::Up && header.summed != u64::MAX {
        region.flush()?;
        let bytes = region_bytes(region)?;
        write_header(region, &summed(header, &bytes))?;
    }
    Ok(())
}

/// The same header with the checksums of these pages.
fn summed(header: GuardHeader, region: &[u8]) -> GuardHeader {
    let mut sums = [0; PAGES];
    for (sum, page) in sums.iter_mut().zip(region.chunks_exact(PAGE_BYTES as usize)) {
        *sum = sum_of(page);
    }
    GuardHeader { summed: u64::MAX, sums, ..header }
}

fn write_header(region: &mut dyn Device, header: &GuardHeader) -> Result<(), DeviceError> {
    let mut page: Page = [0; PAGE_BYTES as usize];
    header.encode(&mut page);
    region.write(page_extent(0, 1), &page)?;
    region.flush()
}

impl Guard<'_> {
    fn edges(&self) -> [Extent; 2] {
        [Extent::new(0, EDGE), Extent::new(self.capacity.0.saturating_sub(EDGE), EDGE)]
    }

    fn read_home(&mut self) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = vec![0; 2 * EDGE_BYTES];
        for (edge, range) in self.edges().into_iter().zip(ends()) {
            self.home.read(edge, bytes.get_mut(range).unwrap_or_default())?;
        }
        Ok(bytes)
    }

    fn write_home(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        for (edge, range) in self.edges().into_iter().zip(ends()) {
            self.home.write(edge, bytes.get(range).unwrap_or_default())?;
        }
        self.home.flush()
    }

    /// `None` without a region.
    fn header(&mut self) -> Result<Option<Result<GuardHeader, FormatError>>, DeviceError> {
        if self.region.capacity().0 < REGION {
            return Ok(None);
        }
        Ok(match header_of(self.region)? {
            Err(FormatError::NotSeekless { .. }) => None,
            other => Some(other),
        })
    }

    /// The guard page at the start of home, if there is one.
    fn first(&mut self) -> Result<Option<GuardPage>, DeviceError> {
        let mut page: Page = [0; PAGE_BYTES as usize];
        if self.home.capacity().0 < EDGE {
            return Ok(None);
        }
        self.home.read(page_extent(0, 1), &mut page)?;
        Ok(of_page(&page))
    }

    /// The generation of the area that the guard on home names; 0 for none. A file system has its
    /// superblock behind the first sector: a program that wrote there leaves the name.
    pub(crate) fn named_generation(&mut self) -> Result<u64, DeviceError> {
        Ok(self.named()?.unwrap_or(0))
    }

    /// The same; `None` if home's first sector is not of this area's guard.
    fn named(&mut self) -> Result<Option<u64>, DeviceError> {
        if self.home.capacity().0 < EDGE {
            return Ok(None);
        }
        let mut sector = [0; SECTOR];
        self.home.read(Extent::new(0, 1), &mut sector)?;
        let named = GuardPage::named_in(&sector).filter(|(uuid, _)| *uuid == self.uuid);
        Ok(named.map(|(_, generation)| generation))
    }

    /// The guard names the area's generation from now on. Only the first sector changes.
    pub(crate) fn name_generation(&mut self) -> Result<(), GuardError> {
        let header = self.good_header()?;
        if header.state == GuardState::Up && self.named_generation()? != self.area_generation {
            let pages = self.guard_pages(&header);
            let sector = pages.get(..SECTOR).unwrap_or_default();
            self.home.write(Extent::new(0, 1), sector)?;
            self.home.flush()?;
        }
        Ok(())
    }

    fn guard_pages(&self, header: &GuardHeader) -> Vec<u8> {
        GuardPage::all(header.uuid, header.generation, header.place, self.area_generation)
    }

    /// Compares the pages of the region with their checksums.
    fn check_region(&mut self, header: &GuardHeader) -> Result<(), GuardError> {
        let bytes = region_bytes(self.region)?;
        let mut pages = bytes.chunks_exact(PAGE_BYTES as usize).zip(header.sums).enumerate();
        let is_bad = |(i, (page, sum)): &(usize, (&[u8], u32))| {
            header.summed >> i & 1 == 1 && sum_of(page) != *sum
        };
        match pages.find(is_bad) {
            None => Ok(()),
            Some((i, _)) => {
                let why = format!(
                    "page {} of the guard region, which alone holds a part of the disk's first and last 128 KiB, does not match its checksum; nothing was changed. `seekless volume repair --lose-data` accepts the page as it is",
                    i + 1
                );
                Err(GuardError::Wrong { why, loses: true, here: true, outdated: false })
            }
        }
    }

    fn compare(
        &mut self,
        header: &GuardHeader,
        region: Option<&[u8]>,
    ) -> Result<EndContents, DeviceError> {
        let home = self.read_home()?;
        // The rest of the first page may be another's already: only its first sector is read.
        let named = GuardPage::area_generation_in(&home);
        let keys = (header.uuid, header.generation, header.place);
        // A guard that an older seekless put up stands until it is taken down.
        let guards: Vec<_> = (OLDEST..=VERSION)
            .map(|v| GuardPage::all_of_version(v, keys.0, keys.1, keys.2, named))
            .collect();
        let mut found = EndContents::default();
        for (i, sector) in home.chunks_exact(SECTOR).enumerate() {
            let range = i * SECTOR..(i + 1) * SECTOR;
            let is = |bytes: &[u8]| bytes.get(range.clone()) == Some(sector);
            if guards.iter().any(|guard| is(guard)) {
                found.guard += 1;
            } else if region.is_some_and(is) {
                found.region += 1;
            } else {
                found.other += 1;
            }
        }
        Ok(found)
    }

    /// The state of the guard; writes nothing.
    pub(crate) fn standing(&mut self) -> Result<Standing, GuardError> {
        let header = match self.header()? {
            Some(Ok(header)) => header,
            Some(Err(e)) => {
                // The area may have been cut within this page.
                if self.first()?.is_some_and(|page| page.uuid == self.uuid) {
                    self.refuse_zeroes()?;
                }
                return wrong(
                    false,
                    format!("the header of its guard region: {e}; run `seekless volume repair`"),
                );
            }
            None => {
                return match self.first()? {
                    Some(page) if page.uuid == self.uuid => self.region_is_gone(),
                    Some(page) => self.of_another(&page),
                    // A program wrote into the guard's first page, behind the first sector.
                    None if self.named()?.is_some() => self.region_is_gone(),
                    None => Ok(Standing::Nowhere),
                };
            }
        };
        if (header.uuid, header.home_capacity) != (self.uuid, self.capacity) {
            return wrong(
                true,
                format!(
                    "its guard region is of area {} for a disk of {}, not of {} for {}",
                    header.uuid, header.home_capacity, self.uuid, self.capacity
                ),
            );
        }
        match header.state {
            GuardState::Down => match self.first()? {
                Some(page) if page.uuid == self.uuid => older(&page),
                Some(page) => self.of_another(&page),
                None => Ok(Standing::Down),
            },
            GuardState::Up => self.standing_up(&header),
            GuardState::Between => self.standing_between(&header),
        }
    }

    /// The guard stands on home, and the region has no header.
    fn region_is_gone<T>(&mut self) -> Result<T, GuardError> {
        self.refuse_zeroes()?;
        if self.region.capacity().0 < REGION {
            return wrong(
                false,
                "the disk carries the guard of this area, and the area's guard region is gone; if the area's file was cut, extend it to its former size with its former contents, then run `seekless volume repair`",
            );
        }
        let mut page: Page = [0; PAGE_BYTES as usize];
        self.region.read(page_extent(0, 1), &mut page)?;
        if page.get(UUID_AT) == Some(self.uuid.0.as_slice()) {
            return wrong(false, HEADER_DAMAGED);
        }
        overwritten(
            false,
            "the disk carries the guard of this area, and the header of the area's guard region is not one of seekless, because another program wrote over it or the area's disk damaged it; nothing was changed. The disk's first and last 128 KiB stand behind this header, and nothing tells whether they are whole. If there is a whole copy of the area, name that copy; `seekless volume repair --lose-data` accepts the region as it is. Then check the file system with its own program",
        )
    }

    /// The guard stands on home, and the region has no whole header. If the area was cut and
    /// extended again, zeroes stand in the place of home's ends.
    fn refuse_zeroes(&mut self) -> Result<(), GuardError> {
        let whole = self.region.capacity().0 >= REGION;
        if whole && region_bytes(self.region)?.iter().all(|byte| *byte == 0) {
            return overwritten(
                false,
                "the disk carries the guard of this area, and the area's guard region is all zeroes: the area was cut, and extended again. The disk's first and last 128 KiB are lost, and perhaps newest data at the end of the area; nothing was changed. If there is a whole copy of the area, name that copy; `seekless volume repair --lose-data` accepts the zeroes",
            );
        }
        Ok(())
    }

    fn standing_up(&mut self, header: &GuardHeader) -> Result<Standing, GuardError> {
        let found = self.compare(header, None)?;
        if found.other == 0 {
            return self.check_region(header).map(|()| Standing::Up);
        }
        self.refuse_other_guard(header)?;
        if found.guard == 0 {
            return overwritten(
                false,
                "the disk does not carry its guard: it is another disk, or it was formatted or restored without its area; nothing was changed. If it is the right disk, `seekless volume repair --lose-data` restores the guard and gives up the data written over the guard",
            );
        }
        overwritten(
            true,
            "the disk was written without its area, over the guard on its first or last 128 KiB; nothing was changed. `seekless volume rescue` shows the disk with the data of the area; `seekless volume repair --lose-data` restores the guard and gives up the data written over the guard",
        )
    }

    /// Refuses a disk that carries a guard which is later than the region, or of another area.
    fn refuse_other_guard(&mut self, header: &GuardHeader) -> Result<(), GuardError> {
        match self.first()? {
            Some(page) if page.uuid != self.uuid => self.of_another(&page),
            Some(page) if page.generation > header.generation => older(&page),
            _ => Ok(()),
        }
    }

    fn standing_between(&mut self, header: &GuardHeader) -> Result<Standing, GuardError> {
        let region = region_bytes(self.region)?;
        let mut first: Page = [0; PAGE_BYTES as usize];
        self.home.read(page_extent(0, 1), &mut first)?;
        // Without a page of its own guard on home, the region counts as not needed. A guard that a
        // client wrote is in the region too.
        if !region.starts_with(&first) {
            self.refuse_other_guard(header)?;
        }
        let found = self.compare(header, Some(&region))?;
        let lacking = found.guard > 0;
        if lacking && crc_fast::crc32_iscsi(&region) != header.sum {
            return wrong(
                true,
                "the guard region, which alone holds the disk's first and last 128 KiB, is damaged; `seekless volume repair --lose-data` accepts the region as it is",
            );
        }
        if lacking && found.other > 0 {
            return overwritten(
                true,
                "the disk was written without its area while only a part of its guard was written; nothing was changed. `seekless volume repair --lose-data` gives up the data written over the guard",
            );
        }
        Ok(Standing::Between { lacking })
    }

    fn of_another<T>(&self, page: &GuardPage) -> Result<T, GuardError> {
        wrong(
            true,
            format!(
                "the disk carries the guard of another area, {} (it was {}), which holds its newest data; this area is {}",
                page.uuid,
                page.place.as_str(),
                self.uuid
            ),
        )
    }

    /// Ends a move that was cut short. Afterwards the guard is durably up, down or nowhere.
    pub(crate) fn settle(&mut self) -> Result<Standing, GuardError> {
        match self.standing()? {
            Standing::Between { lacking: true } => {
                self.restore()?;
                Ok(Standing::Down)
            }
            Standing::Between { lacking: false } => {
                // The pages without a guard may be only in a cache.
                self.home.flush()?;
                self.mark(GuardState::Down, 0)?;
                Ok(Standing::Down)
            }
            Standing::Up => {
                // The header, and writes of clients to the region, may be only in a cache.
                self.region.flush()?;
                sum_pages(self.region)?;
                Ok(Standing::Up)
            }
            other => Ok(other),
        }
    }

    /// Which pages of the region have a checksum that holds, and the checksums.
    pub(crate) fn sums(&mut self) -> Result<(u64, [u32; PAGES]), GuardError> {
        Ok(match self.header()? {
            Some(Ok(header)) => (header.summed, header.sums),
            _ => (0, [0; PAGES]),
        })
    }

    fn good_header(&mut self) -> Result<GuardHeader, GuardError> {
        match self.header()? {
            Some(Ok(header)) => Ok(header),
            _ => wrong(false, HEADER_DAMAGED),
        }
    }

    fn mark(&mut self, state: GuardState, sum: u32) -> Result<(), GuardError> {
        let header = self.good_header()?;
        let sums = [0; PAGES];
        Ok(write_header(self.region, &GuardHeader { state, sum, summed: 0, sums, ..header })?)
    }

    /// Puts the guard up if it is down. From then on the region holds home's ends.
    pub(crate) fn put_up(&mut self, place: Label) -> Result<(), HalfUp> {
        let before = self.prepare(place).map_err(|error| HalfUp { error, touched: false })?;
        let mut after = || -> Result<(), GuardError> {
            self.write_home(&self.guard_pages(&before))?;
            let bytes = region_bytes(self.region)?;
            let up = GuardHeader { state: GuardState::Up, sum: 0, ..before };
            Ok(write_header(self.region, &summed(up, &bytes))?)
        };
        after().map_err(|error| HalfUp { error, touched: true })
    }

    /// All writes before home is written: the region durably holds home's ends, and its header says
    /// so.
    fn prepare(&mut self, place: Label) -> Result<GuardHeader, GuardError> {
        match self.settle()? {
            Standing::Down => {}
            found => return wrong(false, format!("the guard is not down but {found:?}")),
        }
        let old = self.good_header()?;
        let Some(generation) = old.next_generation() else {
            return wrong(
                false,
                "the header of its guard region counts to its end, so seekless did not write this header; nothing was changed",
            );
        };
        // After a crash, an older sector could return that belongs to neither side.
        self.home.flush()?;
        let bytes = self.read_home()?;
        // Durable together with the header. Until then home has no guard and stays valid.
        self.region.write(page_extent(1, 2 * GUARD_PAGES), &bytes)?;
        let header = GuardHeader {
            generation,
            sum: crc_fast::crc32_iscsi(&bytes),
            state: GuardState::Between,
            place,
            ..old
        };
        write_header(self.region, &header)?;
        Ok(header)
    }

    /// Takes the guard down if it is up: home has its ends again.
    pub(crate) fn take_down(&mut self) -> Result<(), GuardError> {
        if self.settle()? == Standing::Up { self.restore() } else { Ok(()) }
    }

    /// Requires a durable region, as after [`Self::settle`].
    fn restore(&mut self) -> Result<(), GuardError> {
        let bytes = region_bytes(self.region)?;
        self.mark(GuardState::Between, crc_fast::crc32_iscsi(&bytes))?;
        self.write_home(&bytes)?;
        self.mark(GuardState::Down, 0)
    }
}

#[cfg(test)]
mod tests;
