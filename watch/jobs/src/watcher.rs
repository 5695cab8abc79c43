//! One file system: its runs, its jobs, and what to fetch next. Events and the time come in; orders
//! come out. The driver carries them out, and reports what came from the disk.

use std::cmp::Reverse;
use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use seekless_block::{Duration, SimTime};

use crate::chase::{Chase, Counted, NEAR};
use crate::fills::Pages;
use crate::guard::{Guard, cost};
use crate::job::{Job, RunTreatment, between};
use crate::piece::{DEVICE, PieceId, pieces};
use crate::report::{JobReport, Totals};
use crate::run::{PageUser, Run};
use orders::Queue;

mod learning;
mod orders;

/// A run ends when nothing was used for this long.
pub const IDLE: Duration = Duration(2_000_000_000);
/// The same while the disk has not answered a read: one that spins up takes its time.
const IDLE_WAITING: Duration = Duration(30_000_000_000);
/// A run that does not go further in its job for this long has left the job. It may use the same
/// pages all day.
const STALLED: Duration = Duration(60_000_000_000);
/// A shorter run is not worth learning, in pieces.
const RUN_LEAST: usize = 8;
/// The same in pages, where a page is a group of inodes: a piece stands for many reads.
const GROUPS_LEAST: u64 = 32;
/// Most jobs of a file system.
pub(crate) const JOBS_MOST: usize = 64;
/// Most pieces of all jobs of a file system.
pub(crate) const PIECES_ALL: usize = 1 << 19;
/// Most runs at once.
const RUNS_MOST: usize = 64;
/// Most places that wait for their address.
const UNRESOLVED_MOST: usize = 1 << 14;
/// Most pages in one order.
const ORDER_PAGES: u64 = 256;
/// Most pages of one use. A long read of a file touches what nobody fetched; nothing is fetched that
/// far at once.
const TOUCHED_MOST: u64 = ORDER_PAGES * 8;
/// Most groups of inodes in one order: each is a read.
pub const ORDER_GROUPS: u64 = 8;
/// Orders that may be under way when the guard looks.
const IN_FLIGHT: u64 = 64;
/// Price of a read before it was measured.
const PRICE: Duration = Duration(8_000_000);

/// The present limits of the driver.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// False: recognize and count, and fetch nothing.
    pub act: bool,
    /// Most pages that were fetched and not used yet.
    pub pages_ahead: u64,
    /// Time of the disk for one read, as measured.
    pub price: Duration,
    /// Time of the same disk for other file systems: in vain in the last hour, or ahead.
    pub vain_elsewhere: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { act: true, pages_ahead: 1 << 14, price: PRICE, vain_elsewhere: Duration(0) }
    }
}

/// Pages to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// For which process group: nothing is fetched for processes that have ended.
    pub group: u32,
    /// Which pages.
    pub pages: Pages,
    /// The inode's generation; 0: not known.
    pub generation: u32,
}

/// The state of one file system.
#[derive(Debug, Default)]
pub struct Watcher {
    jobs: Vec<Job>,
    next_job: u32,
    runs: FxHashMap<u32, Run>,
    metadata: Queue,
    files: Queue,
    /// Orders for metadata and for files of groups whose run is idle: no search for the next order
    /// passes over them.
    parked: FxHashMap<u32, [Queue; 2]>,
    /// Where the last orders for files and for metadata were: the next ones are behind them.
    arm: [(bool, u64); 2],
    /// Fetched and not used yet, in pages.
    ahead: u64,
    unresolved: VecDeque<(u32, PieceId)>,
    guard: Guard,
    limits: Limits,
    /// A page of metadata is a group of inodes.
    by_inode: bool,
    /// Pages of orders that the driver has, and has not sent.
    held: u64,
    /// Reads of the disk for the orders of the last chase that ended, and pages that came for them.
    last_took: (u64, u64),
    /// The last orders: they may be under way when their run leaves its job.
    recent: VecDeque<(u32, Pages)>,
    /// Pages that came for such orders since this was booked.
    late: u64,
    /// A job has changed since the last answer about this.
    learned: bool,
    /// The counts since the start.
    totals: Totals,
}

impl Watcher {
    /// Takes the jobs of a file system on which no run goes on, in place of those before.
    pub fn set_jobs(&mut self, jobs: Vec<Job>) {
        let next_job = jobs.iter().map(|j| j.id.saturating_add(1)).max().unwrap_or(1);
        self.next_job = self.next_job.max(next_job);
        self.jobs = jobs;
    }

    /// A page of metadata is a group of inodes, and stands for several blocks of the device: a wait
    /// for a page that was waited for already is no sign of an emptied cache.
    #[must_use]
    pub const fn by_inode(mut self, by_inode: bool) -> Self {
        self.by_inode = by_inode;
        self
    }

    /// The driver keeps orders for this number of reads back, to send them in the disk's order.
    pub const fn hold(&mut self, held: u64) {
        self.held = held;
    }

    /// Sets what is allowed from now on.
    pub const fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The jobs.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// A program waited for pages. `today`: seconds since 1970.
    pub fn missed(&mut self, now: SimTime, today: u64, who: PageUser, pages: Pages) {
        for (place, mask) in pieces(pages.file, pages.first, pages.count) {
            self.missed_piece(now, today, who, place, mask);
        }
    }

    fn missed_piece(&mut self, now: SimTime, today: u64, who: PageUser, place: PieceId, mask: u32) {
        let tells = !(self.by_inode && place.is_metadata());
        if tells && self.runs.get_mut(&who.group).is_some_and(|r| r.begins_again(place, mask)) {
            self.close(who.group, today);
        }
        while let Some(group) = self.superfluous(who.group) {
            // Its time and its waits are those of a part.
            self.runs.get_mut(&group).into_iter().for_each(|r| r.blind = true);
            self.close(group, today);
        }
        if self.runs.is_empty() {
            self.recent.clear();
        }
        let run = self.runs.entry(who.group).or_insert_with(|| Run::new(who, now));
        run.grow(now);
        if who.program != 0 {
            run.who.program = who.program;
        }
        run.unreached.remove(&place);
        if run.note(place, mask, true) {
            run.misses += 1;
            self.totals.misses += 1;
            if !place.is_metadata() && self.unresolved.len() < UNRESOLVED_MOST {
                self.unresolved.push_back((who.group, place));
            }
        }
        self.use_piece(now, who.group, place, mask, tells);
        self.recognize(now, who.group, place, mask);
    }

    /// The run to end if one run more, or one piece more, would be too many.
    fn superfluous(&self, group: u32) -> Option<u32> {
        let many_pieces = self.runs.values().map(|r| r.seen.len()).sum::<usize>() >= PIECES_ALL;
        let many_runs = self.runs.len() >= RUNS_MOST && !self.runs.contains_key(&group);
        if !many_pieces && !many_runs {
            return None;
        }
        // Without space for pieces, it is the largest run: others would give little.
        let size = |r: &Run| if many_pieces { r.seen.len() } else { 0 };
        let rank = |r: &Run| (Reverse(size(r)), r.last, r.who.group);
        self.runs.iter().min_by_key(|(_, r)| rank(r)).map(|(&g, _)| g)
    }

    /// Whether a use of one of these pages means something: it was ordered.
    pub fn awaits(&self, pages: Pages) -> bool {
        let chases = || self.runs.values().filter_map(|r| r.chase.as_ref());
        let count = pages.count.min(TOUCHED_MOST);
        chases().next().is_some()
            && pieces(pages.file, pages.first, count)
                .any(|(place, _)| chases().any(|c| c.ordered(place).is_some()))
    }

    /// A program used pages that were in memory; without a group: a worker of ours did, for a
    /// program. Only needed while [`Self::wants_touches`].
    pub fn touched(&mut self, now: SimTime, group: Option<u32>, pages: Pages) {
        let count = pages.count.min(TOUCHED_MOST);
        for (place, mask) in pieces(pages.file, pages.first, count) {
            let Some((of, ordered)) = self.waits_for(group, place) else { continue };
            // A read of a file reports all that was asked for, in memory or not.
            let mask = mask & ordered;
            let Some(run) = self.runs.get_mut(&of).filter(|_| mask != 0) else { continue };
            let is_new = !run.has_used(place, mask);
            run.visible.get_or_insert(place);
            if !is_new
                && group.is_some()
                && run.chase.as_mut().is_some_and(|c| c.used_again(place, mask))
            {
                run.last = now;
                continue;
            }
            run.note(place, mask, false);
            if group.is_some() {
                if is_new {
                    run.grow(now);
                } else {
                    run.last = now;
                }
                run.unreached.remove(&place);
                run.chase.iter_mut().for_each(|c| c.sees = true);
                self.use_piece(now, of, place, mask, false);
            } else if let Some(chase) = &mut run.chase {
                let used = u64::from(chase.served(place, mask).count_ones());
                self.ahead = self.ahead.saturating_sub(used);
            }
        }
    }

    /// The group whose chase has ordered a place, and the pages: the user itself, or another group of
    /// the same job.
    fn waits_for(&self, user: Option<u32>, place: PieceId) -> Option<(u32, u32)> {
        let ordered = |r: &Run| r.chase.as_ref().and_then(|c| c.ordered(place));
        if let Some(user) = user
            && let Some(pages) = self.runs.get(&user).and_then(ordered)
        {
            return Some((user, pages));
        }
        self.runs.iter().filter_map(|(&g, r)| Some((g, ordered(r)?))).min()
    }

    fn use_piece(&mut self, now: SimTime, group: u32, place: PieceId, mask: u32, waited: bool) {
        let Some(run) = self.runs.get_mut(&group) else { return };
        let Some(chase) = &mut run.chase else { return };
        let Some(job) = self.jobs.iter().find(|j| j.id == chase.job) else { return };
        let before = chase.at;
        let Counted { used, vain } = chase.used(job, place, mask, waited);
        if chase.at > before || used | vain != 0 {
            chase.moved = now;
        }
        let (is_lost, took) = (chase.is_lost(), chase.took);
        self.ahead = self.ahead.saturating_sub(used);
        self.totals.used += used;
        self.in_vain(now, vain, took);
        if is_lost {
            self.end_chase(now, group);
        }
    }

    /// Books pages that were ahead. `took`: reads for the orders of their chase, and pages that came.
    fn in_vain(&mut self, now: SimTime, pages: u64, took: (u64, u64)) {
        if pages == 0 {
            return;
        }
        self.ahead = self.ahead.saturating_sub(pages);
        self.totals.vain += pages;
        self.guard.vain(now, cost(pages, took, self.limits.price));
    }

    fn recognize(&mut self, now: SimTime, group: u32, place: PieceId, mask: u32) {
        let Some(run) = self.runs.get_mut(&group) else { return };
        if run.chase.as_ref().is_some_and(|c| c.own) {
            return;
        }
        let Some((id, at)) = run.recognize(&self.jobs, place, mask) else { return };
        let goes_on = |c: &&mut Chase| c.job == id && c.at.abs_diff(at) <= NEAR;
        if let Some(chase) = run.chase.as_mut().filter(goes_on) {
            // Another program of the group goes on at this place: what is ahead is for it.
            chase.own = true;
            return;
        }
        self.end_chase(now, group);
        let Some(run) = self.runs.get_mut(&group) else { return };
        if run.others.contains(&id) {
            // It has just left this job for good.
            return;
        }
        let Some(job) = self.jobs.iter_mut().find(|j| j.id == id) else { return };
        let same = run.who.program == job.program;
        let before = run.turns.iter().find(|t| t.0 == id).map(|t| t.1);
        let turn = before.unwrap_or_else(|| {
            self.totals.recognized += 1;
            job.turn(same)
        });
        if before.is_none() {
            run.turns.push((id, turn, same));
        }
        let fetch = turn == RunTreatment::Fetch;
        let same = same && run.who.program != 0;
        // Of the first pieces, the program may use more later.
        let from = if at <= 2 * RUN_LEAST { 0 } else { at + 1 };
        let mut chase = Chase::new(id, (at, from), fetch, same, same || !place.is_metadata());
        (chase.fence, chase.moved, chase.mean) = (job.fence(at), now, job.mean_pages());
        run.chase = Some(chase);
        run.exact = fetch && self.limits.act && at <= 2 * RUN_LEAST;
    }

    /// True while touches are needed: some run is being run ahead of.
    pub fn wants_touches(&self) -> bool {
        self.limits.act && self.runs.values().any(|r| r.chase.as_ref().is_some_and(|c| c.fetch))
    }

    /// Pages that were fetched and not used yet.
    pub const fn ahead(&self) -> u64 {
        self.ahead
    }

    /// For some time, uses in memory were not seen: runs that are run ahead of are not judged by
    /// them, and their jobs forget nothing.
    pub fn blind(&mut self) {
        for run in self.runs.values_mut() {
            run.exact = false;
            run.blind |= run.chase.as_ref().is_some_and(|c| c.fetch);
            run.chase.iter_mut().for_each(|c| (c.sees, c.unsure) = (false, true));
        }
    }

    /// True while a run is not idle.
    pub fn is_at_work(&self, now: SimTime) -> bool {
        self.runs.values().any(|r| between(r.last, now) < IDLE)
    }

    /// True while the run of this group is not idle.
    pub fn is_group_at_work(&self, group: u32, now: SimTime) -> bool {
        self.runs.get(&group).is_some_and(|r| between(r.last, now) < IDLE)
    }

    /// False while nothing may be fetched: in a dry run, and where memory is short.
    pub const fn may_fetch(&self) -> bool {
        self.limits.act && self.limits.pages_ahead > 0
    }

    /// True while a run goes on.
    pub fn is_busy(&self) -> bool {
        !self.runs.is_empty()
    }

    /// A worker of ours has read pages from the disk; pages that were in memory already are not
    /// reported.
    pub fn fetched(&mut self, pages: Pages) {
        let mut ordered = self.is_in_an_order(pages);
        for (place, mask) in pieces(pages.file, pages.first, pages.count) {
            let mut rest = mask;
            for chase in self.runs.values_mut().filter_map(|r| r.chase.as_mut()) {
                let (new, unused) = chase.fetched(place, mask);
                self.totals.fetched += u64::from(new.count_ones());
                self.ahead += u64::from(unused.count_ones());
                rest &= !chase.ordered(place).unwrap_or(0);
            }
            ordered |= rest != mask;
            self.came_late(place, rest);
        }
        if pages.file == DEVICE && !ordered {
            // A leaf of btrfs holds many groups of inodes: nobody wanted more than one.
            self.came_along(if self.by_inode { 1 } else { pages.count });
        }
    }

    /// Whether a recent order has some of these pages, short holes included.
    fn is_in_an_order(&self, pages: Pages) -> bool {
        let end = |p: &Pages| p.first.saturating_add(p.count);
        let meets = |p: &Pages| p.first < end(&pages) && pages.first < end(p);
        self.recent.iter().any(|(_, p)| p.file == pages.file && meets(p))
    }

    /// A worker of ours has read metadata that nobody ordered: inodes and extents that a job lacks, to
    /// open a file. As far as is known, this is the file that was ordered last.
    fn came_along(&mut self, pages: u64) {
        let file = self.recent.iter().rev().find(|(_, p)| p.file != DEVICE);
        let piece = file.and_then(|&(group, p)| {
            let (place, _) = pieces(p.file, p.first, p.count).next()?;
            Some((group, place))
        });
        let is_used = piece.and_then(|(group, place)| {
            self.runs.get_mut(&group)?.chase.as_mut()?.came_along(place, pages)
        });
        self.totals.fetched += pages;
        match is_used {
            Some(true) => self.totals.used += pages,
            Some(false) => self.ahead += pages,
            // No job that goes on wants them: they are in vain.
            None => (self.ahead, self.late) = (self.ahead + pages, self.late + pages),
        }
    }

    /// Pages came from the disk that no run wants: some may be of orders whose run has left its job.
    fn came_late(&mut self, place: PieceId, mask: u32) {
        let chased = |g: &u32| self.runs.get(g).is_some_and(|r| r.chase.is_some());
        let left = self.recent.iter().filter(|(g, p)| p.file == place.file && !chased(g));
        let ordered = left.fold(0, |all, (_, p)| {
            let mut same = pieces(p.file, p.first, p.count).filter(|(at, _)| *at == place);
            all | same.next().map_or(0, |(_, pages)| pages)
        });
        let late = u64::from((mask & ordered).count_ones());
        self.totals.fetched += late;
        self.ahead += late;
        self.late += late;
    }

    /// The next file whose generation and address are not known, and the process group that uses
    /// it.
    pub fn next_unresolved(&mut self) -> Option<(u32, PieceId)> {
        while let Some((group, place)) = self.unresolved.pop_front() {
            let known = |j: &Job| j.find(place).is_some_and(|i| j.pieces()[i].block != 0);
            if !self.jobs.iter().any(known) {
                return Some((group, place));
            }
        }
        None
    }

    /// True if there is such a file.
    pub fn has_unresolved(&mut self) -> bool {
        let next = self.next_unresolved();
        if let Some(next) = next {
            self.unresolved.push_front(next);
        }
        next.is_some()
    }

    /// A file's generation, and the address of one of its pieces.
    pub fn resolved(&mut self, place: PieceId, generation: u32, block: u64) {
        self.runs.values_mut().for_each(|r| r.resolved(place, generation, block));
        for piece in self.jobs.iter_mut().filter_map(|j| j.piece_mut(place)) {
            (piece.generation, piece.block) = (generation, block);
        }
    }

    /// A file is not there any more with this generation; 0: with none.
    pub fn gone(&mut self, file: u64, generation: u32) {
        self.jobs.iter_mut().for_each(|j| j.gone(file, generation));
    }

    /// Ends runs that are idle. `waiting`: the disk has not answered all reads. Returns true if a job
    /// has changed since the last answer.
    pub fn tick(&mut self, now: SimTime, today: u64, waiting: bool) -> bool {
        let most = if waiting { IDLE_WAITING } else { IDLE };
        let idle = |r: &Run| between(r.last, now) >= most;
        let mut groups: Vec<u32> =
            self.runs.iter().filter(|(_, r)| idle(r)).map(|(&g, _)| g).collect();
        groups.sort_unstable();
        groups.iter().for_each(|&g| self.close(g, today));
        self.end_stalled(now);
        std::mem::take(&mut self.learned)
    }

    /// Ends the help of runs that go on, and go no further in their job: to see their uses costs every
    /// program time. If such a run reads further places of the job, it is recognized again.
    fn end_stalled(&mut self, now: SimTime) {
        let is_stalled =
            |r: &Run| r.chase.as_ref().is_some_and(|c| between(c.moved, now) >= STALLED);
        let mut stalled: Vec<u32> =
            self.runs.iter().filter(|(_, r)| is_stalled(r)).map(|(&g, _)| g).collect();
        stalled.sort_unstable();
        for group in stalled {
            self.end_chase(now, group);
            if let Some(run) = self.runs.get_mut(&group) {
                // What it uses in memory from now on is not seen.
                run.exact = false;
            }
        }
    }

    /// Ends every run. Returns true if a job has changed.
    pub fn finish(&mut self, today: u64) -> bool {
        let mut groups: Vec<u32> = self.runs.keys().copied().collect();
        groups.sort_unstable();
        groups.iter().for_each(|&g| self.close(g, today));
        // No job is followed now, so the rest fits into a file.
        self.evict();
        std::mem::take(&mut self.learned)
    }

    /// A run has left its job, or has ended: books what was fetched in vain.
    fn end_chase(&mut self, now: SimTime, group: u32) {
        self.drop_orders(group);
        let Some(run) = self.runs.get_mut(&group) else { return };
        let Some(chase) = run.chase.take() else { return };
        run.forget_candidates();
        let Some(job) = self.jobs.iter_mut().find(|j| j.id == chase.job) else { return };
        let outcome = chase.outcome(job);
        run.unreached.extend(chase.unreached(job));
        if !chase.fetch {
            run.others.push(job.id);
        }
        if !(chase.fetch && self.limits.act) {
            if chase.fetch {
                job.would_save(outcome.would);
            }
            return;
        }
        let vain = outcome.fetched.saturating_sub(outcome.used);
        let own = run.who.program == job.program;
        // A loss counts where the next run is asked, whatever program ran last.
        let asked_own = run.turns.iter().any(|t| t.0 == job.id && t.2);
        let verdict = job.judge(own, asked_own, &chase, outcome);
        run.lost |= verdict.lost;
        if verdict.barred {
            run.others.push(job.id);
        }
        run.helped_by = Some(chase.job);
        // Metadata of files are no pages of the job.
        run.fetched += outcome.fetched - outcome.along;
        // These have left what is ahead already, as if used. A counter never falls: those that count
        // as used do so from now on.
        self.ahead += outcome.served;
        self.totals.used += chase.by_workers.saturating_sub(outcome.served);
        self.last_took = chase.took;
        self.in_vain(now, vain.saturating_sub(outcome.counted), chase.took);
    }

    /// Names the jobs of a program.
    pub fn name(&mut self, program: u64, name: &str) {
        let unnamed = |j: &&mut Job| j.program == program && j.name != name;
        self.jobs.iter_mut().filter(unnamed).for_each(|j| name.clone_into(&mut j.name));
    }

    /// The counts since the start, and of the last hour.
    pub fn totals(&mut self, now: SimTime) -> Totals {
        self.book_late(now);
        Totals { vain_last_hour: self.guard.last_hour(now).0 / 1_000_000, ..self.totals }
    }

    /// The jobs in numbers.
    pub fn report(&self) -> Vec<JobReport> {
        self.jobs.iter().map(JobReport::of).collect()
    }
}

#[cfg(test)]
mod nights;
#[cfg(test)]
mod tests;
