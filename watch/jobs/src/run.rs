//! A run: what one group of processes uses first, in order, until it is idle or begins again.

use rustc_hash::{FxHashMap, FxHashSet};
use seekless_block::SimTime;

use crate::chase::Chase;
use crate::job::{Job, RunTreatment, between};
use crate::piece::{Piece, PieceId};
use crate::watcher::IDLE;

/// Points that recognize a job: three misses in order, or two by the program that ran it last.
const POINTS: u32 = 3;
/// Positions between two misses in order, at most.
const REACH: usize = 512;
pub(crate) const PIECES_MOST: usize = 1 << 17;
/// Pieces of a file in a row that are recorded; the kernel itself reads ahead in a file.
const ROW: u32 = 8;
/// Misses in a row of pieces that the run has missed already, in the order of its first ones: the
/// cache was emptied, and a new run begins. Other pages that are missed again were reclaimed.
const REPEATS: u32 = 16;
/// The pieces that count as the first ones.
const FIRST: u32 = 4 * REPEATS;

/// The user of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageUser {
    /// The process group.
    pub group: u32,
    /// Hash of the program; 0: unknown.
    pub program: u64,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    last: usize,
    points: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) who: PageUser,
    pub(crate) started: SimTime,
    /// The last use.
    pub(crate) last: SimTime,
    /// The last use of pages that the run had not used before, or waited for.
    pub(crate) grown: SimTime,
    pub(crate) seen: Vec<Piece>,
    /// Where each place is in `seen`, and its pages that were missed.
    at: FxHashMap<PieceId, (u32, u32)>,
    /// Pieces for which a program waited.
    pub(crate) misses: u64,
    /// The last piece that was missed again, and the number of these in a row.
    repeats: (u32, u32),
    /// The last place, and how many places of its file came in a row.
    row: (PieceId, u32),
    candidates: FxHashMap<u32, Candidate>,
    pub(crate) chase: Option<Chase>,
    /// The run followed a job from its start.
    pub(crate) exact: bool,
    /// The first piece that was used in memory: the kernel shows such uses from then on.
    pub(crate) visible: Option<PieceId>,
    /// Most of what was fetched for it was in vain.
    pub(crate) lost: bool,
    /// The jobs for which something was fetched, if any: the last one.
    pub(crate) helped_by: Option<u32>,
    /// Pages that were fetched for it.
    pub(crate) fetched: u64,
    /// Its time is not known: something was fetched for it while uses in memory were not seen, or it
    /// was ended for want of space.
    pub(crate) blind: bool,
    /// Pieces in `seen` that only workers of ours have used, where the program did not come.
    pub(crate) unreached: FxHashSet<PieceId>,
    /// The jobs that were recognized in this run, how they are treated, and whether as jobs of its
    /// program.
    pub(crate) turns: Vec<(u32, RunTreatment, bool)>,
    /// Jobs that this run has left for good: most was fetched in vain, or the job rests.
    pub(crate) others: Vec<u32>,
}

impl Run {
    pub(crate) fn new(who: PageUser, now: SimTime) -> Self {
        Self { who, started: now, last: now, grown: now, ..Self::default() }
    }

    /// Whether these pages, missed now, begin a new run: this one has missed them all already.
    pub(crate) fn begins_again(&mut self, place: PieceId, pages: u32) -> bool {
        let again = self.at.get(&place).and_then(|&(i, missed)| {
            let again = missed & pages == pages && i < FIRST;
            again.then_some(i)
        });
        let (last, count) = self.repeats;
        self.repeats = match again {
            // One piece is one miss, whatever the number of its pages.
            Some(i) if count > 0 && i == last => (i, count),
            Some(i) if count > 0 && i > last => (i, count + 1),
            Some(i) => (i, 1),
            None => (0, 0),
        };
        self.repeats.1 >= REPEATS
    }

    fn piece(&mut self, place: PieceId) -> Option<&mut Piece> {
        let &(i, _) = self.at.get(&place)?;
        self.seen.get_mut(i as usize)
    }

    /// Adds a use; `missed`: the program waited for the disk. Returns true if this is the first wait
    /// for the place.
    pub(crate) fn note(&mut self, place: PieceId, pages: u32, missed: bool) -> bool {
        let waited = if missed { pages } else { 0 };
        if let Some((i, before)) = self.at.get_mut(&place) {
            let first = *before == 0 && missed;
            *before |= waited;
            if let Some(piece) = self.seen.get_mut(*i as usize) {
                piece.pages |= pages;
            }
            return first;
        }
        let (last, count) = self.row;
        let follows = !place.is_metadata()
            && last.file == place.file
            && last.chunk.checked_add(1) == Some(place.chunk);
        self.row = (place, if follows { count + 1 } else { 1 });
        if self.row.1 > ROW || self.seen.len() >= PIECES_MOST {
            return false;
        }
        self.at.insert(place, (self.seen.len() as u32, waited));
        self.seen.push(Piece::new(place, pages));
        missed
    }

    /// A use of pages that the run had not used before, or waited for. After a pause in which the run
    /// used only pages from before, it would have ended without help: then its time does not go on.
    pub(crate) fn grow(&mut self, now: SimTime) {
        if self.last == self.grown || between(self.grown, now) < IDLE {
            self.grown = now;
        }
        self.last = now;
    }

    /// Whether the run has used all these pages.
    pub(crate) fn has_used(&self, place: PieceId, pages: u32) -> bool {
        let piece = self.at.get(&place).and_then(|&(i, _)| self.seen.get(i as usize));
        piece.is_some_and(|p| p.pages & pages == pages)
    }

    /// Pages for which its program waited.
    pub(crate) fn pages_missed(&self) -> u64 {
        self.at.values().map(|(_, missed)| u64::from(missed.count_ones())).sum()
    }

    /// The file's generation and the piece's address are known now.
    pub(crate) fn resolved(&mut self, place: PieceId, generation: u32, block: u64) {
        if let Some(piece) = self.piece(place) {
            (piece.generation, piece.block) = (generation, block);
        }
    }

    /// Compares a miss with every job. Returns the job that is recognized, and the position. While
    /// the run follows a job of another program, only the program's own jobs count.
    pub(crate) fn recognize(
        &mut self,
        jobs: &[Job],
        place: PieceId,
        pages: u32,
    ) -> Option<(u32, usize)> {
        let only_own = self.chase.is_some();
        let mut best: Option<((u32, u32), u32, usize)> = None;
        for job in jobs {
            // Other pages of the same piece may belong to another tree.
            let used = |&i: &usize| job.pieces()[i].pages & pages != 0;
            let Some(position) = job.find(place).filter(used) else { continue };
            let same = self.who.program != 0 && job.program == self.who.program;
            if (only_own && !same) || self.others.contains(&job.id) {
                continue;
            }
            let weight = if same { 2 } else { 1 };
            let candidate =
                self.candidates.entry(job.id).or_insert(Candidate { last: position, points: 0 });
            // One piece may be common to two trees: it is one miss of another program's job.
            if position == candidate.last && candidate.points > 0 && !same {
                continue;
            }
            if (candidate.last..=candidate.last.saturating_add(REACH)).contains(&position) {
                *candidate = Candidate { last: position, points: candidate.points + weight };
            } else if candidate.last.abs_diff(position) > REACH {
                *candidate = Candidate { last: position, points: weight };
            }
            // Of jobs that begin alike, the one that ran most often.
            let rank = (candidate.points, job.runs);
            if rank.0 >= POINTS && best.is_none_or(|(b, _, _)| rank > b) {
                best = Some((rank, job.id, position));
            }
        }
        best.map(|(_, id, position)| (id, position))
    }

    /// After a chase has ended: recognition begins from nothing.
    pub(crate) fn forget_candidates(&mut self) {
        self.candidates.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: u64) -> PieceId {
        PieceId { file, chunk: 0 }
    }

    fn job(id: u32, program: u64, files: impl IntoIterator<Item = u64>) -> Job {
        Job::new(id, program, files.into_iter().map(|f| Piece::new(place(f), 1)).collect())
    }

    fn run(program: u64) -> Run {
        Run::new(PageUser { group: 1, program }, SimTime(0))
    }

    #[test]
    fn three_misses_in_order_recognize_a_job_and_two_by_its_program() {
        let jobs = [job(1, 5, 0..100), job(2, 0, 50..60)];
        let mut by_another = run(6);
        let found: Vec<_> = [10, 12, 99].map(|f| by_another.recognize(&jobs, place(f), 1)).into();
        assert_eq!(found, [None, None, Some((1, 99))]);
        let mut by_its_own = run(5);
        assert_eq!(by_its_own.recognize(&jobs, place(10), 1), None);
        assert_eq!(by_its_own.recognize(&jobs, place(11), 1), Some((1, 11)));
        let mut common = run(6);
        assert!((0..9).all(|_| common.recognize(&jobs, place(10), 1).is_none()), "one piece");
        let mut often = [job(1, 5, 0..100), job(2, 5, 0..100), job(3, 5, 0..100)];
        often[1].runs = 3;
        let mut alike = run(5);
        let found: Vec<_> = [1, 2].map(|f| alike.recognize(&often, place(f), 1)).into();
        assert_eq!(found, [None, Some((2, 2))]);
        let mut beside = run(5);
        assert!((10..40).all(|f| beside.recognize(&jobs, place(f), 0b10).is_none()), "other pages");
        let mut strange = run(5);
        assert!((200..300).all(|f| strange.recognize(&jobs, place(f), 1).is_none()));
    }

    #[test]
    fn misses_out_of_order_or_far_apart_recognize_nothing() {
        let jobs = [job(1, 0, 0..10_000)];
        let mut run = run(0);
        for file in [5000, 4000, 3000, 2000, 9000, 1000] {
            assert_eq!(run.recognize(&jobs, place(file), 1), None, "{file}");
        }
        // A neighbour before the last one changes nothing.
        assert!([999, 1001, 998, 1002].map(|f| run.recognize(&jobs, place(f), 1).is_some())[3]);
    }

    #[test]
    fn long_files_are_left_to_the_kernel() {
        let mut run = run(0);
        (0..1000).for_each(|chunk| {
            run.note(PieceId { file: 7, chunk }, 1, true);
        });
        assert_eq!(run.seen.len(), ROW as usize);
        assert!(run.note(PieceId { file: 7, chunk: 5000 }, 1, true), "another place in the file");
    }

    #[test]
    fn a_place_is_one_wait_though_a_page_of_it_was_there() {
        let mut run = run(0);
        assert!(!run.note(place(1), 0b1, false));
        let waits = [0b10, 0b100, 0b1].map(|pages| run.note(place(1), pages, true));
        assert_eq!((waits, run.seen[0].pages), ([true, false, false], 0b111));
    }

    #[test]
    fn the_first_pieces_missed_again_begin_a_new_run() {
        let mut run = run(0);
        let all = 0..u64::from(2 * FIRST);
        all.clone().for_each(|n| {
            run.note(place(n), 0b11, n != 3);
        });
        let again = |run: &mut Run, files: &[u64], pages| {
            files.iter().any(|&f| run.begins_again(place(f), pages))
        };
        let files: Vec<u64> = all.collect();
        let most = REPEATS as usize;
        assert!(!again(&mut run, &[5; 100], 1), "one piece");
        assert!(!again(&mut run, &files[most * 4..], 1), "reclaimed: they are not the first ones");
        assert!(!again(&mut run, &[6, 5].repeat(most), 1), "not in order");
        assert!(!again(&mut run, &files[4..most + 4], 0b100), "other pages");
        assert!(!again(&mut run, &files[..most], 1), "3 was used, and not missed");
        assert!(!again(&mut run, &[2 * u64::from(FIRST)], 1));
        assert!(again(&mut run, &files[4..most + 4], 0b11));
    }
}
