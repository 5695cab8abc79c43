//! The area refuses a record: its data goes home in pieces, from the memory of the record.

use seekless_block::{Op, Sectors};

use super::TRIES;
use super::log::Homeward;
use crate::core::page_map::CopyState;
use crate::format::Content;
use crate::{Engine, Memory, Pending, RequestOrigin, Target};

impl Engine {
    /// The area refused the front record: its pages go home.
    pub(super) fn send_home(&mut self) {
        let Some(record) = self.log.records.front() else { return };
        let Content::Data(entries) = &record.content else { return };
        let mut pieces: Vec<(u64, u64, u64)> = Vec::new();
        for (entry, at) in entries.iter().zip(1..) {
            match pieces.last_mut() {
                Some((first, pages, _)) if *first + *pages == entry.home => *pages += 1,
                _ => pieces.push((entry.home, 1, at)),
            }
        }
        let index = record.buffer;
        if let Some(record) = self.log.records.front_mut() {
            (record.ended, record.homeward, record.saved) =
                (false, Some(pieces.len() as u32), true);
        }
        for (page, pages, at) in pieces {
            let extent = self.home_of(page, pages);
            let offset = Sectors(at * seekless_block::PAGE_SECTORS);
            // As with any write home: nobody may use a clean copy from here on. Dirty copies stay
            // in case this write fails.
            self.drop_copies(extent, |state| state != CopyState::Dirty);
            self.background.overtake(page..page + pages);
            let from = Memory::Buffer { index, offset };
            self.send_piece_home(Homeward { extent, from, tries: 0, failures: 0 });
        }
    }

    fn send_piece_home(&mut self, piece: Homeward) {
        let piece = Homeward { failures: self.sync.home.failures, ..piece };
        let io = self.start(Pending::Homeward(piece));
        let (extent, from) = (piece.extent, Some(piece.from));
        self.submit(io, Target::Home, Op::Write, extent, RequestOrigin::default(), from);
    }

    /// A write of a piece of the front record has ended.
    pub(crate) fn piece_home_done(&mut self, piece: Homeward, ok: bool) {
        self.sync.wrote_home();
        // A flush of home that failed meanwhile may have lost it; its memory still has the bytes.
        let ok = ok && piece.failures == self.sync.home.failures;
        if !ok && piece.tries < TRIES {
            self.send_piece_home(Homeward { tries: piece.tries + 1, ..piece });
            return;
        }
        if ok {
            // No other write to these pages was let through meanwhile: other copies are older.
            self.drop_copies(piece.extent, |_| true);
        }
        let Some(record) = self.log.records.front_mut() else { return };
        record.saved &= ok;
        record.homeward = record.homeward.map(|left| left - 1);
        record.ended = record.homeward == Some(0);
        self.end_records();
    }
}
