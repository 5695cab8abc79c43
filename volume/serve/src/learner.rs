//! The learner's thread beside the volume's: requests come through a ring, acts go back.
//! [`seekless_learn::Learner`] learns and plans.

mod replica_room;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rtrb::{Consumer, Producer, RingBuffer};
use seekless_block::{Request, Sectors, SimTime};
use seekless_engine::Config;
use seekless_host::cannot;
use seekless_learn::{Act, Learner, Plan, Policy, PolicyName, VolumeState};
use seekless_sim::shape_of;

use crate::error::ServeError;
use crate::handle::Injector;
use crate::memory_file::MemoryFile;
use crate::observe::{Observer, SharedStreams};
use crate::server::Control;

use replica_room::LazySpace;
pub(crate) use replica_room::{Room, RoomReply};

/// Most requests between two visits of the learner; more are dropped and counted.
const RING: usize = 1 << 16;
/// Interval between visits of the learner to its ring without calls.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Nice value relative to the volume's thread.
const NICE: i32 = 10;

/// How a served volume learns. By default: the usual policy for the volume's area; plans on
/// request; without memory.
#[derive(Default)]
#[must_use]
pub struct Learning {
    policy: Option<Policy>,
    every: Option<Duration>,
    memory: Option<MemoryFile>,
}

impl Learning {
    /// Learns by this policy.
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Plans by itself at this interval.
    pub fn every(self, every: Duration) -> Self {
        Self { every: Some(every), ..self }
    }

    /// Keeps its memory in a file.
    pub fn memory(self, memory: MemoryFile) -> Self {
        Self { memory: Some(memory), ..self }
    }

    /// True if there is memory of an earlier server.
    pub fn knows(&self) -> bool {
        self.memory.as_ref().is_some_and(MemoryFile::knows)
    }

    /// The policy for a volume whose area holds this. An error says what does not fit.
    pub(crate) fn policy_for(&self, held: AreaHolds) -> Result<Policy, String> {
        let policy = self.policy.unwrap_or_else(|| Policy::new(held.usual()));
        match (policy.replicates(), held) {
            (true, AreaHolds::Replicas) => {}
            (false, AreaHolds::Replicas) if policy.name() != PolicyName::Vanilla => {
                return Err(format!(
                    "policy {policy} is for copies in an area, and this volume keeps replicas in discarded pages: choose fs2, fs2-whole or fs2-proven"
                ));
            }
            (true, _) => {
                return Err(format!(
                    "policy {policy} is for replicas in discarded pages, and this volume's area is not made for them: format it with --replicas"
                ));
            }
            _ => {}
        }
        policy.check_live().map_err(|e| e.to_string())?;
        let keeps_none = match policy.name() {
            PolicyName::Adaptive => Some("the policy adaptive makes no plans"),
            _ if policy.replicates() => {
                Some("this volume keeps replicas in discarded pages, not copies in an area")
            }
            _ => None,
        };
        if let (Some(why), Some(_)) = (keeps_none, &self.memory) {
            return Err(format!("a state file cannot be used: {why}; leave out --state"));
        }
        Ok(policy)
    }

    /// The learner for a volume that follows `plan`; `None` if the policy makes no plans.
    /// Its graph has at most `edges`.
    pub(crate) fn begin(
        self,
        policy: Policy,
        config: &Config,
        plan: Plan,
        edges: usize,
    ) -> Option<VolumeLearner> {
        if matches!(policy.name(), PolicyName::Vanilla | PolicyName::Adaptive) {
            return None;
        }
        let Self { every, mut memory, .. } = self;
        let every = every.map(|e| span(e.as_nanos()));
        let mut learner = Learner::new(policy, shape_of(config)).every(every).edges(edges);
        if let Some(memory) = &mut memory
            && let Err(why) = learner.recall(memory.take_known())
        {
            memory.set_aside(&format!("{why}, than {}", config.capacity.bytes()));
        }
        let (volume, began) = (config.capacity, Instant::now());
        let learned = Arc::new(Learned::default());
        Some(VolumeLearner { learner, plan, memory, volume, began, learned })
    }
}

/// What the area of a volume holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AreaHolds {
    /// No plan: a trail, or nothing.
    NoPlan,
    /// Copies by a plan.
    Plan,
    /// Maps of replicas in discarded pages.
    Replicas,
}

impl AreaHolds {
    /// The policy of a volume for which the user names none.
    const fn usual(self) -> PolicyName {
        match self {
            Self::NoPlan => PolicyName::Adaptive,
            Self::Plan => PolicyName::Borg,
            Self::Replicas => PolicyName::Fs2,
        }
    }
}

/// Nanoseconds as a duration of the learner.
fn span(ns: u128) -> seekless_block::Duration {
    seekless_block::Duration(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// A message to the learner's thread.
pub(crate) enum Message {
    /// The ring is filling.
    Drain,
    /// Make and execute a plan; reply with the sectors that it copies.
    Relearn(SyncSender<u64>),
}

/// The latest plan, for watchers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LatestPlan {
    /// Plans made so far.
    pub(crate) plans: u64,
    /// Extents and sectors of the latest plan.
    pub(crate) extents: u64,
    pub(crate) sectors: u64,
    /// Requests seen so far.
    pub(crate) observed: u64,
    /// Time spent on the latest plan.
    pub(crate) took: Duration,
}

/// The latest plan as the learner's thread stores it.
#[derive(Debug, Default)]
pub(crate) struct Learned(Mutex<LatestPlan>);

impl Learned {
    fn change(&self, change: impl FnOnce(&mut LatestPlan)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn made(&self, extents: usize, sectors: Sectors, took: Duration) {
        self.change(|latest| {
            let (plans, extents, sectors) = (latest.plans + 1, extents as u64, sectors.0);
            *latest = LatestPlan { plans, extents, sectors, took, ..*latest };
        });
    }

    pub(crate) fn latest(&self) -> LatestPlan {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The volume's end of the learner.
pub(crate) struct LearnerLink {
    messages: Sender<Message>,
    called: Arc<AtomicBool>,
}

impl LearnerLink {
    /// Calls the learner once, because the ring is filling.
    pub(crate) fn call(&self) {
        if !self.called.swap(true, Ordering::Relaxed) {
            // A learner that has ended empties no ring; dropped requests are counted.
            let _ = self.messages.send(Message::Drain);
        }
    }
}

/// The learner's thread.
pub(crate) struct LearnerThread {
    pub(crate) messages: Sender<Message>,
    pub(crate) learned: Arc<Learned>,
    pub(crate) streams: SharedStreams,
    pub(crate) thread: JoinHandle<()>,
}

pub(crate) struct Started {
    pub(crate) producer: Producer<Request>,
    pub(crate) link: LearnerLink,
    pub(crate) thread: LearnerThread,
}

/// Starts a learner that answers to `volume`. An observer chooses the source of the requests.
/// Requests past the volume's end are ignored.
pub(crate) fn start(
    pupil: VolumeLearner,
    observer: Option<Observer>,
    volume: Injector,
) -> Result<Started, ServeError> {
    let (producer, consumer) = RingBuffer::new(RING);
    let (messages, inbox) = channel();
    let called = Arc::new(AtomicBool::new(false));
    let link = LearnerLink { messages: messages.clone(), called: Arc::clone(&called) };
    let learned = Arc::clone(&pupil.learned);
    let streams = observer.as_ref().map(Observer::streams).unwrap_or_default();
    let work = LearnerWork { pupil, observer, consumer, volume, called };
    let thread = std::thread::Builder::new()
        .name("seekless-learn".into())
        .spawn(move || work.run(&inbox))
        .map_err(cannot("start the learner's thread"))?;
    let thread = LearnerThread { messages, learned, streams, thread };
    Ok(Started { producer, link, thread })
}

/// The learner of a volume, with its clock and its counters.
pub(crate) struct VolumeLearner {
    learner: Learner,
    /// The plan that the volume follows.
    plan: Plan,
    memory: Option<MemoryFile>,
    volume: Sectors,
    /// Start of the learner's time.
    began: Instant,
    learned: Arc<Learned>,
}

impl VolumeLearner {
    fn now(&self) -> SimTime {
        SimTime::ZERO + span(self.began.elapsed().as_nanos())
    }

    fn observe(&mut self, now: SimTime, request: &Request) {
        if request.extent.end().0 > self.volume.0 {
            return;
        }
        self.learner.observe(now, request);
        self.learned.change(|latest| latest.observed += 1);
    }

    /// Time until the next visit.
    fn patience(&self, now: SimTime) -> Duration {
        let due = self.learner.due_in(now);
        due.map_or(LOOK_EVERY, |due| LOOK_EVERY.min(Duration::from_nanos(due.0)))
    }

    /// Acts that are due now, or with `asked` a plan.
    fn acts(&mut self, now: SimTime, asked: bool, space: &LazySpace<'_>) -> Vec<Act> {
        let began = Instant::now();
        let state = VolumeState { plan: &self.plan, replicas: Some(space) };
        let acts =
            if asked { self.learner.plan(now, &state) } else { self.learner.tick(now, &state) };
        for act in &acts {
            match act {
                Act::Install(plan) => {
                    self.plan.clone_from(plan);
                    self.learned.made(plan.copies.len(), plan.sectors(), began.elapsed());
                }
                Act::Replicate(list) => {
                    let homes = list.iter().flat_map(|r| &r.homes);
                    let extents = homes.clone().count();
                    self.learned.made(extents, homes.map(|e| e.len).sum(), began.elapsed());
                }
                Act::Save(_) => {}
            }
        }
        acts
    }

    fn save(&mut self, bytes: &[u8]) {
        if let Some(memory) = &mut self.memory {
            memory.write(bytes);
        }
    }

    /// Saves the memory after the volume's end.
    fn end(mut self) {
        let now = self.now();
        if let Some(bytes) = self.learner.save(now) {
            self.save(&bytes);
        }
    }
}

struct LearnerWork {
    pupil: VolumeLearner,
    observer: Option<Observer>,
    consumer: Consumer<Request>,
    volume: Injector,
    called: Arc<AtomicBool>,
}

impl LearnerWork {
    /// Runs until the volume ends.
    fn run(mut self, inbox: &Receiver<Message>) {
        // Clients come first. If the host refuses, learning costs them a little.
        let _ = rustix::process::setpriority_process(None, NICE);
        self.drain();
        loop {
            let look = self.observer.as_ref().map_or(LOOK_EVERY, Observer::patience);
            let message = inbox.recv_timeout(look.min(self.pupil.patience(self.pupil.now())));
            self.drain();
            match message {
                Ok(Message::Relearn(reply)) => {
                    let sectors = self.act(true);
                    // The caller may have stopped waiting.
                    let _ = reply.send(sectors.0);
                }
                Ok(Message::Drain) | Err(RecvTimeoutError::Timeout) => {
                    self.act(false);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.consumer.is_abandoned() {
                break;
            }
        }
        self.pupil.end();
    }

    /// Takes the waiting requests.
    fn drain(&mut self) {
        self.called.store(false, Ordering::Relaxed);
        let (now, time) = (Instant::now(), self.pupil.now());
        while let Ok(request) = self.consumer.pop() {
            if self.observer.as_mut().is_none_or(|o| o.takes_own(now)) {
                self.pupil.observe(time, &request);
            }
        }
        if let Some(observer) = &mut self.observer {
            observer.look(now, &mut |request| self.pupil.observe(time, request));
        }
    }

    /// Passes the learner's acts to the volume; after the volume's end, they have no effect. Returns
    /// the sectors that the last act copies.
    fn act(&mut self, asked: bool) -> Sectors {
        let now = self.pupil.now();
        let room = || self.volume.room().ok().flatten();
        let mut sectors = Sectors(0);
        for act in self.pupil.acts(now, asked, &LazySpace::new(&room)) {
            match act {
                Act::Install(plan) => {
                    sectors = plan.sectors();
                    let _ = self.volume.send(Control::Install(plan));
                }
                Act::Replicate(list) => {
                    sectors = list.iter().flat_map(|r| &r.homes).map(|e| e.len).sum();
                    let _ = self.volume.send(Control::Replicate(list, false));
                }
                Act::Save(bytes) => self.pupil.save(&bytes),
            }
        }
        sectors
    }
}
