//! Appending to the trail: a ring of segments with copies in the order of use. The bytes come from RAM, so that only a write is
//! needed. Before a part of the ring is used again, the area durably knows that nothing stands there.

use seekless_block::{Duration, Op, PAGE_BYTES, PAGE_SECTORS, Sectors, SimTime};

use super::{JobStep, PIECE_PAGES, pages_in, stage};
use crate::core::page_map::{CopyState, HomePage, Slot, slots};
use crate::format::Content;
use crate::write_buffer::durability::Waiter;
use crate::{Engine, Memory, MemoryMove, Output, Target};

/// Clients ask for nothing.
const IDLE: Duration = Duration(20_000_000);
/// Segments that are made void in one go.
const VOID: u32 = 64;

/// Where the ring is written.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    head: u32,
    /// Slots from the head on of which the area knows that nothing stands there.
    void: u32,
}

impl Ring {
    /// The next slot to be written.
    pub(crate) const fn head(&self) -> u32 {
        self.head
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Segments from this one up to that are being made void.
    Void(u32, u32),
    Sum,
    Write,
}

/// A batch on its way, or space for the next ones.
#[derive(Debug)]
pub(crate) struct Append {
    number: u64,
    phase: Phase,
    base: Slot,
    items: Vec<(Slot, HomePage)>,
    writes: Vec<(Slot, u32)>,
    next: usize,
}

impl Append {
    pub(crate) fn overtake(&self, pages: std::ops::Range<u64>, bad: &mut [bool]) {
        for &(slot, page) in &self.items {
            if pages.contains(&page.0) {
                bad[(slot - self.base) as usize] = true;
            }
        }
    }
}

impl Engine {
    /// When pages are to be appended, if any wait.
    pub(crate) fn appends_at(&self) -> Option<SimTime> {
        let pending = self.ahead.as_ref()?.policy.pending();
        let quiet = self.clients_io() == 0;
        let small = self.config.append_pages as usize;
        if pending < small.max(1) {
            None
        } else if pending >= 15 * small || quiet && pending >= self.batch() {
            Some(SimTime::ZERO)
        } else {
            quiet.then_some(self.background.foreground_at + IDLE)
        }
    }

    /// Pages of a batch; two segments without their first pages hold 2 MiB.
    const fn batch(&self) -> usize {
        (8 * self.config.append_pages as usize).saturating_sub(2)
    }

    pub(crate) fn begin_append(&mut self) -> Option<Append> {
        let may = !self.log.starved && !self.log.failed;
        if !may || !self.ahead.as_mut()?.policy.may_append() {
            return None;
        }
        let (per, all) = (self.geo.segment_pages, self.geo.read_slots());
        let ring = &mut self.background.trail;
        if ring.head >= all {
            ring.head = 0;
        }
        self.background.windows += 1;
        let mut job = Append {
            number: self.background.windows,
            phase: Phase::Sum,
            base: Slot(ring.head),
            items: Vec::new(),
            writes: Vec::new(),
            next: 0,
        };
        if ring.void == 0 {
            let first = ring.head / per;
            let last = (first + VOID.min(self.geo.read_segments / 4).max(1)).min(all / per);
            job.phase = Phase::Void(first, last);
            self.void_segments(first, last, job.number);
            return Some(job);
        }
        self.take_batch(&mut job);
        if job.items.is_empty() {
            return None;
        }
        Some(job)
    }

    fn void_segments(&mut self, first: u32, last: u32, number: u64) {
        let per = self.geo.segment_pages;
        for slot in slots(first * per..last * per) {
            self.copies.clear(slot);
        }
        self.log.control(Content::Invalid((first..last).collect()), false);
        self.sync.wait(Waiter::Move(number));
        self.pump_log();
        self.pump_sync();
    }

    /// Copies waiting pages from RAM into the staging memory: those that RAM holds whole, and that home holds too.
    fn take_batch(&mut self, job: &mut Append) {
        let per = self.geo.segment_pages;
        let room = self.background.trail.void.min(pages_in(self.config.stage_bytes));
        self.background.clear_stage(room);
        let (mut slot, batch) = (job.base, self.batch());
        while slot.0 < job.base.0 + room && job.items.len() < batch {
            if slot.0.is_multiple_of(per) {
                slot = slot + 1;
                continue;
            }
            let Some(page) = self.ahead.as_mut().and_then(|a| a.policy.next_to_append()) else {
                break;
            };
            let Some(home) = self.cache.grid.home_page(page) else { continue };
            if self.stage_from_ram(home, slot - job.base) {
                job.items.push((slot, home));
                slot = slot + 1;
            }
        }
        if let Some(&(last, _)) = job.items.last() {
            self.sum_stage(0, last + 1 - job.base);
        }
    }

    fn stage_from_ram(&mut self, page: HomePage, at: u32) -> bool {
        let home = self.home_of(page, 1);
        if home.end().0 > self.config.capacity.0
            || self.copies.state_of(page) == Some(CopyState::Dirty)
            || self.writes.open_overlaps(home)
        {
            return false;
        }
        let Some(piece) = self.cache.grid.pieces(home).next() else { return false };
        let Some(index) = self.cache.find(piece).filter(|_| piece.len == PAGE_SECTORS) else {
            return false;
        };
        let from = Memory::Slot { index, offset: Sectors(0) };
        self.out.push_back(Output::Move(MemoryMove {
            from,
            to: stage(at),
            len: Sectors(PAGE_SECTORS),
        }));
        true
    }

    pub(crate) fn step_append(&mut self, job: &mut Append) -> JobStep {
        match job.phase {
            Phase::Void(first, last) => self.await_ring(job, first, last),
            Phase::Sum => {
                if self.background.sums_awaited {
                    return JobStep::Wait;
                }
                for &(slot, _) in &job.items {
                    match job.writes.last_mut() {
                        Some((first, n)) if slot - *first <= *n + 1 && *n < 2 * PIECE_PAGES => {
                            *n = slot - *first + 1
                        }
                        _ => job.writes.push((slot, 1)),
                    }
                }
                job.phase = Phase::Write;
                JobStep::Again
            }
            Phase::Write => {
                if let Some(&(slot, pages)) = job.writes.get(job.next) {
                    if self.background.in_flight >= super::DEPTH {
                        return JobStep::Wait;
                    }
                    job.next += 1;
                    let from = slot - job.base;
                    let extent = self.place_of(slot, pages.into());
                    let memory = Some(stage(from));
                    self.submit_background(Target::Area, Op::Write, extent, memory);
                    return JobStep::Again;
                }
                if self.background.in_flight > 0 {
                    return JobStep::Wait;
                }
                self.end_append(job);
                JobStep::Over
            }
        }
    }

    /// A part of the ring is void once the area durably knows, and once nobody reads there.
    fn await_ring(&mut self, job: &Append, first: u32, last: u32) -> JobStep {
        let per = self.geo.segment_pages;
        match self.background.synced.filter(|s| s.0 == job.number).map(|s| s.1) {
            None if self.log.starved || self.log.failed => JobStep::Over,
            None => JobStep::Wait,
            Some(false) => JobStep::Over,
            Some(true) if (first..last).any(|s| self.copies.is_read(s)) => {
                self.background.awaits_readers = true;
                JobStep::Wait
            }
            Some(true) => {
                self.background.awaits_readers = false;
                self.background.trail.void = last * per - self.background.trail.head;
                JobStep::Over
            }
        }
    }

    /// The batch is written: its copies may be used.
    fn end_append(&mut self, job: &Append) {
        let Some(&(last, _)) = job.items.last() else { return };
        for &(slot, page) in &job.items {
            let at = (slot - job.base) as usize;
            if self.background.bad[at] || self.copies.state_of(page) == Some(CopyState::Dirty) {
                self.stats.overtaken += PAGE_SECTORS;
                continue;
            }
            self.copies.add(slot, page, CopyState::Clean, self.background.sums[at]);
            self.stats.moved_bytes += PAGE_BYTES;
            if let Some(ahead) = &mut self.ahead {
                ahead.policy.appended(slot.0);
            }
        }
        let written = last + 1 - job.base;
        let ring = &mut self.background.trail;
        ring.head += written;
        ring.void -= written;
    }
}
