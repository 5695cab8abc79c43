//! The learned data of the policy as bytes: weights, counts and prices. The size has a limit: the
//! cells with the fewest uses are left out first. The uses of single pages are not saved.

use super::predictor::{Cell, Predictor, STEPS};
use super::{Adaptive, RATES};
use crate::graph::state::UnreadBytes;

/// The first bytes: what follows, and its version. Another one is not read.
const MAGIC: [u8; 8] = *b"SKLTRAIL";
const VERSION: u32 = 2;
/// Bytes of one cell that is kept: its number, uses, outcomes.
const CELL_BYTES: usize = 12;
/// Largest weight, and longest time of an I/O, ms.
const WEIGHT_MOST: f32 = 100.0;
const TIME_MOST: f32 = 1e6;
/// Largest sum, of times in ms or of pages.
const SUM_MOST: f32 = 1e12;

struct StateWriter(Vec<u8>);

impl StateWriter {
    fn u32(&mut self, n: u32) {
        self.0.extend(n.to_le_bytes());
    }

    fn f32(&mut self, x: f32) {
        self.0.extend(x.to_le_bytes());
    }

    fn dense<const N: usize>(&mut self, predictor: &Predictor<N>) {
        self.f32(predictor.bias);
        let learned = predictor.seen.iter().rposition(|seen| *seen > 0).map_or(0, |last| last + 1);
        self.u32(learned as u32);
        for (weight, seen) in predictor.weights.iter().zip(predictor.seen.iter()).take(learned) {
            self.f32(*weight);
            self.0.extend(seen.to_le_bytes());
        }
        for cell in &predictor.counts.coarse {
            self.f32(cell.used);
            self.f32(cell.all);
        }
    }

    fn cells<'a>(&mut self, cells: impl ExactSizeIterator<Item = (usize, &'a Cell)>) {
        self.u32(cells.len() as u32);
        for (at, cell) in cells {
            self.u32(at as u32);
            self.f32(cell.used);
            self.f32(cell.all);
        }
    }

    /// The fine cells that were seen most, up to this number of bytes.
    fn fine<const N: usize>(&mut self, predictor: &Predictor<N>, most: usize) {
        let mut seen: Vec<(usize, &Cell)> =
            predictor.counts.fine.iter().enumerate().filter(|(_, cell)| cell.all > 0.0).collect();
        seen.sort_by(|(_, a), (_, b)| b.all.total_cmp(&a.all));
        seen.truncate(most.saturating_sub(4) / CELL_BYTES);
        self.cells(seen.into_iter());
    }
}

/// `None` where the bytes cannot be what was written.
impl UnreadBytes<'_> {
    fn f32(&mut self) -> Option<f32> {
        self.take().map(f32::from_le_bytes).filter(|x| x.is_finite())
    }

    /// A weight, or a time of one I/O, ms: sums of these stay finite.
    fn small(&mut self, most: f32) -> Option<f32> {
        self.f32().filter(|x| x.abs() <= most)
    }

    /// A count or a time.
    fn amount(&mut self) -> Option<f32> {
        self.f32().filter(|x| *x >= 0.0)
    }

    fn dense<const N: usize>(&mut self, predictor: &mut Predictor<N>) -> Option<()> {
        predictor.bias = self.small(WEIGHT_MOST)?;
        let learned = self.u32()? as usize;
        let weights = predictor.weights.get_mut(..learned)?;
        for (weight, seen) in weights.iter_mut().zip(predictor.seen.iter_mut()) {
            *weight = self.small(WEIGHT_MOST)?;
            *seen = self.take().map(u16::from_le_bytes).filter(|seen| *seen <= STEPS)?;
        }
        for cell in &mut predictor.counts.coarse {
            // It has a prior, so it was seen.
            *cell = self.cell().filter(|cell| cell.all > 0.0)?;
        }
        Some(())
    }

    fn cell(&mut self) -> Option<Cell> {
        let cell = Cell { used: self.amount()?, all: self.amount()? };
        Some(cell).filter(|cell| cell.used <= cell.all)
    }

    fn cells(&mut self, cells: &mut [Cell]) -> Option<()> {
        for _ in 0..self.u32()? {
            let at = self.u32()? as usize;
            *cells.get_mut(at)? = self.cell()?;
        }
        Some(())
    }
}

impl Adaptive {
    /// The learned data, in at most this number of bytes; nothing if the smallest form does not fit.
    pub fn learned(&self, most: usize) -> Vec<u8> {
        let mut out = StateWriter(MAGIC.to_vec());
        out.u32(VERSION);
        let costs = &self.costs;
        let prices = [costs.access, costs.transfer, costs.per_use];
        let ram = [costs.close_saved, costs.insertions];
        let by = costs.access_by.as_flattened().iter();
        prices.iter().chain(&ram).chain(by).for_each(|x| out.f32(*x));
        out.dense(&self.predictor);
        out.u32(u32::from(self.trail.is_some()));
        if let Some(trail) = &self.trail {
            let l = &trail.ledger;
            for ms in [l.writes, l.reads, l.clients, l.home_reads, l.uses, l.home_uses] {
                out.f32(ms as f32);
            }
            out.dense(&trail.predictor);
            out.fine(&trail.predictor, usize::MAX);
        }
        if out.0.len() + 8 > most {
            return Vec::new();
        }
        let rates = out.0.len() + 8 + RATES <= most;
        out.u32(if rates { RATES as u32 } else { 0 });
        if rates {
            out.0.extend(&self.rates);
        }
        let left = most - out.0.len();
        out.fine(&self.predictor, left);
        out.0
    }

    /// Takes the bytes that [`Self::learned`] returned. Returns false, and changes nothing, if
    /// these are other bytes, or bytes of another version.
    pub fn learn_again(&mut self, bytes: &[u8]) -> bool {
        let trail = self.trail.as_ref().map_or(0, |trail| trail.outcomes.len() as u32);
        let mut fresh = Self::new(0, 0, trail);
        fresh.costs.ram = self.costs.ram;
        if fresh.read(&mut UnreadBytes(bytes)).is_none() {
            return false;
        }
        (self.costs, self.predictor, self.rates) = (fresh.costs, fresh.predictor, fresh.rates);
        if let (Some(trail), Some(fresh)) = (&mut self.trail, fresh.trail) {
            (trail.predictor, trail.ledger) = (fresh.predictor, fresh.ledger);
        }
        true
    }

    fn read(&mut self, from: &mut UnreadBytes<'_>) -> Option<()> {
        if from.take()? != MAGIC || from.u32()? != VERSION {
            return None;
        }
        let costs = &mut self.costs;
        for ms in [&mut costs.access, &mut costs.transfer, &mut costs.per_use] {
            *ms = from.small(TIME_MOST).filter(|ms| *ms >= 0.0)?;
        }
        for sum in [&mut costs.close_saved, &mut costs.insertions] {
            *sum = from.small(SUM_MOST).filter(|sum| *sum >= 0.0)?;
        }
        for ms in costs.access_by.as_flattened_mut() {
            *ms = from.small(TIME_MOST).filter(|ms| *ms >= 0.0)?;
        }
        costs.know_access();
        from.dense(&mut self.predictor)?;
        let has_trail = from.u32()? == 1;
        match &mut self.trail {
            Some(trail) if has_trail => {
                let l = &mut trail.ledger;
                let amounts = [
                    &mut l.writes,
                    &mut l.reads,
                    &mut l.clients,
                    &mut l.home_reads,
                    &mut l.uses,
                    &mut l.home_uses,
                ];
                for amount in amounts {
                    *amount = from.amount()?.into();
                }
                from.dense(&mut trail.predictor)?;
                from.cells(&mut trail.predictor.counts.fine)?;
            }
            None if !has_trail => {}
            _ => return None,
        }
        let rates = from.u32()? as usize;
        if rates > 0 {
            let (held, rest) = from.0.split_at_checked(rates)?;
            self.rates = held.to_vec();
            from.0 = rest;
            if rates != RATES {
                return None;
            }
        }
        from.cells(&mut self.predictor.counts.fine)?;
        from.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive::features::Features;
    use seekless_block::Dice;

    /// A policy that has seen many outcomes; `seed` gives them.
    fn trained(seed: u64) -> Adaptive {
        let mut policy = Adaptive::new(64, 256, 128);
        let mut dice = Dice::new(seed);
        let mut roll = || dice.draw() >> 33;
        for i in 0..20_000 {
            let (features, y) = (features(roll()), [0.0, 0.1, 1.0][(roll() % 3) as usize]);
            policy.predictor.learn(&features, y);
            policy.rates[(roll() % 65_536) as usize] = roll() as u8;
            if let Some(trail) = &mut policy.trail {
                let mut few = features;
                few.at.iter_mut().for_each(|at| *at %= 100);
                few.cells = (few.cells.0 % 200, few.cells.1 % 600);
                trail.predictor.learn(&few, y);
                trail.ledger.writes += f64::from(i % 7);
            }
        }
        policy.costs.access = 4.5;
        policy
    }

    fn features(number: u64) -> Features {
        let mut features = Features::default();
        for (i, at) in (0..).zip(&mut features.at) {
            *at = (number.rotate_left(i * 5) % 300) as u16;
        }
        features.cells = ((number % 3000) as u16, (number % 40_000) as u16);
        features
    }

    #[test]
    fn what_was_learned_is_learned_again() {
        let before = trained(1);
        let bytes = before.learned(usize::MAX);
        let mut again = Adaptive::new(8, 64, 128);
        assert!(again.learn_again(&bytes));
        assert_eq!(again.learned(usize::MAX), bytes);
        assert_eq!((again.costs.access, again.costs.ram), (4.5, 8.0));
        for number in 0..1000 {
            let features = features(number * 7919);
            assert_eq!(
                again.predictor.probability(&features),
                before.predictor.probability(&features)
            );
            let odds = |policy: &Adaptive| policy.predictor.counts.odds(features.cells);
            assert_eq!(odds(&again), odds(&before));
        }
    }

    /// Kept bytes that an earlier seekless wrote. A change of their meaning needs a new version.
    #[test]
    fn kept_bytes_of_version_2_are_learned_again() {
        let kept = include_bytes!("../../tests/fixtures/adaptive-2");
        let mut policy = Adaptive::new(8, 64, 128);
        assert!(policy.learn_again(kept));
        assert_eq!(
            (policy.costs.access, policy.trail.as_ref().unwrap().ledger.writes),
            (4.5, 780.0)
        );
        assert!(policy.learned(kept.len()) == kept);
    }

    /// What was seen least is left out first.
    #[test]
    fn a_limit_is_kept() {
        let before = trained(2);
        let all = before.learned(usize::MAX).len();
        let (mut none, mut least) = (0, all);
        while least - none > 1 {
            let most = none.midpoint(least);
            if before.learned(most).is_empty() { none = most } else { least = most }
        }
        assert!(least < 120_000, "{least} of {all}");
        for most in [least, least + 1, least + 5000, all - 1] {
            let bytes = before.learned(most);
            assert!(!bytes.is_empty() && bytes.len() <= most, "{} of {most}", bytes.len());
            let mut again = Adaptive::new(8, 64, 128);
            assert!(again.learn_again(&bytes));
            let features = features(5);
            let (a, b) = (&before.predictor, &again.predictor);
            assert_eq!(a.probability(&features), b.probability(&features));
        }
    }

    #[test]
    fn no_bytes_do_harm() {
        let bytes = trained(3).learned(300_000);
        let mut policy = trained(4);
        let before = policy.learned(usize::MAX);
        for end in (0..bytes.len()).step_by(997).chain([bytes.len() - 1]) {
            assert!(!policy.learn_again(&bytes[..end]), "{end} bytes");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(!policy.learn_again(&longer), "a byte too many");
        // Not a number, an impossible count, time or weight, another version, another shape.
        for (at, with) in [
            (8, VERSION + 1),
            (12, f32::NAN.to_bits()),
            (12, (-1.0f32).to_bits()),
            (12, 3e38f32.to_bits()),
            (24, 3e38f32.to_bits()),
            (28, 3e38f32.to_bits()),
            (48, 3e38f32.to_bits()),
            (52, 1 << 30),
        ] {
            let mut wrong = bytes.clone();
            wrong[at..at + 4].copy_from_slice(&with.to_le_bytes());
            assert!(!policy.learn_again(&wrong), "at {at}");
        }
        assert!(!Adaptive::new(8, 64, 0).learn_again(&bytes), "without a trail");
        assert_eq!(policy.learned(usize::MAX), before, "all is as before");
        for at in 0..bytes.len().min(4000) {
            let mut turned = bytes.clone();
            turned[at] ^= 0xFF;
            Adaptive::new(8, 64, 128).learn_again(&turned);
        }
    }
}
