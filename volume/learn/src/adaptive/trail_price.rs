//! The price of the way to the trail. A copy may save less than its prediction says, and a trail that
//! is far away costs a long way. So the policy compares the disk time of each used page: from the
//! trail, and from home. While the trail is worse, the way to it counts more, until the policy
//! makes only those reads of the trail that save much.

/// Reads of the trail between two comparisons.
const READS: u32 = 32;
/// Pages that were used at home between two comparisons, at least: a mean of fewer says little.
const LEAST_USES: f64 = 64.0;
/// Pages that were used at home after which a high price falls if hardly any read went to the trail:
/// then the policy tries the trail again.
const TRY_AGAIN: f64 = 200_000.0;
/// The factor of each change, and the highest price.
const STEP: f32 = 1.5;
const MOST: f32 = 32.0;

/// Disk time, ms, and pages that it brought and that were used.
#[derive(Clone, Copy, Debug, Default)]
struct TimeForUses {
    ms: f64,
    uses: f64,
}

impl TimeForUses {
    fn each(self) -> f64 {
        self.ms / self.uses.max(1.0)
    }
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrailPrice {
    factor: f32,
    /// Since the last comparison.
    reads: u32,
    trail: TimeForUses,
    home: TimeForUses,
}

impl Default for TrailPrice {
    fn default() -> Self {
        let none = TimeForUses::default();
        Self { factor: 1.0, reads: 0, trail: none, home: none }
    }
}

impl TrailPrice {
    /// 1 if reads of the trail pay, otherwise more.
    pub(super) const fn factor(&self) -> f32 {
        self.factor
    }

    /// A page was used for the first time since it came to RAM.
    pub(super) fn used(&mut self, from_trail: bool) {
        let side = if from_trail { &mut self.trail } else { &mut self.home };
        side.uses += 1.0;
    }

    /// A client's read of the trail was made.
    pub(super) const fn read(&mut self) {
        self.reads += 1;
    }

    /// Disk time of reads, ms. The way back from the trail to home is a time of the trail.
    pub(super) fn worked(&mut self, on_trail: bool, ms: f64) {
        let side = if on_trail { &mut self.trail } else { &mut self.home };
        side.ms += ms;
        let loses = self.reads > 0 && self.trail.each() > self.home.each();
        if self.reads >= READS && self.home.uses >= LEAST_USES {
            self.change(if loses { STEP } else { 1.0 / STEP });
        } else if self.home.uses >= TRY_AGAIN {
            self.change(if loses { 1.0 } else { 1.0 / STEP });
        }
    }

    /// The next comparison begins. What was read for the last one is in part used later, so the
    /// past counts half.
    fn change(&mut self, by: f32) {
        self.factor = (self.factor * by).clamp(1.0, MOST);
        self.reads = 0;
        for TimeForUses { ms, uses } in [&mut self.trail, &mut self.home] {
            (*ms, *uses) = (*ms / 2.0, *uses / 2.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `rounds` times 32 reads of the trail, of which each page took `trail` ms, and as many pages
    /// from home at 0.3 ms.
    fn after(price: &mut TrailPrice, rounds: usize, trail: f64) -> f32 {
        for _ in 0..rounds * READS as usize {
            for _ in 0..10 {
                price.used(true);
                price.used(false);
            }
            price.read();
            price.worked(true, 10.0 * trail);
            price.worked(false, 10.0 * 0.3);
        }
        price.factor()
    }

    #[test]
    fn the_way_counts_more_while_the_trail_loses() {
        let mut price = TrailPrice::default();
        assert_eq!(after(&mut price, 3, 0.2), 1.0, "it pays");
        assert!(after(&mut price, 5, 0.4) > STEP * STEP);
        assert_eq!(after(&mut price, 50, 0.4), MOST);
        assert!(after(&mut price, 4, 0.2) < 8.0, "it pays again");
        assert_eq!(after(&mut price, 50, 0.2), 1.0);
    }

    /// With the highest price there may be no read of the trail at all.
    #[test]
    fn a_trail_that_is_not_read_is_tried_again() {
        let mut price = TrailPrice::default();
        after(&mut price, 50, 0.4);
        for _ in 0..10 * TRY_AGAIN as usize {
            price.used(false);
            price.worked(false, 0.3);
        }
        assert_eq!(price.factor(), 1.0);
    }

    /// Less than 32 reads say enough if they lose.
    #[test]
    fn a_trail_that_is_read_seldom_and_loses_keeps_its_price() {
        let mut price = TrailPrice::default();
        after(&mut price, 50, 0.4);
        for page in 0..10 * TRY_AGAIN as usize {
            if page % 20_000 == 0 {
                price.read();
                price.used(true);
                price.worked(true, 20.0);
            }
            price.used(false);
            price.worked(false, 0.3);
        }
        assert_eq!(price.factor(), MOST);
    }
}
