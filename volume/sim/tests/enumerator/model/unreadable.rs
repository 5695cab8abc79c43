//! Pages that a failed flush of the area may have lost. Until a client writes such a page again, a
//! request over the page may fail: only the write buffer had its newest bytes.

use seekless_block::{Flags, Op, PAGE_SECTORS};

use super::{HistoryStep, Issued, Model, Version};

impl Model {
    /// A flush of the area failed, which may hold newer bytes than home, and the host forgot sectors
    /// that it could not write. Of a page with a write that no flush has covered, all bytes may be
    /// lost, flushed ones too. Pages begin at sector `grid`. Copies that are written `in_place` have
    /// no checksums: there, reads may return a version before such a write.
    pub(crate) fn area_forgot(&mut self, grid: u64, in_place: bool) {
        self.step += 1;
        if in_place {
            self.forgot();
            self.wavers = true;
            let all = self.sectors.iter_mut().flatten();
            all.filter(|v| v.done.is_none()).for_each(|v| v.unsure = true);
        }
        let (first, page) = (grid as usize, PAGE_SECTORS as usize);
        let pages = self.sectors[first..].chunks_exact(page);
        for (versions, lost) in pages.zip(self.unreadable[first..].chunks_exact_mut(page)) {
            if versions.iter().flatten().any(|v| v.durable.is_none()) {
                lost.fill(self.step);
            }
        }
    }

    /// Home has all bytes, durably: from here on no page may be lost.
    pub(crate) fn all_is_readable(&mut self) {
        self.unreadable.fill(0);
    }

    /// Whether any page may be lost.
    pub(crate) fn has_unreadable(&self) -> bool {
        let mut all = self.sectors.iter().zip(&self.unreadable);
        all.any(|(versions, &lost)| is_unreadable(versions, lost, self.step + 1))
    }

    /// Whether a request touches a page that may be lost.
    pub(crate) fn touches_unreadable(&self, issued: Issued, grid: u64) -> bool {
        let (start, end) = (issued.extent.start.0, issued.extent.end().0);
        let first = start.saturating_sub(grid) / PAGE_SECTORS;
        let pages = end.saturating_sub(grid).div_ceil(PAGE_SECTORS);
        let end = (grid + pages * PAGE_SECTORS).min(self.len());
        let mut touched = grid + first * PAGE_SECTORS..end;
        touched.any(|lba| {
            is_unreadable(&self.sectors[lba as usize], self.unreadable[lba as usize], issued.step)
        })
    }
}

impl Issued {
    /// Whether the request may have to wait for a record of the log. With `replicas` that holds for
    /// each write: the area then knows which pages are free.
    pub(crate) fn waits_for_records(&self, replicas: bool) -> bool {
        self.op == Op::Flush
            || self.flags.contains(Flags::FUA)
            || replicas && self.op.is_write_like()
    }
}

/// Whether a request of this moment may find a sector unreadable that was lost at the moment `lost`
/// (0: never): no write of it has ended well since.
pub(super) fn is_unreadable(versions: &[Version], lost: HistoryStep, at: HistoryStep) -> bool {
    let again = |v: &Version| v.issued > lost && !v.weak && v.done.is_some_and(|done| done < at);
    lost > 0 && !versions.iter().any(again)
}

/// When the sector was lost, for the life after a crash: only writes on stable storage count.
pub(super) fn unreadable_after_crash(
    versions: &[Version],
    lost: HistoryStep,
    now: HistoryStep,
) -> HistoryStep {
    let again = |v: &Version| v.issued > lost && !v.weak && v.durable.is_some();
    if lost == 0 || versions.iter().any(again) { 0 } else { now }
}

/// A flush covers unsure writes after all: reads no longer return what they replaced.
pub(super) fn settle_unsure(versions: &mut [Version], now: HistoryStep) {
    let settled = |v: &Version| v.unsure && !v.weak && v.durable.is_some();
    while let Some(at) = versions.iter().position(settled) {
        versions[at].unsure = false;
        let (name, since) = (versions[at].name, versions[at].issued);
        for v in versions.iter_mut().filter(|v| v.name != name) {
            if v.done.is_some_and(|done| done < since) {
                v.follow(name, now);
            }
        }
    }
}
