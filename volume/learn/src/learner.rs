//! The one learner: requests in, acts out. A live server, the simulator, every comparison and the
//! benchmarks use this type. It has no clock, no thread and no file: time, the state of the volume
//! and remembered bytes are arguments.

#[cfg(test)]
mod tests;

use seekless_block::{Bytes, Duration, Extent, Lba, Request, Sectors, SimTime, StreamId};

use crate::days::Days;
use crate::replication::StaticReplication;
use crate::{
    AccessGraph, AnsweredReads, Decoded, Pages, Plan, PlanConfig, Policy, PolicyName, Reach,
    Replica, Replication, ReplicationConfig, Streams, next_plan,
};

/// Most edges of an access graph: about 100 MB. A server needs this memory beside its cache.
/// Simulations have the same limit, so that they show what a server does.
pub const EDGES_MAX: usize = 1 << 21;

/// A learner's knowledge of a volume at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeShape {
    /// Client addresses.
    pub capacity: Sectors,
    /// First sector of the first page, 0 to 7.
    pub grid: Sectors,
    /// RAM cache: reads that it answers are not learned from.
    pub ram: Bytes,
    /// What a read of home brings at least.
    pub read_ahead: Bytes,
    /// What a read of a copy brings at least.
    pub cluster: Bytes,
    /// Capacity for a plan in the optimized area.
    pub room: Sectors,
    /// Most replicas in discarded pages.
    pub replicas: Sectors,
}

/// The state of a volume at the time of a plan.
#[derive(Clone, Copy)]
pub struct VolumeState<'a> {
    /// The plan in force.
    pub plan: &'a Plan,
    /// The space for replicas, for volumes that have replicas instead of copies in an area.
    pub replicas: Option<&'a dyn ReplicaSpace>,
}

/// The state of replication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaProgress {
    /// Nothing may be replicated now: too little is free, or earlier replicas are still being
    /// written.
    pub blocked: bool,
    /// The answers to clients' reads.
    pub answered: AnsweredReads,
}

/// The space for replicas, and the pages that have one. Used only for a plan, as the answer may be
/// long.
pub trait ReplicaSpace {
    /// The state of replication.
    fn progress(&self) -> ReplicaProgress;
    /// Free pages without replicas, in order.
    fn free(&self) -> Vec<Extent>;
    /// Whether the page that begins at this sector needs no more replicas: the page has the maximum
    /// number, or a replica near the hot region.
    fn is_placed(&self, page: Lba, hot: Extent) -> bool;
}

/// Whether a page with replicas at these places needs no more: the page has `degree` replicas, or a
/// replica near the hot region.
pub fn needs_no_more(places: impl Iterator<Item = Lba>, hot: Extent, degree: u32) -> bool {
    let mut replicas = 0;
    places.into_iter().any(|place| {
        replicas += 1;
        replicas >= degree || place.distance(hot.start).0 <= 2 * hot.len.0
    })
}

/// A command to a volume.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Move to this plan.
    Install(Plan),
    /// Write these replicas.
    Replicate(Vec<Replica>),
    /// Save these bytes: a later learner goes on from them.
    Save(Vec<u8>),
}

/// The observations, in the form that the policy plans from.
#[derive(Clone, Debug)]
enum Observations {
    Accesses(AccessGraph),
    Reads(Replication),
    AllReads(StaticReplication),
}

/// Learns which data is used together, and plans by one policy.
#[derive(Clone, Debug)]
pub struct Learner {
    policy: Policy,
    volume: VolumeShape,
    seen: Observations,
    days: Days,
    /// Time from one plan to the next; `None` plans only on request.
    every: Option<Duration>,
    planned_at: SimTime,
    /// The learned data is saved.
    saves: bool,
    /// The learned data has changed since it was last saved.
    changed: bool,
}

impl Learner {
    /// A learner without knowledge of the volume, which plans on request.
    pub fn new(policy: Policy, volume: VolumeShape) -> Self {
        let replication = |rule| {
            let config = ReplicationConfig::new(volume.capacity, volume.grid).by(rule);
            Replication::new(ReplicationConfig { most: volume.replicas, ..config })
        };
        let seen = match (policy.rule(), policy.name()) {
            (Some(rule), _) => Observations::Reads(replication(rule)),
            (None, PolicyName::Fs2Static) => {
                Observations::AllReads(StaticReplication::new(replication(Default::default())))
            }
            _ => {
                let pages = Pages::new(volume.grid, volume.capacity);
                let graph = AccessGraph::new(pages, volume.ram, EDGES_MAX);
                Observations::Accesses(if policy.writes_in_place() {
                    graph.with_writes()
                } else {
                    graph
                })
            }
        };
        Self {
            policy,
            volume,
            seen,
            days: Days::default(),
            every: None,
            planned_at: SimTime::ZERO,
            saves: false,
            changed: false,
        }
    }

    /// The same, with a graph of at most this number of edges.
    #[must_use]
    pub fn edges(mut self, most: usize) -> Self {
        if let Observations::Accesses(graph) = &mut self.seen {
            graph.limit(most);
        }
        self
    }

    /// The same, with a plan this long after each plan; for replicas also after enough reads.
    #[must_use]
    pub fn every(self, every: Option<Duration>) -> Self {
        Self { every, ..self }
    }

    /// The same, with a plan for replicas after enough reads, whatever time has passed.
    #[must_use]
    pub fn when_due(self) -> Self {
        self.every(Some(Duration(u64::MAX)))
    }

    /// The same, with regions of this length for replicas. Replicas stand near the hottest region.
    #[must_use]
    pub fn region(mut self, region: Sectors) -> Self {
        if let Observations::Reads(replication) = &mut self.seen {
            replication.set_region(region);
        }
        self
    }

    /// Goes on from the saved data of an earlier learner, and asks to be saved too. Policies that
    /// plan replicas save nothing.
    ///
    /// # Errors
    /// If the saved data is about a volume of another size or with other pages. It is not used.
    pub fn recall(&mut self, known: Option<Decoded>) -> Result<(), OtherVolume> {
        self.saves = true;
        if let (Some(known), Observations::Accesses(graph)) = (known, &mut self.seen) {
            if known.graph.pages() != graph.pages() {
                // Empty data is about no volume.
                return if known.graph.vertex_count() == 0 { Ok(()) } else { Err(OtherVolume) };
            }
            *graph = known.graph.limited_as(graph);
            self.days = Days::from(known.since_aged);
        }
        Ok(())
    }

    /// Its policy.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Takes in a request that came `now`. Time never runs backwards; days count from time zero.
    pub fn observe(&mut self, now: SimTime, request: &Request) {
        self.age(now);
        self.days.request();
        self.changed = true;
        let stream = match self.policy.streams {
            Streams::Recorded => request.stream,
            Streams::One => StreamId(0),
        };
        let request = Request { stream, ..*request };
        match &mut self.seen {
            Observations::Accesses(graph) => graph.observe(&request),
            Observations::Reads(replication) => replication.observe(&request),
            Observations::AllReads(all) => all.observe(&request),
        }
    }

    /// Lets days end.
    fn age(&mut self, now: SimTime) {
        let ended = self.days.ended(now);
        if let Observations::Accesses(graph) = &mut self.seen {
            for _ in 0..ended {
                self.policy.training.day_ended(graph);
                self.changed = true;
            }
        }
    }

    /// Whether it is time to plan.
    pub fn is_due(&self, now: SimTime) -> bool {
        let enough = matches!(&self.seen, Observations::Reads(replication) if replication.is_due());
        self.every.is_some_and(|every| enough || now.since(self.planned_at) >= every)
    }

    /// The time until the next plan, if time decides.
    pub fn due_in(&self, now: SimTime) -> Option<Duration> {
        let every = self.every?;
        Some(Duration(every.0.saturating_sub(now.since(self.planned_at).0)))
    }

    /// Plans, if it is time to.
    pub fn tick(&mut self, now: SimTime, state: &VolumeState<'_>) -> Vec<Act> {
        if self.is_due(now) { self.plan(now, state) } else { Vec::new() }
    }

    /// Plans now, from all observations.
    pub fn plan(&mut self, now: SimTime, state: &VolumeState<'_>) -> Vec<Act> {
        self.planned_at = now;
        if !matches!(self.seen, Observations::Accesses(_)) {
            return self.replicas(state.replicas).map(Act::Replicate).into_iter().collect();
        }
        self.age(now);
        let plan = self.next_plan(state.plan, &self.plan_config());
        // Saved before it is forgotten: the next server starts from the data of this plan.
        let save = self.save(now);
        self.planned();
        [Some(Act::Install(plan)), save.map(Act::Save)].into_iter().flatten().collect()
    }

    /// Replicas to be written; `None` if nothing can be done now. The observations are then kept.
    fn replicas(&mut self, space: Option<&dyn ReplicaSpace>) -> Option<Vec<Replica>> {
        let space = space?;
        let ReplicaProgress { blocked, answered } = space.progress();
        if blocked {
            return None;
        }
        let free = space.free();
        if free.is_empty() {
            return None;
        }
        match &mut self.seen {
            Observations::Accesses(_) => None,
            Observations::Reads(replication) => {
                let hot = replication.hot_region().unwrap_or_default();
                Some(replication.plan(free, |page| space.is_placed(page, hot), answered))
            }
            Observations::AllReads(all) => Some(all.plan(free)),
        }
    }

    /// The plan that follows `standing` under `config`. Several volumes may plan from one learner;
    /// the caller calls [`Self::planned`] after all of them.
    pub fn next_plan(&self, standing: &Plan, config: &PlanConfig) -> Plan {
        self.accesses().map_or_else(Plan::default, |graph| next_plan(standing, graph, config))
    }

    /// The plan that follows `standing` on the learner's own volume, made now.
    pub fn replan(&mut self, now: SimTime, standing: &Plan) -> Plan {
        self.age(now);
        let plan = self.next_plan(standing, &self.plan_config());
        self.planned();
        plan
    }

    /// All plans from the requests so far are made: see [`crate::Training::planned`].
    pub fn planned(&mut self) {
        if let Observations::Accesses(graph) = &mut self.seen {
            self.policy.training.planned(graph);
        }
    }

    /// What a plan for the learner's own volume may use.
    pub fn plan_config(&self) -> PlanConfig {
        let VolumeShape { room, read_ahead, cluster, .. } = self.volume;
        self.policy.plan_config(room, read_ahead, cluster)
    }

    /// The learned data as bytes, if it changed since it was last saved and is to be saved.
    pub fn save(&mut self, now: SimTime) -> Option<Vec<u8>> {
        let Observations::Accesses(graph) = &self.seen else { return None };
        (self.saves && std::mem::take(&mut self.changed))
            .then(|| graph.encode(self.days.of_today(now)))
    }

    /// The access graph, if the policy uses one.
    pub const fn accesses(&self) -> Option<&AccessGraph> {
        match &self.seen {
            Observations::Accesses(graph) => Some(graph),
            Observations::Reads(_) | Observations::AllReads(_) => None,
        }
    }
}

/// Saved data about another volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is about a disk of another size, or with other pages")]
pub struct OtherVolume;

impl Policy {
    /// What a planner may use for an area of this capacity, with an engine's read-ahead and
    /// cluster.
    pub fn plan_config(&self, room: Sectors, read_ahead: Bytes, cluster: Bytes) -> PlanConfig {
        PlanConfig {
            area: room,
            min_weight: self.min_weight,
            strategy: self.order,
            planning: self.planning,
            reach: Reach::new(read_ahead, cluster),
        }
    }
}
