//! FS2 (SOSP'05) over a trace: free space, training before the measured part, and replicas added
//! while the trace is served. Discards in the trace tell the free space. Without discards, a share
//! of the untouched space is assumed to be free, and a note says so.

use seekless_block::{Extent, Flags, Op, Request, Sectors, SimTime, mix};
use seekless_disk::Device;
use seekless_learn::{Act, Learner, Plan, Policy, VolumeState};
use seekless_sim::{EngineSpace, SimConfig, SimError, Simulation, shape_of};

use crate::scan::RangeSet;

/// Unit in which touched space is known: 1 MiB.
const PIECE: u64 = 2048;

/// The parts of a device that a trace touches.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    pieces: Vec<bool>,
    discards: bool,
}

impl Touched {
    pub(crate) fn new(capacity: Sectors) -> Self {
        let pieces = vec![false; capacity.0.div_ceil(PIECE) as usize];
        Self { pieces, discards: false }
    }

    /// Takes in a request of the whole trace.
    pub(crate) fn observe(&mut self, request: &Request) {
        self.discards |= request.op == Op::Discard;
        let extent = request.extent;
        let pieces = extent.start.0 / PIECE..extent.end().0.div_ceil(PIECE);
        for piece in pieces {
            if let Some(touched) = self.pieces.get_mut(piece as usize) {
                *touched |= request.op != Op::Discard;
            }
        }
    }

    /// Free space before the trace begins, and its share of the device. None if the trace discards.
    /// Else `share` of the device, among pieces that are never touched, chosen by `seed`.
    pub(crate) fn assumed_free(&self, share: f64, seed: u64) -> (Vec<Extent>, f64) {
        let mut never: Vec<u64> =
            (0..self.pieces.len() as u64).filter(|&p| !self.pieces[p as usize]).collect();
        let want = (self.pieces.len() as f64 * share).round() as usize;
        // Runs of 64 pieces, like free block groups, in an order chosen by the seed.
        never.sort_by_key(|&piece| (mix((piece / 64) ^ seed.rotate_left(32)), piece));
        never.truncate(want);
        never.sort_unstable();
        let had = never.len() as f64 / self.pieces.len().max(1) as f64;
        (Extent::merged(never.into_iter().map(|p| Extent::new(p * PIECE, PIECE)).collect()), had)
    }

    pub(crate) const fn discards(&self) -> bool {
        self.discards
    }
}

/// A disk with replicas in its free space.
#[derive(Debug)]
pub(crate) struct Replicating {
    pub(crate) simulation: Simulation,
    learner: Learner,
    /// Reads of the training part, all answered by home.
    learned: u64,
    /// What the training part discarded and has not written since.
    discarded: RangeSet,
}

impl Replicating {
    /// A disk with free space `free`.
    pub(crate) fn new(
        disk: Device,
        config: SimConfig,
        policy: Policy,
        free: Vec<Extent>,
    ) -> Result<Self, SimError> {
        let learner = Learner::new(policy, shape_of(&config.engine)).when_due();
        let mut simulation = Simulation::new(disk, config)?;
        simulation.seed_free(free);
        Ok(Self { simulation, learner, learned: 0, discarded: RangeSet::default() })
    }

    /// A request of the training part.
    pub(crate) fn learn(&mut self, now: SimTime, request: &Request) {
        self.learner.observe(now, request);
        self.learned += u64::from(request.op == Op::Read);
        match request.op {
            Op::Discard => self.discarded.insert(request.extent),
            Op::Write => self.discarded.remove(request.extent),
            // Other zeroes leave free what is free.
            Op::WriteZeroes if request.flags.contains(Flags::NO_HOLE) => {
                self.discarded.remove(request.extent);
            }
            Op::WriteZeroes | Op::Read | Op::Flush => {}
        }
    }

    /// Replicates the learned data, before the first measured request.
    pub(crate) fn begin(&mut self, now: SimTime) -> Result<(), SimError> {
        self.simulation.seed_free(std::mem::take(&mut self.discarded).iter());
        replicate(&mut self.simulation, &mut self.learner, now, self.learned)?;
        self.simulation.settle_replicas()
    }

    pub(crate) fn offer(&mut self, now: SimTime, request: &Request) -> Result<(), SimError> {
        self.simulation.offer(request)?;
        self.learner.observe(now, request);
        if self.learner.is_due(now) {
            replicate(&mut self.simulation, &mut self.learner, now, self.learned)?;
        }
        Ok(())
    }
}

/// Has `learner` plan replicas for a simulated volume, and executes the plan. Home answered
/// `before` reads before the simulation began.
pub fn replicate(
    simulation: &mut Simulation,
    learner: &mut Learner,
    now: SimTime,
    before: u64,
) -> Result<(), SimError> {
    let space = EngineSpace { engine: simulation.engine(), answered_before: before };
    let state = VolumeState { plan: &Plan::default(), replicas: Some(&space) };
    for act in learner.plan(now, &state) {
        if let Act::Replicate(list) = act {
            simulation.replicate(list)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_block::{Bytes, SimTime};
    use seekless_engine::format::Geometry;

    #[test]
    fn the_area_beside_replicas_is_large_enough_for_any() {
        for shift in 20..42 {
            for replicas in [Bytes(1 << shift), Bytes((1 << shift) + (5 << 12) - 512)] {
                let replicas = replicas.sectors_ceil();
                let config = seekless_engine::Config {
                    area: Geometry::area_beside(replicas),
                    replicas,
                    ..seekless_engine::Config::new(Sectors(1 << 40))
                };
                assert!(config.room() >= replicas, "{replicas}: {}", config.room());
            }
        }
    }

    #[test]
    fn what_is_assumed_free_is_never_touched_and_no_more_than_asked() {
        let mut touched = Touched::new(Sectors(1000 * PIECE));
        for i in 0..100 {
            let at = Extent::new(i * 7 * PIECE + 5, PIECE);
            touched.observe(&Request::new(SimTime(0), Op::Read, at));
        }
        let (free, had) = touched.assumed_free(0.4, 7);
        assert!((had - 0.4).abs() < 0.002, "{had}");
        let sectors: u64 = free.iter().map(|e| e.len.0).sum();
        assert_eq!(sectors, 400 * PIECE);
        for i in 0..100 {
            assert!(free.iter().all(|e| !e.overlaps(Extent::new(i * 7 * PIECE + 5, PIECE))));
        }
        assert!(touched.assumed_free(1.0, 7).1 < 0.81, "there is no more");
        assert_ne!(touched.assumed_free(0.4, 8).0, free);
    }
}
