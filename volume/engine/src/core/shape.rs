//! The division of the area, as the engine uses it: its slots, and the segments of the log.

use super::page_map::{Slot, slots};
use crate::Config;
use crate::format::{Contents, Geometry, Position};
use crate::write_buffer::ring::Segment;

impl Geometry {
    /// The division that fits the configured area: smaller segments in a small area, no segments in
    /// one that is too small.
    pub(crate) fn of(config: &Config) -> Self {
        let contents = Contents::new(config.write_buffer_percent, config.replicas);
        Self::fit_smaller(config.area, config.segment_pages, contents).unwrap_or_default()
    }

    /// The slot of a page of a plan's places.
    pub(crate) const fn slot_of_place(&self, place: u64) -> Slot {
        Slot((place + place / (self.segment_pages as u64 - 1) + 1) as u32)
    }

    /// The inverse of [`Self::slot_of_place`].
    pub(crate) const fn place_of_slot(&self, slot: Slot) -> u64 {
        slot.0 as u64 - slot.0 as u64 / self.segment_pages as u64 - 1
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

    pub(crate) const fn position_of(&self, slot: Slot) -> Position {
        Position { segment: slot.0 / self.segment_pages, page: slot.0 % self.segment_pages }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seekless_block::PAGE_SECTORS;

    proptest! {
        #[test]
        fn places_are_the_slots_for_reading_without_maps(read in 1u32..20, power in 3u32..9) {
            let geo = Geometry::new(1 << power, read, 2).unwrap();
            let places = geo.capacity().0 / PAGE_SECTORS;
            let slots: Vec<u32> = (0..places).map(|place| geo.slot_of_place(place).0).collect();
            let twin: Vec<u32> = (0..read << power).filter(|slot| slot % (1 << power) != 0).collect();
            prop_assert_eq!(slots, twin);
        }
    }
}
