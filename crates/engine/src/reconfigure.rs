//! Moving to a new plan in the background: read what the plan wants from home, write it to its place, flip
//! the map. A stage at a time: a window of the optimized area as long as the staging memory, so that the
//! reads can be sorted by home address and the writes run in sequence.
//!
//! Never changes what a client reads: a sector becomes usable only after its copy was written whole and
//! only if nobody wrote its home since the stage began.

use seekless_block::{Extent, Flags, Lba, Op, Sectors, SimTime, StreamId};
use seekless_layout::Plan;

use crate::map::Map;
use crate::{Class, Engine, Io, Memory, Output, Pending, Target};

/// Background I/Os in flight.
const DEPTH: u32 = 2;
/// Longest background I/O, in sectors: 1 MiB, so that a client never waits behind more.
const PIECE: u64 = 2048;

/// How far a reconfiguration has come, in sectors of the optimized area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Copied, or given up because they were written meanwhile.
    pub done: Sectors,
    /// To be copied for this plan.
    pub total: Sectors,
}

#[derive(Debug, Default)]
pub(crate) struct Reconfigurer {
    /// A plan that waits for the stage at hand to end.
    asked: Option<Plan>,
    /// What is to be copied, in order of place: `(home, place)`.
    todo: Vec<(Extent, Lba)>,
    next: usize,
    stage: Option<Stage>,
    in_flight: u32,
    done: Sectors,
    total: Sectors,
    /// The budget allows nothing before this time.
    not_before: SimTime,
    waiting: bool,
}

#[derive(Debug)]
struct Stage {
    /// First place of the window: where the staging memory starts.
    base: Lba,
    /// Pieces to read, in order of home: `(home, place)`.
    reads: Vec<(Extent, Lba)>,
    next_read: usize,
    /// Runs of the area to write, in order.
    writes: Vec<Extent>,
    next_write: usize,
}

impl Reconfigurer {
    pub(crate) fn ask(&mut self, plan: Plan) {
        self.asked = Some(plan);
    }

    pub(crate) const fn is_active(&self) -> bool {
        self.asked.is_some() || self.stage.is_some() || self.next < self.todo.len()
    }

    pub(crate) fn wakeup(&self) -> Option<SimTime> {
        (self.waiting && self.is_active()).then_some(self.not_before)
    }

    pub(crate) fn progress(&self) -> Option<Progress> {
        self.is_active().then_some(Progress { done: self.done, total: self.total })
    }
}

impl Engine {
    /// Starts as much background work as the budget and the depth allow.
    pub(crate) fn reconfigure(&mut self, now: SimTime) {
        self.reconfigurer.waiting = false;
        loop {
            // A stage that has begun is carried to its end, so that plans that come in quick succession do
            // not keep each other from ever moving anything.
            if self.reconfigurer.stage.is_none()
                && let Some(plan) = self.reconfigurer.asked.take()
            {
                self.adopt(plan);
            }
            let r = &mut self.reconfigurer;
            if r.in_flight >= DEPTH || r.stage.is_none() && !self.next_stage() {
                return;
            }
            let r = &mut self.reconfigurer;
            if now < r.not_before {
                r.waiting = true;
                return;
            }
            let Some(stage) = &mut r.stage else { return };
            if let Some(&(home, place)) = stage.reads.get(stage.next_read) {
                stage.next_read += 1;
                let offset = place - stage.base;
                let placed = Extent { start: place, len: home.len };
                self.submit_staged(now, Pending::StageRead { placed }, Target::Home, home, offset);
            } else if r.in_flight > 0 && stage.next_write == 0 {
                return; // reads of this stage are still on their way
            } else if self.readers_before_plan > 0 {
                return; // a client still reads what stands there
            } else if let Some(&placed) = stage.writes.get(stage.next_write) {
                stage.next_write += 1;
                let offset = placed.start - stage.base;
                self.submit_staged(
                    now,
                    Pending::StageWrite { placed },
                    Target::Area,
                    placed,
                    offset,
                );
            } else if r.in_flight == 0 {
                r.stage = None;
            } else {
                return;
            }
        }
    }

    /// Replaces the map. Copies that stay where they are stay usable; all others are to be made.
    fn adopt(&mut self, plan: Plan) {
        let r = &mut self.reconfigurer;
        r.todo.clear();
        r.next = 0;
        r.done = Sectors(0);
        r.total = Sectors(0);
        if plan.fits(self.config.capacity, self.config.area).is_err() {
            self.stats.plans_refused += 1;
            return;
        }
        self.map = Map::next(plan, &self.map, self.config.area);
        self.plan += 1;
        self.readers_before_plan = self.area_readers;
        for copy in self.map.copies_by_place() {
            for (run, valid) in self.map.valid.runs(copy.placed()) {
                if !valid {
                    let home = copy.home.start + (run.start - copy.place);
                    r.todo.push((Extent { start: home, len: run.len }, run.start));
                    r.total += run.len;
                }
            }
        }
    }

    /// Takes the next window of the plan. False where there is none.
    fn next_stage(&mut self) -> bool {
        let r = &mut self.reconfigurer;
        let Some(&(_, base)) = r.todo.get(r.next) else { return false };
        let window = base + self.config.stage_bytes.sectors_ceil();
        let mut reads = Vec::new();
        let mut writes: Vec<Extent> = Vec::new();
        while let Some((home, place)) = r.todo.get_mut(r.next) {
            let room = window.0.saturating_sub(place.0).min(PIECE);
            if room == 0 {
                break;
            }
            let len = home.len.min(Sectors(room));
            let (part, placed) = (Extent { len, ..*home }, Extent { start: *place, len });
            self.map.tainted.clear(placed);
            if self.writes.open_overlaps(part, self.writes_open) {
                self.map.tainted.set(placed);
            }
            reads.push((part, placed.start));
            match writes.last_mut() {
                Some(w) if w.end() == placed.start && w.len.0 + len.0 <= PIECE => w.len += len,
                _ => writes.push(placed),
            }
            home.start = home.start + len;
            home.len -= len;
            *place = *place + len;
            if home.is_empty() {
                r.next += 1;
            }
        }
        reads.sort_unstable();
        r.stage = Some(Stage { base, reads, next_read: 0, writes, next_write: 0 });
        true
    }

    fn submit_staged(
        &mut self,
        now: SimTime,
        pending: Pending,
        target: Target,
        extent: Extent,
        offset: Sectors,
    ) {
        let id = self.start(pending);
        let op = if target == Target::Home { Op::Read } else { Op::Write };
        let r = &mut self.reconfigurer;
        r.in_flight += 1;
        let rate = u128::from(self.config.background_rate.0);
        if let Some(ns) = (u128::from(extent.bytes().0) * 1_000_000_000).checked_div(rate) {
            r.not_before.0 = r.not_before.max(now).0.saturating_add(ns as u64);
        }
        self.out.push_back(Output::Submit(Io {
            id,
            target,
            op,
            extent,
            flags: Flags::NONE,
            class: Class::Background,
            stream: StreamId(0),
            memory: Some(Memory::Stage { offset }),
        }));
    }

    pub(crate) fn stage_read_done(&mut self, placed: Extent, ok: bool) {
        self.reconfigurer.in_flight -= 1;
        if !ok {
            self.map.tainted.set(placed); // what stands in the staging memory is not the data
        }
    }

    pub(crate) fn stage_write_done(&mut self, placed: Extent, ok: bool) {
        let r = &mut self.reconfigurer;
        r.in_flight -= 1;
        r.done += placed.len;
        if !ok {
            return;
        }
        self.stats.moved_bytes += placed.bytes().0;
        for (run, tainted) in self.map.tainted.runs(placed) {
            if tainted {
                self.stats.overtaken += run.len.0;
            } else {
                self.map.valid.set(run);
            }
        }
    }
}
