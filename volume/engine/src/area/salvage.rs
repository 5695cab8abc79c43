//! Salvage of an area whose log is broken or whose checkpoint is damaged.

use seekless_block::Device;

use crate::area::attach::AttachError;
use crate::area::recover::{Recovered, begin};
use crate::area::recover_log::LogFound;
use crate::core::page_map::{UNSUMMED, slots};
use crate::format::AreaFlags;

/// Recovers as much as possible from an area with a broken log or a damaged checkpoint. The numbers
/// of the records tell which are lost.
pub(crate) fn salvage(area: &mut dyn Device) -> Result<(Recovered, Salvage), AttachError> {
    let mut r = begin(area)?;
    let mut salvage = Salvage::default();
    let checkpoint = match r.superblock.checkpoint_generation {
        0 => Ok(()),
        _ => r.load_checkpoint(area).and_then(|()| r.load_free_map(area)),
    };
    let log = match checkpoint {
        Ok(()) => {
            let log = r.read_log(area);
            let broken = r.broken(&log).or_else(|| log.unreadable());
            if let Some(broken) = broken.filter(|_| r.geo.free_map_pages() > 0) {
                return Err(AttachError::ReplicasUnknown(Box::new(broken)));
            }
            salvage.cut(&mut r, &log);
            log
        }
        // Nothing else tells where replicas may stand in discarded pages: clients would read their
        // bytes.
        Err(error) if r.geo.free_map_pages() > 0 => {
            return Err(AttachError::ReplicasUnknown(Box::new(error)));
        }
        Err(error) => {
            salvage.rebuilt = Some(error.to_string());
            r = begin(area)?;
            for segment in 0..r.geo.read_segments {
                r.load_read_segment(area, segment);
            }
            let (before, complete) = r.log_before(area);
            let log = r.read_log(area);
            let at = (r.ring.head, r.page);
            // The checkpoint alone knew which copies were written in place.
            let in_place = r.superblock.flags.contains(AreaFlags::IN_PLACE);
            salvage.incomplete = !complete || in_place;
            if let Some(first) = before.first() {
                r.ring.head = r.geo.segment_of(first.slot);
                r.apply(area, before)?;
            }
            (r.ring.head, r.page) = at;
            salvage.doubtful =
                slots(r.geo.log_slots()).filter_map(|slot| Some(r.map.home(slot)?.0)).collect();
            salvage.cut(&mut r, &log);
            log
        }
    };
    r.apply(area, log.records)?;
    r.find_places(area)?;
    if salvage.rebuilt.is_some() || salvage.lost_records.is_some() || !salvage.unreadable.is_empty()
    {
        salvage.give_up_unsummed(&mut r);
    }
    Ok((r, salvage))
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Salvage {
    /// The first missing record, and a record that knows of it.
    pub(crate) lost_records: Option<(u64, u64)>,
    /// Why the map was rebuilt from the segments.
    pub(crate) rebuilt: Option<String>,
    /// Then: home pages in the log before the lost checkpoint. The checkpoint may have known that
    /// home is newer.
    pub(crate) doubtful: Vec<u64>,
    /// And whether that part of the log is incomplete.
    pub(crate) incomplete: bool,
    /// Home pages whose copy was written in place, and may since have made way for another.
    pub(crate) replaced: Vec<u64>,
    /// Unreadable pages at which the log may go on.
    pub(crate) unreadable: Vec<u64>,
}

impl Salvage {
    /// A lost record may tell that the place of a copy was used again. Of a copy without a sum
    /// nothing else tells that.
    fn give_up_unsummed(&mut self, r: &mut Recovered) {
        for slot in slots(0..r.geo.read_slots()) {
            if let Some(home) = r.map.home(slot).filter(|_| r.map.sum(slot) == UNSUMMED) {
                self.replaced.push(home.0);
                r.map.clear(slot);
            }
        }
    }

    /// Ends the log at the break.
    fn cut(&mut self, r: &mut Recovered, log: &LogFound) {
        self.unreadable.clone_from(&log.unreadable);
        if let Some(AttachError::BrokenLog { sequence, later, .. }) = r.broken(log) {
            self.lost_records = Some((sequence, later));
            // No record behind the cut may ever count as a later one.
            r.sequence = later + 1;
        }
    }
}
