//! The end of a read. The engine compares the checksums, and gives the bytes to the client and to
//! RAM. Then the reads that waited for this read continue.

use seekless_block::{Extent, Op, PAGE_SECTORS, Sectors};
use seekless_learn::WindowId;

use super::page_map::{CopyState, HomePage, pages, slots};
use super::read::{ALONE, FILLS, JoinedRead, Read, WaitingRead};
use crate::format::{PageSum, UNSUMMED};
use crate::{Engine, Fault, IoId, Memory, MemoryMove, Output, Pending, Sum, SumFor, Target};

impl Engine {
    /// A read ended at the device. True if it now waits for checksums: its name is still in use.
    pub(crate) fn read_done(&mut self, io: IoId, mut read: Read, ok: bool) -> bool {
        if ok {
            let (offset, pages) = match read.from {
                Some(_) => (Sectors(0), (read.io.len.0 / PAGE_SECTORS) as u32),
                None => {
                    let (first, pages) = self.provable(read.io);
                    read.proves = (first, pages);
                    let start = self.home_of(first, 1).start;
                    (Sectors(start.0.saturating_sub(read.io.start.0)), pages)
                }
            };
            if pages > 0 {
                let from = match read.buffer {
                    Some(index) => Memory::Buffer { index, offset },
                    None => Memory::Client { id: read.id, offset: read.offset + offset },
                };
                self.sums.push_back(SumFor::Read(io));
                self.out.push_back(Output::Sum(Sum { from, pages }));
                self.pending[io.0 as usize] = Some(Pending::Summing(read));
                return true;
            }
        }
        self.read_ended(io, &read, ok);
        false
    }

    /// The whole pages of a read from home, if any of them has a copy in doubt.
    fn provable(&self, io: Extent) -> (u64, u32) {
        if self.copies.count(CopyState::Suspect) == 0 {
            return (0, 0);
        }
        let pages = self.whole_pages_of(io);
        let in_doubt = |slot| self.copies.state(slot) == CopyState::Suspect;
        let any = pages.clone().any(|page| self.copies.find_all(HomePage(page)).any(in_doubt));
        if any { (pages.start, (pages.end - pages.start) as u32) } else { (0, 0) }
    }

    pub(crate) fn read_summed(&mut self, io: IoId, sums: &[PageSum]) {
        let Some(Pending::Summing(mut read)) = self.pending[io.0 as usize].take() else {
            unreachable!("only a read that waits for its sums is named")
        };
        match read.from {
            Some(slot) => {
                let wanted = Extent::new(read.io.start.0 + read.skip.0, read.wanted.len.0);
                let mut fault = false;
                let mut again = false;
                for ((slot, &sum), at) in slots(slot.0..u32::MAX).zip(sums).zip(0..) {
                    let page = Extent::new(read.io.start.0 + at * PAGE_SECTORS, PAGE_SECTORS);
                    let asked_for = page.overlaps(wanted) && read.join != FILLS;
                    // A hole between copies was read along: its bytes are not used.
                    let is_hole =
                        !matches!(self.copies.state(slot), CopyState::Clean | CopyState::Dirty);
                    let expected = self.copies.sum(slot);
                    if sum != expected
                        && (asked_for || !is_hole)
                        && expected != UNSUMMED
                        && !self.was_written(slot, read.since)
                    {
                        let lost = self.damaged(slot);
                        fault |= lost && asked_for;
                        read.spoiled |= lost;
                        again |= asked_for;
                    }
                }
                if again {
                    self.release(&read);
                    if fault {
                        self.finish_read(&read, Err(Fault::Damaged(read.wanted)));
                    } else {
                        let found = self.locate(read.wanted);
                        self.read_part(read.part(), found, read.again());
                    }
                    self.wake(io, &read);
                    self.pending_free.push(io.0);
                    return;
                }
            }
            None => {
                let (first, _) = read.proves;
                for (page, &sum) in pages(first..u64::MAX).zip(sums) {
                    self.judge(page, sum, read.since);
                }
            }
        }
        self.read_ended(io, &read, true);
        self.pending_free.push(io.0);
    }

    /// The read no longer holds its part of the area, nor its buffer.
    fn release(&mut self, read: &Read) {
        if let Some(slot) = read.from {
            self.copies.end_read(slot, (read.io.len.0 / PAGE_SECTORS) as u32);
            self.place_was_read();
        }
        if let Some(index) = read.buffer {
            self.buffers_free.push(index);
        }
    }

    fn read_ended(&mut self, io: IoId, read: &Read, ok: bool) {
        self.release(read);
        if ok {
            if let Some(index) = read.buffer
                && read.join != FILLS
            {
                self.out.push_back(Output::Move(MemoryMove {
                    from: Memory::Buffer { index, offset: read.skip },
                    to: Memory::Client { id: read.id, offset: read.offset },
                    len: read.wanted.len,
                }));
            }
            self.finish_read(read, Ok(()));
            if let Some(index) = read.buffer
                && !self.cache.is_off()
                && !read.spoiled
            {
                self.fill_from(read, index);
                self.note_came(read);
                self.read_on(read);
            }
        } else {
            self.read_failed(read);
        }
        self.wake(io, read);
    }

    fn read_failed(&mut self, read: &Read) {
        if read.join == FILLS {
            self.fill_failed(read);
            return;
        }
        let asked = read.again();
        match read.from {
            None if read.io.len > read.wanted.len => {
                // The fault may be in pages that were read along: again, without these pages.
                let mut exact = *read;
                (exact.io, exact.skip, exact.buffer) = (read.wanted, Sectors(0), None);
                exact.window = WindowId::default();
                exact.since = self.writes.since();
                let name = self.start(Pending::Read(exact));
                let memory = Memory::Client { id: read.id, offset: read.offset };
                self.submit(name, Target::Home, Op::Read, exact.io, asked, Some(memory));
            }
            None => self.finish_read(read, Err(Fault::Device(read.wanted))),
            Some(slot) => {
                let first = slot + (read.skip.0 / PAGE_SECTORS) as u32;
                let pages = self.pages_of(read.wanted);
                let count = pages.end - pages.start;
                let exact = read.io.len.0 == count * PAGE_SECTORS;
                let (mut lost, mut spare) = (false, !exact);
                for slot in slots(first.0..first.0 + count as u32) {
                    if self.copies.state(slot) == CopyState::Dirty {
                        lost = true;
                    } else {
                        // Home is still whole.
                        self.drop_bad(slot);
                        spare = true;
                    }
                }
                if lost {
                    self.only_copy_fails();
                }
                if !lost {
                    let found = self.locate(read.wanted);
                    self.read_part(read.part(), found, asked);
                } else if spare {
                    self.read_pieces(read.part(), asked);
                } else {
                    self.finish_read(read, Err(Fault::Device(read.wanted)));
                }
            }
        }
    }

    /// Clients that wait for these copies are served from elsewhere.
    fn fill_failed(&mut self, read: &Read) {
        let Some(first) = read.from else { return };
        let wanted = self.pages_of(read.wanted);
        for slot in slots(first.0..first.0 + (read.io.len.0 / PAGE_SECTORS) as u32) {
            if self.copies.home(slot).is_some_and(|page| wanted.contains(&page.0)) {
                self.drop_bad(slot);
            }
        }
    }

    pub(super) fn finish_read(&mut self, read: &Read, result: Result<(), Fault>) {
        if read.join == FILLS {
            return;
        }
        if read.join == ALONE {
            self.out.push_back(Output::Complete { id: read.id, result });
            return;
        }
        let join = &mut self.joins[read.join as usize];
        join.left -= 1;
        join.fault = join.fault.or(result.err());
        if join.left == 0 {
            let JoinedRead { id, fault, .. } = *join;
            self.out.push_back(Output::Complete { id, result: fault.map_or(Ok(()), Err) });
            self.joins.remove(read.join as usize);
        }
    }

    /// Puts the pages of a read into RAM, except pages that were written since the read began, and
    /// pages whose newest bytes are elsewhere.
    fn fill_from(&mut self, read: &Read, index: u32) {
        match read.from {
            None => self.fill(read, index),
            Some(first) => {
                let pages = (read.io.len.0 / PAGE_SECTORS) as u32;
                for i in 0..pages {
                    let slot = first + i;
                    if !matches!(self.copies.state(slot), CopyState::Clean | CopyState::Dirty) {
                        continue;
                    }
                    let Some(page) = self.copies.home(slot) else { continue };
                    let home = self.home_of(page, 1);
                    let mut from = Sectors(u64::from(i) * PAGE_SECTORS);
                    for piece in self.cache.grid.pieces(home) {
                        let part = Extent::from(piece);
                        self.fill_piece(read, part, index, from, i + read.window_at);
                        from += part.len;
                    }
                }
            }
        }
    }

    fn fill(&mut self, read: &Read, buffer: u32) {
        let home = read.io;
        let first = self.cache.grid.pages(home).start;
        for piece in self.cache.grid.pieces(home) {
            let part = Extent::from(piece);
            let stale = self.pages_of(part).any(|p| self.copies.is_dirty(HomePage(p)));
            if !stale {
                let at = (piece.page - first) as u32 + read.window_at;
                self.fill_piece(read, part, buffer, part.start - home.start, at);
            }
        }
    }

    /// Puts a part of a page into RAM, unless a write has overtaken the read. The page has the number
    /// `at` in the window.
    fn fill_piece(&mut self, read: &Read, part: Extent, buffer: u32, offset: Sectors, at: u32) {
        if self.writes.touched(read.since, part, None) {
            return;
        }
        for piece in self.cache.grid.pieces(part) {
            let inserted = self.cache.insert(piece);
            let demanded = part.overlaps(read.wanted);
            self.note_insert(inserted, piece.page, (!demanded).then_some((read.window, at)));
            self.out.push_back(Output::Move(MemoryMove {
                from: Memory::Buffer { index: buffer, offset },
                to: Memory::Slot { index: inserted.slot, offset: Sectors(piece.offset) },
                len: part.len,
            }));
        }
    }

    /// Serves the reads that waited for a fill: from RAM, or, after a write or a fault, by reads of
    /// their own.
    fn wake(&mut self, fill: IoId, read: &Read) {
        self.end_window(read);
        if read.buffer.is_none() {
            return;
        }
        self.fills.retain(|&f| f != fill);
        let mut at = 0;
        while let Some(&WaitingRead { fill: waits_for, id, extent, asked, waits }) =
            self.waiting.get(at)
        {
            if waits_for == fill {
                self.waiting.remove(at);
                let hits = self.stats.cache_hits;
                self.read(id, extent, asked, waits);
                if read.join == FILLS && !read.wanted.is_empty() {
                    self.stats.cache_hits = hits; // the area served it
                }
            } else {
                at += 1;
            }
        }
    }
}
