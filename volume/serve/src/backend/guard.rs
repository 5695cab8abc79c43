//! Keeping the bare disk from being mounted while its newest data stand in an area elsewhere: home's two ends are
//! moved into the guard region behind the area, and pages that are no file system's take their place. Written in an
//! order that leaves, whatever moment the power fails at, either home as it was or all that is needed to make it so;
//! see docs/changing/on-disk-format.md. It refuses to know when a guard is wanted.

use std::ops::Range;

use seekless_block::{Device, DeviceError, Extent, PAGE_BYTES, SECTOR_BYTES, Sectors};
use seekless_engine::format::{
    AreaId, FormatError, GUARD_PAGES, GUARD_REGION_PAGES, GUARD_WORDS, GuardHeader, GuardPage,
    GuardState, Label, Page, page_extent,
};

/// Sectors at either end of home that the guard replaces.
pub(crate) const EDGE: u64 = GUARD_PAGES * PAGE_BYTES / SECTOR_BYTES;
/// Sectors of the guard region.
pub(crate) const REGION: u64 = GUARD_REGION_PAGES * PAGE_BYTES / SECTOR_BYTES;
/// A smaller home has no two ends.
pub(crate) const HOME_MIN: u64 = 2 * EDGE;
const SECTOR: usize = SECTOR_BYTES as usize;
const EDGE_BYTES: usize = EDGE as usize * SECTOR;

/// Why a guard can be neither used nor moved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuardError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What is found does not fit together; nothing was changed.
    #[error("{why}")]
    Wrong {
        /// What, and what to do.
        why: String,
        /// Whether a repair gives up what somebody wrote.
        loses: bool,
        /// Whether the region has home's ends all the same.
        here: bool,
    },
}

/// How a guard stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// There is no room for one: the area was made before there were guards, or cut.
    Nowhere,
    /// Home is as clients see it.
    Down,
    /// On its way up or down when something stopped it; whether home lacks what the region holds.
    Between { lacking: bool },
    /// Home's ends are in the region.
    Up,
}

impl Standing {
    /// Whether the region has what clients see of home's ends.
    pub(crate) const fn is_in_region(self) -> bool {
        matches!(self, Self::Up | Self::Between { lacking: true })
    }
}

/// A disk, the guard region of its area, and what they must agree on.
pub(crate) struct Guard<'a> {
    /// As it is, without its guard.
    pub(crate) home: &'a mut dyn Device,
    pub(crate) region: &'a mut dyn Device,
    pub(crate) uuid: AreaId,
    /// Sectors of home, as the area knows them.
    pub(crate) capacity: Sectors,
}

/// What a putting up that failed has left.
#[derive(Debug)]
pub(crate) struct HalfUp {
    pub(crate) error: GuardError,
    /// Whether guard pages may have been written over home.
    pub(crate) touched: bool,
}

/// What home's ends have, sector by sector.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    guard: usize,
    region: usize,
    other: usize,
}

fn wrong<T>(loses: bool, why: impl Into<String>) -> Result<T, GuardError> {
    Err(GuardError::Wrong { why: why.into(), loses, here: false })
}

/// The region has home's ends, but home has neither them nor the guard.
fn overwritten<T>(why: impl Into<String>) -> Result<T, GuardError> {
    Err(GuardError::Wrong { why: why.into(), loses: true, here: true })
}

/// Where home's two ends stand in memory.
const fn ends() -> [Range<usize>; 2] {
    [0..EDGE_BYTES, EDGE_BYTES..2 * EDGE_BYTES]
}

/// Of which area a first page is the guard, if it is one.
pub(crate) fn of_page(page: &Page) -> Option<GuardPage> {
    GuardPage::decode(page).ok()
}

/// The region of an area that was just made.
pub(crate) fn make(
    region: &mut dyn Device,
    uuid: AreaId,
    capacity: Sectors,
) -> Result<(), DeviceError> {
    let header = GuardHeader {
        uuid,
        generation: 0,
        home_capacity: capacity,
        sum: 0,
        state: GuardState::Down,
        place: Label::new(""),
    };
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

    fn read_region(&mut self) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = vec![0; 2 * EDGE_BYTES];
        self.region.read(page_extent(1, 2 * GUARD_PAGES), &mut bytes)?;
        Ok(bytes)
    }

    fn put_header(&mut self, header: &GuardHeader) -> Result<(), DeviceError> {
        let mut page: Page = [0; PAGE_BYTES as usize];
        header.encode(&mut page);
        self.region.write(page_extent(0, 1), &page)?;
        self.region.flush()
    }

    /// `None` where there is no region.
    fn header(&mut self) -> Result<Option<Result<GuardHeader, FormatError>>, DeviceError> {
        if self.region.capacity().0 < REGION {
            return Ok(None);
        }
        let mut page: Page = [0; PAGE_BYTES as usize];
        self.region.read(page_extent(0, 1), &mut page)?;
        Ok(match GuardHeader::decode(&page) {
            Err(FormatError::NotSeekless { .. }) => None,
            other => Some(other),
        })
    }

    /// The guard page that home begins with, if it does.
    fn first(&mut self) -> Result<Option<GuardPage>, DeviceError> {
        let mut page: Page = [0; PAGE_BYTES as usize];
        if self.home.capacity().0 < EDGE {
            return Ok(None);
        }
        self.home.read(page_extent(0, 1), &mut page)?;
        Ok(of_page(&page))
    }

    fn compare(
        &mut self,
        header: &GuardHeader,
        region: Option<&[u8]>,
    ) -> Result<Ends, DeviceError> {
        let home = self.read_home()?;
        let guard = GuardPage::all(header.uuid, header.generation, header.place);
        let mut found = Ends::default();
        for (i, sector) in home.chunks_exact(SECTOR).enumerate() {
            let range = i * SECTOR..(i + 1) * SECTOR;
            let is = |bytes: &[u8]| bytes.get(range.clone()) == Some(sector);
            if is(&guard) {
                found.guard += 1;
            } else if region.is_some_and(is) {
                found.region += 1;
            } else {
                found.other += 1;
            }
        }
        Ok(found)
    }

    /// How it stands; nothing is written.
    pub(crate) fn standing(&mut self) -> Result<Standing, GuardError> {
        let header = match self.header()? {
            Some(Ok(header)) => header,
            Some(Err(e)) => {
                return wrong(
                    false,
                    format!("the header of its guard region: {e}; run `seekless volume repair`"),
                );
            }
            None => {
                return match self.first()? {
                    Some(page) if page.uuid == self.uuid => wrong(
                        false,
                        "the disk carries the guard of this area, and the area's guard region is gone; where its file was cut grow it back, then run `seekless volume repair`",
                    ),
                    Some(page) => self.of_another(&page),
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
                Some(page) if page.uuid == self.uuid => wrong(
                    true,
                    format!(
                        "the disk carries guard {} of this area, of which the area knows nothing: it is an older copy of it; name the newest one, which has the disk's newest data",
                        page.generation
                    ),
                ),
                Some(page) => self.of_another(&page),
                None => Ok(Standing::Down),
            },
            GuardState::Up => {
                let found = self.compare(&header, None)?;
                if found.other == 0 {
                    return Ok(Standing::Up);
                }
                if let Some(page) = self.first()?.filter(|p| p.uuid != self.uuid) {
                    return self.of_another(&page);
                }
                if found.guard == 0 {
                    return wrong(
                        true,
                        "the disk does not carry the guard that was put on it: it is another one, or was formatted or restored without its area; nothing was changed. If it is the right one, `seekless volume repair --lose-data` puts the guard back and gives up what was written over it",
                    );
                }
                overwritten(
                    "the disk was written without its area, over the guard on its first or last 128 KiB; nothing was changed. `seekless volume rescue` shows it with what the area holds; `seekless volume repair --lose-data` puts the guard back and gives up what was written over it",
                )
            }
            GuardState::Between => {
                let region = self.read_region()?;
                let found = self.compare(&header, Some(&region))?;
                let lacking = found.guard > 0;
                if !lacking {
                    return Ok(Standing::Between { lacking });
                }
                if crc_fast::crc32_iscsi(&region) != header.sum {
                    return wrong(
                        true,
                        "the guard region, which alone holds the disk's first and last 128 KiB, is damaged; `seekless volume repair --lose-data` takes it as it is",
                    );
                }
                if found.other > 0 {
                    return overwritten(
                        "the disk was written without its area while its guard was half up; nothing was changed. `seekless volume repair --lose-data` gives up what was written over it",
                    );
                }
                Ok(Standing::Between { lacking })
            }
        }
    }

    fn of_another<T>(&self, page: &GuardPage) -> Result<T, GuardError> {
        wrong(
            true,
            format!(
                "the disk carries the guard of another area, {} (it was {}), which holds its newest data; this one is {}",
                page.uuid,
                page.place.as_str(),
                self.uuid
            ),
        )
    }

    /// Ends what was cut short. Afterwards it stands up, down or nowhere, and durably so.
    pub(crate) fn settle(&mut self) -> Result<Standing, GuardError> {
        match self.standing()? {
            Standing::Between { lacking: true } => {
                self.restore()?;
                Ok(Standing::Down)
            }
            Standing::Between { lacking: false } => {
                // What shows no guard may do so in a cache alone.
                self.home.flush()?;
                self.mark(GuardState::Down, 0)?;
                Ok(Standing::Down)
            }
            Standing::Up => {
                // So may the header, and what clients wrote to the region.
                self.region.flush()?;
                Ok(Standing::Up)
            }
            other => Ok(other),
        }
    }

    fn mark(&mut self, state: GuardState, sum: u32) -> Result<(), GuardError> {
        match self.header()? {
            Some(Ok(header)) => Ok(self.put_header(&GuardHeader { state, sum, ..header })?),
            _ => wrong(false, "its guard region's header is damaged; run `seekless volume repair`"),
        }
    }

    /// Puts the guard up, where it is down. What clients see of home's ends stands in the region from then on.
    pub(crate) fn put_up(&mut self, place: Label) -> Result<(), HalfUp> {
        let before = self.prepare(place).map_err(|error| HalfUp { error, touched: false })?;
        let mut after = || -> Result<(), GuardError> {
            self.write_home(&GuardPage::all(before.uuid, before.generation, before.place))?;
            Ok(self.put_header(&GuardHeader { state: GuardState::Up, sum: 0, ..before })?)
        };
        after().map_err(|error| HalfUp { error, touched: true })
    }

    /// Everything before home is written: the region durably holds home's ends, and says so.
    fn prepare(&mut self, place: Label) -> Result<GuardHeader, GuardError> {
        match self.settle()? {
            Standing::Down => {}
            found => return wrong(false, format!("the guard is not down but {found:?}")),
        }
        let Some(Ok(old)) = self.header()? else {
            return wrong(
                false,
                "its guard region's header is damaged; run `seekless volume repair`",
            );
        };
        // An older sector that came back after a crash would be nobody's.
        self.home.flush()?;
        let bytes = self.read_home()?;
        // Durable together with the header: until then home has no guard, and counts.
        self.region.write(page_extent(1, 2 * GUARD_PAGES), &bytes)?;
        let header = GuardHeader {
            generation: old.generation + 1,
            sum: crc_fast::crc32_iscsi(&bytes),
            state: GuardState::Between,
            place,
            ..old
        };
        self.put_header(&header)?;
        Ok(header)
    }

    /// Takes the guard down, where it is up: home's ends are what clients see of them.
    pub(crate) fn take_down(&mut self) -> Result<(), GuardError> {
        if self.settle()? == Standing::Up { self.restore() } else { Ok(()) }
    }

    /// The region is durable, as [`Self::settle`] leaves it.
    fn restore(&mut self) -> Result<(), GuardError> {
        let bytes = self.read_region()?;
        self.mark(GuardState::Between, crc_fast::crc32_iscsi(&bytes))?;
        self.write_home(&bytes)?;
        self.mark(GuardState::Down, 0)
    }

    /// Mends what [`Self::standing`] refuses, and says what it did, and whether bytes were given up for it; those
    /// only where `lose`, else nothing is written. `None` where nothing is wrong.
    pub(crate) fn repair(&mut self, lose: bool) -> Result<Option<(String, bool)>, GuardError> {
        let (why, loses) = match self.standing() {
            Ok(_) => return Ok(None),
            Err(GuardError::Wrong { why, loses, .. }) => (why, loses),
            Err(e) => return Err(e),
        };
        if loses && !lose {
            return Ok(Some((why, true)));
        }
        let first = self.first()?;
        match (self.header()?, first) {
            (Some(Ok(h)), first)
                if (h.uuid, h.home_capacity) == (self.uuid, self.capacity)
                    && h.state != GuardState::Down
                    && first.as_ref().is_none_or(|p| p.uuid == self.uuid) =>
            {
                if h.state == GuardState::Up {
                    self.write_home(&GuardPage::all(h.uuid, h.generation, h.place))?;
                } else {
                    self.restore()?;
                }
            }
            (Some(Err(_)) | None, first) if self.region.capacity().0 >= REGION => {
                self.new_header(first)?;
            }
            // Nothing is known that would be right.
            _ => return wrong(loses, why),
        }
        Ok(Some((why, loses)))
    }

    /// Home tells what a lost header said.
    fn new_header(&mut self, first: Option<GuardPage>) -> Result<(), GuardError> {
        let mut header = GuardHeader {
            uuid: self.uuid,
            generation: 0,
            home_capacity: self.capacity,
            sum: 0,
            state: GuardState::Down,
            place: Label::new(""),
        };
        // Where the first page was not written yet, or already, the last ones tell.
        let home = self.read_home()?;
        let mut pages =
            home.chunks_exact(PAGE_BYTES as usize).filter_map(|p| GuardPage::decode(p).ok());
        if let Some(page) = first.or_else(|| pages.next()) {
            if page.uuid != self.uuid {
                return self.of_another(&page);
            }
            (header.generation, header.place) = (page.generation, page.place);
            let region = self.read_region()?;
            let found = self.compare(&header, Some(&region))?;
            (header.state, header.sum) = match found {
                Ends { region: 0, other: 0, .. } => (GuardState::Up, 0),
                Ends { other: 0, .. } => (GuardState::Between, crc_fast::crc32_iscsi(&region)),
                _ => {
                    return wrong(
                        true,
                        "both the guard region's header and the guard on the disk are damaged",
                    );
                }
            };
        } else if home.windows(GUARD_WORDS.len()).any(|w| w == GUARD_WORDS) {
            return wrong(
                true,
                "both the guard region's header and the guard on the disk are damaged",
            );
        }
        Ok(self.put_header(&header)?)
    }
}

#[cfg(test)]
mod tests;
