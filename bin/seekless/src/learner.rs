//! The learners of a live volume: BORG's access graph of what was asked, planned on demand; the same, judged; and FS2's
//! replicas in free space. Which of them it is, the volume's area says.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use seekless_block::{Bytes, Lba, Request, Sectors};
use seekless_compare::Learner;
use seekless_disk::{Device, DeviceSpec, Scheduler, SpinDown};
use seekless_engine::Config;
use seekless_learn::{
    AccessGraph, Budget, Decoded, JudgeConfig, Pages, Plan, PlanConfig, Reach, Replica,
    Replication, ReplicationConfig, ReplicationRule, next_plan,
};
use seekless_serve::{Room, Wish};
use seekless_sim::{Act, Clock, Judged, JudgedConfig, Replay, SimConfig, SimError};

use crate::serve::memory::Memory;
use seekless_cli::output;

/// Edges kept: about a hundred megabytes at the most.
pub(crate) const EDGES: usize = 1 << 21;
/// An access counts half after so long.
const DAY: Duration = Duration::from_secs(86_400);
/// Requests in flight at each of the judged systems, at most.
const DEPTH: u32 = 32;

/// Learns in the learner's thread of a server.
pub(crate) struct BorgLearner {
    how: Learner,
    graph: AccessGraph,
    config: PlanConfig,
    /// The plan made last.
    plan: Plan,
    /// When a day ended last, or as if: time in which nothing was served does not count.
    aged: Instant,
    /// Before that, served since.
    served: Duration,
    memory: Option<Memory>,
    changed: bool,
    /// A plan was made of all that is known, and not yet kept.
    planned: bool,
}

impl BorgLearner {
    /// Knows nothing yet, not even of which volume.
    pub(crate) fn new(how: Learner) -> Self {
        let nothing = Pages::new(Sectors(0), Sectors(0));
        Self {
            how,
            graph: AccessGraph::new(nothing, Bytes(0), EDGES),
            config: PlanConfig {
                area: Sectors(0),
                min_weight: 0,
                strategy: how.strategy,
                planning: how.planning,
                reach: Reach::new(Bytes(0), Bytes(0)),
            },
            plan: Plan::default(),
            aged: Instant::now(),
            served: Duration::ZERO,
            memory: None,
            changed: false,
            planned: false,
        }
    }

    /// Goes on from what was known, and keeps what it learns in a file.
    pub(crate) fn remember(mut self, memory: Memory, known: Option<Decoded>) -> Self {
        if let Some(known) = known {
            self.graph = known.graph;
            self.served = Duration::from_nanos(known.since_aged.0);
        }
        self.memory = Some(memory);
        self
    }

    fn since_aged(&self) -> Duration {
        self.served.saturating_add(self.aged.elapsed())
    }
}

impl seekless_serve::Learner for BorgLearner {
    fn begin(&mut self, config: &Config, plan: Plan) -> Result<(), String> {
        // A better one begins with what stands.
        self.plan = plan;
        let pages = Pages::new(config.grid, config.capacity);
        if self.graph.pages() != pages {
            if let Some(memory) = self.memory.as_ref().filter(|_| self.graph.vertex_count() > 0) {
                memory.set_aside(&format!(
                    "it is about a disk of another size, or with other pages, than {}",
                    config.capacity.bytes()
                ));
            }
            self.graph = AccessGraph::new(pages, config.cache_bytes, EDGES);
            self.served = Duration::ZERO;
        }
        self.config.area = config.room();
        self.config.reach = Reach::new(config.read_ahead, config.cluster);
        Ok(())
    }

    fn observe(&mut self, request: &Request) {
        self.changed = true;
        self.graph.observe(request);
    }

    fn plan(&mut self) -> Plan {
        let mut since = self.since_aged();
        while since >= DAY && self.graph.vertex_count() > 0 {
            self.how.training.day_ended(&mut self.graph);
            self.changed = true;
            since -= DAY;
        }
        (self.aged, self.served) = (Instant::now(), since);
        self.planned = true;
        self.plan = next_plan(&self.plan, &self.graph, &self.config);
        self.plan.clone()
    }

    fn keep(&mut self) {
        let since = u64::try_from(self.since_aged().as_nanos()).unwrap_or(u64::MAX);
        if let Some(memory) = self.memory.as_mut().filter(|_| self.changed) {
            memory.write(&self.graph, seekless_block::Duration(since));
            self.changed = false;
        }
        // Only now: what the plan was made of is what the next start wants.
        if std::mem::take(&mut self.planned) {
            self.how.training.planned(&mut self.graph);
        }
    }
}

/// Learns for whatever the volume's area is made for: copies in the area, or replicas in discarded pages.
pub(crate) struct LiveLearner {
    copies: Box<dyn seekless_serve::Learner>,
    /// What was asked for that replicas do not have.
    only_copies: Option<&'static str>,
    rule: ReplicationRule,
    replicas: Option<Replication>,
}

impl LiveLearner {
    pub(crate) fn new(
        copies: Box<dyn seekless_serve::Learner>,
        only_copies: Option<&'static str>,
        rule: ReplicationRule,
    ) -> Self {
        Self { copies, only_copies, rule, replicas: None }
    }
}

impl seekless_serve::Learner for LiveLearner {
    fn begin(&mut self, config: &Config, plan: Plan) -> Result<(), String> {
        if config.replicas.0 == 0 {
            return self.copies.begin(config, plan);
        }
        if let Some(option) = self.only_copies {
            return Err(format!(
                "{option} is for copies in an area, and this volume keeps replicas in discarded pages: leave it out"
            ));
        }
        let most = config.replicas;
        let planning = ReplicationConfig::new(config.capacity, config.grid);
        let planning = ReplicationConfig { most, ..planning.by(self.rule) };
        self.replicas = Some(Replication::new(planning));
        Ok(())
    }

    fn observe(&mut self, request: &Request) {
        match &mut self.replicas {
            Some(planner) => planner.observe(request),
            None => self.copies.observe(request),
        }
    }

    fn plan(&mut self) -> Plan {
        self.copies.plan()
    }

    fn replicate(&mut self, room: &Room) -> Vec<Replica> {
        let Some(planner) = &mut self.replicas else { return Vec::new() };
        // What was seen is kept for when something can be done.
        if room.state.suspended || room.state.under_way || room.free.is_empty() {
            return Vec::new();
        }
        let free = room.free.iter().copied();
        planner.plan(free, |page| room.is_placed(page), room.state.answered)
    }

    fn is_due(&self) -> bool {
        self.replicas.as_ref().is_some_and(Replication::is_due)
    }

    fn keep(&mut self) {
        self.copies.keep();
    }

    fn wishes(&mut self, quiet: Duration) -> Vec<Wish> {
        match self.replicas {
            Some(_) => Vec::new(),
            None => self.copies.wishes(quiet),
        }
    }
}

/// What a judged learner is made of.
pub(crate) struct Setup {
    /// How it learns.
    pub(crate) how: Learner,
    /// The disk whose model judges; none is one of the catalogue that is large enough.
    pub(crate) disk: Option<DeviceSpec>,
    pub(crate) scheduler: Scheduler,
    /// How often a new plan is put on paper.
    pub(crate) every: Duration,
    /// When data may be moved; hours are UTC's.
    pub(crate) budget: Budget,
    /// Thousandths of a day's busy time that may be lost.
    pub(crate) judge: JudgeConfig,
}

/// Learns, and judges what it learned, by a model of the disk: the volume does what the judged system in the simulator does.
pub(crate) struct JudgedLearner {
    setup: Setup,
    /// None before it began, and after it failed.
    judged: Option<Judged>,
    began: Instant,
    aged: Instant,
}

impl JudgedLearner {
    pub(crate) fn new(setup: Setup) -> Self {
        let now = Instant::now();
        Self { setup, judged: None, began: now, aged: now }
    }

    /// Days are UTC's; turns count from the start.
    fn clock(&self) -> (Clock, Duration) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let turn = self.began.elapsed().as_nanos() / self.setup.every.as_nanos().max(1);
        let day = now.as_secs() / DAY.as_secs();
        (Clock { day, turn: u64::try_from(turn).unwrap_or(u64::MAX) }, now)
    }

    /// Judging ends where its model does; what stands goes on standing.
    fn check<T>(&mut self, result: Result<T, SimError>) -> Option<T> {
        result
            .map_err(|e| {
                output::say(&format!(
                    "note: nothing more is learned: the judge's model stopped: {e}"
                ));
                self.judged = None;
            })
            .ok()
    }
}

impl seekless_serve::Learner for JudgedLearner {
    fn begin(&mut self, volume: &Config, _: Plan) -> Result<(), String> {
        let size = (volume.capacity + volume.area).bytes();
        let disk = match self.setup.disk.take() {
            Some(disk) => disk,
            None => seekless_cli::disk::stand_in(size).map_err(|e| format!("{e:#}"))?,
        };
        output::say(&format!("note: what is learned is judged by the model {}", disk.name()));
        let device = Device::new(&disk).map_err(|e| e.to_string())?;
        let sim = SimConfig {
            engine: *volume,
            area_at: Lba(volume.capacity.0),
            scheduler: self.setup.scheduler,
            spin_down: SpinDown::None,
            replay: Replay::Open,
        };
        let config = JudgedConfig {
            sim,
            plan: PlanConfig {
                area: volume.room(),
                min_weight: 0,
                strategy: self.setup.how.strategy,
                planning: self.setup.how.planning,
                reach: Reach::new(volume.read_ahead, volume.cluster),
            },
            training: self.setup.how.training,
            judge: self.setup.judge,
            idle: None,
            in_flight: DEPTH,
            edges: EDGES,
            one_stream: false,
        };
        self.judged = Some(Judged::new(&device, &config).map_err(|e| e.to_string())?);
        Ok(())
    }

    fn observe(&mut self, request: &Request) {
        let (clock, _) = self.clock();
        let Some(judged) = &mut self.judged else { return };
        if judged.capacity() < Sectors(request.extent.end().0) {
            return; // the volume refused it, too
        }
        while self.aged.elapsed() >= DAY {
            judged.age();
            self.aged += DAY;
        }
        let result = judged.offer(clock, request);
        self.check(result);
    }

    fn plan(&mut self) -> Plan {
        let Some(judged) = &mut self.judged else { return Plan::default() };
        let result = judged.adopt();
        self.check(result).unwrap_or_default()
    }

    fn wishes(&mut self, quiet: Duration) -> Vec<Wish> {
        let (clock, now) = self.clock();
        let Some(judged) = &mut self.judged else { return Vec::new() };
        let ns =
            |d: Duration| seekless_block::Duration(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
        let mut acts = judged.take_acts();
        if self.setup.budget.allows(ns(quiet), ns(now)) {
            let result = judged.rest(clock);
            if self.check(result).is_none() {
                return Vec::new();
            }
            acts.extend(self.judged.iter_mut().flat_map(Judged::take_acts));
        }
        acts.into_iter()
            .map(|act| match act {
                Act::Install(plan) => Wish::Install(plan),
                Act::Bypass(on) => Wish::Bypass(on),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use seekless_block::{Extent, Op, SimTime};
    use seekless_compare::replicate;
    use seekless_disk::catalogue;
    use seekless_engine::RoomFrom;
    use seekless_serve::Learner as _;
    use seekless_sim::Simulation;

    use super::*;

    const MIB: u64 = 1 << 11;

    /// Six times the same reads, of three places in turn, with a few others in between; 40% of the disk is free. Where replicas stand
    /// at last, by home.
    fn served(
        volume: Config,
        mut look: impl FnMut(&mut Simulation, &Request),
    ) -> Vec<(Lba, Vec<Lba>)> {
        let device = Device::new(&DeviceSpec::Disk(catalogue::get("wd800jb").unwrap())).unwrap();
        let config = SimConfig {
            engine: volume,
            area_at: Lba(volume.capacity.0),
            scheduler: Scheduler::Fcfs,
            spin_down: SpinDown::None,
            replay: Replay::Closed { depth: 1 },
        };
        let mut simulation = Simulation::new(device, config).unwrap();
        simulation.seed_free((0..20).map(|i| Extent::new(i * 50 * MIB + 30 * MIB, 20 * MIB)));
        for i in 0..30_000u64 {
            let (turn, at) = (i / 5000, i % 5000);
            let mixed = at.wrapping_mul(6_364_136_223_846_793_005) >> 40;
            let by_chance = if at % 10 == 9 { turn * 977 } else { 0 };
            let place = [500, 510, 900][(at % 3) as usize] * MIB;
            let extent = Extent::new(place + (mixed + by_chance) % 2000 * 8, 8);
            let request = Request::new(SimTime(i), Op::Read, extent);
            simulation.offer(&request).unwrap();
            look(&mut simulation, &request);
            simulation.settle_replicas().unwrap();
        }
        let engine = simulation.engine();
        let homes = (0..volume.capacity.0).step_by(8).map(Lba);
        let standing = homes.map(|home| (home, engine.replicas_of(home).collect::<Vec<Lba>>()));
        standing.filter(|(_, places)| !places.is_empty()).collect()
    }

    #[test]
    fn a_server_replicates_what_the_simulator_does() {
        let volume = Config {
            area: Sectors(40 * MIB),
            replicas: Sectors(100 * MIB),
            ..Config::new(Sectors(1000 * MIB))
        };
        let mut counts = Vec::new();
        for rule in ReplicationRule::ALL {
            let planning = ReplicationConfig::new(volume.capacity, volume.grid).by(rule);
            let mut planner =
                Replication::new(ReplicationConfig { most: volume.replicas, ..planning });
            let simulated = served(volume, |simulation, request| {
                planner.observe(request);
                if planner.is_due() {
                    replicate(simulation, &mut planner, 1, 0).unwrap();
                }
            });
            let copies = BorgLearner::new(Learner::default());
            let mut learner = LiveLearner::new(Box::new(copies), None, rule);
            learner.begin(&volume, Plan::default()).unwrap();
            let live = served(volume, |simulation, request| {
                learner.observe(request);
                if learner.is_due() {
                    let engine = simulation.engine();
                    let part = engine.room_part(RoomFrom::default());
                    assert_eq!(part.next, None);
                    let mut room = Room {
                        free: part.free,
                        placed: part.placed,
                        state: engine.replicated().unwrap(),
                        pages: Pages::new(volume.grid, volume.capacity),
                    };
                    room.placed.sort_unstable();
                    let list = learner.replicate(&room);
                    simulation.replicate(list).unwrap();
                }
            });
            assert!(live == simulated, "{rule}: {} and {}", live.len(), simulated.len());
            counts.push(live.len());
        }
        assert!(counts.iter().all(|&n| n > 100), "{counts:?}");
    }
}
