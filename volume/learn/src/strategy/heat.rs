//! Placement by temperature alone: the strategies of the clustering paper (Staelin and
//! Garcia-Molina, CS-TR-283-90, sections 4 and 5.2) and the baselines of its time. The order of
//! accesses does not count, only how often each sector was read.
//!
//! Copies stand in the optimized area. So the paper's middle of the disk is the middle of the
//! copies, and the caller places the area. The paper moves the data itself, over the whole disk;
//! `docs/believing/clustering.md` explains the difference.

use std::cmp::Reverse;
use std::collections::VecDeque;

use seekless_block::{Extent, Sectors};

use super::{PlanConfig, Strategy};
use crate::{Pages, Vertex};

/// Share of all sectors ever read that a lazy plan organizes, in percent: the paper finds little
/// gain beyond.
const LAZY_PERCENT: u64 = 8;
/// Unit of cylinder shuffling: 1 MiB, some cylinders of a disk of 1990 and half of one of 2010.
const CYLINDER: u64 = 2048;
/// Unit of block shuffling: a file system's block of 1990, 8 KiB.
const BLOCK: u64 = 16;

/// A unit that is placed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) extent: Extent,
    /// Sectors read per sector of it, in a fixed unit.
    heat: u64,
    pub(super) vertex: u32,
}

/// Parts of [`Unit::heat`].
const PART: u128 = 1 << 20;

/// The units of a strategy: vertices, their pieces of 8 KiB, or whole megabytes with vertices.
fn units(vertices: &[Vertex], strategy: Strategy, pages: Pages) -> Vec<Unit> {
    let heat = |v: &Vertex| (u128::from(v.reads) * PART).min(u64::MAX.into()) as u64;
    let each = vertices.iter().enumerate().filter(|(_, v)| v.reads > v.writes);
    match strategy {
        Strategy::BlockShuffle => each
            .flat_map(|(i, v)| {
                let (start, end) = (v.extent.start.0, v.extent.end().0);
                (start..end).step_by(BLOCK as usize).map(move |at| Unit {
                    extent: Extent::span(at, end.min(at + BLOCK)),
                    heat: heat(v),
                    vertex: i as u32,
                })
            })
            .collect(),
        Strategy::CylinderShuffle => {
            let mut units: Vec<(u64, u128)> = Vec::new();
            for (_, v) in each {
                let (mut at, end) = (v.extent.start.0, v.extent.end().0);
                while at < end {
                    let of = (at - pages.grid) / CYLINDER;
                    let stop = end.min(pages.grid + (of + 1) * CYLINDER);
                    let read = u128::from(v.reads) * u128::from(stop - at);
                    match units.last_mut() {
                        Some((last, sum)) if *last == of => *sum += read,
                        _ => units.push((of, read)),
                    }
                    at = stop;
                }
            }
            let unit = |(of, read): (u64, u128)| {
                let start = pages.grid + of * CYLINDER;
                let extent = Extent::span(start, pages.end.min(start + CYLINDER));
                let heat = read * PART / u128::from(extent.len.0.max(1));
                Unit { extent, heat: heat.min(u64::MAX.into()) as u64, vertex: 0 }
            };
            units.into_iter().map(unit).collect()
        }
        _ => {
            each.map(|(i, v)| Unit { extent: v.extent, heat: heat(v), vertex: i as u32 }).collect()
        }
    }
}

/// The order of a strategy, from the start of the area on. Vertices are in order of address.
pub(super) fn order(vertices: &[Vertex], pages: Pages, config: &PlanConfig) -> Vec<Unit> {
    let mut units = units(vertices, config.strategy, pages);
    let touched: Sectors = vertices.iter().map(|v| v.extent.len).sum();
    let room = match config.strategy {
        Strategy::Lazy => config.area.min(Sectors(touched.0 * LAZY_PERCENT / 100)),
        _ => config.area,
    };
    units.sort_unstable_by_key(|u| (Reverse(u.heat), u.extent.start));
    let mut left = room.0;
    units.retain(|u| {
        let fits = u.extent.len.0 <= left;
        left -= if fits { u.extent.len.0 } else { 0 };
        fits
    });
    match config.strategy {
        Strategy::HottestFirst => units,
        Strategy::Buckets => buckets(units, config.reach.transfer.0.max(1)),
        _ => organ_pipe(units),
    }
}

/// The hottest in the middle, the others outwards, each on the shorter side.
fn organ_pipe(hottest_first: Vec<Unit>) -> Vec<Unit> {
    let mut order = VecDeque::with_capacity(hottest_first.len());
    let (mut before, mut after) = (0, 0);
    for unit in hottest_first {
        let len = unit.extent.len.0;
        if before <= after {
            before += len;
            order.push_back(unit);
        } else {
            after += len;
            order.push_front(unit);
        }
    }
    order.into()
}

/// Buckets of 2, 4, 8... times `unit` sectors from the middle outwards, half of each on either
/// side. Each half is in order of address: a change of temperature within a bucket moves nothing.
fn buckets(hottest_first: Vec<Unit>, unit: u64) -> Vec<Unit> {
    let mut order = VecDeque::with_capacity(hottest_first.len());
    let mut rest = &hottest_first[..];
    let mut size = 2 * unit;
    while !rest.is_empty() {
        let mut sum = 0;
        // At least one: a unit may be larger than the bucket.
        let n = rest.iter().take_while(|u| {
            let before = sum;
            sum += u.extent.len.0;
            before == 0 || sum <= size
        });
        let n = n.count();
        let mut bucket = rest[..n].to_vec();
        bucket.sort_unstable_by_key(|u| u.extent.start);
        let half: u64 = bucket.iter().map(|u| u.extent.len.0).sum::<u64>() / 2;
        let mut sum = 0;
        let low = bucket.iter().take_while(|u| {
            sum += u.extent.len.0;
            sum <= half
        });
        let low = low.count();
        bucket[..low].iter().rev().for_each(|u| order.push_front(*u));
        bucket[low..].iter().for_each(|u| order.push_back(*u));
        rest = &rest[n..];
        size = size.saturating_mul(2);
    }
    order.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seekless_block::Bytes;

    use super::*;
    // Not proptest's.
    use crate::Strategy;
    use crate::{ACCESS, Planning, Reach};

    const PAGES: fn() -> Pages = || Pages::new(Sectors(0), Sectors(1 << 20));

    fn config(strategy: Strategy, area: u64) -> PlanConfig {
        PlanConfig {
            area: Sectors(area),
            min_weight: 0,
            strategy,
            planning: Planning::Anew,
            reach: Reach::new(Bytes(0), Bytes(0)),
        }
    }

    fn vertex(start: u64, len: u64, reads: u32) -> Vertex {
        Vertex { extent: Extent::new(start, len), reads: reads * ACCESS, writes: 0 }
    }

    fn starts(strategy: Strategy, area: u64, vertices: &[Vertex]) -> Vec<u64> {
        order(vertices, PAGES(), &config(strategy, area)).iter().map(|u| u.extent.start.0).collect()
    }

    #[test]
    fn the_hottest_stand_in_the_middle_and_what_is_written_stays_home() {
        let mut v: Vec<Vertex> = (0..6).map(|i| vertex(i * 100, 8, i as u32 + 1)).collect();
        v[5].writes = v[5].reads;
        assert_eq!(starts(Strategy::OrganPipe, 1000, &v), [100, 300, 400, 200, 0]);
        assert_eq!(starts(Strategy::HottestFirst, 1000, &v), [400, 300, 200, 100, 0]);
        // Space for three; a lazy one has space for the hottest of fifty.
        assert_eq!(starts(Strategy::OrganPipe, 24, &v), [300, 400, 200]);
        let many: Vec<Vertex> = (0..50).map(|i| vertex(i * 100, 8, i as u32 + 1)).collect();
        assert_eq!(starts(Strategy::Lazy, 1000, &many), [4600, 4800, 4900, 4700]);
        // Pieces of 8 KiB of one vertex lie on both sides of the middle.
        let long = [vertex(0, 64, 3)];
        assert_eq!(starts(Strategy::BlockShuffle, 64, &long), [48, 16, 0, 32]);
        assert_eq!(starts(Strategy::OrganPipe, 64, &long), [0]);
    }

    #[test]
    fn a_cylinder_is_moved_whole_and_hot_by_its_size() {
        // Hot and small, warm and large: the second has more of its sectors read.
        let v = [vertex(10 * CYLINDER, 8, 100), vertex(20 * CYLINDER - 8, 1032, 10)];
        let units = order(&v, PAGES(), &config(Strategy::CylinderShuffle, 1 << 20));
        let at: Vec<u64> = units.iter().map(|u| u.extent.start.0 / CYLINDER).collect();
        assert_eq!(at, [10, 20, 19]);
        assert!(units.iter().all(|u| u.extent.len.0 == CYLINDER));
        // None passes the end of the device.
        let pages = Pages::new(Sectors(7), Sectors(3000));
        let v = [vertex(7 + 2040, 16, 1)];
        let units = order(&v, pages, &config(Strategy::CylinderShuffle, 1 << 20));
        assert!(units.iter().all(|u| pages.is_whole(u.extent)), "{units:?}");
        assert_eq!(units.len(), 2);
    }

    #[test]
    fn buckets_double_outwards_and_keep_addresses_in_order() {
        // Buckets of 2, 4, 8 units of 512 sectors; hottest last.
        let v: Vec<Vertex> = (0..14).map(|i| vertex(i * 1000, 512, i as u32 + 1)).collect();
        let order = starts(Strategy::Buckets, 1 << 20, &v);
        let of = |range: std::ops::Range<usize>| {
            order[range].iter().map(|s| s / 1000).collect::<Vec<_>>()
        };
        assert_eq!(of(0..4), [0, 1, 2, 3]);
        assert_eq!(of(4..6), [8, 9]);
        assert_eq!(of(6..8), [12, 13]);
        assert_eq!(of(8..10), [10, 11]);
        assert_eq!(of(10..14), [4, 5, 6, 7]);
        // Within a bucket temperatures may change: nothing moves.
        let mut w = v.clone();
        (w[4].reads, w[7].reads) = (v[7].reads, v[4].reads);
        assert_eq!(starts(Strategy::Buckets, 1 << 20, &w), order);
        w[4].reads = 100 * ACCESS;
        assert_ne!(starts(Strategy::Buckets, 1 << 20, &w), order);
    }

    proptest! {
        #[test]
        fn every_order_is_disjoint_and_fits(
            parts in prop::collection::vec((0u64..40, 1u64..200, 0u32..9, 0u32..9), 0..60),
            area in 0u64..4000,
        ) {
            let mut at = 0;
            let vertices: Vec<Vertex> = parts.into_iter().map(|(gap, len, reads, writes)| {
                let v = Vertex { writes: writes * ACCESS, ..vertex(at + gap * 8, len * 8, reads) };
                at = v.extent.end().0;
                v
            }).collect();
            for strategy in Strategy::ALL.into_iter().filter(|s| s.is_by_heat()) {
                let units = order(&vertices, PAGES(), &config(strategy, area));
                let sum: u64 = units.iter().map(|u| u.extent.len.0).sum();
                prop_assert!(sum <= area);
                let mut homes: Vec<Extent> = units.iter().map(|u| u.extent).collect();
                homes.sort_unstable();
                prop_assert!(homes.windows(2).all(|w| w[0].end() <= w[1].start));
                prop_assert!(homes.iter().all(|h| PAGES().is_whole(*h)));
                // Hottest in the middle: never hotter outwards, on either side.
                if matches!(strategy, Strategy::OrganPipe | Strategy::Lazy | Strategy::BlockShuffle) {
                    let top = units.iter().map(|u| u.heat).max().unwrap_or(0);
                    let peak = units.iter().position(|u| u.heat == top).unwrap_or(0);
                    prop_assert!(units[..peak].windows(2).all(|w| w[0].heat <= w[1].heat));
                    prop_assert!(units[peak.min(units.len())..].windows(2).all(|w| w[0].heat >= w[1].heat));
                }
            }
        }
    }
}
