//! The learners of a live volume: BORG's access graph of what was asked, planned on demand; and the same, judged.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use seekless_block::{Lba, Request, Sectors};
use seekless_disk::{Device, DeviceSpec, Scheduler, SpinDown};
use seekless_engine::Config;
use seekless_layout::{AccessGraph, BorgConfig, Budget, JudgeConfig, Plan, plan_borg};
use seekless_serve::{Learner, Wish};
use seekless_sim::{Act, Clock, Judged, JudgedConfig, Replay, SimConfig, SimError};

use crate::output;

/// Edges kept: about a hundred megabytes at the most.
const EDGES: usize = 1 << 21;
/// An access counts half after so long.
const DAY: Duration = Duration::from_secs(86_400);
/// Requests in flight at each of the judged systems, at most.
const DEPTH: u32 = 32;

/// Learns in the learner's thread of a server.
pub(crate) struct BorgLearner {
    graph: AccessGraph,
    config: BorgConfig,
    aged: Instant,
}

impl BorgLearner {
    /// For an optimized area of this size.
    pub(crate) fn new(area: Sectors) -> Self {
        let config = BorgConfig { area, min_weight: 0 };
        Self { graph: AccessGraph::new(EDGES), config, aged: Instant::now() }
    }
}

impl Learner for BorgLearner {
    fn observe(&mut self, request: &Request) {
        self.graph.observe(request);
    }

    fn plan(&mut self) -> Plan {
        while self.aged.elapsed() >= DAY {
            self.graph.age();
            self.aged += DAY;
        }
        plan_borg(&self.graph, &self.config)
    }
}

/// What a judged learner is made of.
pub(crate) struct Setup {
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

impl Learner for JudgedLearner {
    fn begin(&mut self, volume: &Config) -> Result<(), String> {
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
            plan: BorgConfig { area: volume.area, min_weight: 0 },
            judge: self.setup.judge,
            idle: None,
            in_flight: DEPTH,
            edges: EDGES,
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
