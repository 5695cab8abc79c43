//! Running ahead of a recognized run: two windows, one for metadata and one for files. A window
//! grows while the program uses what was fetched, and shrinks when it does not.

use rustc_hash::FxHashMap;
use seekless_block::SimTime;

use crate::job::Job;
use crate::piece::{Piece, PieceId};
use window::{WINDOW_FIRST, WINDOW_SAME, Window};

mod window;

/// A fetched piece counts as unused once the program is this many positions further.
const SLACK: usize = 256;
/// Positions beyond this are a jump.
pub(crate) const NEAR: usize = 128;
/// Misses in a row outside of the job, with nothing used inside: the run has left the job.
const STRAYS: u32 = 32;
/// Pieces that a program uses behind an exit before it has surely not left the job there.
const CROSSED: u32 = 8;
/// A piece that a program reaches this many positions after it was fetched is surely there.
const SURE: usize = 16;

/// The fate of the pieces of a chase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChaseOutcome {
    /// Pages fetched from the disk.
    pub(crate) fetched: u64,
    /// Of these, metadata that nobody ordered: it was read to open files.
    pub(crate) along: u64,
    /// Of the fetched ones, used.
    pub(crate) used: u64,
    /// Of the rest, behind the program's last place.
    pub(crate) behind: u64,
    /// Of the rest, counted as in vain already.
    pub(crate) counted: u64,
    /// Of those behind, counted as used already: a worker of ours has used them.
    pub(crate) served: u64,
    /// Pieces that were ordered and used: surely in time, and at all.
    pub(crate) would: (u64, u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Ordered {
    /// How far the program was.
    when: usize,
    /// Pages ordered.
    pages: u32,
    /// Pages that came from the disk.
    fetched: u32,
    /// Pages used.
    used: u32,
    /// Of these, pages that only a worker of ours has used.
    served: u32,
    /// Pages in vain: dropped before their use, or passed over.
    vain: u32,
    along: Along,
}

/// Pages of metadata that were read to open the file of a piece, and that nobody ordered. The program
/// uses them with the piece: it finds the inode in memory, and no event shows this.
#[derive(Clone, Copy, Debug, Default)]
struct Along {
    ahead: u64,
    used: u64,
    vain: u64,
}

/// Fetched pages that count from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) used: u64,
    pub(crate) vain: u64,
}

/// The state of running ahead.
#[derive(Debug, Default)]
pub(crate) struct Chase {
    /// The job's number.
    pub(crate) job: u32,
    /// False: the run is left alone, and only watched.
    pub(crate) fetch: bool,
    /// The job is of the program that runs.
    pub(crate) own: bool,
    /// Furthest position that the program used.
    pub(crate) at: usize,
    /// When it last went further, or used something that was fetched and not used before.
    pub(crate) moved: SimTime,
    /// An exit of the job where the program has not gone on yet: nothing behind it is ordered.
    pub(crate) fence: Option<usize>,
    /// Pieces that it used behind the exit.
    crossed: u32,
    /// The kernel shows uses in memory: it begins to do so some time after it was asked.
    pub(crate) sees: bool,
    /// For some time, uses were not seen: pages that count as in vain may have been used.
    pub(crate) unsure: bool,
    /// Where the program was before that: what it passed until then is not judged.
    blind: usize,
    metadata: Window,
    files: Window,
    /// The program has used a file of the job, or is the job's own program.
    knows_files: bool,
    /// It has used a file of the job in this run.
    uses_files: bool,
    /// The last use beyond reach, and the number of these in order.
    far: (usize, u32),
    ordered: FxHashMap<PieceId, Ordered>,
    strays: u32,
    /// The place of the last of these.
    stray: Option<PieceId>,
    /// Fetched pages that a worker of ours has used: at the end it is known whether the program came
    /// there.
    pub(crate) by_workers: u64,
    /// Reads of the disk for its orders, and pages that came for them.
    pub(crate) took: (u64, u64),
    /// Pages that came for it and are not used yet.
    pub(crate) ahead: u64,
    /// Mean number of pages of a piece of metadata, and of a piece of files.
    pub(crate) mean: [u64; 2],
}

impl Chase {
    /// The program is at the first position; orders begin at the second. `same`: the program ran this
    /// job last. `files`: the same, or the program has used a file of the job.
    pub(crate) fn new(
        job: u32,
        (at, from): (usize, usize),
        fetch: bool,
        same: bool,
        files: bool,
    ) -> Self {
        let size = if same { WINDOW_SAME } else { WINDOW_FIRST };
        Self {
            job,
            fetch,
            own: same,
            at,
            blind: at,
            metadata: Window::new(from, size, true),
            files: Window::new(from, size, files),
            knows_files: files,
            ..Self::default()
        }
    }

    /// The program used pages of a place. `waited`: they were not in memory. If they were fetched, the
    /// kernel has dropped them before their use.
    pub(crate) fn used(&mut self, job: &Job, place: PieceId, pages: u32, waited: bool) -> Counted {
        let Some(position) = job.find(place) else {
            // One piece is one use, whatever the number of its requests: ext4 reads a table of inodes by
            // 32 of them.
            let again = self.stray.replace(place) == Some(place) && waited;
            self.strays += u32::from(!again);
            return Counted::default();
        };
        self.strays = 0;
        self.uses_files |= !place.is_metadata();
        let before = self.at;
        self.advance(position, place.is_metadata());
        // Metadata serve many files: near the exit, they say little about a program that uses files.
        let far = self.fence.is_some_and(|f| self.at > f + NEAR);
        if self.at > before && (far || !(place.is_metadata() && self.uses_files)) {
            self.cross(job);
        }
        if !place.is_metadata() && !std::mem::replace(&mut self.knows_files, true) {
            self.files = Window::new(self.at + 1, WINDOW_FIRST, true);
        }
        let window = if place.is_metadata() { &mut self.metadata } else { &mut self.files };
        let Some(ordered) = self.ordered.get_mut(&place) else { return Counted::default() };
        let along = std::mem::take(&mut ordered.along.ahead);
        ordered.along.used += along;
        ordered.served &= !pages;
        let new = pages & ordered.pages & !ordered.used;
        let here = new & ordered.fetched & !ordered.vain;
        let vain = if waited { here } else { 0 };
        let first = new != 0 && ordered.used == 0;
        if vain != 0 {
            window.ahead = window.ahead.saturating_sub(usize::from(first));
            window.verdict(false);
        } else if first {
            window.hit();
        }
        ordered.used |= new;
        ordered.vain |= vain;
        self.ahead = self.ahead.saturating_sub(u64::from(here.count_ones()) + along);
        let used = u64::from((here & !vain).count_ones()) + along;
        Counted { used, vain: vain.count_ones().into() }
    }

    /// True if the program has used all these pages before. Then nothing changes, except that the job
    /// goes on.
    pub(crate) fn used_again(&mut self, place: PieceId, pages: u32) -> bool {
        let again = self.ordered.get(&place).is_some_and(|o| pages & !(o.used & !o.served) == 0);
        if again {
            (self.sees, self.strays) = (true, 0);
        }
        again
    }

    /// A worker of ours used metadata that was ordered, to open a file for the program. Returns
    /// pages that were fetched and are used only now.
    pub(crate) fn served(&mut self, place: PieceId, pages: u32) -> u32 {
        let Some(ordered) = self.ordered.get_mut(&place) else { return 0 };
        // The program finds the inode in memory: this use is the only one that is seen.
        let window = if place.is_metadata() { &mut self.metadata } else { &mut self.files };
        let new = pages & ordered.pages & !ordered.used;
        window.ahead = window.ahead.saturating_sub(usize::from(new != 0 && ordered.used == 0));
        ordered.used |= new;
        ordered.served |= new;
        let here = new & ordered.fetched & !ordered.vain;
        self.by_workers += u64::from(here.count_ones());
        self.ahead = self.ahead.saturating_sub(here.count_ones().into());
        here
    }

    /// Follows the program. One use far ahead moves nothing: the pieces before it would count as
    /// passed over. Three pieces in order do, if the program does not go on here meanwhile. Metadata serve
    /// many files, and say little about where a program is that uses files.
    fn advance(&mut self, position: usize, metadata: bool) {
        if position <= self.at + NEAR {
            if position > self.at {
                (self.at, self.far) = (position, (0, 0));
            }
            return;
        }
        if metadata && self.uses_files {
            return;
        }
        let (last, count) = self.far;
        if count > 0 && position == last {
            return;
        }
        let follows = (last..=last + NEAR).contains(&position);
        self.far = (position, if follows { count + 1 } else { 1 });
        if self.far.1 >= 3 {
            self.at = position;
            self.far = (0, 0);
            // What was jumped over is not judged.
            for window in [&mut self.metadata, &mut self.files] {
                window.next = window.next.max(position + 1);
                window.judged = window.judged.max(position + 1);
            }
        }
    }

    /// Counts uses behind an exit; after some of them, the next exit counts.
    fn cross(&mut self, job: &Job) {
        if self.fence.is_some_and(|f| self.at > f) {
            self.crossed += 1;
            if self.crossed >= CROSSED {
                self.crossed = 0;
                self.fence = job.fence(self.at + 1);
                // As at the start: what comes next comes first.
                for window in [&mut self.metadata, &mut self.files] {
                    window.size = window.size.min(WINDOW_SAME);
                }
            }
        }
    }

    /// The run has left the job.
    pub(crate) const fn is_lost(&self) -> bool {
        self.strays >= STRAYS
    }

    /// Pages came from the disk. Returns those that were ordered and are new, and of these the ones
    /// that are not used yet. Short holes were read along on purpose: nobody is to use them.
    pub(crate) fn fetched(&mut self, place: PieceId, pages: u32) -> (u32, u32) {
        let Some(ordered) = self.ordered.get_mut(&place) else { return (0, 0) };
        let new = pages & ordered.pages & !ordered.fetched;
        ordered.fetched |= new;
        let unused = new & !ordered.used;
        self.took.1 += u64::from(new.count_ones());
        self.ahead += u64::from(unused.count_ones());
        (new, unused)
    }

    /// One read brought pages of metadata that nobody ordered, to open the file of this piece. Returns
    /// whether they count as used: the program has used the piece. `None`: it was not ordered.
    pub(crate) fn came_along(&mut self, place: PieceId, pages: u64) -> Option<bool> {
        let ordered = self.ordered.get_mut(&place)?;
        let is_used = ordered.used & !ordered.served != 0;
        if is_used {
            ordered.along.used += pages;
        } else {
            ordered.along.ahead += pages;
            self.ahead += pages;
        }
        self.took = (self.took.0 + 1, self.took.1 + pages);
        Some(is_used)
    }

    /// The number of places that were ordered.
    pub(crate) fn places(&self) -> usize {
        self.ordered.len()
    }

    /// Pages of a place that were ordered.
    pub(crate) fn ordered(&self, place: PieceId) -> Option<u32> {
        self.ordered.get(&place).map(|o| o.pages)
    }

    /// The next piece to order, if a window has space. `most_pages`: pages that may be ahead. Orders
    /// go out in the order of the disk: of a larger window, pages from all over it would be ahead, and
    /// few of the next ones.
    pub(crate) fn next(&mut self, job: &Job, most_pages: u64) -> Option<Piece> {
        let end = self.fence.map_or(job.pieces().len(), |f| (f + 1).min(job.pieces().len()));
        for (metadata, mean) in [true, false].into_iter().zip(self.mean) {
            // Half for each. What is passed over is judged late: a very small window would wait for it.
            let most = usize::try_from(most_pages / 2 / mean.max(1)).unwrap_or(usize::MAX);
            let window = if metadata { &mut self.metadata } else { &mut self.files };
            window.most = most.max(WINDOW_FIRST);
            // While it had no space, the program may have passed these: it needs none of them now.
            window.next = window.next.max(self.at.saturating_sub(SURE));
            while window.has_space() && window.next < end {
                let piece = job.pieces()[window.next];
                window.next += 1;
                let right = piece.place.is_metadata() == metadata && piece.pages != 0;
                if right && !self.ordered.contains_key(&piece.place) {
                    window.ahead += 1;
                    let (when, pages) = (self.at, piece.pages);
                    let ordered = Ordered { when, pages, ..Ordered::default() };
                    self.ordered.insert(piece.place, ordered);
                    return Some(piece);
                }
            }
        }
        None
    }

    /// Judges what the program has passed. Returns the number of pages in vain.
    pub(crate) fn judge(&mut self, job: &Job) -> u64 {
        if !self.sees {
            self.blind = self.at;
        }
        let at = (self.at, self.blind);
        let vain = Self::judge_one(&mut self.metadata, true, at, &mut self.ordered, job)
            + Self::judge_one(&mut self.files, false, at, &mut self.ordered, job);
        self.ahead = self.ahead.saturating_sub(vain);
        vain
    }

    fn judge_one(
        window: &mut Window,
        metadata: bool,
        (at, blind): (usize, usize),
        ordered: &mut FxHashMap<PieceId, Ordered>,
        job: &Job,
    ) -> u64 {
        let mut vain = 0;
        let end = at.saturating_sub(SLACK).min(window.next);
        while window.judged < end {
            let piece = job.pieces().get(window.judged);
            window.judged += 1;
            let Some(piece) = piece.filter(|p| p.place.is_metadata() == metadata) else { continue };
            if let Some(found) = ordered.get_mut(&piece.place) {
                window.ahead = window.ahead.saturating_sub(usize::from(found.used == 0));
                if window.judged > blind {
                    window.verdict(found.used != 0);
                    // Of a piece that is in use, the program may use more pages later.
                    let all = if found.used == 0 { found.fetched & !found.vain } else { 0 };
                    found.vain |= all;
                    let along = std::mem::take(&mut found.along.ahead);
                    found.along.vain += along;
                    vain += u64::from(all.count_ones()) + along;
                }
            }
        }
        vain
    }

    /// Pieces that only workers of ours have used: the program did not come there.
    pub(crate) fn unreached(&self, job: &Job) -> impl Iterator<Item = PieceId> {
        let only = self.ordered.iter().filter(|(_, o)| o.served != 0 && o.used == o.served);
        only.map(|(&place, _)| place).filter(|p| job.find(*p).is_some_and(|i| i > self.at))
    }

    /// The fate of all pieces.
    pub(crate) fn outcome(&self, job: &Job) -> ChaseOutcome {
        let mut outcome = ChaseOutcome::default();
        for (place, ordered) in &self.ordered {
            let position = job.find(*place).unwrap_or(0);
            let count = |pages: u32| u64::from((ordered.fetched & pages).count_ones());
            // A worker of ours has used them for a program that did not come there.
            let served = if position > self.at { ordered.served & !ordered.vain } else { 0 };
            let used = ordered.used & !ordered.vain & !served;
            let Along { ahead, used: along, vain } = ordered.along;
            outcome.fetched += count(u32::MAX) + ahead + along + vain;
            outcome.along += ahead + along + vain;
            outcome.used += count(used) + along;
            outcome.counted += count(ordered.vain) + vain;
            outcome.served += count(served);
            if position > self.at {
                outcome.behind += count(!used) + ahead + vain;
            }
            if ordered.used != 0 {
                let lead = position.saturating_sub(ordered.when);
                outcome.would.0 += u64::from(lead >= SURE);
                outcome.would.1 += 1;
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests;
