//! A plan adopted piece by piece: which of its parts to move next, where only so much may be moved. Those that
//! would have been used most for what they cost come first.

use std::ops::Range;

use seekless_block::Extent;

use crate::{Copy, Plan};

/// I/Os of a part: neighbours in the area, to be written at once.
pub const PART_IOS: u64 = 8;

/// Longest background I/O, in sectors: 1 MiB. A copy costs one for each begun.
const PIECE: u64 = 2048;

/// A step towards a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Instalment {
    /// What to install.
    pub plan: Plan,
    /// I/Os to read what is new.
    pub ios: u64,
    /// Share of the uses of all that does not stand yet.
    pub uses: f64,
}

/// Part of a plan.
#[derive(Clone, Debug)]
struct Part {
    /// Its copies, by index in the plan.
    copies: Range<usize>,
    ios: u64,
    uses: u64,
}

/// I/Os that reading takes for all of `plan` that does not stand.
#[must_use]
pub fn ios_left(plan: &Plan, standing: &Plan) -> u64 {
    plan.copies.iter().map(|c| ios(standing, c)).sum()
}

/// A step from `standing` towards `plan`: parts of at most `ios_most` I/Os together, those with most uses an I/O first,
/// as long as a part's share of the uses, times `proof`, reaches its share of the I/Os. `uses` says how often a copy of
/// an extent was used, or would have been, in any unit. None where no part is worth it. What stands and is in nobody's
/// way stays.
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
    // Uses an I/O, most first, compared without division.
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

/// I/Os to read the copy's home; none where it stands.
fn ios(standing: &Plan, copy: &Copy) -> u64 {
    let at = standing.copies.partition_point(|c| c.place <= copy.place);
    let stands = at.checked_sub(1).is_some_and(|i| {
        let s = &standing.copies[i];
        s.placed().contains(copy.placed())
            && s.home.start + (copy.place - s.place) == copy.home.start
    });
    if stands { 0 } else { copy.home.len.0.div_ceil(PIECE) }
}

/// `new`, and of `standing` what shares no sector with it, neither at home nor in the area.
fn over(standing: &Plan, mut new: Vec<Copy>) -> Plan {
    new.sort_unstable_by_key(|c| c.place);
    let mut homes: Vec<Extent> = new.iter().map(|c| c.home).collect();
    homes.sort_unstable();
    let free = |old: &&Copy| {
        let home = homes.partition_point(|h| h.end() <= old.home.start);
        let place = new.partition_point(|c| c.placed().end() <= old.place);
        homes.get(home).is_none_or(|h| h.start >= old.home.end())
            && new.get(place).is_none_or(|c| c.place >= old.placed().end())
    };
    let mut copies: Vec<Copy> = standing.copies.iter().filter(free).copied().collect();
    copies.append(&mut new);
    copies.sort_unstable_by_key(|c| c.place);
    Plan { copies }
}
