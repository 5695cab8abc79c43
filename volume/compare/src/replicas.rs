//! FS2 (SOSP'05) over a trace: what is free, what is learned before the measured part, and replicas that are added while
//! it is served. A trace says what is free by its discards; where it has none, a share of what it never touches is
//! assumed to be, and said to be assumed.

use seekless_block::{Bytes, Extent, Lba, Op, Request, Sectors};
use seekless_disk::Device;
use seekless_engine::Engine;
use seekless_learn::{Answered, Replication, ReplicationConfig, side_by_side};
use seekless_sim::{Measured, SimConfig, SimError, Simulation};

use crate::simulate::Policy;

/// What the trace touches is known by pieces of this length: 1 MiB.
const PIECE: u64 = 2048;
/// Background of the area beside replicas: superblocks, a log, maps.
const BESIDE: Bytes = Bytes(32 << 20);

/// How large an area stands beside replicas of this size: about what `seekless volume format --replicas` makes.
#[must_use]
pub fn sidecar(replicas: Sectors) -> Sectors {
    Sectors((replicas.0 / 40 + BESIDE.0 / 512) / 8 * 8)
}

/// Whether a page has as many replicas as it may, or one near the hot region: there it needs no other.
fn is_placed(engine: &Engine, page: Lba, hot: Extent, degree: u32) -> bool {
    let mut places = 0;
    engine.replicas_of(page).any(|place| {
        places += 1;
        places >= degree || place.distance(hot.start).0 <= 2 * hot.len.0
    })
}

/// Which parts of a device a trace touches.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    pieces: Vec<bool>,
    discards: bool,
    reads: Vec<Extent>,
}

impl Touched {
    pub(crate) fn new(capacity: Sectors) -> Self {
        let pieces = vec![false; capacity.0.div_ceil(PIECE) as usize];
        Self { pieces, discards: false, reads: Vec::new() }
    }

    /// Takes in a request of the whole trace; `trains` where it is one to learn from.
    pub(crate) fn observe(&mut self, request: &Request, trains: bool) {
        self.discards |= request.op == Op::Discard;
        let extent = request.extent;
        let pieces = extent.start.0 / PIECE..extent.end().0.div_ceil(PIECE);
        for piece in pieces {
            if let Some(touched) = self.pieces.get_mut(piece as usize) {
                *touched |= request.op != Op::Discard;
            }
        }
        if trains && request.op == Op::Read {
            self.reads.push(extent);
            // Memory does not grow with what is read twice.
            if self.reads.len().is_power_of_two() && self.reads.len() > 1 << 16 {
                self.reads = merged(std::mem::take(&mut self.reads));
            }
        }
    }

    /// Where it reads, in order of address.
    fn read(&self) -> Vec<Extent> {
        merged(self.reads.clone())
    }

    /// What is free before the trace begins: nothing where it discards by itself; else so large a share of the device,
    /// of pieces that it never touches, chosen by `seed`; and how much of it could be had.
    pub(crate) fn assumed_free(&self, share: f64, seed: u64) -> (Vec<Extent>, f64) {
        let mut never: Vec<u64> =
            (0..self.pieces.len() as u64).filter(|&p| !self.pieces[p as usize]).collect();
        let want = (self.pieces.len() as f64 * share).round() as usize;
        // Runs of 64 pieces, as block groups leave free, in an order that the seed chooses.
        never.sort_by_key(|&piece| (mix((piece / 64) ^ seed.rotate_left(32)), piece));
        never.truncate(want);
        never.sort_unstable();
        let had = never.len() as f64 / self.pieces.len().max(1) as f64;
        (merged(never.into_iter().map(|p| Extent::new(p * PIECE, PIECE)).collect()), had)
    }

    pub(crate) const fn discards(&self) -> bool {
        self.discards
    }
}

/// The finalizer of SplitMix64.
const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// In order, neighbours and overlapping ones as one.
fn merged(mut extents: Vec<Extent>) -> Vec<Extent> {
    extents.sort_unstable();
    let mut all: Vec<Extent> = Vec::new();
    for extent in extents {
        match all.last_mut() {
            Some(last) if extent.start <= last.end() => {
                *last = Extent::span(last.start.0, last.end().0.max(extent.end().0));
            }
            _ => all.push(extent),
        }
    }
    all
}

/// A disk with replicas in its free space, as requests come.
#[derive(Debug)]
pub(crate) struct Replicating {
    simulation: Simulation,
    planner: Replication,
    dynamic: bool,
    degree: u32,
    /// Reads of the part to learn from: home answered them.
    learned: u64,
}

impl Replicating {
    /// A disk of which `free` is free.
    pub(crate) fn new(
        disk: Device,
        config: SimConfig,
        policy: Policy,
        free: Vec<Extent>,
    ) -> Result<Self, SimError> {
        let engine = config.engine;
        let mut simulation = Simulation::new(disk, config)?;
        simulation.seed_free(free);
        let most = engine.replicas;
        let planning = ReplicationConfig::new(engine.capacity, engine.grid);
        let rule = policy.rule();
        let planning = ReplicationConfig { most, ..planning.by(rule.unwrap_or_default()) };
        let planner = Replication::new(planning);
        let (dynamic, degree) = (rule.is_some(), engine.degree);
        Ok(Self { simulation, planner, dynamic, degree, learned: 0 })
    }

    /// A request of the part to learn from.
    pub(crate) fn learn(&mut self, request: &Request) {
        self.planner.observe(request);
        self.learned += u64::from(request.op == Op::Read);
    }

    /// What was learned is replicated, before the first measured request.
    pub(crate) fn begin(&mut self, touched: &Touched) -> Result<(), SimError> {
        if self.dynamic {
            replicate(&mut self.simulation, &mut self.planner, self.degree, self.learned)?;
        } else if let Some(hot) = self.planner.hot_region() {
            // All that is read and does not lie there, whatever the order (4.3.2).
            let away = touched.read().into_iter().filter(|e| !hot.overlaps(*e));
            let pages = |e: Extent| {
                let down = |at: u64| at / 8 * 8;
                Extent::span(down(e.start.0), down(e.end().0 + 7))
            };
            let room = self.simulation.engine().room_for_replicas();
            let list = side_by_side(&merged(away.map(pages).collect()), room, hot);
            self.simulation.replicate(list)?;
        }
        self.simulation.settle_replicas()
    }

    /// A measured request.
    pub(crate) fn offer(&mut self, request: &Request) -> Result<(), SimError> {
        self.simulation.offer(request)?;
        if self.dynamic {
            self.planner.observe(request);
            if self.planner.is_due() {
                replicate(&mut self.simulation, &mut self.planner, self.degree, self.learned)?;
            }
        }
        Ok(())
    }

    /// Ends the run.
    pub(crate) fn finish(self) -> Result<Measured, SimError> {
        self.simulation.finish()
    }
}

/// Replicates what was seen, as a server's learner does: it is kept for when something can be done. Home has answered so many
/// reads `before` the simulation began.
///
/// # Errors
/// Where the disk refuses an I/O.
pub fn replicate(
    simulation: &mut Simulation,
    planner: &mut Replication,
    degree: u32,
    before: u64,
) -> Result<(), SimError> {
    let engine = simulation.engine();
    let Some(state) = engine.replicated() else { return Ok(()) };
    // A plan that is due while the last one is carried out comes to here with each request, and what room there is is long to list.
    if state.suspended || state.under_way {
        return Ok(());
    }
    let room = engine.room_for_replicas();
    if room.is_empty() {
        return Ok(());
    }
    let hot = planner.hot_region().unwrap_or_default();
    let answered = Answered { home: before + state.answered.home, ..state.answered };
    let list = planner.plan(room, |page| is_placed(engine, page, hot, degree), answered);
    simulation.replicate(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seekless_block::SimTime;

    #[test]
    fn the_area_beside_replicas_is_large_enough_for_any() {
        for shift in 20..42 {
            for replicas in [Bytes(1 << shift), Bytes((1 << shift) + (5 << 12) - 512)] {
                let replicas = replicas.sectors_ceil();
                let config = seekless_engine::Config {
                    area: sidecar(replicas),
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
            touched.observe(&Request::new(SimTime(0), Op::Read, at), i < 50);
        }
        let (free, had) = touched.assumed_free(0.4, 7);
        assert!((had - 0.4).abs() < 0.002, "{had}");
        let sectors: u64 = free.iter().map(|e| e.len.0).sum();
        assert_eq!(sectors, 400 * PIECE);
        for i in 0..100 {
            assert!(free.iter().all(|e| !e.overlaps(Extent::new(i * 7 * PIECE + 5, PIECE))));
        }
        assert_eq!(touched.read().len(), 50);
        assert!(touched.assumed_free(1.0, 7).1 < 0.81, "there is no more");
        assert_ne!(touched.assumed_free(0.4, 8).0, free);
    }
}
