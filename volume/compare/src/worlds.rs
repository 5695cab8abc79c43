//! One system at work: the simulation that serves it, and the origin of its copies.

use std::time::{Duration as WallTime, Instant};

use seekless_block::{Duration, Extent, Lba, Request, SimTime};
use seekless_disk::{Device, DeviceSpec};
use seekless_engine::{Config, Mode};
use seekless_learn::{AreaAt, Foreseen, Guard, Plan, PlanConfig, Policy, PolicyName};
use seekless_sim::{Guarded, Measured, Replay, SimConfig, SimError, Simulation};

use crate::error::StudyError;
use crate::fold_costs::FoldCosts;
use crate::outcome::Day;
use crate::replicas::Replicating;
use crate::scan::Scan;
use crate::shuffle::{self, Shuffle};
use crate::system::System;

/// The simulation of a system.
#[derive(Debug)]
enum World {
    /// It receives plans.
    Told(Box<Simulation>),
    /// It chooses at each request, and a guard keeps it close to vanilla.
    Guarded(Box<Guarded>),
    /// It has replicas in free space.
    Replicating(Box<Replicating>),
    /// Data changes places on the disk, once.
    Shuffled(Box<Simulation>, Option<Shuffle>),
}

/// One system at work.
#[derive(Debug)]
pub(crate) struct Running {
    world: World,
    disk: Device,
    spec: DeviceSpec,
    pub(crate) name: String,
    pub(crate) policy: Option<Policy>,
    /// Folds from one plan to the next, if they are fixed.
    pub(crate) plan_folds: Option<u32>,
    /// Limits of its planner.
    pub(crate) plan_config: Option<PlanConfig>,
    /// Its current plan.
    pub(crate) plan: Plan,
    /// First sector of its area, if it has one.
    pub(crate) area_at: Option<Lba>,
    /// Measurements, fold by fold. All of them are there after the last fold.
    pub(crate) laps: Vec<Measured>,
    /// Background work of the training, which no lap counts.
    trained: Duration,
    /// Parts of this lap's requests beyond the first of each, where data has changed places.
    further_parts: u64,
    /// Real time of its simulation.
    pub(crate) wall: WallTime,
}

/// A request, its day, and the learner's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub(crate) request: Request,
    pub(crate) day: u64,
    pub(crate) now: SimTime,
    /// Only for training: it is not served.
    pub(crate) trains: bool,
}

/// Input of a system's start.
#[derive(Debug)]
pub(crate) struct Begin<'a> {
    pub(crate) scan: &'a Scan,
    pub(crate) replay: Replay,
    /// First sector of its area, if that was learned.
    pub(crate) area_at: Option<Lba>,
    /// Free space.
    pub(crate) free: Vec<Extent>,
    /// All reads of the trace, for a policy that knows the future.
    pub(crate) reads: Option<Foreseen>,
}

impl System {
    /// Checks that the trace and the area fit the disk.
    pub(crate) fn check_fits(&self, scan: &Scan, path: &str) -> Result<(), StudyError> {
        let (area, has) = (self.area(), Device::new(&self.disk)?.capacity());
        let need = scan.capacity + area;
        if need <= has {
            return Ok(());
        }
        Err(StudyError::DiskTooSmall {
            path: path.to_owned(),
            end: scan.capacity.0,
            devices: scan.facts.devices,
            area: area.bytes(),
            need: need.bytes(),
            disk: self.disk.name().to_owned(),
            has: has.bytes(),
        })
    }

    pub(crate) fn begin(&self, at: Begin<'_>) -> Result<Running, StudyError> {
        let disk = Device::new(&self.disk)?;
        let engine = self.engine(at.scan.capacity, at.scan.grid);
        let policy = self.policy();
        let behind = Lba(at.scan.capacity.0);
        let area_at = match &policy {
            Some(p) if p.name() == PolicyName::OuterZone => at.area_at.unwrap_or(behind),
            Some(p) if p.has_area() && p.area_at == AreaAt::Median => at.area_at.unwrap_or(behind),
            // The addresses and the area fit the disk: see `check_fits`.
            Some(p) if p.has_area() && p.area_at == AreaAt::DiskEnd => {
                Lba(disk.capacity().0 - engine.area.0)
            }
            _ => behind,
        };
        let sim = SimConfig {
            area_at,
            engine,
            scheduler: self.scheduler,
            spin_down: self.spin_down,
            replay: at.replay,
        };
        let plan_config =
            policy.map(|p| p.plan_config(engine.room(), self.read_ahead, self.cluster));
        let world = match policy {
            Some(policy) if policy.adapts() => {
                Guarded::new(&disk, &sim, at.reads).map(|g| World::Guarded(Box::new(g)))
            }
            Some(policy) if policy.replicates() => {
                Replicating::new(disk.clone(), sim, policy, at.free)
                    .map(|r| World::Replicating(Box::new(r)))
            }
            Some(policy) if policy.moves_in_place() => {
                // Units change places over the whole disk.
                let engine = Config {
                    cache_bytes: self.cache,
                    read_ahead: self.read_ahead,
                    cluster: self.cluster,
                    ..Config::new(disk.capacity())
                };
                let config = SimConfig { area_at: Lba(0), engine, ..sim };
                Simulation::new(disk.clone(), config).map(|s| World::Shuffled(Box::new(s), None))
            }
            _ => Simulation::new(disk.clone(), sim).map(|s| World::Told(Box::new(s))),
        };
        Ok(Running {
            world: world.map_err(|e| StudyError::run(&self.name, e))?,
            disk,
            spec: self.disk.clone(),
            name: self.name.clone(),
            policy,
            plan_folds: self.learning.and_then(|l| l.plan_folds()),
            plan_config,
            plan: Plan::default(),
            area_at: policy.filter(|p| !p.moves_in_place()).map(|_| area_at),
            laps: Vec::new(),
            trained: Duration::ZERO,
            further_parts: 0,
            wall: WallTime::ZERO,
        })
    }
}

impl Running {
    /// Does a part of the simulation, and counts the real time.
    fn timed<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, SimError>,
    ) -> Result<T, StudyError> {
        let began = Instant::now();
        let result = work(self);
        self.wall += began.elapsed();
        result.map_err(|e| StudyError::run(&self.name, e))
    }

    /// Serves requests, or learns from them.
    pub(crate) fn serve(&mut self, batch: &[Timed]) -> Result<(), StudyError> {
        self.timed(|this| batch.iter().try_for_each(|timed| this.take(timed)))
    }

    fn take(&mut self, timed: &Timed) -> Result<(), SimError> {
        let Timed { request, day, now, trains } = timed;
        match &mut self.world {
            World::Guarded(guarded) => guarded.offer(*day, request)?,
            World::Replicating(r) if *trains => r.learn(*now, request),
            _ if *trains => {}
            World::Told(simulation) => simulation.offer(request)?,
            World::Replicating(r) => r.offer(*now, request)?,
            World::Shuffled(simulation, shuffle) => {
                let Some(shuffle) = shuffle else { return simulation.offer(request) };
                for (i, extent) in shuffle.parts(request.extent).enumerate() {
                    simulation.offer(&Request { extent, ..*request })?;
                    self.further_parts += u64::from(i > 0);
                }
            }
        }
        Ok(())
    }

    /// True if it takes the requests of the training: a guarded system serves them, one with replicas
    /// observes them.
    pub(crate) const fn takes_training(&self) -> bool {
        matches!(self.world, World::Guarded(_) | World::Replicating(_))
    }

    /// True if its data has not changed places yet.
    pub(crate) const fn is_to_shuffle(&self) -> bool {
        matches!(self.world, World::Shuffled(_, None))
    }

    pub(crate) fn install(&mut self, plan: Plan) -> Result<(), StudyError> {
        self.plan.clone_from(&plan);
        self.timed(|this| match &mut this.world {
            World::Told(simulation) => simulation.install(plan),
            World::Guarded(_) | World::Replicating(_) | World::Shuffled(..) => Ok(()),
        })
    }

    /// Lets data change places by the reads of `graph`.
    pub(crate) fn shuffle(&mut self, graph: &seekless_learn::AccessGraph) {
        if let World::Shuffled(_, shuffle) = &mut self.world {
            let unit = match self.policy.map(|p| p.name()) {
                Some(PolicyName::CylindersInPlace) => shuffle::cylinder(&self.spec),
                _ => shuffle::BLOCK,
            };
            *shuffle = Some(Shuffle::new(graph, unit, self.disk.capacity()));
        }
    }

    /// The first fold has ended. Replicas of the learned data are made. If the fold was a training,
    /// its costs do not count.
    pub(crate) fn end_first_fold(&mut self, now: SimTime, trained: bool) -> Result<(), StudyError> {
        self.timed(|this| match &mut this.world {
            World::Replicating(r) => r.begin(now),
            World::Guarded(guarded) if trained => {
                this.trained = guarded.end_training()?;
                Ok(())
            }
            World::Told(_) | World::Guarded(_) | World::Shuffled(..) => Ok(()),
        })
    }

    /// Destages the write buffer, and lets the drive end its work, at the cost of this system.
    pub(crate) fn drain(&mut self) -> Result<(), StudyError> {
        self.timed(|this| {
            let simulation: &mut Simulation = match &mut this.world {
                World::Guarded(guarded) => return guarded.drain(),
                World::Replicating(r) => &mut r.simulation,
                World::Told(simulation) | World::Shuffled(simulation, _) => simulation,
            };
            simulation.drain()?;
            simulation.end_ios()
        })
    }

    /// As [`Running::drain`] for a system with plans, and the write buffer absorbs again. So no fold
    /// leaves work to the folds after it.
    pub(crate) fn settle_buffer(&mut self) -> Result<(), StudyError> {
        self.timed(|this| {
            let World::Told(simulation) = &mut this.world else { return Ok(()) };
            if simulation.engine().mode() == Mode::WriteBack {
                simulation.drain()?;
                simulation.set_mode(Mode::WriteBack);
            }
            Ok(())
        })
    }

    /// Ends a fold. A clairvoyant policy ends it later: it has yet to serve the last requests.
    pub(crate) fn lap(&mut self) -> Result<(), StudyError> {
        let ended = self.timed(|this| {
            let measured = match &mut this.world {
                World::Told(simulation) => simulation.lap_on_time()?,
                World::Guarded(guarded) => {
                    guarded.end_lap()?;
                    return Ok(guarded.take_laps());
                }
                World::Replicating(r) => r.simulation.lap_on_time()?,
                World::Shuffled(simulation, shuffle) => {
                    let mut measured = simulation.lap_on_time()?;
                    if let Some(shuffle) = shuffle {
                        shuffle.price(&this.disk, &mut measured)?;
                    }
                    measured.requests -= std::mem::take(&mut this.further_parts);
                    measured
                }
            };
            Ok(vec![measured])
        })?;
        self.laps.extend(ended);
        Ok(())
    }

    pub(crate) fn costs(&self) -> Vec<FoldCosts> {
        self.laps.iter().map(|m| FoldCosts::new(m, &self.spec)).collect()
    }

    /// Seconds of the drive's own work for which no command waited, and of busy time.
    pub(crate) fn own_work(&self) -> (f64, f64) {
        let of = |m: &Measured| {
            let busy = m.foreground.busy() + m.background.busy();
            let worked = m.state_time.seek + m.state_time.rotation_transfer;
            let own = m.costs.behind().min(Duration(worked.0.saturating_sub(busy.0)));
            (own.as_secs_f64(), busy.as_secs_f64())
        };
        self.laps.iter().map(of).fold((0.0, 0.0), |sum, lap| (sum.0 + lap.0, sum.1 + lap.1))
    }

    /// The accounts by day, under a guard.
    pub(crate) fn days(&self) -> Vec<Day> {
        match &self.world {
            World::Guarded(guarded) => guarded.days().iter().map(Day::of).collect(),
            _ => Vec::new(),
        }
    }

    /// The guard, under the adaptive policy.
    pub(crate) fn guard(&self) -> Option<Guard> {
        match &self.world {
            World::Guarded(guarded) => Some(*guarded.guard()),
            _ => None,
        }
    }

    pub(crate) fn note(&self) -> Option<String> {
        let trained_s = self.trained.as_secs_f64();
        match &self.world {
            World::Shuffled(_, Some(shuffle)) => Some(format!(
                "{}: {} units of {} sectors changed places; answers from RAM and response times are those of each separate place that a request reaches",
                self.name,
                shuffle.moved(),
                shuffle.unit()
            )),
            World::Guarded(_) if trained_s >= 0.05 => Some(format!(
                "{}: {trained_s:.1} s of background work in the training part are not counted",
                self.name
            )),
            _ => None,
        }
    }
}
