//! Positions of the parts of an area: addresses in pages from its start, nothing else.

use std::ops::Range;

use seekless_block::{Bytes, Extent, PAGE_BYTES, PAGE_SECTORS, Sectors};

use super::pages::{ENTRIES_PER_PAGE, PLAN_PER_PAGE, RUNS_PER_PAGE};

/// The default number of pages in a segment: 1 MiB.
pub const SEGMENT_PAGES_DEFAULT: u32 = 256;
/// A circular log has one segment to write and the one before.
pub(crate) const LOG_SEGMENTS_MIN: u32 = 2;
const SEGMENT_PAGES: Range<u32> = 8..257;
/// Pages of the superblocks at the beginning. With three superblocks, the second page is not used.
const SUPERBLOCKS: u64 = 2;

/// The default size of the log, which is also the write buffer, of an area with replicas.
const LOG_BESIDE_REPLICAS: Bytes = Bytes(32 << 20);

/// The purpose of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Copies in the area itself, and a write buffer.
    Copies {
        /// Share of the segments that are the write buffer. The log always has a few segments.
        write_buffer_percent: u8,
    },
    /// Copies in free pages of home (FS2, SOSP'05). The write buffer has all of the area except the
    /// maps of replicas.
    Replicas {
        /// Most sectors of replicas.
        most: Sectors,
    },
}

impl Contents {
    /// Replicas if they may take any space, else copies in the area.
    pub const fn new(write_buffer_percent: u8, replicas: Sectors) -> Self {
        match replicas.0 {
            0 => Self::Copies { write_buffer_percent },
            _ => Self::Replicas { most: replicas },
        }
    }

    /// The write buffer's share in percent, and the most sectors of replicas: as in [`Self::new`].
    pub const fn parts(self) -> (u8, Sectors) {
        match self {
            Self::Copies { write_buffer_percent } => (write_buffer_percent, Sectors(0)),
            Self::Replicas { most } => (0, most),
        }
    }
}

/// Why an area cannot be divided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum GeometryError {
    #[error("segments of {found} pages; expected a power of two from 8 to 256")]
    SegmentPages { found: u32 },
    #[error("{found} percent of the area for the write buffer; expected 0 to 100")]
    Percent { found: u8 },
    #[error(
        "{read} segments for reading and {log} of log; expected at least 1 and {LOG_SEGMENTS_MIN}"
    )]
    Segments { read: u32, log: u32 },
    #[error("{pages} pages in segments; expected less than 2^32 (16 TiB): use a smaller area")]
    TooLarge { pages: u64 },
    #[error(
        "an area of {}; with segments of {segment_pages} pages it needs at least {} bytes ({}): use a larger area or smaller segments",
        .area.bytes(), .needed.bytes().0, .needed.bytes()
    )]
    TooSmall { area: Sectors, segment_pages: u32, needed: Sectors },
}

/// The division of an area: superblocks, two places for a checkpoint, the plan, the read
/// segments, the segments of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Never 0.
    pub(crate) segment_pages: u32,
    pub(crate) read_segments: u32,
    pub(crate) log_segments: u32,
    /// Pages of a free map; 0 if copies stand in the area.
    free_map_pages: u32,
    /// Three superblocks far apart; else two at the beginning.
    spread: bool,
}

/// Pages that the second and the third of three superblocks take.
const SPREAD: u64 = 2;

/// No area.
impl Default for Geometry {
    fn default() -> Self {
        let (read_segments, log_segments, free_map_pages, spread) = Default::default();
        Self { segment_pages: 8, read_segments, log_segments, free_map_pages, spread }
    }
}

impl Geometry {
    /// The division that the superblock names.
    ///
    /// # Errors
    /// If a number is out of its limits.
    pub fn new(segment_pages: u32, read: u32, log: u32) -> Result<Self, GeometryError> {
        if !segment_pages.is_power_of_two() || !SEGMENT_PAGES.contains(&segment_pages) {
            return Err(GeometryError::SegmentPages { found: segment_pages });
        }
        if read == 0 || log < LOG_SEGMENTS_MIN {
            return Err(GeometryError::Segments { read, log });
        }
        let pages = (u64::from(read) + u64::from(log)) * u64::from(segment_pages);
        if pages > u64::from(u32::MAX) {
            return Err(GeometryError::TooLarge { pages });
        }
        let (read_segments, log_segments) = (read, log);
        Ok(Self { segment_pages, read_segments, log_segments, free_map_pages: 0, spread: false })
    }

    /// The same with copies in free pages of home, and free maps of this many pages each in the
    /// area.
    #[must_use]
    pub(crate) const fn with_free_map(self, free_map_pages: u32) -> Self {
        Self { free_map_pages, ..self }
    }

    /// The same with three superblocks far apart, or with two at the beginning.
    #[must_use]
    pub(crate) const fn with_spread(self, spread: bool) -> Self {
        Self { spread, ..self }
    }

    /// Whether the area has three superblocks.
    pub(crate) const fn is_spread(&self) -> bool {
        self.spread
    }

    /// The division of an area that outlives its engine: with three superblocks.
    ///
    /// # Errors
    /// As [`Self::fit`].
    pub fn lasting(
        area: Sectors,
        segment_pages: u32,
        contents: Contents,
    ) -> Result<Self, GeometryError> {
        let more = Sectors(SPREAD * PAGE_SECTORS);
        let rest = Sectors(area.0.saturating_sub(more.0));
        match Self::fit(rest, segment_pages, contents) {
            Ok(geometry) => Ok(geometry.with_spread(true)),
            Err(GeometryError::TooSmall { needed, .. }) => {
                Err(GeometryError::TooSmall { area, segment_pages, needed: needed + more })
            }
            Err(other) => Err(other),
        }
    }

    /// The pages of the superblocks in an area of this size. Two of three are the same if there are
    /// only two.
    pub(crate) const fn superblocks(&self, area: Sectors) -> [u64; 3] {
        if self.spread { [0, self.log_at() - 1, area.0 / PAGE_SECTORS - 1] } else { [0, 1, 1] }
    }

    const fn log_at(&self) -> u64 {
        let read = if self.free_map_pages == 0 { self.read_slots() } else { self.read_segments };
        self.data_at() + read as u64 + self.spread as u64
    }

    /// Most bytes of learned state, which takes the place of a plan.
    pub(crate) const fn learned_most(&self) -> u32 {
        let bytes = self.plan_pages() * super::LEARNED_PER_PAGE as u64;
        if bytes > u32::MAX as u64 { u32::MAX } else { bytes as u32 }
    }

    /// The division of an area of `area` sectors for `contents`: all sizes follow from here.
    ///
    /// # Errors
    /// If a number is out of its limits, or the area is too small or too large.
    pub fn fit(
        area: Sectors,
        segment_pages: u32,
        contents: Contents,
    ) -> Result<Self, GeometryError> {
        match contents {
            Contents::Copies { write_buffer_percent } => {
                Self::fit_copies(area, segment_pages, write_buffer_percent)
            }
            Contents::Replicas { most } => Self::fit_replicas(area, segment_pages, most),
        }
    }

    /// The same with segments of at most `segment_pages` pages, halved until the area is large
    /// enough; `None` if the area is too small for any.
    pub(crate) fn fit_smaller(
        area: Sectors,
        segment_pages: u32,
        contents: Contents,
    ) -> Option<Self> {
        std::iter::successors(Some(segment_pages), |pages| Some(pages / 2))
            .take_while(|pages| *pages >= SEGMENT_PAGES.start)
            .find_map(|pages| Self::fit(area, pages, contents).ok())
    }

    /// The default size of an area for `replicas` sectors of replicas: their maps, the free maps,
    /// and a log of 32 MiB. A sixteenth is added, since a longer log makes checkpoints longer.
    pub fn area_beside(replicas: Sectors) -> Sectors {
        let contents = Contents::Replicas { most: replicas };
        let needed = match Self::lasting(Sectors(0), SEGMENT_PAGES_DEFAULT, contents) {
            Err(GeometryError::TooSmall { needed, .. }) => needed,
            _ => Sectors(0),
        };
        let bytes = needed.bytes().0 / 16 * 17 + LOG_BESIDE_REPLICAS.0;
        Sectors(bytes / PAGE_BYTES * PAGE_SECTORS)
    }

    /// The contents for which [`Self::fit`] gives this division in an area of `area` sectors. Of
    /// several equal shares, the smallest; 0 if none fits.
    pub fn contents(&self, area: Sectors) -> Contents {
        if self.free_map_pages > 0 {
            return Contents::Replicas { most: self.capacity() };
        }
        let share = |percent| Contents::Copies { write_buffer_percent: percent };
        let fit = if self.spread { Self::lasting } else { Self::fit };
        let alike = |&p: &u8| fit(area, self.segment_pages, share(p)).as_ref() == Ok(self);
        share((0..=100).find(alike).unwrap_or(0))
    }

    /// Capacity for a plan or for replicas: the read segments without their maps.
    pub const fn capacity(&self) -> Sectors {
        let held = self.segment_pages as u64 - 1;
        Sectors(self.read_segments as u64 * held * PAGE_SECTORS)
    }

    /// The division for at most `replicas` sectors of replicas: their maps, the free maps, and the
    /// log in the rest.
    fn fit_replicas(
        area: Sectors,
        segment_pages: u32,
        replicas: Sectors,
    ) -> Result<Self, GeometryError> {
        let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let held = u64::from(segment_pages.max(2)) - 1;
        let read = number((replicas.0 / PAGE_SECTORS).div_ceil(held).max(1));
        let pages = area.0 / PAGE_SECTORS;
        // Up to twice as many pages as replicas take may be stained, in the worst case every second
        // page. The free map gets the same space again.
        let slots = u64::from(read) * u64::from(segment_pages);
        let free = number(2 * slots.div_ceil(RUNS_PER_PAGE.into()) + (pages / 64).min(4096));
        let with =
            |log: u64| Self::new(segment_pages, read, number(log)).map(|g| g.with_free_map(free));
        let least = with(LOG_SEGMENTS_MIN.into())?;
        if pages < least.pages() {
            let needed = Sectors(least.pages() * PAGE_SECTORS);
            return Err(GeometryError::TooSmall { area, segment_pages, needed });
        }
        // A longer log makes a longer checkpoint: at most one page for this many pages of log.
        let mut log =
            u64::from(LOG_SEGMENTS_MIN) + (pages - least.pages()) / u64::from(segment_pages);
        while with(log)?.pages() > pages {
            log -= 1;
        }
        with(log)
    }

    /// As many segments as the area has space for. The write buffer gets `log_percent` of them,
    /// rounded up, and at least [`LOG_SEGMENTS_MIN`]. At least one segment is for reading.
    fn fit_copies(
        area: Sectors,
        segment_pages: u32,
        log_percent: u8,
    ) -> Result<Self, GeometryError> {
        if log_percent > 100 {
            return Err(GeometryError::Percent { found: log_percent });
        }
        let divide = |segments: u64| {
            let log = (segments * u64::from(log_percent)).div_ceil(100);
            let log = log.clamp(LOG_SEGMENTS_MIN.into(), segments - 1);
            let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
            Self::new(segment_pages, number(segments - log), number(log))
        };
        let least = u64::from(LOG_SEGMENTS_MIN) + 1;
        let smallest = divide(least)?;
        let pages = area.0 / PAGE_SECTORS;
        if pages < smallest.pages() {
            let needed = Sectors(smallest.pages() * PAGE_SECTORS);
            return Err(GeometryError::TooSmall { area, segment_pages, needed });
        }
        // One segment more never takes fewer pages: a binary search.
        let (mut fits, mut past) = (least, pages / u64::from(segment_pages) + 1);
        let mut found = smallest;
        while past - fits > 1 {
            let middle = fits.midpoint(past);
            let tried = divide(middle)?;
            if tried.pages() <= pages {
                (fits, found) = (middle, tried);
            } else {
                past = middle;
            }
        }
        Ok(found)
    }

    /// Pages in a segment.
    pub const fn segment_pages(&self) -> u32 {
        self.segment_pages
    }

    /// Segments that hold copies.
    pub const fn read_segments(&self) -> u32 {
        self.read_segments
    }

    /// Segments of the log.
    pub const fn log_segments(&self) -> u32 {
        self.log_segments
    }

    /// The numbers of the log's segments, which follow the read segments.
    pub(crate) const fn log_segment_numbers(&self) -> Range<u32> {
        self.read_segments..self.read_segments + self.log_segments
    }

    /// Pages of all segments, with maps and headers.
    pub const fn slots(&self) -> u32 {
        (self.read_segments + self.log_segments) * self.segment_pages
    }

    /// Pages of the read segments, with maps.
    pub const fn read_slots(&self) -> u32 {
        self.read_segments * self.segment_pages
    }

    /// Pages of one checkpoint: its header and its entries.
    pub const fn checkpoint_pages(&self) -> u64 {
        1 + self.slots().div_ceil(ENTRIES_PER_PAGE) as u64
    }

    /// The first page of a checkpoint's place, 0 or 1.
    pub const fn checkpoint_at(&self, place: u8) -> u64 {
        SUPERBLOCKS + place as u64 * self.checkpoint_pages()
    }

    /// Pages of a free map; 0 if copies stand in the area.
    pub const fn free_map_pages(&self) -> u32 {
        self.free_map_pages
    }

    /// The first page of a free map's place, 0 or 1.
    pub(crate) const fn free_map_at(&self, place: u8) -> u64 {
        self.checkpoint_at(2) + place as u64 * self.free_map_pages as u64
    }

    /// The page of the area that a slot is; `None` for a replica, which stands at home.
    pub const fn page_of(&self, slot: u32) -> Option<u64> {
        let read = self.read_slots();
        if slot >= read {
            Some(self.log_at() + (slot - read) as u64)
        } else if self.free_map_pages == 0 {
            Some(self.data_at() + slot as u64)
        } else if slot.is_multiple_of(self.segment_pages) {
            Some(self.data_at() + (slot / self.segment_pages) as u64)
        } else {
            None
        }
    }

    /// Pages of the plan: its header and its entries. None if copies stand at home.
    pub(crate) const fn plan_pages(&self) -> u64 {
        if self.free_map_pages > 0 {
            return 0;
        }
        1 + self.read_slots().div_ceil(PLAN_PER_PAGE) as u64
    }

    /// The first page of the plan.
    pub(crate) const fn plan_at(&self) -> u64 {
        self.checkpoint_at(2) + 2 * self.free_map_pages as u64
    }

    /// The page of slot 0.
    pub(crate) const fn data_at(&self) -> u64 {
        self.plan_at() + self.plan_pages()
    }

    /// Pages of the area that are in use.
    pub const fn pages(&self) -> u64 {
        self.log_at() + (self.slots() - self.read_slots()) as u64 + self.spread as u64
    }
}

/// Pages of an area, in sectors from its start.
pub const fn page_extent(page: u64, pages: u64) -> Extent {
    Extent::new(page * PAGE_SECTORS, pages * PAGE_SECTORS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fit(area: Sectors, segment: u32, percent: u8) -> Result<Geometry, GeometryError> {
        Geometry::fit(area, segment, Contents::new(percent, Sectors(0)))
    }

    /// Divides the area again for its own contents.
    fn fit_like(area: Sectors, g: &Geometry) -> Result<Geometry, GeometryError> {
        Geometry::fit(area, g.segment_pages(), g.contents(area))
    }

    proptest! {
        #[test]
        fn an_area_is_divided_without_waste(pages in 1u64..100_000, power in 3u32..9, percent in 0u8..=100) {
            let segment = 1 << power;
            let area = Sectors(pages * 8 + pages % 8);
            match fit(area, segment, percent) {
                Err(GeometryError::TooSmall { needed, .. }) => {
                    prop_assert!(needed.0 > area.0);
                    prop_assert!(fit(needed, segment, percent).is_ok());
                    prop_assert!(fit(Sectors(needed.0 - 1), segment, percent).is_err());
                }
                Err(error) => prop_assert!(false, "{error}"),
                Ok(g) => {
                    prop_assert!(g.pages() <= pages);
                    prop_assert_eq!(fit_like(area, &g), Ok(g));
                    let (read, log) = (g.read_segments(), g.log_segments());
                    let all = read + log;
                    let share = (u64::from(all) * u64::from(percent)).div_ceil(100);
                    prop_assert_eq!(u64::from(log), share.clamp(2, u64::from(all) - 1));
                    // With this share one more segment of either kind does not fit.
                    let share = (u64::from(all + 1) * u64::from(percent)).div_ceil(100);
                    let log = share.clamp(2, u64::from(all)) as u32;
                    prop_assert!(Geometry::new(segment, all + 1 - log, log).unwrap().pages() > pages);
                    // Regions follow each other, each large enough.
                    prop_assert_eq!(g.checkpoint_at(0), 2);
                    prop_assert!((g.checkpoint_pages() - 1) * 337 >= g.slots().into());
                    prop_assert_eq!(g.checkpoint_at(1), 2 + g.checkpoint_pages());
                    prop_assert_eq!(g.plan_at(), 2 + 2 * g.checkpoint_pages());
                    prop_assert!((g.plan_pages() - 1) * 675 >= g.read_slots().into());
                    prop_assert_eq!(g.data_at(), g.plan_at() + g.plan_pages());
                    prop_assert_eq!(g.pages(), g.data_at() + u64::from(g.slots()));
                    prop_assert_eq!(page_extent(g.data_at(), 2), Extent::new(g.data_at() * 8, 16));
                }
            }
        }
    }

    #[test]
    fn an_area_beside_replicas_is_large_enough_for_them_and_for_a_log() {
        for mib in [1u64, 100, 10_000, 1_000_000] {
            let most = Bytes(mib << 20).sectors_ceil();
            let area = Geometry::area_beside(most);
            let g =
                Geometry::fit(area, SEGMENT_PAGES_DEFAULT, Contents::Replicas { most }).unwrap();
            assert!(g.capacity() >= most && g.log_segments() >= 30, "{g:?}");
            assert_eq!(fit_like(area, &g), Ok(g));
        }
    }

    #[test]
    fn an_area_that_cannot_be_divided_is_refused_in_words() {
        let said = |pages: u64, segment: u32, percent: u8| {
            fit(Sectors(pages * 8), segment, percent).unwrap_err().to_string()
        };
        assert_eq!(
            said(100, 256, 10),
            "an area of 400 KiB; with segments of 256 pages it needs at least 3194880 bytes (3.0 MiB): use a larger area or smaller segments"
        );
        assert_eq!(
            said(100, 12, 10),
            "segments of 12 pages; expected a power of two from 8 to 256"
        );
        assert_eq!(
            said(100, 512, 10),
            "segments of 512 pages; expected a power of two from 8 to 256"
        );
        assert_eq!(
            said(100, 8, 101),
            "101 percent of the area for the write buffer; expected 0 to 100"
        );
        assert!(said(1 << 33, 256, 10).contains("less than 2^32 (16 TiB)"));
        assert_eq!(
            Geometry::new(8, 0, 1).unwrap_err().to_string(),
            "0 segments for reading and 1 of log; expected at least 1 and 2"
        );
        assert!(fit(Sectors(u64::MAX), 8, 0).is_err());
    }
}
