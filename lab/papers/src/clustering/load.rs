//! A disk with a queue of constant length: the simulation of section 5.2. The arm sweeps the
//! cylinders in one direction and jumps back; in each cylinder it serves all waiting requests, at
//! the expected cost that [`Rotation`] counts.

use std::collections::BTreeMap;

use seekless_block::Dice;
use seekless_disk::clustering::{Access, Arm};

use super::Rotation;

/// The order of requests within a cylinder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Arrival,
    /// In order of rotational position.
    Position,
}

/// Results of a run: means over requests, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Length of the queue, with the request in service.
    pub queue: u32,
    pub seek_ms: f64,
    /// Rotational delay.
    pub rotation_ms: f64,
    pub transfer_ms: f64,
    /// Requests served per visit to a cylinder.
    pub a_visit: f64,
    /// Share of time with a transfer: equation 13.
    pub utilization: f64,
    /// Standard deviation of the utilization from run to run, of the sample; not a number for one
    /// run, which says nothing of it.
    pub spread: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Load<'a> {
    arm: &'a Arm,
    rotation: &'a Rotation,
    transfer_ms: f64,
    /// Cumulative shares, for draws.
    below: Vec<f64>,
}

/// Most draws for a request whose block is in the queue already; after that the queue stays
/// shorter.
const TRIES: u32 = 10_000;

impl<'a> Load<'a> {
    /// A disk whose blocks have the transfer time and the costs of `rotation`.
    pub(super) fn new(arm: &'a Arm, access: &Access, rotation: &'a Rotation) -> Self {
        let mut sum = 0.0;
        let below = access.shares().iter().map(|p| {
            sum += p;
            sum
        });
        Self {
            arm,
            rotation,
            transfer_ms: arm.turn_ms() / f64::from(rotation.positions()),
            below: below.collect(),
        }
    }

    /// Means of `runs` runs at a queue length. Each run has 100 times as many requests as the
    /// queue, as in the paper, and its own seed, derived from `seed`.
    pub(super) fn point(&self, queue: u32, order: Order, runs: u32, seed: u64) -> Point {
        let runs = runs.max(1);
        let each: Vec<Point> = (0..u64::from(runs))
            .map(|i| self.run(queue.max(1), order, seed ^ (i << 32) ^ u64::from(queue)))
            .collect();
        let n = f64::from(runs);
        let mean = |of: &dyn Fn(&Point) -> f64| each.iter().map(of).sum::<f64>() / n;
        let utilization = mean(&|p| p.utilization);
        let squares = each.iter().map(|p| (p.utilization - utilization).powi(2)).sum::<f64>();
        let spread = if runs > 1 { (squares / (n - 1.0)).sqrt() } else { f64::NAN };
        Point {
            queue,
            seek_ms: mean(&|p| p.seek_ms),
            rotation_ms: mean(&|p| p.rotation_ms),
            transfer_ms: self.transfer_ms,
            a_visit: mean(&|p| p.a_visit),
            utilization,
            spread,
        }
    }

    fn run(&self, queue: u32, order: Order, seed: u64) -> Point {
        let mut dice = Dice::new(seed);
        let mut waiting: BTreeMap<u32, u32> = BTreeMap::new();
        let fill = |waiting: &mut BTreeMap<u32, u32>, dice: &mut Dice, n: u64| {
            let blocks = u64::from(self.rotation.blocks());
            let mut added = 0;
            for _ in 0..n {
                for _ in 0..TRIES {
                    let count = waiting.entry(self.draw(dice)).or_insert(0);
                    // The block itself does not matter, only whether it is in the queue.
                    if dice.below(blocks) >= u64::from(*count) {
                        *count += 1;
                        added += 1;
                        break;
                    }
                }
            }
            added
        };
        let asked = 100 * u64::from(queue);
        let mut arm = self.draw(&mut dice);
        let mut added = fill(&mut waiting, &mut dice, u64::from(queue));
        let (mut seek, mut turns, mut served, mut visits) = (0.0, 0.0, 0u64, 0u64);
        while let Some((&at, &count)) =
            waiting.range(arm + 1..).next().or_else(|| waiting.first_key_value())
        {
            waiting.remove(&at);
            seek += self.arm.seek_ms(arm.abs_diff(at));
            turns += match order {
                Order::Arrival => self.rotation.arriving(count),
                Order::Position => self.rotation.ordered(count),
            };
            arm = at;
            served += u64::from(count);
            visits += 1;
            added +=
                fill(&mut waiting, &mut dice, u64::from(count).min(asked.saturating_sub(added)));
        }
        let n = served.max(1) as f64;
        let (all, transfer) = (turns * self.arm.turn_ms(), n * self.transfer_ms);
        Point {
            queue,
            seek_ms: seek / n,
            rotation_ms: (all - transfer) / n,
            transfer_ms: self.transfer_ms,
            a_visit: n / visits.max(1) as f64,
            utilization: transfer / (all + seek),
            spread: f64::NAN,
        }
    }

    fn draw(&self, dice: &mut Dice) -> u32 {
        let at = dice.unit() * self.below.last().copied().unwrap_or(1.0);
        self.below.partition_point(|b| *b <= at).min(self.below.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::super::Start;
    use super::*;

    #[test]
    fn a_queue_of_one_is_the_lightly_loaded_disk() {
        let arm = Arm::paper(1224, 15, 36, 3600.0);
        let rotation = Rotation::new(9, 15, 1, Start::Paper);
        for access in
            [Access::random(1224), Access::perfect(1224), Access::perfect(1224).drifted(0.2)]
        {
            let light = arm.light(&access, 4);
            for order in [Order::Arrival, Order::Position] {
                let p = Load::new(&arm, &access, &rotation).point(1, order, 200, 7);
                assert!((p.utilization / light.utilization - 1.0).abs() < 0.01, "{p:?} {light:?}");
                assert!((p.seek_ms / light.seek_ms - 1.0).abs() < 0.02 && p.a_visit == 1.0);
            }
        }
    }

    #[test]
    fn a_full_cylinder_keeps_the_queue_short_and_ends() {
        let arm = Arm::paper(3, 1, 8, 3600.0);
        let rotation = Rotation::new(2, 1, 100, Start::Paper);
        let access = Access::new(vec![0.0, 1.0, 0.0]).unwrap();
        let p = Load::new(&arm, &access, &rotation).point(5, Order::Position, 1, 1);
        assert_eq!((p.a_visit, p.seek_ms), (2.0, 0.0));
    }

    #[test]
    fn equal_seeds_give_equal_draws() {
        let arm = Arm::paper(1224, 15, 36, 3600.0);
        let (rotation, access) = (Rotation::new(9, 15, 50, Start::Paper), Access::perfect(1224));
        let load = Load::new(&arm, &access, &rotation);
        let at = |seed| load.point(50, Order::Position, 2, seed);
        assert_eq!(at(3), at(3));
        assert_ne!(at(3).utilization, at(4).utilization);
    }

    #[test]
    fn one_run_has_no_spread_and_two_have_that_of_a_sample() {
        let arm = Arm::paper(1224, 15, 36, 3600.0);
        let (rotation, access) = (Rotation::new(9, 15, 10, Start::Paper), Access::perfect(1224));
        let load = Load::new(&arm, &access, &rotation);
        let (seed, queue) = (3, 10);
        assert!(load.point(queue, Order::Position, 1, seed).spread.is_nan());
        // Two numbers: their difference over the root of two.
        let [a, b] = [0, 1].map(|i: u64| {
            load.run(queue, Order::Position, seed ^ (i << 32) ^ u64::from(queue)).utilization
        });
        let spread = load.point(queue, Order::Position, 2, seed).spread;
        assert!(a != b && (spread - (a - b).abs() / 2.0f64.sqrt()).abs() < 1e-12, "{spread}");
    }
}
