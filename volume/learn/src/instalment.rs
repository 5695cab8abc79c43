//! A plan that is adopted piece by piece: which parts to move next when only a limited move is
//! allowed. The parts with most uses for their cost come first.

use std::ops::Range;

use seekless_block::{Extent, Sectors};

use crate::{Copy, Plan};

/// I/Os of a part: neighbours in the area, to be written together.
pub const PART_IOS: u64 = 8;

/// Longest background I/O, in sectors: 1 MiB. A copy costs one I/O for each started MiB.
const PIECE: u64 = 2048;

/// A step towards a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Instalment {
    /// The plan to install.
    pub plan: Plan,
    /// I/Os to read the new copies.
    pub ios: u64,
    /// Share of the uses of all copies that are not in place.
    pub uses: f64,
}

#[derive(Clone, Debug)]
struct Part {
    /// Its copies, by index in the plan.
    copies: Range<usize>,
    ios: u64,
    uses: u64,
}

/// I/Os to read all copies of `plan` that are not in place.
#[must_use]
pub fn ios_left(plan: &Plan, standing: &Plan) -> u64 {
    plan.copies.iter().map(|c| ios(standing, c)).sum()
}

/// A step from `standing` towards `plan`, of parts with at most `ios_most` I/Os together. Parts
/// with most uses per I/O come first, as long as a part's share of the uses, times `proof`, reaches
/// its share of the I/Os. `uses` says how often a copy of an extent was used, or would have been,
/// in any unit. None if no part is worth it. Standing copies that are in no new copy's way stay.
#[must_use]
pub fn instalment(
    plan: &Plan,
    standing: &Plan,
    uses: impl Fn(Extent) -> u64,
    ios_most: u64,
    proof: f64,
) -> Option<Instalment> {
    let mut parts: Vec<Part> = Vec::new();
    for (i, copy) in plan.copies.iter().enumerate() {
        let ios = ios(standing, copy);
        if ios == 0 {
            continue;
        }
        let uses = uses(copy.home);
        match parts.last_mut() {
            Some(p) if p.copies.end == i && p.ios + ios <= PART_IOS => {
                *p = Part { copies: p.copies.start..i + 1, ios: p.ios + ios, uses: p.uses + uses };
            }
            _ => parts.push(Part { copies: i..i + 1, ios, uses }),
        }
    }
    let (all_ios, all_uses): (u64, u64) =
        (parts.iter().map(|p| p.ios).sum(), parts.iter().map(|p| p.uses).sum());
    parts.retain(|p| {
        p.uses > 0 && p.uses as f64 * proof * all_ios as f64 >= p.ios as f64 * all_uses as f64
    });
    // Compares uses per I/O, most first, without a division.
    let product = |a: &Part, b: &Part| u128::from(a.uses) * u128::from(b.ios);
    parts.sort_by(|a, b| product(b, a).cmp(&product(a, b)));
    let mut sum = 0;
    let fits = |p: &&Part| {
        sum += p.ios;
        sum <= ios_most
    };
    let taken: Vec<Part> = parts.iter().take_while(fits).cloned().collect();
    if taken.is_empty() {
        return None;
    }
    let ios = taken.iter().map(|p| p.ios).sum();
    let uses = taken.iter().map(|p| p.uses).sum::<u64>() as f64 / all_uses as f64;
    let new = taken.into_iter().flat_map(|p| plan.copies[p.copies].iter().copied()).collect();
    Some(Instalment { plan: over(standing, new), ios, uses })
}

/// I/Os to read the copy's home; none if the copy is in place.
fn ios(standing: &Plan, copy: &Copy) -> u64 {
    let at = standing.copies.partition_point(|c| c.place <= copy.place);
    let stands = at.checked_sub(1).is_some_and(|i| {
        let s = &standing.copies[i];
        s.placed().contains(copy.placed())
            && s.home.start + (copy.place - s.place) == copy.home.start
    });
    if stands { 0 } else { copy.home.len.0.div_ceil(PIECE) }
}

/// `new`, and all of `standing` that shares no sector with it, neither at home nor in the area.
fn over(standing: &Plan, mut new: Vec<Copy>) -> Plan {
    new.sort_unstable_by_key(|c| c.place);
    let mut homes: Vec<Extent> = new.iter().map(|c| c.home).collect();
    homes.sort_unstable();
    let mut copies: Vec<Copy> = Vec::with_capacity(standing.copies.len() + new.len());
    for old in &standing.copies {
        let (home, placed) = (old.home, old.placed());
        let first_home = homes.partition_point(|h| h.end() <= home.start);
        let first_place = new.partition_point(|c| c.placed().end() <= placed.start);
        let at_home = homes[first_home..].iter().map_while(|h| h.intersection(home));
        let in_area = new[first_place..].iter().map_while(|c| c.placed().intersection(placed));
        // The parts in the way, counted from the start of the copy.
        let mut taken: Vec<(Sectors, Sectors)> = at_home
            .map(|e| (e.start - home.start, e.len))
            .chain(in_area.map(|e| (e.start - placed.start, e.len)))
            .collect();
        taken.sort_unstable();
        let mut keep = |from: Sectors, to: Sectors| {
            if from < to {
                let home = Extent { start: home.start + from, len: to - from };
                copies.push(Copy { home, place: placed.start + from });
            }
        };
        let mut at = Sectors(0);
        for (from, len) in taken {
            keep(at, from);
            at = at.max(from + len);
        }
        keep(at, home.len);
    }
    copies.append(&mut new);
    copies.sort_unstable_by_key(|c| c.place);
    Plan { copies }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seekless_block::Lba;

    use super::*;

    fn plan_of(copies: &[(u64, u64, u64)]) -> Plan {
        let copy = |&(home, len, place)| Copy { home: Extent::new(home, len), place: Lba(place) };
        Plan { copies: copies.iter().map(copy).collect() }
    }

    /// Disjoint homes in a shuffled order, one after another in the area.
    fn plans() -> impl Strategy<Value = Plan> {
        prop::collection::vec((0u64..4, 1u64..9), 0..40).prop_shuffle().prop_map(|lens| {
            let mut order: Vec<usize> = (0..lens.len()).collect();
            order.sort_by_key(|&i| (lens[i].1 * 7 + i as u64) % 5);
            let starts: Vec<u64> = lens
                .iter()
                .scan(0, |at, &(gap, len)| {
                    let start = *at + gap;
                    *at = start + len;
                    Some(start)
                })
                .collect();
            let mut place = 0;
            let copies = order.iter().map(|&i| {
                place += lens[i].1;
                Copy { home: Extent::new(starts[i], lens[i].1), place: Lba(place - lens[i].1) }
            });
            Plan { copies: copies.collect() }
        })
    }

    proptest! {
        #[test]
        fn every_step_fits_and_together_they_arrive(from in plans(), to in plans(), most in 8u64..40) {
            let (capacity, area) = (Sectors(1000), Sectors(1000));
            let mut standing = from;
            let mut steps = 0;
            while let Some(step) = instalment(&to, &standing, |_| 1, most, f64::INFINITY) {
                prop_assert!(step.plan.fits(capacity, area).is_ok());
                prop_assert!(step.ios <= most && step.ios > 0);
                // What a step brought is never taken away by a later one.
                let brought = step.plan.copies.iter().filter(|c| to.copies.contains(c)).count();
                let before = standing.copies.iter().filter(|c| to.copies.contains(c)).count();
                prop_assert!(brought > before);
                standing = step.plan;
                steps += 1;
            }
            prop_assert!(steps <= to.copies.len());
            prop_assert_eq!(ios_left(&to, &standing), 0);
        }
    }

    #[test]
    fn what_is_used_most_comes_first_and_what_is_not_never() {
        // Three parts of eight copies; the second is used, the third a little.
        let copies: Vec<(u64, u64, u64)> = (0..24).map(|i| (i * 100, 8, i * 8)).collect();
        let plan = plan_of(&copies);
        let uses = |home: Extent| match home.start.0 / 800 {
            1 => 5,
            2 => 1,
            _ => 0,
        };
        let step = instalment(&plan, &Plan::default(), uses, 8, 1.0).unwrap();
        assert_eq!(step.plan, plan_of(&copies[8..16]));
        assert!((step.uses - 5.0 / 6.0).abs() < 1e-12 && step.ios == 8);
        // A sixth of the uses for a half of the I/Os: only with three times the proof.
        assert_eq!(instalment(&plan, &step.plan, uses, 8, 0.49), None);
        let next = instalment(&plan, &step.plan, uses, 8, 3.0).unwrap();
        assert_eq!(next.plan, plan_of(&copies[8..]));
        assert_eq!(instalment(&plan, &next.plan, uses, 100, f64::MAX), None);
    }

    #[test]
    fn what_is_in_the_way_goes_and_the_rest_stays() {
        let standing = plan_of(&[(0, 8, 0), (50, 8, 8), (100, 8, 16), (200, 8, 24)]);
        // One wants the place of the first, and the home of the third.
        let plan = plan_of(&[(100, 4, 0), (104, 4, 4)]);
        let step = instalment(&plan, &standing, |_| 1, 8, 9.0).unwrap();
        assert_eq!(step.plan, plan_of(&[(100, 4, 0), (104, 4, 4), (50, 8, 8), (200, 8, 24)]));
        // What stands in one run is cut: from its middle, at home and in the area.
        let step = instalment(&plan, &plan_of(&[(96, 24, 40)]), |_| 1, 8, 9.0).unwrap();
        assert_eq!(step.plan, plan_of(&[(100, 4, 0), (104, 4, 4), (96, 4, 40), (108, 12, 52)]));
        let step = instalment(&plan, &plan_of(&[(200, 12, 0)]), |_| 1, 8, 9.0).unwrap();
        assert_eq!(step.plan, plan_of(&[(100, 4, 0), (104, 4, 4), (208, 4, 8)]));
    }
}
