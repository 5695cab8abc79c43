//! The repair of a guard that [`Guard::standing`] refuses.

use seekless_block::PAGE_BYTES;
use seekless_engine::format::{GUARD_WORDS, GuardHeader, GuardPage, GuardState};

use super::{
    EndContents, Guard, GuardError, REGION, header_down, open_pages, region_bytes, sum_pages,
    write_header, wrong,
};

const BOTH_DAMAGED: &str = "both the guard region's header and the guard on the disk are damaged";

/// A fault of the guard, as a repair finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardFault {
    /// The fault; the remedy follows the first semicolon.
    pub why: String,
    /// The repair gives up bytes that a program wrote.
    pub loses: bool,
    /// The region has home's ends, and their checksums are gone with its header: nothing tells
    /// whether the ends are whole.
    pub unproven: bool,
}

impl GuardFault {
    /// The fault alone.
    pub fn fault(&self) -> &str {
        self.why.split_once("; ").map_or(self.why.as_str(), |(fault, _)| fault)
    }
}

/// What ends a fault.
struct Remedy {
    fault: GuardFault,
    /// The region's header, which is written again if `is_new`.
    header: GuardHeader,
    is_new: bool,
}

impl Guard<'_> {
    /// The fault that a repair would end; writes nothing. `None`: no fault. A fault that cannot be
    /// repaired is an error.
    pub(crate) fn fault(&mut self) -> Result<Option<GuardFault>, GuardError> {
        Ok(self.remedy()?.map(|remedy| remedy.fault))
    }

    /// Ends this fault. Without `lose`, a repair that gives up bytes writes nothing.
    pub(crate) fn repair(&mut self, lose: bool) -> Result<Option<GuardFault>, GuardError> {
        let Some(Remedy { fault, header, is_new }) = self.remedy()? else { return Ok(None) };
        if fault.loses && !lose {
            return Ok(Some(fault));
        }
        if is_new {
            // The pages at home that it speaks of may be only in a cache.
            self.home.flush()?;
            write_header(self.region, &header)?;
        } else if header.state == GuardState::Up {
            self.write_home(&self.guard_pages(&header))?;
            open_pages(self.region, u64::MAX)?;
            sum_pages(self.region)?;
        } else {
            self.restore()?;
        }
        Ok(Some(fault))
    }

    fn remedy(&mut self) -> Result<Option<Remedy>, GuardError> {
        let (why, loses) = match self.standing() {
            Ok(_) => return Ok(None),
            Err(GuardError::Wrong { why, loses, .. }) => (why, loses),
            Err(e) => return Err(e),
        };
        // Decided before the question: what cannot be repaired is refused with and without `lose`.
        let first = self.first()?;
        let (header, is_new) = match self.header()? {
            Some(Ok(h))
                if (h.uuid, h.home_capacity) == (self.uuid, self.capacity)
                    && h.state != GuardState::Down
                    // A later guard belongs to a newer copy of the area.
                    && first.as_ref().is_none_or(|p| {
                        p.uuid == self.uuid && p.generation <= h.generation
                    }) =>
            {
                (h, false)
            }
            Some(Err(_)) | None if self.region.capacity().0 >= REGION => {
                (self.header_by_home(first)?, true)
            }
            // No state is proven.
            _ => return wrong(loses, why),
        };
        let unproven = is_new && header.state != GuardState::Down;
        Ok(Some(Remedy { fault: GuardFault { why, loses, unproven }, header, is_new }))
    }

    /// A header for the pages at home; writes nothing.
    ///
    /// If no guard stands there, the guard's number begins again, and an older copy of the area may
    /// know a guard with the next number. If a guard stands there, its pages do not name the
    /// generation that the area has after its repair. An older copy of the area is refused in both
    /// cases: an attach has the guard name the area's generation before the first request, and no
    /// generation comes twice. Copies that are as new as this name have all that clients wrote.
    fn header_by_home(&mut self, first: Option<GuardPage>) -> Result<GuardHeader, GuardError> {
        let mut header = header_down(self.uuid, self.capacity);
        // If the first page is not a guard page, the last pages may be.
        let home = self.read_home()?;
        let mut pages =
            home.chunks_exact(PAGE_BYTES as usize).filter_map(|p| GuardPage::decode(p).ok());
        if let Some(page) = first.or_else(|| pages.next()) {
            if page.uuid != self.uuid {
                return self.of_another(&page);
            }
            (header.generation, header.place) = (page.generation, page.place);
            let region = region_bytes(self.region)?;
            let found = self.compare(&header, Some(&region))?;
            (header.state, header.sum) = match found {
                EndContents { region: 0, other: 0, .. } => (GuardState::Up, 0),
                EndContents { other: 0, .. } => {
                    (GuardState::Between, crc_fast::crc32_iscsi(&region))
                }
                _ => return wrong(true, BOTH_DAMAGED),
            };
        } else if home.windows(GUARD_WORDS.len()).any(|w| w == GUARD_WORDS) {
            return wrong(true, BOTH_DAMAGED);
        }
        Ok(header)
    }
}
