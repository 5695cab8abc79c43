//! Where replicas stand: side by side in free ranges near the hot region (SOSP'05, 3.1).

use rustc_hash::FxHashMap;
use seekless_block::{Extent, PAGE_SECTORS};

use super::{RUN, SHORT};
use crate::Replica;

/// The free ranges, divided so that replicas can begin beside `near`: behind it, and `sectors`
/// before its end.
fn beside(free: impl IntoIterator<Item = Extent>, near: Extent, sectors: u64) -> Vec<Extent> {
    let cut = |range: Extent| {
        let page = |at: u64| {
            let at = at.clamp(range.start.0, range.end().0) - range.start.0;
            range.start.0 + at / PAGE_SECTORS * PAGE_SECTORS
        };
        let behind = page(near.end().0.saturating_add(PAGE_SECTORS - 1));
        let before = page(near.start.0.min(range.end().0).saturating_sub(sectors)).min(behind);
        let parts = [(range.start.0, before), (before, behind), (behind, range.end().0)];
        parts.into_iter().filter(|(a, b)| a < b).map(|(a, b)| Extent::span(a, b))
    };
    free.into_iter().flat_map(cut).collect()
}

/// Sorts free ranges for `sectors` of replicas: regions near the hot region first, and regions with
/// more free space before regions with less (3.1). Each time that the free space of a region is too
/// short for everything counts as one region further away. Then longer ranges come first.
fn nearest_first(ranges: &mut [Extent], hot: Extent, sectors: u64) {
    let region = hot.len.0.max(1);
    let middle = hot.start.0 + hot.len.0 / 2;
    let mut free: FxHashMap<u64, u64> = FxHashMap::default();
    for range in ranges.iter() {
        *free.entry(range.start.0 / region).or_default() += range.len.0;
    }
    let wanted = sectors.max(1);
    let misses = |len: u64| wanted.div_ceil(len.clamp(1, wanted));
    ranges.sort_by_key(|e| {
        let away = middle.abs_diff(middle.clamp(e.start.0, e.end().0));
        (away / region + misses(free[&(e.start.0 / region)]), misses(e.len.0), away)
    });
}

/// Lays runs side by side into free ranges: near the hot region first, and in regions with more
/// free space before regions with less (3.1).
pub fn side_by_side(
    wanted: &[Extent],
    free: impl IntoIterator<Item = Extent>,
    hot: Extent,
) -> Vec<Replica> {
    let sectors: u64 = wanted.iter().map(|e| e.len.0).sum();
    let mut ranges = beside(free, hot, sectors);
    ranges.retain(|e| e.len.0 >= SHORT);
    nearest_first(&mut ranges, hot, sectors);
    let mut replicas: Vec<Replica> = Vec::new();
    let mut ranges = ranges.into_iter();
    let mut here = Extent::default();
    let mut run = Replica::default();
    let mut run_len = 0;
    let mut wanted = wanted.iter().copied();
    let mut next = wanted.next();
    while let Some(home) = next {
        let here_left = here.len.0 / PAGE_SECTORS * PAGE_SECTORS;
        if here_left == 0 || run_len == RUN {
            if run_len > 0 {
                replicas.push(std::mem::take(&mut run));
                run_len = 0;
            }
            if here_left == 0 {
                // No free space is left.
                let Some(range) = ranges.next() else { break };
                here = range;
            }
            continue;
        }
        if run_len == 0 {
            run.place = here.start;
        }
        let len = home.len.0.min(here_left).min(RUN - run_len);
        run.homes.push(Extent::new(home.start.0, len));
        run_len += len;
        here = Extent::span(here.start.0 + len, here.end().0);
        next = if len == home.len.0 {
            wanted.next()
        } else {
            Some(Extent::span(home.start.0 + len, home.end().0))
        };
    }
    if run_len > 0 {
        replicas.push(run);
    }
    replicas
}
