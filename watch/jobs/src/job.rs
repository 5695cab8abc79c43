//! A job: what was first used in which order, merged over its runs.

use rustc_hash::FxHashMap;
use seekless_block::{Duration, SimTime};
use serde::{Deserialize, Serialize};

use crate::chase::{Chase, ChaseOutcome, NEAR};
use crate::piece::{Piece, PieceId};
use crate::run::PIECES_MOST;

/// Age at which a piece that runs passed over is dropped.
const UNSEEN_MOST: u8 = 12;
/// What a run that passes over a piece adds to its age: a run in which every use was seen, and one
/// in which the piece may have been used in memory.
const UNSEEN_EXACT: u8 = 4;
const UNSEEN_MAYBE: u8 = 1;
/// Recognized runs for which a job rests after it lost.
const REST: u8 = 8;
/// Losses in a row before a job rests.
pub(crate) const LOSSES: u8 = 2;
/// Most exits of a job.
pub(crate) const EXITS_MOST: usize = 8;
/// Fewest pages in vain that make a loss.
const LOSS_LEAST: u64 = 32;
/// One recognized run of this number is left alone, so that the saving is measured.
const DUEL: u32 = 20;
/// Fewest helped runs that are compared with runs alone.
const COMPARED: u32 = 4;
/// Help makes a job slower if its helped runs take longer by this share: a quarter.
const SLOWER: u64 = 4;
/// And by this time, in milliseconds: smaller differences are chance.
const SLOWER_LEAST: u64 = 500;

/// Means over the last runs of one sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Number of runs.
    pub runs: u32,
    /// Mean number of pieces for which a program waited.
    pub misses: u32,
    /// Mean time from first to last use, in milliseconds.
    pub millis: u32,
}

impl Tally {
    pub(crate) fn add(&mut self, misses: u64, took: Duration) {
        self.runs = self.runs.saturating_add(1);
        // The mean of the first runs, then one that follows slow changes.
        let share = u64::from(self.runs.min(8));
        let mean = |old: u32, new: u64| {
            let sum = u64::from(old) * (share - 1) + new;
            u32::try_from(sum / share).unwrap_or(u32::MAX)
        };
        self.misses = mean(self.misses, misses);
        self.millis = mean(self.millis, took.0 / 1_000_000);
    }
}

/// A job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// Its number, for reports.
    pub id: u32,
    /// Hash of the program that ran it last; 0: unknown.
    pub program: u64,
    /// The program's name, if names are kept.
    pub name: String,
    pub(crate) pieces: Vec<Piece>,
    /// Where each place is in `pieces`.
    at: FxHashMap<PieceId, u32>,
    /// Number of runs.
    pub runs: u32,
    /// Number of recognized runs.
    pub recognized: u32,
    /// Seconds since 1970 of its last run.
    pub last_used: u64,
    /// Whole runs without and with fetching.
    pub plain: Tally,
    /// Whole runs with fetching.
    pub helped: Tally,
    /// Pages fetched.
    pub fetched: u64,
    /// Of these, pages that nobody used.
    pub vain: u64,
    /// Waits that reading ahead would have saved in a dry run: surely, and at most. Means over the
    /// last dry runs.
    pub would: (u64, u64),
    /// Of the whole job: for its own program, and for others.
    pub(crate) rests: [JobPause; 2],
    /// Pieces behind which runs left the job.
    pub(crate) exits: Vec<(PieceId, JobPause)>,
}

/// Losses, and the runs for which nothing is fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobPause {
    pub(crate) losses: u8,
    pub(crate) runs: u8,
}

impl JobPause {
    const fn lost(&mut self) {
        self.losses += 1;
        if self.losses >= LOSSES {
            // After the rest, one more loss is enough.
            (self.losses, self.runs) = (LOSSES - 1, REST);
        }
    }
}

/// What a run that was run ahead of means for its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunVerdict {
    /// Most of what was fetched is in vain.
    pub(crate) lost: bool,
    /// The run must not come back to the job.
    pub(crate) barred: bool,
}

/// The treatment of a recognized run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunTreatment {
    Fetch,
    /// Left alone: a duel, or the job lost twice.
    Leave,
}

impl Job {
    pub(crate) fn new(id: u32, program: u64, pieces: Vec<Piece>) -> Self {
        let mut job = Self { id, program, pieces, ..Self::default() };
        job.index();
        job
    }

    pub(crate) fn index(&mut self) {
        self.at = self.pieces.iter().enumerate().map(|(i, p)| (p.place, i as u32)).collect();
    }

    /// The number of different places.
    pub(crate) fn distinct(&self) -> usize {
        self.at.len()
    }

    /// The pieces, in order of first use.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(crate) fn find(&self, place: PieceId) -> Option<usize> {
        self.at.get(&place).map(|&i| i as usize)
    }

    pub(crate) fn piece_mut(&mut self, place: PieceId) -> Option<&mut Piece> {
        let i = self.find(place)?;
        self.pieces.get_mut(i)
    }

    /// True while the job rests.
    pub const fn rests(&self) -> bool {
        self.rests[0].runs > 0
    }

    /// A dry run has ended: the means over the last ones.
    pub(crate) fn would_save(&mut self, would: (u64, u64)) {
        // Runs before the first dry one say nothing.
        let first = self.would == (0, 0);
        let share = if first { 1 } else { u64::from(self.recognized.clamp(1, 8)) };
        let mean = |old: u64, new: u64| old.saturating_mul(share - 1).saturating_add(new) / share;
        self.would = (mean(self.would.0, would.0), mean(self.would.1, would.1));
    }

    /// A run of the job was recognized. `own`: by the program that ran it last.
    pub(crate) fn turn(&mut self, own: bool) -> RunTreatment {
        self.recognized = self.recognized.saturating_add(1);
        let rest = &mut self.rests[usize::from(!own)].runs;
        if *rest > 0 {
            *rest -= 1;
            return RunTreatment::Leave;
        }
        if self.recognized.is_multiple_of(DUEL) { RunTreatment::Leave } else { RunTreatment::Fetch }
    }

    /// A run with fetching has ended. If its program left the job on the way, only what is behind
    /// this exit rests: other runs of the program go on there. `own`: its last program ran the job
    /// last. `asked_own`: the program did that the job was recognized with.
    pub(crate) fn judge(
        &mut self,
        own: bool,
        asked_own: bool,
        chase: &Chase,
        outcome: ChaseOutcome,
    ) -> RunVerdict {
        let vain = outcome.fetched.saturating_sub(outcome.used);
        self.fetched = self.fetched.saturating_add(outcome.fetched);
        self.vain = self.vain.saturating_add(vain);
        let barred = self.pass_exits(chase);
        let whole = &mut self.rests[usize::from(!asked_own)];
        if vain <= outcome.used {
            // Without one fetched page, the run says nothing.
            if outcome.fetched > 0 {
                whole.losses = 0;
            }
            return RunVerdict { lost: false, barred };
        }
        if vain < LOSS_LEAST || chase.unsure {
            return RunVerdict { lost: false, barred };
        }
        // The job may have changed since.
        let left = own && 2 * outcome.behind > vain && chase.at < self.pieces.len();
        // Runs that leave at ever new places lose as a whole, too.
        let all = self.exits.len() >= EXITS_MOST && self.exit_near(chase.at).is_none();
        let mut rests = false;
        if !left || all {
            let whole = &mut self.rests[usize::from(!asked_own)];
            whole.lost();
            rests = whole.runs > 0;
        }
        if left {
            let exit = self.exit(chase.at);
            exit.lost();
            rests |= exit.runs > 0;
        }
        // A run of the job's own program may come back to it, until it rests.
        RunVerdict { lost: true, barred: barred || !own || rests }
    }

    fn exit_near(&self, at: usize) -> Option<usize> {
        let near = |p: &PieceId| self.find(*p).is_some_and(|i| i.abs_diff(at) <= NEAR);
        self.exits.iter().position(|(p, _)| near(p))
    }

    /// The exit near a position; a new one if there is none.
    fn exit(&mut self, at: usize) -> &mut JobPause {
        let i = self.exit_near(at).unwrap_or_else(|| {
            if self.exits.len() >= EXITS_MOST {
                let least =
                    self.exits.iter().enumerate().min_by_key(|(_, (_, r))| (r.runs, r.losses));
                self.exits.remove(least.map_or(0, |(i, _)| i));
            }
            self.exits.push((self.pieces[at].place, JobPause::default()));
            self.exits.len() - 1
        });
        &mut self.exits[i].1
    }

    /// A run has ended: an exit that it passed rests for one run less, and one at which it ended rests
    /// from the start. Returns true for the latter.
    fn pass_exits(&mut self, chase: &Chase) -> bool {
        let mut left = false;
        for i in 0..self.exits.len() {
            let (place, rest) = self.exits[i];
            let Some(position) = self.find(place).filter(|_| rest.runs > 0) else { continue };
            let runs = &mut self.exits[i].1.runs;
            if chase.fence == Some(position) {
                if chase.at + NEAR >= position {
                    (*runs, left) = (REST, true);
                }
            } else if position < chase.at {
                *runs -= 1;
            }
        }
        left
    }

    /// The first exit that rests from a position on.
    pub(crate) fn fence(&self, from: usize) -> Option<usize> {
        let resting = self.exits.iter().filter(|(_, r)| r.runs > 0);
        resting.filter_map(|(p, _)| self.find(*p).filter(|&i| i >= from)).min()
    }

    /// Number of pages that both have.
    pub(crate) fn overlap(&self, seen: &[Piece]) -> u64 {
        let mine = |p: &Piece| self.find(p.place).map_or(0, |i| self.pieces[i].pages & p.pages);
        seen.iter().map(|p| u64::from(mine(p).count_ones())).sum()
    }

    pub(crate) fn pages(&self) -> u64 {
        pages_of(&self.pieces)
    }

    /// Mean number of pages of a piece of metadata, and of a piece of files.
    pub(crate) fn mean_pages(&self) -> [u64; 2] {
        [true, false].map(|metadata| {
            let of = self.pieces.iter().filter(|p| p.place.is_metadata() == metadata);
            let (count, pages) = of.fold((0u64, 0u64), |(count, pages), piece| {
                (count + 1, pages + u64::from(piece.pages.count_ones()))
            });
            pages / count.max(1)
        })
    }

    /// Takes over the order of a new run. Pieces that the run did not use keep their place behind
    /// their predecessor. Those that it passed over become old, and are dropped in time. `exact`:
    /// the run's pages are all the pages that were used, and not only those that were missing; this
    /// holds from this position on.
    pub(crate) fn merge(&mut self, seen: &[Piece], exact: Option<usize>) {
        let mut matched = vec![false; self.pieces.len()];
        let found: Vec<_> = seen.iter().map(|p| self.find(p.place)).collect();
        for &i in found.iter().flatten() {
            matched[i] = true;
        }
        let (first, last) = (matched.iter().position(|&m| m), matched.iter().rposition(|&m| m));
        let age = if exact.is_some() { UNSEEN_EXACT } else { UNSEEN_MAYBE };
        let passed = first.unwrap_or(usize::MAX).max(exact.unwrap_or(0))..last.unwrap_or(0);
        let mut out = Vec::with_capacity(self.pieces.len().max(seen.len()));
        let mut cursor = 0;
        let old = |range: std::ops::Range<usize>, out: &mut Vec<Piece>| {
            for i in range.filter(|&i| !matched[i]) {
                let mut piece = self.pieces[i];
                piece.unseen =
                    piece.unseen.saturating_add(if passed.contains(&i) { age } else { 0 });
                if piece.unseen < UNSEEN_MOST && piece.pages != 0 {
                    out.push(piece);
                }
            }
        };
        for (piece, found) in seen.iter().zip(&found) {
            let mut piece = *piece;
            if let Some(i) = *found {
                let before = self.pieces[i];
                if piece.block == 0 && piece.generation == 0 {
                    (piece.block, piece.generation) = (before.block, before.generation);
                }
                if exact.is_none_or(|from| i < from) {
                    piece.pages |= before.pages;
                }
                if i >= cursor {
                    old(cursor..i, &mut out);
                    cursor = i + 1;
                }
            }
            out.push(piece);
        }
        old(cursor..self.pieces.len(), &mut out);
        if out.len() > 2 * PIECES_MOST {
            // More than a file may hold: those that this run passed over go first.
            out.retain(|p| p.unseen == 0);
            out.truncate(2 * PIECES_MOST);
        }
        self.pieces = out;
        self.index();
        self.exits.retain(|(place, _)| self.at.contains_key(place));
    }

    /// A file with this generation is gone, or with any if this is 0: nothing of it is fetched again.
    /// Another file may have its number now, and is asked about again.
    pub(crate) fn gone(&mut self, file: u64, generation: u32) {
        let gone = |p: &&mut Piece| {
            p.place.file == file && (generation == 0 || p.generation == generation)
        };
        let forget = |p: &mut Piece| (p.pages, p.block, p.generation) = (0, 0, 0);
        self.pieces.iter_mut().filter(gone).for_each(forget);
    }

    /// A whole run has ended. A job that help makes slower rests. Meanwhile its runs alone are
    /// measured, since the first ones may be of long ago; then it is helped again, and compared again.
    pub(crate) fn whole_run(&mut self, helped: bool, misses: u64, took: Duration) {
        if !helped {
            self.plain.add(misses, took);
            return;
        }
        if self.is_slower() {
            // It has rested since. Until now, reports showed the old means.
            self.helped = Tally::default();
        }
        self.helped.add(misses, took);
        if self.is_slower() {
            // It is not known which program the next run begins with.
            self.rests.iter_mut().for_each(|r| r.runs = REST);
        }
    }

    /// Help makes the job slower, as far as is known.
    fn is_slower(&self) -> bool {
        let alone = u64::from(self.plain.millis);
        let most = alone + (alone / SLOWER).max(SLOWER_LEAST);
        let is_known = self.plain.runs > 0 && self.helped.runs >= COMPARED;
        is_known && u64::from(self.helped.millis) > most
    }
}

pub(crate) fn pages_of(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|p| u64::from(p.pages.count_ones())).sum()
}

/// The time between two moments.
pub(crate) fn between(from: SimTime, to: SimTime) -> Duration {
    Duration(to.0.saturating_sub(from.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(n: u64) -> Piece {
        Piece::new(PieceId { file: n, chunk: 0 }, 1)
    }

    fn job(files: &[u64]) -> Job {
        Job::new(1, 0, files.iter().map(|&n| piece(n)).collect())
    }

    fn files(job: &Job) -> Vec<u64> {
        job.pieces.iter().map(|p| p.place.file).collect()
    }

    fn merged(old: &[u64], new: &[u64]) -> Vec<u64> {
        let mut job = job(old);
        job.merge(&new.iter().map(|&n| piece(n)).collect::<Vec<_>>(), Some(0));
        files(&job)
    }

    #[test]
    fn a_run_brings_new_pieces_in_place_and_keeps_the_unused_behind_their_predecessor() {
        assert_eq!(merged(&[1, 2, 3, 4], &[1, 2, 9, 3, 4]), [1, 2, 9, 3, 4]);
        assert_eq!(merged(&[1, 2, 3, 4], &[1, 3, 4]), [1, 2, 3, 4]);
        assert_eq!(merged(&[1, 2, 3, 4], &[2, 1, 4]), [2, 1, 3, 4]);
        assert_eq!(merged(&[1, 2], &[7, 8]), [7, 8, 1, 2]);
    }

    #[test]
    fn what_runs_pass_over_is_dropped_in_time_and_what_they_do_not_reach_is_kept() {
        let mut job = job(&[1, 2, 3, 4, 5]);
        for _ in 0..UNSEEN_MOST / UNSEEN_EXACT {
            assert_eq!(files(&job).len(), 5);
            job.merge(&[piece(1), piece(3)], Some(0));
        }
        assert_eq!(files(&job), [1, 3, 4, 5]);
        job.gone(4, 0);
        job.merge(&[piece(1)], Some(0));
        assert_eq!(files(&job), [1, 3, 5]);
    }

    #[test]
    fn what_was_used_before_uses_were_visible_stays() {
        let mut job = job(&[1, 2, 3, 4, 5]);
        for _ in 0..UNSEEN_MOST {
            job.merge(&[Piece { pages: 0b10, ..piece(1) }, piece(3), piece(5)], Some(2));
        }
        assert_eq!(files(&job), [1, 2, 3, 5], "2 may have been used in memory, and 4 was not");
        assert_eq!(job.pieces[0].pages, 0b11);
    }

    #[test]
    fn pages_are_replaced_by_exact_ones_and_added_to_by_misses() {
        let mut job = Job::new(1, 0, vec![Piece { block: 9, generation: 4, ..piece(1) }]);
        let seen = [Piece { pages: 0b100, ..piece(1) }];
        job.merge(&seen, None);
        assert_eq!(job.pieces[0].pages, 0b101);
        job.merge(&seen, Some(0));
        assert_eq!(
            (job.pieces[0].pages, job.pieces[0].block, job.pieces[0].generation),
            (0b100, 9, 4)
        );
    }

    #[test]
    fn a_job_that_lost_twice_rests_and_one_run_in_twenty_is_left_alone() {
        let mut job = job(&[1]);
        let turns = |job: &mut Job, n: usize| {
            (0..n).map(|_| job.turn(true) == RunTreatment::Leave).collect::<Vec<_>>()
        };
        let judge = |job: &mut Job, fetched, used| {
            let chase = Chase::new(1, (0, 1), true, true, true);
            job.judge(true, true, &chase, ChaseOutcome { fetched, used, ..ChaseOutcome::default() })
        };
        assert_eq!(turns(&mut job, 40).iter().filter(|&&l| l).count(), 2);
        judge(&mut job, 1000, 400);
        judge(&mut job, 1000, 500);
        judge(&mut job, 1000, 400);
        assert!(!job.rests(), "a run that used half is no loss");
        judge(&mut job, 0, 0);
        judge(&mut job, 1000, 400);
        assert!(job.rests());
        assert_eq!(turns(&mut job, 8), [true; 8]);
        assert!(!job.rests());
        judge(&mut job, 31, 0);
        assert!(!job.rests(), "too little to count");
        judge(&mut job, 1000, 0);
        assert!(job.rests(), "one more loss");
        assert_eq!(job.turn(false), RunTreatment::Fetch, "other programs rest on their own");
    }

    #[test]
    fn a_job_that_help_makes_slower_rests_and_is_compared_again() {
        let seconds = |n: u64| Duration(n * 1_000_000_000);
        let mut job = job(&[1]);
        (0..COMPARED).for_each(|_| job.whole_run(true, 1, seconds(99)));
        assert!(!job.rests(), "no run was alone");
        job.helped = Tally::default();
        job.whole_run(false, 9, seconds(8));
        (0..COMPARED).for_each(|_| job.whole_run(true, 1, seconds(10)));
        assert!(!job.rests(), "a quarter longer at most");
        job.helped = Tally::default();
        for n in 0..COMPARED {
            assert!(!job.rests(), "{n} runs");
            job.whole_run(true, 1, seconds(11));
        }
        assert!(job.rests());
        assert_eq!((job.helped.runs, job.helped.millis), (COMPARED, 11_000), "the report shows it");
        assert_eq!(job.clone().turn(false), RunTreatment::Leave, "a script begins with another");
        for n in 0..REST {
            assert_eq!(job.turn(true), RunTreatment::Leave, "{n}");
            // The job has become longer since its first run.
            job.whole_run(false, 9, seconds(12));
        }
        for _ in 0..2 * COMPARED {
            assert_eq!(job.turn(true), RunTreatment::Fetch);
            job.whole_run(true, 1, seconds(11));
        }
        assert_eq!((job.helped.runs, job.helped.millis), (3 * COMPARED, 11_000));
        job.whole_run(true, 1, seconds(99));
        assert!(job.rests());
        job.whole_run(true, 1, seconds(11));
        assert_eq!((job.helped.runs, job.helped.millis), (1, 11_000), "compared again");
        let (plain, helped) = (Tally::default(), Tally::default());
        let mut short = Job { plain, helped, rests: Default::default(), ..job };
        short.whole_run(false, 9, Duration(3_000_000));
        (0..COMPARED).for_each(|_| short.whole_run(true, 1, Duration(400_000_000)));
        assert!(!short.rests(), "nobody notices half a second");
    }

    #[test]
    fn the_first_dry_run_says_all_that_it_would_have_saved() {
        let mut job = job(&[1]);
        job.recognized = 40;
        job.would_save((100, 200));
        assert_eq!(job.would, (100, 200));
        job.would_save((20, 200));
        assert_eq!(job.would, (90, 200));
    }

    #[test]
    fn exits_are_few_and_those_that_cost_least_are_forgotten() {
        let mut job = job(&(0..10_000).collect::<Vec<_>>());
        let mut leave = |at: usize| {
            let mut chase = Chase::new(1, (at, at + 1), true, true, true);
            chase.fence = job.fence(at);
            let left =
                ChaseOutcome { fetched: 1000, used: 1, behind: 999, ..ChaseOutcome::default() };
            job.judge(true, true, &chase, left);
            assert!(job.exits.len() <= EXITS_MOST);
            (job.fence(0), job.rests())
        };
        assert_eq!(leave(9000), (None, false));
        assert_eq!(leave(9000 + NEAR), (Some(9000), false), "near enough");
        assert!((1..=8).all(|n| leave(n * 200) == (Some(9000), false)), "known, or the first one");
        assert!((9..20).all(|n| leave(n * 200) == (Some(9000), true)), "everywhere: the job rests");
        job.merge(&[piece(1), piece(2)], Some(0));
        assert_eq!(job.fence(0), Some(9000), "kept");
        job.merge(&[piece(0)], Some(0));
        (0..UNSEEN_MOST).for_each(|_| job.merge(&[piece(0), piece(9999)], Some(0)));
        assert_eq!((job.fence(0), job.exits.len()), (None, 0), "dropped with its piece");
    }

    #[test]
    fn a_job_does_not_grow_beyond_its_file() {
        let most = PIECES_MOST as u64;
        let mut job = job(&(0..most).collect::<Vec<_>>());
        for night in 1..4 {
            let seen: Vec<_> =
                (0..10).chain(night * most + 10..(night + 1) * most).map(piece).collect();
            job.merge(&seen, None);
            assert!(seen.iter().all(|p| job.find(p.place).is_some()), "{night}");
            let read = crate::state::decode(&crate::state::encode(std::slice::from_ref(&job)));
            assert_eq!(read.map(|j| j.len()), Ok(1), "{night}");
        }
    }

    proptest! {
        #[test]
        fn merging_keeps_the_runs_order_and_has_nothing_twice(
            old in prop::collection::hash_set(0u64..40, 0..30),
            new in prop::collection::hash_set(0u64..40, 0..30),
        ) {
            let (old, new): (Vec<u64>, Vec<u64>) = (old.into_iter().collect(), new.into_iter().collect());
            let merged = merged(&old, &new);
            let of_new: Vec<u64> = merged.iter().copied().filter(|n| new.contains(n)).collect();
            prop_assert_eq!(&of_new, &new);
            let mut all = merged.clone();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(all.len(), merged.len());
            let mut union: Vec<u64> = old.iter().chain(&new).copied().collect();
            union.sort_unstable();
            union.dedup();
            prop_assert_eq!(all, union);
        }
    }
}
