//! Reading the parts of a store: the log, the headers and records of the checkpoints. A page that
//! cannot be read counts as a damaged one, but where a batch of the log may be: the device may read
//! that page later.

use seekless_block::{Device, PAGE_BYTES};

use super::{AttachError, read_page};
use crate::format::{Change, CheckpointHeader, Geometry, Page, RecordPage, Role, crc32c, records};

const SCAN_PAGES: u64 = 64;

/// The newest numbers in the pages of the log.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Newest {
    pub(super) sequence: u64,
    pub(super) checkpoint: u64,
}

/// Reads the parts of a store.
pub(super) struct Reader<'a> {
    pub(super) device: &'a mut dyn Device,
    pub(super) geometry: Geometry,
    pub(super) uuid: [u8; 16],
}

impl Reader<'_> {
    /// Scans the whole log for the newest numbers.
    pub(super) fn newest(&mut self) -> Newest {
        let mut newest = Newest::default();
        let all = u64::from(self.geometry.log_pages);
        let mut bytes = Vec::new();
        for from in (0..all).step_by(SCAN_PAGES as usize) {
            let pages = SCAN_PAGES.min(all - from);
            bytes.resize((pages * PAGE_BYTES) as usize, 0);
            let at = self.geometry.log_at() + from;
            if self.device.read(Geometry::pages(at, pages), &mut bytes).is_err() {
                self.read_one_by_one(at, bytes.as_chunks_mut().0);
            }
            for page in bytes.as_chunks().0 {
                if let Ok(read) = RecordPage::decode(page)
                    && read.uuid == self.uuid
                    && read.role == Role::Log
                {
                    newest.sequence = newest.sequence.max(read.number);
                    newest.checkpoint = newest.checkpoint.max(read.checkpoint);
                }
            }
        }
        newest
    }

    /// Reads pages of the log; those that cannot be read become zeroes.
    fn read_one_by_one(&mut self, first: u64, pages: &mut [Page]) {
        for (at, page) in (first..).zip(pages) {
            *page = read_page(self.device, at).unwrap_or([0; PAGE_BYTES as usize]);
        }
    }

    /// The header of one of the two checkpoints, or the reason why it cannot be used.
    pub(super) fn header(&mut self, slot: u64) -> Result<CheckpointHeader, String> {
        let at = self.geometry.checkpoint_at(slot);
        let page = read_page(self.device, at).map_err(|error| format!("page {at}: {error}"))?;
        match CheckpointHeader::decode(&page, &self.geometry) {
            Ok(h) if h.uuid != self.uuid => Err(format!("page {at} belongs to another store")),
            Ok(h) if h.generation & 1 != slot => {
                Err(format!("page {at} belongs to the other checkpoint"))
            }
            Ok(h) => Ok(h),
            Err(error) => Err(format!("page {at}: {error}")),
        }
    }

    /// The records of a checkpoint, or the reason why a page cannot be used.
    pub(super) fn tables(
        &mut self,
        header: &CheckpointHeader,
    ) -> Result<Result<Vec<Change>, String>, AttachError> {
        let at = self.geometry.checkpoint_at(header.generation) + 1;
        let mut changes = Vec::new();
        let mut bytes = Vec::new();
        for from in (0..u64::from(header.pages)).step_by(SCAN_PAGES as usize) {
            let pages = SCAN_PAGES.min(u64::from(header.pages) - from);
            bytes.resize((pages * PAGE_BYTES) as usize, 0);
            if let Err(error) = self.device.read(Geometry::pages(at + from, pages), &mut bytes) {
                return Ok(Err(error.to_string()));
            }
            for (i, page) in (from..).zip(bytes.as_chunks().0) {
                let read = match RecordPage::decode(page) {
                    Ok(read) => read,
                    Err(error) => return Ok(Err(format!("page {}: {error}", at + i))),
                };
                let own = (read.uuid, read.role, read.number, u64::from(read.index));
                if own != (self.uuid, Role::Checkpoint, header.generation, i) {
                    return Ok(Err(format!("page {} belongs to another checkpoint", at + i)));
                }
                let read = records(&read.body)
                    .map_err(|source| AttachError::Record { page: at + i, source })?;
                changes.extend(read);
            }
        }
        Ok(Ok(changes))
    }

    /// The batch with this sequence number and its length in pages, if the batch begins at this
    /// page of the log.
    pub(super) fn batch(
        &mut self,
        page: u32,
        sequence: u64,
    ) -> Result<Option<(Vec<Change>, u32)>, AttachError> {
        let at = self.geometry.log_at() + u64::from(page);
        let (uuid, log_pages) = (self.uuid, self.geometry.log_pages);
        let mut one = |i: u32| -> Result<Option<RecordPage>, AttachError> {
            let own = |r: &RecordPage| {
                (r.uuid, r.role, r.number, r.index) == (uuid, Role::Log, sequence, i)
            };
            let page = at + u64::from(i);
            let read = read_page(self.device, page)
                .map_err(|source| AttachError::LogPage { page, source })?;
            Ok(RecordPage::decode(&read).ok().filter(own))
        };
        if page >= log_pages {
            return Ok(None);
        }
        let Some(first) = one(0)? else { return Ok(None) };
        let pages = first.pages;
        if pages == 0 || pages > log_pages - page {
            return Ok(None);
        }
        let mut bodies = vec![first.body];
        for i in 1..pages {
            let Some(next) = one(i)? else { return Ok(None) };
            if (next.pages, next.batch_sum) != (pages, first.batch_sum) {
                return Ok(None);
            }
            bodies.push(next.body);
        }
        if crc32c(bodies.iter().map(|body| &body[..])) != first.batch_sum {
            return Ok(None);
        }
        let mut changes = Vec::new();
        for (i, body) in (0..).zip(&bodies) {
            let read =
                records(body).map_err(|source| AttachError::Record { page: at + i, source })?;
            changes.extend(read);
        }
        Ok(Some((changes, pages)))
    }
}
