//! How the area is divided; all zeroes without an area.

#[cfg(test)]
use seekless_block::PAGE_SECTORS;
use seekless_block::Sectors;

use super::page_map::{Slot, slots};
use crate::Config;
use crate::format::{Contents, Geometry, Position};
use crate::write_buffer::ring::Segment;

/// The numbers of a [`Geometry`], or zeroes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) read_segments: u32,
    pub(crate) log_segments: u32,
    /// Never 0.
    pub(crate) segment_pages: u32,
    geometry: Option<Geometry>,
}

impl Shape {
    /// The division that fits the configured area: smaller segments in a small area, zeroes in one
    /// that is too small.
    pub(crate) fn of(config: &Config) -> Self {
        let contents = Contents::new(config.write_buffer_percent, config.replicas);
        Geometry::fit_smaller(config.area, config.segment_pages, contents)
            .map_or(Self::NONE, Self::new)
    }

    const NONE: Self = Self { read_segments: 0, log_segments: 0, segment_pages: 8, geometry: None };

    pub(crate) const fn new(geometry: Geometry) -> Self {
        Self {
            read_segments: geometry.read_segments(),
            log_segments: geometry.log_segments(),
            segment_pages: geometry.segment_pages(),
            geometry: Some(geometry),
        }
    }

    pub(crate) const fn slots(&self) -> u32 {
        (self.read_segments + self.log_segments) * self.segment_pages
    }

    /// Capacity for a plan.
    pub(crate) const fn room(&self) -> Sectors {
        match &self.geometry {
            Some(geometry) => geometry.capacity(),
            None => Sectors(0),
        }
    }

    /// The contents that an area of this size is divided for.
    pub(crate) fn contents(&self, area: Sectors) -> Contents {
        self.geometry.map_or(Contents::new(0, Sectors(0)), |g| g.contents(area))
    }

    /// The slot of a page of a plan's places.
    pub(crate) const fn slot_of_place(&self, place: u64) -> Slot {
        Slot((place + place / (self.segment_pages as u64 - 1) + 1) as u32)
    }

    /// The inverse of [`Self::slot_of_place`].
    pub(crate) const fn place_of_slot(&self, slot: Slot) -> u64 {
        slot.0 as u64 - slot.0 as u64 / self.segment_pages as u64 - 1
    }

    /// Slots of the read segments, with their maps.
    pub(crate) const fn read_slots(&self) -> u32 {
        self.read_segments * self.segment_pages
    }

    pub(crate) const fn log_slots(&self) -> std::ops::Range<u32> {
        self.read_slots()..self.slots()
    }

    pub(crate) const fn first_of(&self, segment: Segment) -> Slot {
        Slot(self.number_of(segment) * self.segment_pages)
    }

    pub(crate) fn slots_of(&self, segment: Segment) -> impl Iterator<Item = Slot> + use<> {
        let first = self.first_of(segment).0;
        slots(first..first + self.segment_pages)
    }

    pub(crate) const fn segment_of(&self, slot: Slot) -> Segment {
        self.segment(slot.0 / self.segment_pages)
    }

    /// The number of a segment of the log on the area: read segments come first.
    pub(crate) const fn number_of(&self, segment: Segment) -> u32 {
        self.read_segments + segment.0
    }

    /// The inverse of [`Self::number_of`].
    pub(crate) const fn segment(&self, number: u32) -> Segment {
        Segment(number - self.read_segments)
    }

    /// A slot's position on the area.
    pub(crate) const fn position_of(&self, slot: Slot) -> Position {
        Position { segment: slot.0 / self.segment_pages, page: slot.0 % self.segment_pages }
    }

    /// The page of the area that a slot is; `None` for a replica, which stands at home.
    pub(crate) fn page_of(&self, slot: Slot) -> Option<u64> {
        self.geometry.and_then(|g| g.page_of(slot.0))
    }

    /// Pages of a free map; 0 if copies stand in the area.
    pub(crate) fn free_map_pages(&self) -> u32 {
        self.geometry.map_or(0, |g| g.free_map_pages())
    }

    pub(crate) fn free_map_at(&self, slot: u8) -> u64 {
        self.geometry.map_or(0, |g| g.free_map_at(slot))
    }

    pub(crate) fn plan_at(&self) -> u64 {
        self.geometry.map_or(0, |g| g.plan_at())
    }

    pub(crate) fn checkpoint_at(&self, slot: u8) -> u64 {
        self.geometry.map_or(0, |g| g.checkpoint_at(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn places_are_the_slots_for_reading_without_maps(read in 1u32..20, power in 3u32..9) {
            let shape = Shape::new(Geometry::new(1 << power, read, 2).unwrap());
            let places = shape.room().0 / PAGE_SECTORS;
            let slots: Vec<u32> = (0..places).map(|place| shape.slot_of_place(place).0).collect();
            let twin: Vec<u32> = (0..read << power).filter(|slot| slot % (1 << power) != 0).collect();
            prop_assert_eq!(slots, twin);
        }
    }
}
