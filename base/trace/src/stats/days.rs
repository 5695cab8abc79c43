//! Working sets by day: the overlap of a day's pages with the first day and with the day before
//! (BORG, Figure 1, bottom row), and the hits of a day's ranking on later days (clustering paper,
//! Figure 2). Only days with requests count.

use std::collections::VecDeque;

use super::Estimate;
use super::ranks::{Ranks, SPACE};
use super::sampled_map::{SIGMAS, SampledMap, total};
use super::summary::{DayRow, Days, Persistence};

/// Maximum number of days with their own row.
const ROWS: usize = 4096;
/// Number of active days for which an old ranking is tested.
const LATER: usize = 3;
/// The most accessed pages are this fraction of a day's pages.
const POPULAR: f64 = 0.2;

#[derive(Clone, Debug)]
struct PastDay {
    /// Its pages by key, with their access counts.
    pages: Vec<(u64, u32)>,
    ranks: Ranks,
    /// Number of keys that each page represents.
    weight: u64,
    accesses: u64,
}

/// A curve that is being averaged.
#[derive(Clone, Debug, Default)]
struct Curve {
    pairs: u64,
    sums: [f64; SPACE.len()],
    variance: f64,
}

#[derive(Debug)]
pub(super) struct WorkingSets {
    today: SampledMap<u64, u32>,
    day: Option<u64>,
    row: DayRow,
    first: Option<PastDay>,
    before: VecDeque<PastDay>,
    rows: Vec<DayRow>,
    active: u64,
    /// Indexed by the number of days later.
    curves: [Curve; LATER + 1],
}

impl WorkingSets {
    pub(super) fn within(bytes: u64) -> Self {
        // Space for today's table, and one list each for today, the first day and the days before.
        Self::of(SampledMap::within(bytes / 4))
    }

    #[cfg(test)]
    pub(super) fn with_keys(keys: usize) -> Self {
        Self::of(SampledMap::of(keys))
    }

    fn of(today: SampledMap<u64, u32>) -> Self {
        Self {
            today,
            day: None,
            row: DayRow::default(),
            first: None,
            before: VecDeque::new(),
            rows: Vec::new(),
            active: 0,
            curves: std::array::from_fn(|_| Curve::default()),
        }
    }

    /// A request on this day. A finished day does not start again.
    #[inline]
    pub(super) fn request(&mut self, day: u64) {
        if self.day.is_none_or(|d| d < day) {
            self.close();
            self.day = Some(day);
        }
        self.row.requests += 1;
    }

    #[inline]
    pub(super) fn touch(&mut self, key: u64) {
        self.row.page_accesses += 1;
        if let Some(count) = self.today.get(key) {
            *count = count.saturating_add(1);
        }
    }

    #[cold]
    fn close(&mut self) {
        let Some(day) = self.day else { return };
        let mut row = std::mem::take(&mut self.row);
        let mut pages: Vec<(u64, u32)> = self.today.iter().map(|(k, n)| (k, *n)).collect();
        self.today.clear();
        pages.sort_unstable();
        let n = pages.len() as f64;
        let weight = self.today.weight();
        row.day = day;
        row.pages = self.today.total(n, n, 1.0);
        let ranks = Ranks::new(pages.iter().map(|p| p.1), weight);
        let today = PastDay { pages, ranks, weight, accesses: row.page_accesses };
        // Earlier days were sampled at the same rate or a higher one.
        let earlier = self.first.iter_mut().chain(&mut self.before);
        for past in earlier.filter(|past| past.weight != weight) {
            past.pages.retain(|p| self.today.takes(p.0));
            past.ranks = Ranks::new(past.pages.iter().map(|p| p.1), weight);
            past.weight = weight;
        }
        if let Some(first) = &self.first {
            (row.of_first_day, row.top20_of_first_day) = overlap(first, &today, weight);
        }
        if let Some(before) = self.before.front() {
            (row.of_day_before, row.top20_of_day_before) = overlap(before, &today, weight);
        }
        self.curves[0].add(&today, &today, weight);
        for (later, past) in self.before.iter().enumerate() {
            self.curves[later + 1].add(past, &today, weight);
        }
        self.active += 1;
        if self.rows.len() < ROWS {
            self.rows.push(row);
        }
        if self.first.is_none() {
            self.first = Some(today.clone());
        }
        self.before.push_front(today);
        self.before.truncate(LATER);
    }

    pub(super) fn finish(mut self, day_s: Option<f64>) -> Option<Days> {
        self.close();
        (self.active > 0).then(|| Days {
            day_s,
            active: self.active,
            persistence: self.curves.iter().enumerate().filter_map(|(i, c)| c.finish(i)).collect(),
            rows: self.rows,
        })
    }
}

/// Pages of both days, with their access counts on each day.
fn common<'a>(a: &'a PastDay, b: &'a PastDay) -> impl Iterator<Item = (u32, u32)> + 'a {
    let mut left = a.pages.as_slice();
    b.pages.iter().filter_map(move |&(key, n)| {
        // One day may have many more pages than the other: steps double until they pass the key.
        let mut end = 1;
        while left.get(end - 1).is_some_and(|l| l.0 < key) {
            end *= 2;
        }
        let near = left.get(..end).unwrap_or(left);
        left = left.get(near.partition_point(|l| l.0 < key)..).unwrap_or_default();
        left.first().filter(|l| l.0 == key).map(|l| (l.1, n))
    })
}

/// The part of a page with `count` accesses that belongs to its day's most accessed pages.
fn popular((boundary, part): (u32, f64), count: u32) -> f64 {
    match count.cmp(&boundary) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => part,
        std::cmp::Ordering::Less => 0.0,
    }
}

/// The fractions of today's pages, and of today's most accessed pages, that also belong to the past
/// day. If pages with one count are only partly among the most accessed, the choice among them is
/// assumed to be random.
fn overlap(past: &PastDay, today: &PastDay, weight: u64) -> (Option<Estimate>, Option<Estimate>) {
    let n = today.pages.len() as f64;
    if n == 0.0 {
        return (None, None);
    }
    let (was, is) = (past.ranks.boundary(POPULAR), today.ranks.boundary(POPULAR));
    let (mut both, mut top) = (0.0, 0.0);
    for (a, b) in common(past, today) {
        both += 1.0;
        top += popular(was, a) * popular(is, b);
    }
    let share = |part: f64, n: f64| {
        let p = (part / n).min(1.0);
        Some(Estimate { value: p, error: off(p, n, weight) })
    };
    let (all, top) = (share(both, n), share(top, POPULAR * n));
    // The boundaries are themselves estimated, on both days.
    let top = top.map(|e| {
        let slip = if weight == 1 { 0.0 } else { 2.0 * SIGMAS / (POPULAR * n).sqrt() };
        Estimate { error: (e.error + slip).min(1.0), ..e }
    });
    (all, top)
}

/// The possible error of a fraction `p` of `n` sampled keys. It is never zero for a sample.
fn off(p: f64, n: f64, weight: u64) -> f64 {
    if weight == 1 {
        return 0.0;
    }
    (SIGMAS * (p * (1.0 - p) / n).sqrt()).max(SIGMAS * SIGMAS / n).min(1.0)
}

impl Curve {
    /// Adds the fractions of the later day's accesses that go to the hottest pages of the ranked
    /// day.
    fn add(&mut self, ranked: &PastDay, later: &PastDay, weight: u64) {
        if ranked.pages.is_empty() || later.pages.is_empty() {
            return;
        }
        let mut of_count: rustc_hash::FxHashMap<u32, f64> = rustc_hash::FxHashMap::default();
        let (mut inside, mut squares) = (0.0, 0.0);
        for (a, b) in common(ranked, later) {
            *of_count.entry(a).or_insert(0.0) += f64::from(b);
            inside += f64::from(b);
            squares += f64::from(b).powi(2);
        }
        let whole: f64 = later.pages.iter().map(|p| f64::from(p.1)).sum();
        let mut counts: Vec<(u32, f64)> = of_count.into_iter().collect();
        counts.sort_unstable_by_key(|c| std::cmp::Reverse(c.0));
        for (sum, space) in self.sums.iter_mut().zip(SPACE) {
            let boundary = ranked.ranks.boundary(space);
            let part: f64 = counts.iter().map(|(c, n)| popular(boundary, *c) * n).sum();
            *sum += part / whole;
        }
        self.pairs += 1;
        if weight > 1 {
            // A ratio of two sums over the same sample. The hottest pages decide its error.
            let all: f64 = later.pages.iter().map(|p| f64::from(p.1).powi(2)).sum();
            let error =
                total(weight, inside, squares.max(all), 1.0).error / (whole * weight as f64);
            let known = later.accesses.max(1) as f64;
            let missed = (1.0 - whole * weight as f64 / known).abs();
            self.variance += (error + missed).powi(2);
        }
    }

    fn finish(&self, days_later: usize) -> Option<Persistence> {
        let n = self.pairs as f64;
        (self.pairs > 0).then(|| Persistence {
            days_later: days_later as u64,
            pairs: self.pairs,
            curve: SPACE.into_iter().zip(self.sums).map(|(x, sum)| (x, sum / n)).collect(),
            // All days use the same sampled keys, so their errors do not cancel.
            plus_minus: (self.variance / n).sqrt().min(1.0),
        })
    }
}
