//! Appending to the trail: a ring of segments with copies in the order of use. The bytes come from
//! RAM: only a write is needed. Before a part of the ring is written again, the area durably knows
//! that nothing stands there, and no read of this part is in flight.

use seekless_block::{Duration, Op, PAGE_BYTES, PAGE_SECTORS, Sectors, SimTime};

use super::{JobStep, PIECE_PAGES, RETRY, pages_in, stage};
use crate::core::page_map::{CopyState, HomePage, Slot, slots};
use crate::format::Content;
use crate::{Class, Engine, Output, Target};

/// Clients are idle if none has waited for this long, or for longer: see [`Ring::idle`].
const IDLE: Duration = Duration(20_000_000);
/// Longest such time.
const IDLE_MOST: Duration = Duration(2_000_000_000);
/// A short write takes less, with the way to the trail and back.
const FITS: Duration = Duration(15_000_000);
/// Most segments that one job makes void.
const VOID: u32 = 64;
/// Longest write, 2 MiB.
const MOST: u32 = 2 * PIECE_PAGES;

#[derive(Debug)]
pub(crate) struct Ring {
    head: u32,
    /// Slots from the head on that are durably void.
    void: u32,
    /// After a failure, nothing is appended before this time.
    not_before: SimTime,
    /// Memory for the next batch.
    spare: Vec<(Slot, HomePage)>,
    /// Without a client that waits for this long, clients are idle. It grows if a client comes while
    /// a short batch is written, so that few of them do.
    idle: Duration,
}

impl Default for Ring {
    fn default() -> Self {
        let (not_before, spare) = (SimTime::ZERO, Vec::new());
        Self { head: 0, void: 0, not_before, spare, idle: IDLE }
    }
}

impl Ring {
    /// A short batch is written. About one in fourteen has a client wait for its end.
    fn wrote_short(&mut self, client_waits: bool) {
        let Duration(idle) = self.idle;
        let next = if client_waits { idle / 2 * 3 } else { idle / 32 * 31 };
        self.idle = Duration(next.clamp(IDLE.0, IDLE_MOST.0));
    }

    /// Goes on behind this slot, at the next segment: the copies before it in its segment stay.
    pub(crate) const fn resume(&mut self, head: u32, segment_pages: u32) {
        self.head = head.next_multiple_of(segment_pages);
    }

    pub(crate) const fn head(&self) -> u32 {
        self.head
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AppendPhase {
    /// The segments from the first up to the second are being made void.
    Void(u32, u32),
    Sum,
    Write,
}

/// A batch of copies on its way to the area, or the preparation of space for the next batches.
#[derive(Debug)]
pub(crate) struct Append {
    number: u64,
    phase: AppendPhase,
    base: Slot,
    items: Vec<(Slot, HomePage)>,
    /// Slots from the base on that have been submitted.
    sent: u32,
}

impl Append {
    /// Slots from the base to the last copy.
    fn pages(&self) -> u32 {
        self.items.last().map_or(0, |&(last, _)| last + 1 - self.base)
    }

    pub(crate) fn overtake(&self, pages: std::ops::Range<u64>, bad: &mut [bool]) {
        for &(slot, page) in &self.items {
            if pages.contains(&page.0) {
                bad[(slot - self.base) as usize] = true;
            }
        }
    }
}

impl Engine {
    /// The time of the next append; `None` without one.
    pub(crate) fn appends_at(&self) -> Option<SimTime> {
        let ahead = self.ahead.as_ref()?;
        let (pending, presses) = (ahead.policy.pending(), ahead.pace.presses());
        // A page that has waited for long leaves RAM soon.
        let late = ahead.policy.pending_waits() > self.cache.pages() / 4 * 3;
        let quiet = self.clients_io() == 0;
        let small = self.config.append_pages as usize;
        let at = if pending < small.max(1) {
            return None;
        } else if late
            || presses && (pending >= 15 * small || quiet && pending >= self.most_of_batch())
        {
            SimTime::ZERO
        } else if quiet {
            let fits = ahead.pace.short_gap() >= FITS;
            let idle = if fits { Duration::ZERO } else { self.background.trail.idle };
            ahead.pace.quiet_since().unwrap_or_default() + idle
        } else {
            return None;
        };
        Some(at.max(self.background.trail.not_before))
    }

    /// Pages of the next batch. Between requests that follow each other without a pause, a long
    /// write costs least. If clients leave time, a short one fits better there.
    fn batch(&self) -> usize {
        if self.presses() { self.most_of_batch() } else { self.config.append_pages as usize }
    }

    /// Most pages of a batch. With the two map pages of two segments they are 2 MiB. A small RAM
    /// would evict a part of such a batch before the append.
    fn most_of_batch(&self) -> usize {
        let small = self.config.append_pages as usize;
        let ram = self.cache.pages() as usize / 4;
        (8 * small).saturating_sub(2).min(ram.max(small))
    }

    pub(crate) fn begin_append(&mut self) -> Option<Append> {
        let may = !self.log.starved && !self.log.failed;
        if !may || !self.ahead.as_mut()?.policy.may_append() {
            return None;
        }
        let (per, all) = (self.geo.segment_pages, self.geo.read_segments);
        let ring = &mut self.background.trail;
        if ring.head >= all * per {
            ring.head = 0;
        }
        self.background.windows += 1;
        let mut job = Append {
            number: self.background.windows,
            phase: AppendPhase::Sum,
            base: Slot(ring.head),
            items: std::mem::take(&mut ring.spare),
            sent: 0,
        };
        if ring.void == 0 {
            let first = ring.head / per;
            let last = (first + VOID.min(all / 4).max(1)).min(all);
            job.phase = AppendPhase::Void(first, last);
            self.void_segments(first, last, job.number);
            return Some(job);
        }
        self.take_batch(&mut job);
        if job.items.is_empty() {
            self.background.trail.spare = job.items;
            return None;
        }
        Some(job)
    }

    fn void_segments(&mut self, first: u32, last: u32, number: u64) {
        let per = self.geo.segment_pages;
        for segment in first..last {
            let void = slots(segment * per..(segment + 1) * per);
            self.copies.warm(void.clone().filter_map(|slot| self.copies.home(slot)));
            void.for_each(|slot| self.copies.clear(slot));
        }
        self.log_for(number, [Content::Invalid((first..last).collect())]);
    }

    /// Moves waiting pages from RAM to the staging memory: pages that RAM holds whole, and that
    /// home holds too.
    fn take_batch(&mut self, job: &mut Append) {
        let room = self.background.trail.void.min(pages_in(self.config.stage_bytes)).min(MOST);
        self.background.clear_stage(room);
        let (mut slot, batch) = (job.base, self.batch());
        while slot - job.base < room && job.items.len() < batch {
            if slot.0.is_multiple_of(self.geo.segment_pages) {
                // A map of copies that stood in this segment before must not be found again.
                let to = stage(slot - job.base);
                self.out.push_back(Output::Zero { to, len: Sectors(PAGE_SECTORS) });
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
        if !job.items.is_empty() {
            self.sum_stage(0, job.pages());
        }
    }

    pub(crate) fn step_append(&mut self, job: &mut Append) -> JobStep {
        match job.phase {
            AppendPhase::Void(first, last) => self.await_ring(job, first, last),
            AppendPhase::Sum => {
                if self.background.sums_awaited {
                    return JobStep::Wait;
                }
                job.phase = AppendPhase::Write;
                JobStep::Again
            }
            AppendPhase::Write => {
                let from = job.sent;
                let pages = (job.pages() - from).min(MOST);
                if pages > 0 {
                    job.sent += pages;
                    let extent = self.place_of(job.base + from, pages.into());
                    let (to, memory) = (Target::Area, Some(stage(from)));
                    self.submit_marked(Class::InTurn, None, to, Op::Write, extent, memory);
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
    fn await_ring(&mut self, job: &mut Append, first: u32, last: u32) -> JobStep {
        let ring = &mut self.background.trail;
        match self.background.synced.filter(|s| s.0 == job.number).map(|s| s.1) {
            None if !self.log.starved && !self.log.failed => return JobStep::Wait,
            Some(true) if (first..last).any(|s| self.copies.is_read(s)) => {
                self.background.awaits_readers = true;
                return JobStep::Wait;
            }
            Some(true) => {
                self.background.awaits_readers = false;
                ring.void = last * self.geo.segment_pages - ring.head;
            }
            None | Some(false) => ring.not_before = SimTime(self.background.now.0 + RETRY.0),
        }
        ring.spare = std::mem::take(&mut job.items);
        JobStep::Over
    }

    /// The batch is written: its copies may be used.
    fn end_append(&mut self, job: &mut Append) {
        let head = self.background.trail.head() + job.pages();
        self.copies.warm(job.items.iter().map(|&(_, page)| page));
        for &(slot, page) in &job.items {
            let at = (slot - job.base) as usize;
            if self.background.bad[at] || self.copies.is_dirty(page) {
                self.stats.overtaken += PAGE_SECTORS;
                continue;
            }
            self.make_way_for_copy(page, head);
            self.copies.add(slot, page, CopyState::Clean, self.background.sums[at]);
            self.stats.moved_bytes += PAGE_BYTES;
            if let Some(ahead) = &mut self.ahead {
                ahead.policy.appended(slot.0);
            }
        }
        let (presses, waits) = (self.presses(), self.clients_io() > 0);
        let ring = &mut self.background.trail;
        if !presses {
            ring.wrote_short(waits);
        }
        ring.head += job.pages();
        ring.void -= job.pages();
        job.items.clear();
        ring.spare = std::mem::take(&mut job.items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_clients_come_while_a_short_batch_is_written() {
        let mut ring = Ring::default();
        assert_eq!(ring.idle, IDLE);
        ring.wrote_short(true);
        assert_eq!(ring.idle, Duration(IDLE.0 / 2 * 3));
        (0..100).for_each(|_| ring.wrote_short(false));
        assert_eq!(ring.idle, IDLE);
        (0..100).for_each(|_| ring.wrote_short(true));
        assert_eq!(ring.idle, IDLE_MOST);
        // One in twenty is too few for it to stay so long.
        for i in 0..4000 {
            ring.wrote_short(i % 20 == 0);
        }
        assert!(ring.idle.0 < IDLE_MOST.0 / 10, "{:?}", ring.idle);
    }
}
