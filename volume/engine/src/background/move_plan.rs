//! Moving to a new plan in the background (BORG, FAST'09, 4.4 and 5.2): read what the plan wants, from home or from
//! where it stands in the area, checksum it, make durable that what stands in its place is void, write it, flip the
//! map. A window of whole segments at a time, as long as the staging memory: chains and cycles within it cost
//! nothing, and what a window displaces is read from home when its turn comes.
//!
//! Never changes what a client reads: a copy becomes usable only after it was written whole and only if nobody wrote
//! its home since the window began.

use seekless_block::{Op, PAGE_BYTES, PAGE_SECTORS, Sectors};
use seekless_learn::Plan;

use crate::background::{BackgroundIo, JobStep, PIECE_PAGES, Progress, pages_in, stage};
use crate::core::page_map::{HomePage, Slot, State, slots};
use crate::format::{Content, Entry, Header, Position};
use crate::write_buffer::durability::Waiter;
use crate::{Engine, Output, Target};

/// Windows without any motion that are looked at in one go.
const LOOKS: u32 = 64;

/// What a plan wants, and how far it has come.
#[derive(Debug, Default)]
pub(crate) struct Todo {
    /// Runs in order of slot, none across a segment: `(slot, home page, pages)`.
    wants: Vec<(Slot, HomePage, u32)>,
    /// First of `wants` in the next window.
    next: usize,
    /// First segment of the next window, and one past the last.
    segment: u32,
    end: u32,
    done: Sectors,
    total: Sectors,
    pub(crate) generation: u64,
}

impl Todo {
    pub(crate) const fn is_over(&self) -> bool {
        self.segment >= self.end
    }

    /// The plan that was at hand before a restart: what is in place stays, the rest is still to be moved.
    pub(crate) fn resume(
        &mut self,
        wants: Vec<(Slot, HomePage, u32)>,
        generation: u64,
        segments: u32,
    ) {
        let pages = wants.iter().map(|&(.., n)| u64::from(n)).sum::<u64>();
        let (next, segment, end, done) = (0, 0, segments, Sectors(0));
        let total = Sectors(pages * PAGE_SECTORS);
        *self = Self { wants, next, segment, end, done, total, generation };
    }

    /// The plan at hand by its number; 0 where there is none.
    pub(crate) const fn plan(&self) -> u64 {
        if self.wants.is_empty() { 0 } else { self.generation }
    }

    /// All that is wanted: `(slot, home page, pages)`, in order of slot.
    pub(crate) fn wants(&self) -> &[(Slot, HomePage, u32)] {
        &self.wants
    }

    /// The home page that is wanted in a slot.
    pub(crate) fn wanted(&self, slot: Slot) -> Option<HomePage> {
        let at = self.wants.partition_point(|&(first, ..)| first <= slot).checked_sub(1)?;
        let (first, page, n) = self.wants[at];
        (slot - first < n).then(|| page + u64::from(slot - first))
    }

    pub(crate) const fn progress(&self) -> Progress {
        Progress { done: self.done, total: self.total }
    }
}

/// A page to be moved.
#[derive(Clone, Copy, Debug)]
struct WindowPage {
    slot: Slot,
    page: HomePage,
    /// The slot it is read from; home where there is none.
    from: Option<Slot>,
}

/// Where a page is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReadFrom {
    Home(HomePage),
    Area(Slot),
}

/// A run of pages to be read, in order of where it is read from.
#[derive(Clone, Copy, Debug)]
struct ReadRun {
    from: ReadFrom,
    slot: Slot,
    pages: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowPhase {
    Read,
    Sum,
    Void,
    Write,
}

/// A window on its way.
#[derive(Debug)]
pub(crate) struct Window {
    number: u64,
    /// Its first segment, and the first of what is wanted in it.
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
    /// Takes up a new plan. What stands where it is wanted stays usable, and so does, until its place is needed,
    /// what stands elsewhere. An empty plan forgets every clean copy at once.
    pub(crate) fn adopt(&mut self, plan: &Plan) {
        let mut todo = Todo { generation: self.background.todo.generation + 1, ..Todo::default() };
        let grid = self.config.grid;
        if plan.check(self.config.capacity, self.geo.room(), grid).is_err() {
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
            // No plan change. What was overtaken when it was moved comes again.
            (before.segment, before.next, before.done) = (0, 0, Sectors(0));
            return;
        }
        if plan.copies.is_empty() {
            for slot in slots(0..self.geo.read_slots()) {
                self.copies.clear(slot);
            }
        } else {
            todo.end = self.geo.read_segments;
        }
        self.background.todo = todo;
        // A restart goes on with it.
        self.background.superblock_due = true;
    }

    /// The next window in which something has to move; `None` where there is none, or none so far.
    pub(crate) fn begin_move(&mut self) -> Option<Window> {
        let per = self.geo.segment_pages;
        let window = (pages_in(self.config.stage_bytes) / per).max(1);
        for _ in 0..LOOKS {
            let todo = &mut self.background.todo;
            if todo.is_over() {
                return None;
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
            if job.items.is_empty() {
                self.background.todo.done += job.sectors;
            } else {
                self.background.clear_stage(end - base);
                self.background.windows += 1;
                return Some(Window {
                    number: self.background.windows,
                    begins: (segments.start, first),
                    ..job
                });
            }
        }
        None
    }

    fn window(&mut self, base: Slot, end: Slot, wants: &[(Slot, HomePage, u32)]) -> Window {
        let mut items: Vec<WindowPage> = Vec::new();
        let mut sectors = Sectors(0);
        let mut wants = wants.iter().peekable();
        let mut slot = base;
        while slot < end {
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
                let stands = self.copies.home(slot) == Some(page);
                let from = self.copies.find(page);
                // What the log holds may not be at home yet; what it held and is, comes from home.
                let in_log = from.is_some_and(|s| self.copies.is_log(s));
                let being_written =
                    self.writes.open_overlaps(self.home_of(page, 1), self.writes_open);
                if !stands && !in_log && !being_written {
                    let from = from.filter(|&s| self.copies.state(s) == State::Clean);
                    items.push(WindowPage { slot, page, from });
                }
            } else if self.copies.state(slot) != State::Free {
                self.copies.clear(slot); // no part of the plan
            }
            slot = slot + 1;
        }
        let mut by_home: Vec<(HomePage, u32)> =
            items.iter().zip(0..).map(|(i, n)| (i.page, n)).collect();
        by_home.sort_unstable();
        let reads = self.reads_of(&items);
        let mut segments: Vec<u32> = items.iter().map(|i| self.copies.segment_of(i.slot)).collect();
        segments.dedup();
        let (next_read, next_write, phase) = (0, 0, WindowPhase::Read);
        let (writes, pages) = (Vec::new(), Vec::new());
        let (number, begins) = (0, (0, 0));
        Window {
            number,
            begins,
            base,
            items,
            by_home,
            reads,
            next_read,
            segments,
            writes,
            next_write,
            phase,
            pages,
            sectors,
        }
    }

    /// The runs to be read, in order of where they are read from.
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

    /// Whether a page is read from where a run ends; a run ends with its segment.
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
            WindowPhase::Read => {
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
            WindowPhase::Sum => self.void_places(job),
            WindowPhase::Void => self.await_void(job),
            WindowPhase::Write => {
                if let Some(&(slot, pages)) = job.writes.get(job.next_write) {
                    if !self.may_submit(false) {
                        return JobStep::Wait;
                    }
                    job.next_write += 1;
                    let from = slot - job.base;
                    let what = BackgroundIo { stage: from, pages, destage: None, meta: false };
                    let extent = self.place_of(slot, pages.into());
                    self.submit_background(
                        what,
                        Target::Area,
                        Op::Write,
                        extent,
                        Some(stage(from)),
                    );
                    return JobStep::Again;
                }
                if self.background.in_flight > 0 {
                    return JobStep::Wait;
                }
                self.flip(job);
                JobStep::Over
            }
        }
    }

    /// What was read is checked; what stands where the window goes is void from here on, and the area is to know.
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
        // From here on nobody new reads what is about to be overwritten.
        for item in &job.items {
            self.copies.clear(item.slot);
        }
        let most = Content::Invalid(Vec::new()).items_max();
        for some in job.segments.chunks(most) {
            self.log.control(Content::Invalid(some.to_vec()), false);
        }
        self.sync.wait(Waiter::Move(job.number));
        self.pump_log();
        self.pump_sync();
        job.phase = WindowPhase::Void;
        JobStep::Again
    }

    fn await_void(&mut self, job: &mut Window) -> JobStep {
        match self.background.synced.filter(|s| s.0 == job.number).map(|s| s.1) {
            None if self.log.starved || self.log.failed => {
                // Only another job can make room in the log, or have it go on. Nothing was overwritten: the window comes again.
                let todo = &mut self.background.todo;
                (todo.segment, todo.next) = job.begins;
                JobStep::Over
            }
            None => JobStep::Wait,
            Some(false) => JobStep::Over, // nothing was overwritten
            Some(true) if job.segments.iter().any(|&s| self.copies.is_read(s)) => {
                self.background.awaits_readers = true;
                JobStep::Wait
            }
            Some(true) => {
                self.background.awaits_readers = false;
                self.prepare_writes(job);
                job.phase = WindowPhase::Write;
                JobStep::Again
            }
        }
    }

    fn read_run(&mut self, base: Slot, run: ReadRun) {
        let at = run.slot - base;
        let what = BackgroundIo { stage: at, pages: run.pages, destage: None, meta: false };
        let pages = u64::from(run.pages);
        let (target, extent) = match run.from {
            ReadFrom::Home(page) => (Target::Home, self.home_of(page, pages)),
            ReadFrom::Area(slot) => {
                self.copies.begin_read(slot, run.pages);
                (Target::Area, self.place_of(slot, pages))
            }
        };
        self.submit_background(what, target, Op::Read, extent, Some(stage(at)));
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
                let entry = match here {
                    Some(item) => {
                        at += 1;
                        let stage = (slot - job.base) as usize;
                        if self.background.bad[stage] {
                            Entry::FREE
                        } else {
                            let sum = self.background.sums[stage];
                            Entry { home: item.page.0, state: State::Clean, sum }
                        }
                    }
                    None => self.copies.entry(slot),
                };
                entries.push(entry);
            }
            let header = Header {
                uuid: self.identity.uuid,
                sequence: 0,
                durable: 0,
                plan_generation: self.background.plan_generation(),
                position: Position { segment, page: 0 },
                previous: 0,
                tail: self.geo.read_segments,
                content: Content::ReadMap(entries),
            };
            let page = self.take_page();
            header.encode(&mut self.pages[page as usize]);
            job.pages.push(page);
            self.stats.metadata_bytes += PAGE_BYTES;
            self.out.push_back(Output::Put { page, to: stage(first - job.base) });
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

    /// The window is written: its copies may be used.
    fn flip(&mut self, job: &mut Window) {
        for item in &job.items {
            let at = (item.slot - job.base) as usize;
            let logged = self.copies.find(item.page).is_some_and(|s| self.copies.is_log(s));
            if self.background.bad[at] || logged {
                self.stats.overtaken += PAGE_SECTORS;
            } else {
                self.copies.set(item.slot, item.page, State::Clean, self.background.sums[at]);
                self.stats.moved_bytes += PAGE_BYTES;
            }
        }
        let most = Content::Committed(Vec::new()).items_max();
        for some in job.segments.chunks(most) {
            self.log.control(Content::Committed(some.to_vec()), false);
        }
        self.pump_log();
        self.pages_free.append(&mut job.pages);
        self.background.todo.done += job.sectors;
    }
}
