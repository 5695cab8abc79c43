//! Salvage of an area whose log is broken, or whose checkpoint or free map is damaged.

use seekless_block::Device;

use crate::area::attach::AttachError;
use crate::area::recover::{Recovered, begin};
use crate::area::recover_log::LogFound;
use crate::core::page_map::{UNSUMMED, slots};
use crate::format::AreaFlags;
use crate::free_space::extents::Extents;

/// Recovers as much as possible from an area with a broken log, or with a damaged checkpoint or
/// free map. The numbers of the records tell which are lost.
pub(crate) fn salvage(area: &mut dyn Device) -> Result<(Recovered, Salvage), AttachError> {
    let mut r = begin(area)?;
    let mut salvage = Salvage::default();
    let checkpoint = match r.superblock.checkpoint_generation {
        0 => Ok(()),
        _ => r.load_checkpoint(area),
    };
    let log = match checkpoint {
        Ok(()) => {
            salvage.read_free_map(&mut r, area);
            r.read_log(area)
        }
        Err(error) => {
            salvage.rebuilt = Some(error.to_string());
            salvage.rebuild(&mut r, area)?
        }
    };
    salvage.cut(&mut r, &log);
    r.apply(area, log.records)?;
    r.find_places(area)?;
    let cut = salvage.lost_records.is_some() || !salvage.unreadable.is_empty();
    // A lost record may say that home is newer than a copy before it.
    if cut {
        salvage.doubtful = logged(&r);
    }
    // A lost record may say that a client has written a page which counts as free or stained.
    if r.geo.free_map_pages() > 0 && (cut || salvage.free_map.is_some()) {
        salvage.forget_free(&mut r, area);
    }
    if salvage.rebuilt.is_some() || cut {
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
    /// Home pages in the log before the lost checkpoint, or before the cut. The checkpoint or a lost
    /// record may have known that home is newer.
    pub(crate) doubtful: Vec<u64>,
    /// Whether the log before a lost checkpoint is incomplete.
    pub(crate) incomplete: bool,
    /// Home pages whose copy was written in place, and may since have made way for another.
    pub(crate) replaced: Vec<u64>,
    /// Unreadable pages at which the log may go on.
    pub(crate) unreadable: Vec<u64>,
    /// Why the free map could not be read.
    pub(crate) free_map: Option<String>,
    /// Set if nothing tells any more which pages are free: none counts as free. These pages may
    /// hold bytes of replicas, as far as the area tells.
    pub(crate) stained: Option<Extents>,
    /// Home may be newer than the area's records.
    pub(crate) outdated: bool,
}

impl Salvage {
    /// The map or the free pages are others than the area says.
    pub(crate) const fn changes_metadata(&self) -> bool {
        self.rebuilt.is_some() || self.stained.is_some()
    }

    /// Somebody wrote home, perhaps in pages that the area calls free or stained: a read of them
    /// must not hide these bytes, and nothing may write zeroes over them.
    pub(crate) fn doubt_records(&mut self, r: &mut Recovered, area: &mut dyn Device) {
        self.outdated = true;
        if r.geo.free_map_pages() > 0 {
            self.forget_free(r, area);
        }
    }

    fn forget_free(&mut self, r: &mut Recovered, area: &mut dyn Device) {
        let found = r.forget_free(area);
        self.stained.get_or_insert_default().extend(found.iter());
    }

    fn read_free_map(&mut self, r: &mut Recovered, area: &mut dyn Device) {
        if r.superblock.checkpoint_generation > 0
            && let Err(error) = r.load_free_map(area)
        {
            self.free_map = Some(error.to_string());
        }
    }

    /// Rebuilds the map without the checkpoint. Returns the log from the checkpoint's position on.
    fn rebuild(
        &mut self,
        r: &mut Recovered,
        area: &mut dyn Device,
    ) -> Result<LogFound, AttachError> {
        *r = begin(area)?;
        let replicas = r.geo.free_map_pages() > 0;
        if !replicas {
            for segment in 0..r.geo.read_segments {
                r.load_read_segment(area, segment);
            }
        }
        let (before, complete) = r.log_before(area);
        let log = r.read_log(area);
        let at = (r.ring.head, r.page);
        // The checkpoint alone knew which copies were written in place.
        let in_place = r.superblock.flags.contains(AreaFlags::IN_PLACE);
        self.incomplete = !complete || in_place;
        if let Some(first) = before.first() {
            r.ring.head = r.geo.segment_of(first.slot);
            r.apply(area, before)?;
        }
        (r.ring.head, r.page) = at;
        if replicas {
            // The map of a segment may be out of date, and its place may have another replica since.
            // Replicas are copies: losing them costs speed alone.
            r.clear(0..r.geo.read_slots());
            // The records so far are older than the free map.
            self.read_free_map(r, area);
        }
        self.doubtful = logged(r);
        Ok(log)
    }

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

/// The home pages that the log has copies of.
fn logged(r: &Recovered) -> Vec<u64> {
    slots(r.geo.log_slots()).filter_map(|slot| Some(r.map.home(slot)?.0)).collect()
}
