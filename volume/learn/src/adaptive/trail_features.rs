//! The features of a candidate copy of the trail. Each feature is one number: the index of its
//! weight.

use super::features::{
    AGES, DIFFERENCES, Features, age, class_of_odds, class_of_size, difference, distance, matches,
    offsets, packed, recency, relation,
};
use super::history::PageHistory;
use super::predictor::WEIGHTS_MOST;

/// Features of a candidate.
pub(crate) const TRAIL_FEATURES: usize = 14;
/// How the read came to the trail: it continues a read of before (thrice), or begins a run, by its score (four times).
const KINDS: u32 = 7;
const GAPS: u32 = 16;

const SIZES: [u32; TRAIL_FEATURES] = [
    KINDS * GAPS,
    2 * KINDS * 3,
    AGES * KINDS,
    6 * GAPS,
    9 * GAPS,
    4 * 4 * 3,
    9 * KINDS,
    33 * KINDS,
    DIFFERENCES * KINDS,
    4 * KINDS,
    16,
    8 * AGES,
    9 * KINDS,
    3 * 3 * GAPS,
];

const OFFSETS: [u32; TRAIL_FEATURES + 1] = offsets(&SIZES);

const _: () =
    assert!(TRAIL_FEATURES.is_multiple_of(2) && OFFSETS[TRAIL_FEATURES] as usize <= WEIGHTS_MOST);
/// Cells of the count table, coarse and fine.
pub(crate) const TRAIL_COARSE: usize = (KINDS * GAPS * 2) as usize;
pub(crate) const TRAIL_FINE: usize = TRAIL_COARSE * 3;

/// Uses among 8 made-up outcomes that a coarse cell begins with.
pub(crate) fn trail_prior(_: usize) -> f32 {
    3.0
}

/// What all candidates of a read share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrailTrigger {
    pub(crate) kind: u32,
    pub(crate) history: PageHistory,
    pub(crate) now: u32,
    /// Demanded pages.
    pub(crate) pages: u64,
    pub(crate) recent: [u64; 8],
}

/// What is known of a candidate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrailPlace {
    pub(crate) page: u64,
    pub(crate) history: PageHistory,
    /// Slots between the demanded ones and this.
    pub(crate) gap: u64,
    /// It is the newest copy of its page.
    pub(crate) newest: bool,
    /// Slots that were written since.
    pub(crate) behind_head: u32,
    /// What became of the copy when it was last prefetched: 0 not known, 1 used, 2 unused.
    pub(crate) outcome: u8,
    /// Class of the hit rate around it.
    pub(crate) rate: u32,
    /// Probability of the candidate before this one, and its last use.
    pub(crate) previous: (f32, u32),
    /// Of the two candidates before, how many are in RAM.
    pub(crate) in_ram: u32,
}

impl TrailTrigger {
    /// The kind of a read that continues the `n`-th part of a run, from 1, or begins a run with a score.
    pub(crate) const fn kind(continues: Option<u32>, score: u32) -> u32 {
        match (continues, score) {
            (Some(n), _) => {
                if n < 3 {
                    n
                } else {
                    2
                }
            }
            (None, 0) => 3,
            (None, 1..=16) => 4,
            (None, 17..=40) => 5,
            _ => 6,
        }
    }
}

impl Features {
    /// The features of a candidate. `odds` is what the count table says of its two cells.
    pub(crate) fn of_trail(
        t: &TrailTrigger,
        p: &TrailPlace,
        odds: impl Fn((u16, u16)) -> f32,
    ) -> Self {
        let h = &p.history;
        let gap = distance(p.gap);
        let newest = u32::from(p.newest);
        let outcome = u32::from(p.outcome);
        let coarse = (t.kind * GAPS + gap) * 2 + newest;
        let cells = (coarse as u16, (coarse * 3 + outcome) as u16);
        let size = class_of_size(t.pages);
        let [near_64, near_1024] = matches(&t.recent, p.page, [64, 1024]);
        let (p_before, last_before) = p.previous;
        let aq = age(t.now, h.last);
        let values: [u32; TRAIL_FEATURES] = [
            t.kind * GAPS + gap,
            (newest * KINDS + t.kind) * 3 + outcome,
            aq * KINDS + t.kind,
            relation(h.last, last_before) * GAPS + gap,
            ((p_before * 8.0) as u32).min(8) * GAPS + gap,
            (u32::from(h.fetched) * 4 + u32::from(h.used)) * 3 + h.outcome as u32,
            (near_64 * 3 + near_1024) * KINDS + t.kind,
            (u32::BITS - p.behind_head.leading_zeros()) * KINDS + t.kind,
            difference(h.last, t.history.last) * KINDS + t.kind,
            size * KINDS + t.kind,
            class_of_odds(odds(cells)),
            (age(t.now, h.written) / 3).min(7) * AGES + aq,
            p.rate * KINDS + t.kind,
            (recency(t.now, last_before).min(2) * 3 + p.in_ram.min(2)) * GAPS + gap,
        ];
        Self { at: packed(&values, &SIZES, &OFFSETS), cells }
    }
}
