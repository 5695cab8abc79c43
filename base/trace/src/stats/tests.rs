//! Compares the sampling statistics with slow exact computations. Without sampling they agree; with
//! sampling the difference is inside the stated error.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use seekless_block::Dice;

use super::days::WorkingSets;
use super::reuse::{Distances, page_key};

/// Miss ratio of an LRU cache of `size` pages, by simulation.
fn lru_misses(accesses: &[u64], size: usize) -> f64 {
    let mut stack: Vec<u64> = Vec::new();
    let mut misses = 0;
    for page in accesses {
        if let Some(at) = stack.iter().position(|p| p == page) {
            stack.remove(at);
        } else {
            misses += 1;
        }
        stack.insert(0, *page);
        stack.truncate(size);
    }
    f64::from(misses) / accesses.len() as f64
}

proptest! {
    #[test]
    fn the_miss_ratio_is_that_of_an_lru_cache(pages in prop::collection::vec(0u64..60, 1..600)) {
        let mut distances = Distances::with_keys(1024);
        for page in &pages {
            distances.touch(page_key(*page, 0, 0));
        }
        let reuse = distances.finish();
        for point in &reuse.curve {
            prop_assert_eq!(point.miss_ratio.error, 0.0);
            let slow = lru_misses(&pages, point.pages as usize);
            prop_assert!((point.miss_ratio.value - slow).abs() < 1e-12, "{} pages: {point:?}, {slow}", point.pages);
        }
        let firsts = pages.iter().collect::<BTreeSet<_>>().len() as f64 / pages.len() as f64;
        prop_assert!((reuse.first_share.value - firsts).abs() < 1e-12);
        prop_assert_eq!(reuse.curve.last().unwrap().miss_ratio, reuse.first_share);
    }
}

/// Pages of a synthetic workload: a few hot, many cold, with sequential runs.
fn workload(seed: u64, accesses: usize, pages: f64) -> Vec<u64> {
    let mut out = Vec::with_capacity(accesses);
    let mut dice = Dice::new(seed);
    while out.len() < accesses {
        let roll = dice.draw();
        let u = (roll >> 11) as f64 / (1u64 << 53) as f64;
        let at = (u.powi(3) * pages) as u64;
        let run = if roll & 7 == 0 { 30 } else { 1 };
        out.extend((at..at + run).map(|p| p.wrapping_mul(7919) % (1 << 30)));
    }
    out.truncate(accesses);
    out
}

#[test]
fn times_are_renumbered_when_the_window_ends() {
    // At most 1,024 keys: a window of 2,048 times, which 50,000 accesses pass many times.
    let pages: Vec<u64> = workload(5, 50_000, 700.0).into_iter().map(|p| p % 1000).collect();
    let mut distances = Distances::with_keys(1024);
    pages.iter().for_each(|p| distances.touch(page_key(*p, 0, 0)));
    let reuse = distances.finish();
    for size in [1, 8, 64, 512] {
        let point = reuse.curve.iter().find(|p| p.pages == size as u64).unwrap();
        assert!((point.miss_ratio.value - lru_misses(&pages, size)).abs() < 1e-12, "{point:?}");
    }
}

#[test]
fn sampled_miss_ratios_are_inside_the_stated_error() {
    let mut worst = 0f64;
    for seed in 0..8 {
        let pages = workload(seed, 400_000, 60_000.0);
        let run = |keys| {
            let mut distances = Distances::with_keys(keys);
            pages.iter().for_each(|p| distances.touch(page_key(*p, 0, seed)));
            distances.finish()
        };
        let (exact, sampled) = (run(1 << 20), run(4096));
        assert!(exact.first_share.is_exact() && !sampled.first_share.is_exact());
        let off = (exact.first_share.value - sampled.first_share.value).abs();
        assert!(off <= sampled.first_share.error, "seed {seed}: {off} {:?}", sampled.first_share);
        let (mut sum, mut n, mut said) = (0.0, 0.0, 0.0);
        for point in &sampled.curve {
            let Some(true_point) = exact.curve.iter().find(|p| p.pages == point.pages) else {
                continue;
            };
            let off = (point.miss_ratio.value - true_point.miss_ratio.value).abs();
            assert!(
                off <= point.miss_ratio.error,
                "seed {seed}: {point:?}, in truth {true_point:?}"
            );
            worst = worst.max(off);
            (sum, n, said) = (sum + off, n + 1.0, said + point.miss_ratio.error);
        }
        assert!(sum / n < 0.04, "seed {seed}: off by {} on average", sum / n);
        // The stated error is not so large that it is meaningless.
        assert!(said / n < 0.25, "seed {seed}: {} said on average", said / n);
    }
    println!("worst {worst}");
}

type Day = BTreeMap<u64, u32>;

/// The part of each page that belongs to the day's most accessed pages. Pages with one count share
/// the rest evenly.
fn top(day: &Day, share: f64) -> BTreeMap<u64, f64> {
    let want = share * day.len() as f64;
    let part = |count: u32| {
        let above = day.values().filter(|n| **n > count).count() as f64;
        let same = day.values().filter(|n| **n == count).count() as f64;
        ((want - above) / same).clamp(0.0, 1.0)
    };
    day.iter().map(|(page, n)| (*page, part(*n))).collect()
}

fn shared_top(a: &Day, b: &Day) -> f64 {
    let (x, y) = (top(a, 0.2), top(b, 0.2));
    let both: f64 = x.iter().filter_map(|(p, w)| Some(w * y.get(p)?)).sum();
    both / (0.2 * b.len() as f64)
}

fn shared(a: &Day, b: &Day) -> f64 {
    b.keys().filter(|p| a.contains_key(p)).count() as f64 / b.len() as f64
}

fn days_of(list: &[(u64, u64)]) -> BTreeMap<u64, Day> {
    let mut days: BTreeMap<u64, Day> = BTreeMap::new();
    for (day, page) in list {
        *days.entry(*day).or_default().entry(*page).or_insert(0) += 1;
    }
    days
}

fn working_sets(list: &[(u64, u64)], keys: usize, seed: u64) -> super::Days {
    let mut sets = WorkingSets::with_keys(keys);
    for (day, page) in list {
        sets.request(*day);
        sets.touch(page_key(*page, 0, seed));
    }
    sets.finish(None).unwrap()
}

#[test]
fn one_long_day_does_not_slow_down_each_short_one() {
    let long = (0..1 << 16).map(|page| (0, page));
    let list: Vec<(u64, u64)> = long.chain((1..20_000).map(|day| (day, day))).collect();
    let started = std::time::Instant::now();
    assert_eq!(working_sets(&list, 1 << 17, 1).active, 20_000);
    let took = started.elapsed();
    assert!(took < std::time::Duration::from_secs(3), "{took:?}");
}

proptest! {
    #[test]
    fn days_agree_with_sets(gaps in prop::collection::vec((0u64..2, 0u64..30), 1..300)) {
        let mut day = 3;
        let list: Vec<(u64, u64)> = gaps
            .iter()
            .map(|&(gap, page)| { day += u64::from(gap == 1 && page < 4); (day, page) })
            .collect();
        let slow = days_of(&list);
        let fast = working_sets(&list, 1024, 1);
        prop_assert_eq!(fast.active as usize, slow.len());
        let days: Vec<&Day> = slow.values().collect();
        for (i, ((number, day), row)) in slow.iter().zip(&fast.rows).enumerate() {
            prop_assert_eq!((row.day, row.pages.value), (*number, day.len() as f64));
            prop_assert_eq!(row.page_accesses, day.values().map(|n| u64::from(*n)).sum::<u64>());
            let near = |e: Option<super::Estimate>, want: f64| e.is_some_and(|e| e.is_exact() && (e.value - want).abs() < 1e-9);
            if i == 0 {
                prop_assert_eq!(row.of_first_day, None);
                continue;
            }
            prop_assert!(near(row.of_first_day, shared(days[0], day)));
            prop_assert!(near(row.top20_of_first_day, shared_top(days[0], day)), "{row:?}");
            prop_assert!(near(row.of_day_before, shared(days[i - 1], day)));
            prop_assert!(near(row.top20_of_day_before, shared_top(days[i - 1], day)));
        }
        for later in 0..=3usize {
            let pairs: Vec<(&Day, &Day)> = days.iter().zip(days.iter().skip(later)).map(|(a, b)| (*a, *b)).collect();
            let curve = fast.persistence.iter().find(|p| p.days_later == later as u64);
            prop_assert_eq!(curve.map_or(0, |c| c.pairs as usize), pairs.len());
            let Some(curve) = curve else { continue };
            for (space, share) in &curve.curve {
                let of = |(a, b): &(&Day, &Day)| {
                    let hot = top(a, *space);
                    let inside: f64 = b.iter().map(|(p, n)| hot.get(p).unwrap_or(&0.0) * f64::from(*n)).sum();
                    inside / b.values().map(|n| f64::from(*n)).sum::<f64>()
                };
                let slow = pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
                prop_assert!((share - slow).abs() < 1e-9, "{later} later, {space}: {share} {slow}");
            }
        }
    }
}

#[test]
fn sampled_days_are_inside_the_stated_error() {
    for seed in 0..8u64 {
        let list: Vec<(u64, u64)> = (0..5)
            .flat_map(|day| {
                let pages = workload(seed * 100 + day, 60_000, 30_000.0 + 4_000.0 * day as f64);
                pages.into_iter().map(move |p| (day, p))
            })
            .collect();
        let (exact, sampled) =
            (working_sets(&list, 1 << 20, seed), working_sets(&list, 2048, seed));
        for (e, s) in exact.rows.iter().zip(&sampled.rows) {
            let within = |a: super::Estimate, b: super::Estimate, what: &str| {
                assert!(a.is_exact() && !b.is_exact());
                let off = (a.value - b.value).abs();
                assert!(off <= b.error, "seed {seed} day {}: {what} {a:?} {b:?}", e.day);
            };
            within(e.pages, s.pages, "pages");
            if e.day > 0 {
                within(e.of_first_day.unwrap(), s.of_first_day.unwrap(), "of the first");
                within(e.of_day_before.unwrap(), s.of_day_before.unwrap(), "of the one before");
                let top = (e.top20_of_day_before.unwrap(), s.top20_of_day_before.unwrap());
                within(top.0, top.1, "top of the one before");
            }
        }
        for (e, s) in exact.persistence.iter().zip(&sampled.persistence) {
            for (a, b) in e.curve.iter().zip(&s.curve) {
                let off = (a.1 - b.1).abs();
                assert!(
                    off <= s.plus_minus,
                    "seed {seed}, {} later at {}: {} {} +- {}",
                    e.days_later,
                    a.0,
                    a.1,
                    b.1,
                    s.plus_minus
                );
            }
        }
    }
}
