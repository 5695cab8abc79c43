//! The superblock, the checkpoint's pages and the plan's.

use seekless_block::{Lba, PAGE_SECTORS, Sectors};

use super::field::page;
use super::value::{AreaFlags, AreaId, Entry, Label, Position, Run, RunKind};
use super::{FormatError, Geometry};
use crate::api::Mode;
use crate::core::page_map::HOME_PAGES_MAX;

/// Slots in one page of a checkpoint.
pub(crate) const ENTRIES_PER_PAGE: u32 = 337;
/// Slots in one page of a plan.
pub(crate) const PLAN_PER_PAGE: u32 = 675;
/// Runs in one page of a free map.
pub(crate) const RUNS_PER_PAGE: u32 = 337;
/// Bytes of learned state in one page.
pub(crate) const LEARNED_PER_PAGE: u32 = 4052;
/// The last generation and sequence number. No area lives long enough to reach it.
pub(super) const COUNT_MAX: u64 = u64::MAX >> 1;
/// No superblock of seekless counts further. An attach raises a count by less than 2^34, and the next
/// superblock must be readable.
const ATTACHED_MAX: u64 = COUNT_MAX - (1 << 40);
/// No record of seekless has a higher number. A repair goes on behind the numbers that it finds.
pub(crate) const RECORDED_MAX: u64 = ATTACHED_MAX - (1 << 40);

page! {
    /// Describes the area, and where recovery begins. There are three copies, far apart; see
    /// "Regions".
    Superblock "superblock" = 1, Superblock::check;
    /// A random id, drawn when the area was made.
    16 uuid: AreaId,
    /// Counts the changes: the copy with the higher number is the newer one.
    32 generation: u64 where 0..=COUNT_MAX,
    /// Size of home.
    40 home_capacity: Sectors where 1..=HOME_PAGES_MAX * PAGE_SECTORS,
    /// Size of the area.
    48 area_size: Sectors,
    /// Where the area begins on home's device, if it lies `inside`; else 0.
    56 area_at: Lba,
    /// Generation of the checkpoint; 0 for none: every slot is free.
    64 checkpoint_generation: u64 where 0..=COUNT_MAX,
    /// Slots in the checkpoint: all of them, or 0 for none.
    72 checkpoint_entries: u64,
    /// Sequence number of the first record that the checkpoint may lack.
    80 next_sequence: u64 where 0..=COUNT_MAX,
    /// Generation of the plan in force; 0 for none.
    88 plan_generation: u64 where 0..=COUNT_MAX,
    /// Slots in the plan: all of the read segments, or 0 for none.
    96 plan_slots: u64,
    /// The position of the record with that sequence number, if it was written.
    104 position: Position,
    /// Pages in a segment, a power of two.
    112 segment_pages: u32,
    /// Segments that hold copies.
    116 read_segments: u32,
    /// Segments of the log, behind them.
    120 log_segments: u32,
    /// Checksum of the header before `position`; 0 for none.
    124 previous: u32,
    /// The segment with the oldest record that still matters.
    128 tail: u32,
    /// Sectors of home before its first whole page, so that pages lie like the file system's
    /// blocks.
    132 grid: u8 where 0..=PAGE_SECTORS - 1,
    /// Where a write goes.
    133 mode: Mode,
    /// Properties of the area that a reader must know first.
    134 flags: AreaFlags,
    /// Whether the area is a part of the device that holds home.
    135 inside: bool,
    /// Which of the two places for a checkpoint is in use.
    136 checkpoint_slot: u8 where 0..=1,
    /// Pages of each of the two free maps; 0 if copies stand in the area and not in free pages of
    /// home.
    140 free_map_pages: u32,
    /// The driver's proof that nobody changed home; the engine does not interpret it.
    144 stamp: [u8; 32],
    /// The driver's name for home, for people.
    176 label: Label,
    /// 1: the copies stand in the area's first page, before the log, and in the area's last page. 0
    /// in an area that version 2 made: there are two copies, in the first two pages.
    240 spread: bool,
    /// After a stop in order: the slot at which the trail goes on. Else 0.
    244 trail_head: u32,
    /// After a stop in order with a trail: generation of the learned state, which stands in place of
    /// the plan; 0 for none.
    248 learned_generation: u64 where 0..=COUNT_MAX,
    /// Bytes of the learned state.
    256 learned_bytes: u32,
}

page! {
    /// Begins a checkpoint. The header repeats the superblock's fields about this checkpoint, so
    /// that a lost superblock can be rebuilt.
    CheckpointHeader "checkpoint header" = 2, |_| Ok(());
    /// The area's id.
    16 uuid: AreaId,
    /// The checkpoint's generation.
    32 generation: u64 where 1..=COUNT_MAX,
    /// Slots in the checkpoint.
    40 entries: u64,
    /// Sequence number of the first record that the checkpoint may lack.
    48 next_sequence: u64 where 0..=COUNT_MAX,
    /// The position of that record, if it was written.
    56 position: Position,
    /// Checksum of the header before that record; 0 for none.
    64 previous: u32,
    /// The segment with the oldest record that still matters.
    68 tail: u32,
}

page! {
    /// A part of a checkpoint: the contents of slots. Entries behind the last slot are free.
    CheckpointPage "checkpoint page" = 3, |_| Ok(());
    /// The area's id.
    16 uuid: AreaId,
    /// The checkpoint's generation.
    32 generation: u64 where 1..=COUNT_MAX,
    /// The slot of the first entry.
    40 first: u32,
    /// The state of each slot.
    44 entries: [Entry; ENTRIES_PER_PAGE as usize],
}

page! {
    /// Begins the plan in force.
    PlanHeader "plan header" = 4, |_| Ok(());
    /// The area's id.
    16 uuid: AreaId,
    /// The plan's generation.
    32 generation: u64 where 1..=COUNT_MAX,
    /// Slots in the plan.
    40 slots: u64,
}

page! {
    /// A part of the plan: the wanted home page of each slot of the read segments. The slot of a
    /// segment's map has no wanted page, and neither have slots behind the last slot.
    PlanPage "plan page" = 5, |_| Ok(());
    /// The area's id.
    16 uuid: AreaId,
    /// The plan's generation.
    32 generation: u64 where 1..=COUNT_MAX,
    /// The slot of the first entry.
    40 first: u32,
    /// The wanted home page of each slot.
    44 wanted: [Option<u64>; PLAN_PER_PAGE as usize],
}

page! {
    /// A part of the learned data of the adaptive policy. A damaged or missing part costs speed
    /// alone.
    LearnedPage "learned page" = 10, |_| Ok(());
    /// The area's id.
    16 uuid: AreaId,
    /// The generation of the learned state.
    32 generation: u64 where 1..=COUNT_MAX,
    /// The number of the first byte.
    40 first: u32,
    /// Bytes of the learned state; zeroes behind its end.
    44 bytes: [u8; LEARNED_PER_PAGE as usize],
}

page! {
    /// A part of the discarded pages that the client has not written since, at the moment of a
    /// checkpoint. Behind the last run stands a run of no pages, and nothing else.
    FreeMapPage "free map page" = 9, FreeMapPage::check;
    /// The area's id.
    16 uuid: AreaId,
    /// The checkpoint's generation.
    32 generation: u64 where 1..=COUNT_MAX,
    /// The number of the first run.
    40 first: u32,
    /// Runs of home pages that are free, stained or open.
    44 runs: [Run; RUNS_PER_PAGE as usize],
}

impl FreeMapPage {
    fn check(&self) -> Result<(), FormatError> {
        let held = self.runs.iter().take_while(|run| **run != Run::NONE).count();
        let (held, behind) = self.runs.split_at(held);
        let wrong = held.iter().find(|run| run.kind == RunKind::Used);
        match wrong.or_else(|| behind.iter().find(|run| **run != Run::NONE)) {
            None => Ok(()),
            Some(run) => Err(FormatError::Field {
                page: Self::LAYOUT.name,
                field: "runs",
                found: format!("{run:?}"),
                expected: "runs that are not used, then nothing".to_owned(),
            }),
        }
    }
}

impl Superblock {
    /// The pages of its copies. An area of version 2 has two.
    pub fn places(&self) -> [u64; 3] {
        self.geometry().map_or([0, 1, 1], |geometry| geometry.superblocks(self.area_size))
    }

    /// Checks that an attach can raise the counts. Only a superblock that seekless did not write has
    /// counts so near to their end.
    ///
    /// # Errors
    /// If a later superblock could not be read.
    pub(crate) fn check_counts(&self) -> Result<(), FormatError> {
        let counts = [
            ("generation", self.generation),
            ("checkpoint_generation", self.checkpoint_generation),
            ("next_sequence", self.next_sequence),
            ("plan_generation", self.plan_generation),
        ];
        match counts.into_iter().find(|(_, count)| *count > ATTACHED_MAX) {
            None => Ok(()),
            Some((field, count)) => Err(FormatError::Field {
                page: Self::LAYOUT.name,
                field,
                found: count.to_string(),
                expected: format!("{ATTACHED_MAX} at most, where the area is to be attached"),
            }),
        }
    }

    /// The division of the area.
    ///
    /// # Errors
    /// If the fields describe no area, or one that is larger than its own size.
    pub fn geometry(&self) -> Result<Geometry, FormatError> {
        let wrong = |expected: String| {
            let found = format!(
                "{} segments for reading and {} of log, of {} pages each",
                self.read_segments, self.log_segments, self.segment_pages
            );
            FormatError::Field { page: Self::LAYOUT.name, field: "segment_pages", found, expected }
        };
        let geometry = Geometry::new(self.segment_pages, self.read_segments, self.log_segments)
            .map_err(|e| wrong(e.to_string()))?
            .with_free_map(self.free_map_pages)
            .with_spread(self.spread);
        if geometry.pages() > self.area_size.0 / PAGE_SECTORS {
            return Err(wrong(format!("what fits into the area's {}", self.area_size)));
        }
        Ok(geometry)
    }

    /// Fields that name a place: a field, whether it holds, its value, and the allowed values.
    fn place_fields(&self, geometry: &Geometry) -> [(&'static str, bool, String, String); 4] {
        let log = geometry.log_segment_numbers();
        let place = self.position;
        [
            (
                "position",
                log.contains(&place.segment) && place.page <= self.segment_pages,
                place.to_string(),
                format!("a page of segments {log:?}"),
            ),
            ("tail", log.contains(&self.tail), self.tail.to_string(), format!("one of {log:?}")),
            (
                "area_at",
                self.inside || self.area_at == Lba(0),
                self.area_at.to_string(),
                "sector 0 where the area is not inside".to_owned(),
            ),
            (
                "area_at",
                self.area_at.0.checked_add(self.area_size.0).is_some(),
                self.area_at.to_string(),
                "an area that ends before sector 2^64".to_owned(),
            ),
        ]
    }

    /// Checks the fields against each other.
    fn check(&self) -> Result<(), FormatError> {
        let geometry = self.geometry()?;
        let all = u64::from(geometry.slots());
        let reading = u64::from(geometry.read_slots());
        let none_or =
            |generation: u64, found: u64, all: u64| found == if generation == 0 { 0 } else { all };
        let checks = [
            (
                "plan_generation",
                self.plan_generation == 0 || self.free_map_pages == 0,
                self.plan_generation.to_string(),
                "0 where copies stand in home".to_owned(),
            ),
            (
                "trail_head",
                u64::from(self.trail_head) <= reading,
                self.trail_head.to_string(),
                format!("{reading} at most"),
            ),
            (
                "learned_bytes",
                self.learned_generation == 0 && self.learned_bytes == 0
                    || self.plan_generation == 0 && self.learned_bytes <= geometry.learned_most(),
                self.learned_bytes.to_string(),
                format!("{} at most, and 0 with a plan", geometry.learned_most()),
            ),
            (
                "checkpoint_entries",
                none_or(self.checkpoint_generation, self.checkpoint_entries, all),
                self.checkpoint_entries.to_string(),
                format!("{all} with a checkpoint, 0 without"),
            ),
            (
                "plan_slots",
                none_or(self.plan_generation, self.plan_slots, reading),
                self.plan_slots.to_string(),
                format!("{reading} with a plan, 0 without"),
            ),
        ];
        match checks.into_iter().chain(self.place_fields(&geometry)).find(|(_, holds, ..)| !holds) {
            None => Ok(()),
            Some((field, _, found, expected)) => {
                Err(FormatError::Field { page: Self::LAYOUT.name, field, found, expected })
            }
        }
    }
}
