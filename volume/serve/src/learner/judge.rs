//! The judged policy on a served volume: a model of the disk tries each plan, and the volume
//! follows the judged system of the simulator. Days are UTC days; turns count from the start.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seekless_block::{Lba, Request, Sectors, SimTime};
use seekless_disk::{Device, DeviceSpec, Scheduler, SpinDown, catalogue};
use seekless_engine::Config;
use seekless_learn::{Act, Budget, DAY, Policy};
use seekless_sim::{Clock, Judged, JudgedConfig, Replay, SimConfig, SimError};

use super::{Say, span};

/// Most requests in flight at each judged system.
const DEPTH: u32 = 32;
/// Default time from one plan to the next.
const EVERY: Duration = Duration::from_secs(3600);

/// Settings of the judge.
#[derive(Clone, Debug, Default)]
pub struct JudgeModel {
    /// The modelled disk; `None`: the smallest of the catalogue that is large enough.
    pub disk: Option<DeviceSpec>,
    /// The drive's scheduler.
    pub scheduler: Scheduler,
    /// When data may be moved; hours are UTC hours.
    pub budget: Budget,
}

/// The judged system of a served volume.
pub(super) struct LiveJudge {
    /// `None` after its model failed.
    judged: Option<Judged>,
    every: Duration,
    budget: Budget,
    say: Say,
}

impl LiveJudge {
    pub(super) fn new(
        policy: Policy,
        every: Option<Duration>,
        model: JudgeModel,
        volume: &Config,
        say: &Say,
    ) -> Result<Self, String> {
        let size = (volume.capacity + volume.area).bytes();
        let disk = match model.disk {
            Some(disk) => disk,
            None => catalogue::stand_in(size).map_err(|e| e.to_string())?,
        };
        say(&format!("note: plans are judged by the model {}", disk.name()));
        let device = Device::new(&disk).map_err(|e| e.to_string())?;
        let sim = SimConfig {
            engine: *volume,
            area_at: Lba(volume.capacity.0),
            scheduler: model.scheduler,
            spin_down: SpinDown::None,
            replay: Replay::Open,
        };
        let config = JudgedConfig { sim, policy, idle: None, in_flight: DEPTH };
        let judged = Judged::new(&device, &config).map_err(|e| e.to_string())?;
        let every = every.unwrap_or(EVERY);
        Ok(Self { judged: Some(judged), every, budget: model.budget, say: Say::clone(say) })
    }

    /// The judge's time, and the time since the epoch.
    fn clock(&self, now: SimTime) -> (Clock, Duration) {
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let turn = u128::from(now.0) / self.every.as_nanos().max(1);
        let day = utc.as_nanos() / u128::from(DAY.0);
        let whole = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
        (Clock { now, day: whole(day), turn: whole(turn) }, utc)
    }

    /// A failed model ends judging; existing copies stay.
    fn check(&mut self, result: Result<(), SimError>) {
        if let Err(e) = result {
            (self.say)(&format!(
                "note: learning has stopped, because the judge's model failed: {e}"
            ));
            self.judged = None;
        }
    }

    pub(super) fn observe(&mut self, now: SimTime, request: &Request) {
        let (clock, _) = self.clock(now);
        let Some(judged) = &mut self.judged else { return };
        if judged.capacity() < Sectors(request.extent.end().0) {
            return; // the volume refused it too
        }
        let result = judged.offer(clock, request);
        self.check(result);
    }

    /// Plans on request: the plan is executed without judging.
    pub(super) fn adopt(&mut self, now: SimTime) -> Vec<Act> {
        let Some(judged) = &mut self.judged else { return Vec::new() };
        let result = judged.adopt(now);
        self.check(result);
        self.take_acts()
    }

    /// Acts decided so far, and now, if data may be moved after this time without requests.
    pub(super) fn tick(&mut self, now: SimTime, quiet: Duration) -> Vec<Act> {
        let (clock, utc) = self.clock(now);
        let mut acts = self.take_acts();
        if self.budget.allows(span(quiet.as_nanos()), span(utc.as_nanos()))
            && let Some(judged) = &mut self.judged
        {
            let result = judged.rest(clock);
            self.check(result);
            acts.extend(self.take_acts());
        }
        acts
    }

    fn take_acts(&mut self) -> Vec<Act> {
        self.judged.as_mut().map(Judged::take_acts).unwrap_or_default()
    }
}
