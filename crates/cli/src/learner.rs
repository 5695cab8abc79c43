//! The learners of a live volume: BORG's access graph of what was asked, planned on demand; the same, judged; and FS2's
//! replicas in free space. Which of them it is, the volume's area says.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use seekless_block::{Bytes, Lba, Request, Sectors};
use seekless_disk::{Device, DeviceSpec, Scheduler, SpinDown};
use seekless_engine::Config;
use seekless_layout::{
    AccessGraph, Budget, Decoded, JudgeConfig, Pages, Plan, PlanConfig, Reach, Replica,
    Replication, ReplicationConfig, next_plan,
};
use seekless_serve::{Room, Wish};
use seekless_sim::{Act, Clock, Judged, JudgedConfig, Replay, SimConfig, SimError};
use seekless_study::Learner;

use crate::output;
use crate::serve::memory::Memory;

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

/// Reads between two plans of replicas, at most: what the simulator has, too.
const READS: usize = 4096;
/// How far before the hot region replicas may begin.
const BEFORE: Sectors = Sectors(64 << 11);

/// Learns for whatever the volume's area is made for: copies in the area, or replicas in discarded pages.
pub(crate) struct LiveLearner {
    copies: Box<dyn seekless_serve::Learner>,
    /// What was asked for that replicas do not have.
    only_copies: Option<&'static str>,
    replicas: Option<Replication>,
}

impl LiveLearner {
    pub(crate) fn new(
        copies: Box<dyn seekless_serve::Learner>,
        only_copies: Option<&'static str>,
    ) -> Self {
        Self { copies, only_copies, replicas: None }
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
        self.replicas = Some(Replication::new(ReplicationConfig { most, ..planning }));
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
        if room.state.suspended || room.state.waiting.0 > 0 || room.free.is_empty() {
            return Vec::new();
        }
        let Some(hot) = planner.hot_region() else { return Vec::new() };
        planner.plan(room.beside(hot, BEFORE), |page| room.is_placed(page))
    }

    fn is_due(&self) -> bool {
        self.replicas.as_ref().is_some_and(|planner| planner.observed() >= READS)
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
            None => crate::disks::stand_in(size).map_err(|e| format!("{e:#}"))?,
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
