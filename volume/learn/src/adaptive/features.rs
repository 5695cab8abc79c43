//! The features of a candidate page at a miss. Each feature is one number: the index of its weight.

use super::history::{PageHistory, REGION, Region};
use super::predictor::WEIGHTS_MOST;

/// Features of a candidate.
pub(crate) const FEATURES: usize = 18;
/// Classes of distance, both directions.
pub(super) const DISTANCES: u32 = 32;
/// Classes of age, 0 for never.
pub(super) const AGES: u32 = 22;
/// Classes of a signed difference of times: never on either side, then by sign and magnitude.
pub(super) const DIFFERENCES: u32 = 2 * AGES + 1;
/// States of a candidate beside its trigger.
pub(crate) const STATES: u32 = 9;

/// Values that each feature can take.
const SIZES: [u32; FEATURES] = [
    6 * DISTANCES,
    DIFFERENCES * DISTANCES,
    STATES * DISTANCES,
    4 * 4 * 3 * 2,
    AGES * AGES,
    5 * 5 * 2,
    9 * 2,
    9 * DISTANCES,
    27 * 2,
    8 * AGES,
    4 * DISTANCES * 8,
    20 * DISTANCES,
    9 * 3 * DISTANCES,
    16 * 2,
    9 * DISTANCES,
    4 * 3 * AGES,
    4 * DISTANCES,
    6 * 6 * 2,
];

/// Where the weights of each feature begin, and where the last feature's weights end.
pub(super) const fn offsets<const N: usize, const M: usize>(sizes: &[u32; N]) -> [u32; M] {
    let mut offsets = [0; M];
    let mut i = 0;
    while i < N {
        offsets[i + 1] = offsets[i] + sizes[i];
        i += 1;
    }
    offsets
}
const OFFSETS: [u32; FEATURES + 1] = offsets(&SIZES);
const _: () = assert!(FEATURES.is_multiple_of(2) && OFFSETS[FEATURES] as usize <= WEIGHTS_MOST);

/// A candidate, as the predictor sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Features {
    /// Index of the weight of each feature; those of a trail's candidate come first.
    pub(crate) at: [u16; FEATURES],
    /// Index of the coarse and the fine cell of the count table.
    pub(crate) cells: (u16, u16),
}

/// What all candidates of one direction share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trigger {
    pub(crate) history: PageHistory,
    pub(crate) forward: bool,
    pub(crate) now: u32,
    /// Demanded pages.
    pub(crate) pages: u64,
    /// Misses before this one that each began where the one before ended, at most 2.
    pub(crate) run: u32,
    /// Start of the last miss.
    pub(crate) last_miss: u64,
    /// Pages of its region that were ever used.
    pub(crate) used_beside: u32,
    /// Class of the hit rate around it.
    pub(crate) rate: u32,
}

/// A trigger in the classes that the features need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TriggerClasses {
    of: Trigger,
    /// Class of the number of demanded pages.
    size: u32,
    /// Run, and whether the demand is large.
    run_large: u32,
    /// Class of the age, fine and coarse.
    age: u32,
    age_coarse: u32,
    beside: u32,
}

impl From<Trigger> for TriggerClasses {
    fn from(of: Trigger) -> Self {
        let age_coarse = match of.now.saturating_sub(of.history.last) {
            _ if of.history.last == 0 => 3,
            0..16_384 => 0,
            16_384..100_000 => 1,
            _ => 2,
        };
        Self {
            of,
            size: class_of_size(of.pages),
            run_large: of.run * 2 + u32::from(of.pages >= 4),
            age: age(of.now, of.history.last),
            age_coarse,
            beside: u32::from(of.used_beside > 0) + u32::from(of.used_beside > 3),
        }
    }
}

/// Class of a number of demanded pages.
pub(super) const fn class_of_size(pages: u64) -> u32 {
    match pages {
        1 => 0,
        2..4 => 1,
        4..9 => 2,
        _ => 3,
    }
}

/// What all pages of a region share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionFeatures<'a> {
    pub(crate) region: &'a Region,
    /// Pages that were ever used.
    used: u32,
    /// Class of the hit rate.
    rate: u32,
    /// Whether one of the last used pages is within 512 pages.
    near: u32,
    /// How many of them are within 16, 256 and 2,048 pages, each at most 2: a number in base 3.
    matches: u32,
}

impl<'a> RegionFeatures<'a> {
    pub(crate) fn new(region: &'a Region, number: u64, rate: u32, recent: &[u64; 8]) -> Self {
        let used = region.iter().filter(|page| page.last > 0).count() as u32;
        let middle = number * REGION + REGION / 2;
        let [near_16, near_256, near, near_2048] = matches(recent, middle, [16, 256, 512, 2048]);
        let matches = (near_16 * 3 + near_256) * 3 + near_2048;
        Self { region, used, rate, near: near.min(1), matches }
    }
}

/// What is known of the place of a candidate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CandidatePlace<'a> {
    pub(crate) page: u64,
    /// Pages between the trigger and the candidate.
    pub(crate) gap: u64,
    pub(crate) around: &'a RegionFeatures<'a>,
    /// Whether the page below and the page above are in RAM.
    pub(crate) beside: [bool; 2],
    /// Last uses of the page below and of the page above.
    pub(crate) beside_last: [u32; 2],
    /// Probability of the candidate before this one, and its last use.
    pub(crate) previous: (f32, u32),
}

/// Class of a number of pages or of a time: 0 for 0, then by power of two.
pub(super) fn log2(x: u32) -> u32 {
    u32::BITS - x.leading_zeros()
}

/// Class of the age of a time.
pub(super) fn age(now: u32, at: u32) -> u32 {
    if at == 0 { 0 } else { log2(now.saturating_sub(at)).min(AGES - 2) + 1 }
}

/// Class of a difference of two times.
pub(super) fn difference(a: u32, b: u32) -> u32 {
    match (a, b) {
        (0, _) | (_, 0) => 0,
        (a, b) if a >= b => 1 + log2(a - b).min(AGES - 1),
        (a, b) => 1 + AGES + log2(b - a).min(AGES - 1),
    }
}

/// Class of a distance in pages, 0 to 15.
pub(super) fn distance(gap: u64) -> u32 {
    const CLASSES: [u8; 256] = {
        let mut classes = [0; 256];
        let mut gap = 0;
        while gap < 256 {
            classes[gap] = class_of_distance(gap as u64) as u8;
            gap += 1;
        }
        classes
    };
    CLASSES[gap.min(255) as usize].into()
}

const fn class_of_distance(gap: u64) -> u32 {
    match gap {
        0..4 => gap as u32,
        4..256 => {
            let power = gap.ilog2();
            let class = 2 * power + (gap >> (power - 1) & 1) as u32;
            if class < 15 { class } else { 15 }
        }
        _ => 15,
    }
}

/// 0 for never, then by recency.
pub(super) fn recency(now: u32, at: u32) -> u32 {
    match now.saturating_sub(at) {
        _ if at == 0 => 0,
        0..256 => 1,
        256..4096 => 2,
        _ => 3,
    }
}

/// Relation of two times: never, before or after, near or far.
pub(super) fn relation(a: u32, b: u32) -> u32 {
    match (a, b) {
        (0, _) | (_, 0) => 0,
        (a, b) if a >= b => 1 + u32::from(a - b >= 64) + u32::from(a - b >= 4096),
        (a, b) => 4 + u32::from(b - a >= 64),
    }
}

/// How many of the last used pages are within each of these distances, at most 2.
pub(super) fn matches<const N: usize>(recent: &[u64; 8], page: u64, within: [u64; N]) -> [u32; N] {
    let mut near = [0; N];
    for &used in recent {
        let apart = used.abs_diff(page);
        for (near, within) in near.iter_mut().zip(within) {
            *near += u32::from(apart <= within);
        }
    }
    near.map(|near| near.min(2))
}

/// Class of odds, 0 to 15: two for each factor of e, as far as a power of two tells.
pub(super) fn class_of_odds(odds: f32) -> u32 {
    // The exponent and the first bit of the fraction: half powers of two.
    let halves = (odds.max(f32::MIN_POSITIVE).to_bits() >> 22) as i32 - 2 * 127;
    (halves * 2 / 3 + 8).clamp(0, 15) as u32
}

/// State of a candidate beside its trigger.
pub(crate) fn state(trigger: &PageHistory, page: &PageHistory) -> u32 {
    if page.last == 0 {
        return u32::from(page.fetched > 0);
    }
    if trigger.last == 0 {
        return 2;
    }
    let apart = page.last.abs_diff(trigger.last);
    let magnitude = u32::from(apart >= 256) + u32::from(apart >= 4096);
    3 + 2 * magnitude + u32::from(page.last < trigger.last)
}

/// Class of the way from the last miss to a page.
fn jump(last_miss: u64, page: u64) -> u32 {
    let apart = page.abs_diff(last_miss).min(u64::from(u32::MAX)) as u32;
    (log2(apart) / 3).min(9) + 10 * u32::from(page >= last_miss)
}

/// Whether a page was last used shortly after the candidate before it.
fn order(last: u32, before: u32) -> u32 {
    match (last, before) {
        (0, _) => 0,
        (_, 0) => 1,
        (this, before) if this >= before && this - before < 64 => 2,
        _ => 3,
    }
}

impl Features {
    /// The features of a candidate. `odds` is what the count table says of its two cells.
    pub(crate) fn new(
        c: &TriggerClasses,
        p: &CandidatePlace,
        odds: impl Fn((u16, u16)) -> f32,
    ) -> Self {
        let TriggerClasses { of: t, size, run_large, .. } = c;
        let RegionFeatures { region, used, rate, near, matches } = *p.around;
        let page = region[(p.page % REGION) as usize];
        let side = u32::from(t.forward);
        let d = distance(p.gap) + 16 * side;
        let state = state(&t.history, &page);
        let aq = age(t.now, page.last);
        let outcome = page.outcome as u32;
        let coarse = ((run_large * DISTANCES + d) * 2 + near) * STATES + state;
        let cells = (coarse as u16, ((coarse * 3 + outcome) * 4 + c.age_coarse) as u16);
        let beside = |i: usize| {
            if p.beside[i] { 4 } else { recency(t.now, p.beside_last[i]) }
        };
        let written = if page.written == 0 { 0 } else { (age(t.now, page.written) / 3).min(7) };
        let jump = jump(t.last_miss, p.page);
        let (p_before, last_before) = p.previous;
        let order = order(page.last, last_before);
        let before = relation(page.before, t.history.before);
        let values: [u32; FEATURES] = [
            run_large * DISTANCES + d,
            difference(page.last, t.history.last) * DISTANCES + d,
            state * DISTANCES + d,
            ((u32::from(page.fetched) * 4 + u32::from(page.used)) * 3 + outcome) * 2 + side,
            c.age * AGES + aq,
            (beside(0) * 5 + beside(1)) * 2 + side,
            rate * 2 + side,
            t.rate * DISTANCES + d,
            matches * 2 + side,
            written * AGES + aq,
            (size * DISTANCES + d) * 8 + (p.page % 8) as u32,
            jump * DISTANCES + d,
            (used * 3 + c.beside) * DISTANCES + d,
            class_of_odds(odds(cells)) * 2 + side,
            ((p_before * 8.0) as u32).min(8) * DISTANCES + d,
            (size * 3 + t.run) * AGES + aq,
            order * DISTANCES + d,
            (relation(page.last, t.history.last) * 6 + before) * 2 + side,
        ];
        Self { at: packed(&values, &SIZES, &OFFSETS), cells }
    }
}

/// The index of the weight of each feature.
#[inline]
pub(super) fn packed<const N: usize, const M: usize>(
    values: &[u32; N],
    sizes: &[u32; N],
    offsets: &[u32; M],
) -> [u16; FEATURES] {
    let mut at = [0; FEATURES];
    for i in 0..N {
        debug_assert!(values[i] < sizes[i], "feature {i}: {}", values[i]);
        at[i] = (offsets[i] + values[i]) as u16;
    }
    at
}

/// Cells of the count table, coarse and fine; and where a coarse cell begins, of 8 outcomes.
pub(crate) const COARSE: usize = (6 * DISTANCES * 2 * STATES) as usize;
pub(crate) const FINE: usize = COARSE * 12;

/// Uses among 8 made-up outcomes that a coarse cell begins with.
pub(crate) fn prior(coarse: usize) -> f32 {
    let state = coarse as u32 % STATES;
    let d = coarse as u32 / STATES / 2 % DISTANCES;
    match state {
        0 if (16..16 + 7).contains(&d) => 3.0,
        0 => 1.0,
        1 => 0.5,
        3 | 4 => 6.0,
        5 | 6 => 4.0,
        _ => 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_weight_and_cell_has_its_number() {
        assert!(FINE <= usize::from(u16::MAX), "{FINE}");
        let classes: Vec<u32> = (0..256).map(distance).collect();
        assert!(classes.is_sorted() && classes.iter().all(|&c| c < 16));
        assert!((0..32).all(|p| log2(1u32 << p) < 33));
    }
}
