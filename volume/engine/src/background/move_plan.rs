//! Moving to a new plan in the background (BORG, FAST'09, 4.4 and 5.2). A window is a run of whole
//! segments, as long as the staging memory. For each window: read its pages from home or from the
//! area, check them, durably void the old copies in its place, write, update the map. Chains and
//! cycles within a window cost nothing. A copy that a window displaces is later read from home.
//!
//! Dirty pages that the plan keeps stay dirty (BORG, 4.4: relocate). A window takes them out of the
//! write buffer: see [`crate::core::in_place`], rule 6.
//!
//! A move never changes a client's read: a copy becomes usable only when it is written whole, and
//! only if nobody wrote its home since the window began.

use seekless_block::{Extent, Op, PAGE_BYTES, PAGE_SECTORS, Sectors};
use seekless_learn::Plan;

use crate::background::plan_in_force::PlanMove;
use crate::background::{Job, JobStep, PIECE_PAGES, pages_in, stage};
use crate::core::page_map::{CopyState, HomePage, Slot, slots};
use crate::format::{Content, Entry};
use crate::write_buffer::durability::Waiter;
use crate::{Engine, Target};

/// Windows without motion that one search skips.
const LOOKS: u32 = 64;

#[derive(Clone, Copy, Debug)]
struct WindowPage {
    slot: Slot,
    page: HomePage,
    /// The slot to read from; `None` for home.
    from: Option<Slot>,
}

/// Where a page is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReadFrom {
    Home(HomePage),
    Area(Slot),
}

/// A run of pages to be read, in order of source.
#[derive(Clone, Copy, Debug)]
struct ReadRun {
    from: ReadFrom,
    slot: Slot,
    pages: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowPhase {
    /// The log learns which copies are closed.
    Close,
    Read,
    Sum,
    Void,
    Write,
    /// The copies become durable, before they are opened.
    Seal,
    Open,
}

/// The next work of a move.
#[allow(clippy::large_enum_variant, reason = "moved once; a box would take memory at each job")]
pub(crate) enum Moving {
    Job(Job),
    /// None now: a write in place, or a pause after a failure, ends first.
    Waits,
    /// No window has any motion, or none was found yet.
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Window {
    number: u64,
    /// The first segment, and the first wanted run in it.
    begins: (u32, usize),
    base: Slot,
    items: Vec<WindowPage>,
    /// `(home page, index)` in order of home.
    by_home: Vec<(HomePage, u32)>,
    reads: Vec<ReadRun>,
    next_read: usize,
    segments: Vec<u32>,
    writes: Vec<(Slot, u32)>,
    next_write: usize,
    phase: WindowPhase,
    /// Copies that were closed for this window, and may be opened again.
    closed: Vec<Slot>,
    /// Metadata pages to be given back.
    pages: Vec<u32>,
    sectors: Sectors,
}

impl Window {
    pub(crate) fn overtake(&self, pages: std::ops::Range<u64>, bad: &mut [bool]) {
        let first = self.by_home.partition_point(|&(page, _)| page.0 < pages.start);
        for &(_, i) in self.by_home[first..].iter().take_while(|&&(page, _)| page.0 < pages.end) {
            bad[(self.items[i as usize].slot - self.base) as usize] = true;
        }
    }
}

impl Engine {
    /// Adopts a new plan. Copies in a wanted place stay usable; the others too, until their place
    /// is needed. An empty plan forgets every clean copy at once.
    pub(crate) fn adopt(&mut self, plan: &Plan) {
        let mut todo =
            PlanMove { generation: self.background.todo.generation + 1, ..PlanMove::default() };
        let grid = self.config.grid;
        if plan.check(self.config.capacity, self.geo.capacity(), grid).is_err() {
            self.stats.plans_refused += 1;
            return;
        }
        let room = u64::from(self.geo.segment_pages - 1);
        for copy in &plan.copies {
            let mut page = (copy.home.start.0 - grid.0) / PAGE_SECTORS;
            let mut place = copy.place.0 / PAGE_SECTORS;
            let mut left = copy.home.len.0 / PAGE_SECTORS;
            while left > 0 {
                let here = left.min(room - place % room);
                let slot = self.geo.slot_of_place(place);
                match todo.wants.last_mut() {
                    Some((s, p, n)) if *s + *n == slot && p.0 + u64::from(*n) == page => {
                        *n += here as u32;
                    }
                    _ => todo.wants.push((slot, HomePage(page), here as u32)),
                }
                (page, place, left) = (page + here, place + here, left - here);
            }
            todo.total += copy.home.len;
        }
        let before = &mut self.background.todo;
        if todo.wants == before.wants {
            // The plan is the same. Copies dropped during its move are moved again.
            (before.segment, before.next, before.done) = (0, 0, Sectors(0));
            return;
        }
        if plan.copies.is_empty() && !self.copies.any_open() {
            for slot in slots(0..self.geo.read_slots()) {
                self.copies.clear(slot);
            }
        } else {
            todo.end = self.geo.read_segments;
        }
        if self.config.in_place {
            todo.sort_homes();
        }
        self.background.todo = todo;
        // A restart goes on with it.
        self.background.superblock_due = true;
    }

    /// The next window with motion, or the destage of copies that must be closed before it.
    pub(crate) fn begin_move(&mut self) -> Moving {
        let per = self.geo.segment_pages;
        let window = (pages_in(self.config.stage_bytes) / per).max(1);
        for _ in 0..LOOKS {
            let todo = &mut self.background.todo;
            if todo.is_over() {
                return Moving::Nothing;
            }
            let segments = todo.segment..(todo.segment + window).min(todo.end);
            todo.segment = segments.end;
            let (base, end) = (Slot(segments.start * per), Slot(segments.end * per));
            let first = todo.next;
            while todo.wants.get(todo.next).is_some_and(|&(slot, ..)| slot < end) {
                todo.next += 1;
            }
            let wants = std::mem::take(&mut todo.wants);
            let job = self.window(base, end, &wants[first..self.background.todo.next]);
            self.background.todo.wants = wants;
            let (mut job, (leaving, in_the_way)) = job;
            let dirty = self.close_copies(&in_the_way);
            if !dirty.is_empty() {
                let todo = &mut self.background.todo;
                (todo.segment, todo.next) = (segments.start, first);
                return self.make_way(&dirty);
            }
            leaving.iter().for_each(|&slot| self.copies.clear(slot));
            job.closed = in_the_way;
            if job.items.is_empty() {
                self.background.todo.done += job.sectors;
            } else {
                self.background.clear_stage(end - base);
                self.background.windows += 1;
                job.number = self.background.windows;
                job.begins = (segments.start, first);
                if self.copies.were_opened() && self.sync.has_voids() {
                    job.phase = WindowPhase::Close;
                    self.sync.wait(Waiter::Move(job.number));
                    self.pump_sync();
                }
                return Moving::Job(Job::Move(job));
            }
        }
        Moving::Nothing
    }

    /// A window, the open copies in it that are no part of the plan, and all open copies that must
    /// be closed before it.
    fn window(
        &mut self,
        base: Slot,
        end: Slot,
        wants: &[(Slot, HomePage, u32)],
    ) -> (Window, (Vec<Slot>, Vec<Slot>)) {
        let mut items: Vec<WindowPage> = Vec::new();
        let mut sectors = Sectors(0);
        let (mut leaving, mut in_the_way): (Vec<Slot>, Vec<Slot>) = (Vec::new(), Vec::new());
        let mut wants = wants.iter().peekable();
        for slot in slots(base.0..end.0) {
            let wanted = match wants.peek() {
                Some(&&(first, page, n)) if slot >= first && slot < first + n => {
                    if slot + 1 == first + n {
                        wants.next();
                    }
                    Some(page + u64::from(slot - first))
                }
                _ => None,
            };
            if let Some(page) = wanted {
                sectors += Sectors(PAGE_SECTORS);
                if let Some(item) = self.page_to_move(slot, page) {
                    in_the_way.extend(item.from.filter(|&s| self.copies.is_open(s)));
                    let from = item.from.filter(|&s| self.is_newest(s));
                    items.push(WindowPage { from, ..item });
                }
            } else if self.copies.is_open(slot) {
                leaving.push(slot);
                in_the_way.push(slot);
            } else if self.copies.state(slot) != CopyState::Free {
                self.copies.clear(slot); // no part of the plan
            }
        }
        let mut by_home: Vec<(HomePage, u32)> =
            items.iter().zip(0..).map(|(i, n)| (i.page, n)).collect();
        by_home.sort_unstable();
        let reads = self.reads_of(&items);
        let mut segments: Vec<u32> = items.iter().map(|i| self.copies.segment_of(i.slot)).collect();
        segments.dedup();
        if self.copies.any_open() {
            let per = self.geo.segment_pages;
            let all = segments.iter().flat_map(|&s| slots(s * per..(s + 1) * per));
            in_the_way.extend(all.filter(|&slot| self.copies.is_open(slot)));
        }
        let window = Window {
            number: 0,
            begins: (0, 0),
            base,
            items,
            by_home,
            reads,
            next_read: 0,
            segments,
            writes: Vec::new(),
            next_write: 0,
            phase: WindowPhase::Read,
            closed: Vec::new(),
            pages: Vec::new(),
            sectors,
        };
        (window, (leaving, in_the_way))
    }

    /// The page that the plan wants in this slot, with its copy elsewhere, if it must be moved here.
    fn page_to_move(&self, slot: Slot, page: HomePage) -> Option<WindowPage> {
        let stands = self.copies.home(slot) == Some(page);
        let copy = self.copies.find(page);
        let relocates = copy.is_some_and(|s| self.may_relocate(s, page));
        let stays = copy
            .is_some_and(|s| self.copies.is_log(s) && !relocates && !self.may_leave_log(s, page));
        let being_written = self.writes.open_overlaps(self.home_of(page, 1));
        // The log may use the place of a clean copy again: such a page is read from home.
        let from = copy.filter(|&s| relocates || !self.copies.is_log(s));
        (!stands && !stays && !being_written).then_some(WindowPage { slot, page, from })
    }

    /// Whether the plan takes a page out of the write buffer (BORG, 4.4). Home has its bytes.
    fn may_leave_log(&self, slot: Slot, page: HomePage) -> bool {
        self.may_open()
            && self.copies.is_log(slot)
            && self.copies.state(slot) == CopyState::Clean
            && !self.log.takes(page.0)
    }

    /// Whether a window may read this copy: not one in doubt.
    fn is_newest(&self, slot: Slot) -> bool {
        self.copies.is_log(slot) || self.copies.state(slot) == CopyState::Clean
    }

    /// Whether the plan takes a page out of the write buffer that is newer than home.
    fn may_relocate(&self, slot: Slot, page: HomePage) -> bool {
        self.may_open()
            && self.copies.is_log(slot)
            && self.copies.state(slot) == CopyState::Dirty
            && !self.log.takes(page.0)
    }

    /// The slot of the write buffer from which a window takes a dirty page.
    fn leaves_log(&self, item: &WindowPage) -> Option<Slot> {
        item.from.filter(|&slot| self.copies.is_log(slot))
    }

    /// The runs to be read, in order of source.
    fn reads_of(&self, items: &[WindowPage]) -> Vec<ReadRun> {
        let mut singles: Vec<ReadRun> = items
            .iter()
            .map(|i| ReadRun {
                from: i.from.map_or(ReadFrom::Home(i.page), ReadFrom::Area),
                slot: i.slot,
                pages: 1,
            })
            .collect();
        singles.sort_unstable_by_key(|r| r.from);
        let mut reads: Vec<ReadRun> = Vec::new();
        for run in singles {
            match reads.last_mut() {
                Some(last)
                    if last.pages < PIECE_PAGES
                        && last.slot + last.pages == run.slot
                        && self.follows(last, run.from) =>
                {
                    last.pages += 1;
                }
                _ => reads.push(run),
            }
        }
        reads
    }

    /// Whether a page continues a run; a run ends with its segment.
    fn follows(&self, run: &ReadRun, from: ReadFrom) -> bool {
        match (run.from, from) {
            (ReadFrom::Home(first), ReadFrom::Home(next)) => first + u64::from(run.pages) == next,
            (ReadFrom::Area(first), ReadFrom::Area(next)) => {
                first + run.pages == next
                    && self.copies.segment_of(first) == self.copies.segment_of(next)
            }
            _ => false,
        }
    }

    pub(crate) fn step_move(&mut self, job: &mut Window) -> JobStep {
        match job.phase {
            WindowPhase::Close => match self.synced(job) {
                None if self.log.starved || self.log.failed => self.give_way(job),
                None => JobStep::Wait,
                Some(false) => self.give_way(job),
                Some(true) => {
                    job.phase = WindowPhase::Read;
                    JobStep::Again
                }
            },
            WindowPhase::Read => self.step_read(job),
            WindowPhase::Sum => self.void_places(job),
            WindowPhase::Void => self.await_void(job),
            WindowPhase::Write => self.step_write(job),
            WindowPhase::Seal if self.background.in_flight > 0 => JobStep::Wait,
            WindowPhase::Seal => self.open_copies(job),
            // No other job may move the tail of the log while two slots may be found.
            WindowPhase::Open if !self.background.relocating.is_empty() => JobStep::Wait,
            WindowPhase::Open => match self.synced(job) {
                None if !self.log.starved && !self.log.failed => JobStep::Wait,
                Some(true) => {
                    job.closed.iter().for_each(|&slot| self.copies.make_writable(slot));
                    JobStep::Over
                }
                _ => JobStep::Over,
            },
        }
    }

    fn step_read(&mut self, job: &mut Window) -> JobStep {
        if let Some(&run) = job.reads.get(job.next_read) {
            if !self.may_submit(false) {
                return JobStep::Wait;
            }
            job.next_read += 1;
            self.read_run(job.base, run);
            return JobStep::Again;
        }
        if self.background.in_flight > 0 {
            return JobStep::Wait;
        }
        for run in &job.reads {
            if let ReadFrom::Area(slot) = run.from {
                self.copies.end_read(slot, run.pages);
            }
        }
        let pages = job.items.last().map_or(0, |i| i.slot + 1 - job.base);
        self.sum_stage(0, pages);
        job.phase = WindowPhase::Sum;
        JobStep::Wait
    }

    /// Writes the stage into the window; then its copies are usable.
    fn step_write(&mut self, job: &mut Window) -> JobStep {
        if let Some(&(slot, pages)) = job.writes.get(job.next_write) {
            if !self.may_submit(false) {
                return JobStep::Wait;
            }
            job.next_write += 1;
            let from = slot - job.base;
            let extent = self.place_of(slot, pages.into());
            self.submit_background(Target::Area, Op::Write, extent, Some(stage(from)));
            return JobStep::Again;
        }
        if self.background.in_flight > 0 {
            return JobStep::Wait;
        }
        self.flip(job);
        if !self.may_open() {
            return JobStep::Over;
        }
        self.background.failed = false;
        self.submit_background(Target::Area, Op::Flush, Extent::default(), None);
        job.phase = WindowPhase::Seal;
        JobStep::Wait
    }

    /// The result of the round of durability that the window waits for.
    fn synced(&mut self, job: &Window) -> Option<bool> {
        let result = self.background.synced.filter(|s| s.0 == job.number)?.1;
        self.background.synced = None;
        Some(result)
    }

    /// Only another job can make space in the log, or repair it. Nothing was overwritten: the window
    /// is repeated.
    fn give_way(&mut self, job: &Window) -> JobStep {
        let todo = &mut self.background.todo;
        (todo.segment, todo.next) = job.begins;
        JobStep::Over
    }

    /// The window's copies are durable: the log says that they may be newer than home.
    fn open_copies(&mut self, job: &mut Window) -> JobStep {
        if self.background.failed || !self.may_open() {
            return JobStep::Over;
        }
        job.closed.extend(job.items.iter().map(|item| item.slot));
        let mut records = self.records_that_open(&job.closed);
        let whole = |item: &&WindowPage| !self.background.bad[(item.slot - job.base) as usize];
        let leaves = job.items.iter().filter(whole);
        let leaves = leaves.filter_map(|i| Some((i.page, self.leaves_log(i)?, i.slot)));
        let leaves: Vec<(HomePage, Slot, Slot)> = leaves.collect();
        let others = records.len();
        records.extend(self.records_that_relocate(&leaves, others));
        self.log_for(job.number, records);
        job.phase = WindowPhase::Open;
        JobStep::Again
    }

    /// Checks the pages read, and voids the copies that the window overwrites, on the area too.
    fn void_places(&mut self, job: &mut Window) -> JobStep {
        if self.background.sums_awaited {
            return JobStep::Wait;
        }
        for item in &job.items {
            let at = (item.slot - job.base) as usize;
            if let Some(from) = item.from
                && !self.background.bad[at]
                && self.background.sums[at] != self.copies.sum(from)
            {
                self.damaged(from);
                self.background.bad[at] = true;
            }
        }
        // From here on no new read may use the places of this window.
        for item in &job.items {
            self.copies.clear(item.slot);
            let logged = self.copies.find(item.page);
            if let Some(slot) = logged.filter(|&s| self.may_leave_log(s, item.page)) {
                self.drop_copy(slot);
            }
        }
        self.log_for(job.number, Content::pieces(&job.segments, Content::Invalid));
        job.phase = WindowPhase::Void;
        JobStep::Again
    }

    fn await_void(&mut self, job: &mut Window) -> JobStep {
        let synced = self.background.synced.filter(|s| s.0 == job.number).map(|s| s.1);
        match synced {
            None if self.log.starved || self.log.failed => self.give_way(job),
            None => JobStep::Wait,
            Some(false) => JobStep::Over, // nothing was overwritten
            Some(true) if job.segments.iter().any(|&s| self.copies.is_read(s)) => {
                self.background.awaits_readers = true;
                JobStep::Wait
            }
            Some(true) => {
                self.background.awaits_readers = false;
                self.background.synced = None;
                self.prepare_writes(job);
                job.phase = WindowPhase::Write;
                JobStep::Again
            }
        }
    }

    fn read_run(&mut self, base: Slot, run: ReadRun) {
        let at = run.slot - base;
        let pages = u64::from(run.pages);
        let (target, extent) = match run.from {
            ReadFrom::Home(page) => (Target::Home, self.home_of(page, pages)),
            ReadFrom::Area(slot) => {
                self.copies.begin_read(slot, run.pages);
                (Target::Area, self.place_of(slot, pages))
            }
        };
        self.submit_background(target, Op::Read, extent, Some(stage(at)));
    }

    /// The runs to be written, each segment with its map before its data.
    fn prepare_writes(&mut self, job: &mut Window) {
        let per = self.geo.segment_pages;
        let mut written: Vec<Slot> = job.items.iter().map(|i| i.slot).collect();
        let mut at = 0;
        for &segment in &job.segments {
            let first = Slot(segment * per);
            let mut entries: Vec<Entry> = Vec::new();
            for slot in slots(first.0 + 1..first.0 + per) {
                let here = job.items.get(at).filter(|i| i.slot == slot);
                at += usize::from(here.is_some());
                let staged = (slot - job.base) as usize;
                entries.push(match here {
                    Some(_) if self.background.bad[staged] => Entry::FREE,
                    // Newer than home: a record alone says so.
                    Some(item) if self.leaves_log(item).is_some() => Entry::FREE,
                    Some(item) => {
                        let sum = self.background.sums[staged];
                        Entry { home: item.page.0, state: CopyState::Clean, sum }
                    }
                    None => self.copies.entry(slot, true),
                });
            }
            let numbers = (0, self.background.plan_generation());
            job.pages.push(self.stage_map(segment, numbers, entries, first - job.base));
            written.push(first);
        }
        written.sort_unstable();
        for slot in written {
            match job.writes.last_mut() {
                Some((first, n)) if *first + *n == slot && *n < PIECE_PAGES => *n += 1,
                _ => job.writes.push((slot, 1)),
            }
        }
    }

    /// The window is written: its copies are usable.
    fn flip(&mut self, job: &mut Window) {
        for item in &job.items {
            let at = (item.slot - job.base) as usize;
            if self.leaves_log(item).is_some() && !self.background.bad[at] {
                continue; // the newest bytes stand in the log until a record says more
            }
            let logged = self.copies.find(item.page).is_some_and(|s| self.copies.is_log(s));
            if self.background.bad[at] || logged {
                self.stats.overtaken += PAGE_SECTORS;
            } else {
                self.copies.set(item.slot, item.page, CopyState::Clean, self.background.sums[at]);
                self.stats.moved_bytes += PAGE_BYTES;
            }
        }
        for record in Content::pieces(&job.segments, Content::Committed) {
            self.log.control(record, false);
        }
        self.pump_log();
        self.pages_free.append(&mut job.pages);
        self.background.todo.done += job.sectors;
    }
}
