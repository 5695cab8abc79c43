//! Learning beside the volume's thread: requests come through a ring, plans go back. It refuses to know
//! how a plan is made; that is a [`Learner`]'s.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rtrb::{Consumer, Producer, RingBuffer};
use seekless_block::{Extent, Lba, Request, Sectors};
use seekless_engine::{Config, Replicated, RoomFrom};
use seekless_host::cannot;
use seekless_learn::{Pages, Plan, Replica};

use crate::backend::workers::ring;
use crate::error::ServeError;
use crate::observe::{Observer, SharedStreams};
use crate::server::Control;

/// Requests that fit between two visits of the learner; more are dropped and counted.
const RING: usize = 1 << 16;
/// The learner looks into its ring this often when nobody calls it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How much more willing than the volume's thread to wait for a processor.
const NICE: i32 = 10;

/// Makes plans from what it sees. It runs in a thread of its own.
pub trait Learner: Send {
    /// Called once, before anything else: the volume that will be served.
    ///
    /// # Errors
    /// Why this learner cannot learn for such a volume.
    fn begin(&mut self, config: &Config, plan: Plan) -> Result<(), String>;
    /// A request came.
    fn observe(&mut self, request: &Request);
    /// The plan that what was seen calls for: someone wants it installed now.
    fn plan(&mut self) -> Plan;
    /// The same where the volume has replicas in place of copies in an area.
    fn replicate(&mut self, _room: &Room) -> Vec<Replica> {
        Vec::new()
    }
    /// Whether enough was seen for a plan before its time has come.
    fn is_due(&self) -> bool {
        false
    }
    /// A plan was handed over, or the volume has ended: what is to outlive the server is put down.
    fn keep(&mut self) {}
    /// What the volume should do now, asked about once a second. No request has come for as long as `quiet`.
    fn wishes(&mut self, _quiet: Duration) -> Vec<Wish> {
        Vec::new()
    }
}

/// Where replicas may stand (FS2), and what has one already.
#[derive(Clone, Debug)]
pub struct Room {
    /// Free pages without replicas, in order; none where nothing may be replicated just now.
    pub free: Vec<Extent>,
    /// First sectors of the pages that have a replica, or are about to, in order.
    pub placed: Vec<Lba>,
    /// How replication stands.
    pub state: Replicated,
    /// The volume's pages.
    pub pages: Pages,
}

/// A part of it, and where the next begins.
pub(crate) type RoomReply = Option<(Room, Option<RoomFrom>)>;

impl Room {
    /// Whether the page that begins at this sector has a replica.
    #[must_use]
    pub fn is_placed(&self, page: Lba) -> bool {
        self.placed.binary_search(&page).is_ok()
    }

    /// Of its parts, which the volume's thread gives one by one: it has no time for all at once, nor to sort.
    pub(crate) fn of_parts<E>(
        mut part: impl FnMut(RoomFrom) -> Result<RoomReply, E>,
    ) -> Result<Option<Self>, E> {
        let Some((mut all, mut next)) = part(RoomFrom::default())? else { return Ok(None) };
        while let Some(from) = next {
            let Some((more, then)) = part(from)? else { break };
            all.free.extend(more.free);
            all.placed.extend(more.placed);
            (all.state, next) = (more.state, then);
        }
        all.placed.sort_unstable();
        Ok(Some(all))
    }
}

/// What a learner wants of the volume.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// Move to this plan.
    Install(Plan),
    /// Serve from home although copies stand, or no longer so.
    Bypass(bool),
}

/// What a learner is told.
pub(crate) enum Message {
    /// The ring fills up.
    Drain,
    /// Make a plan and install it; say how many sectors it copies.
    Relearn(SyncSender<u64>),
}

/// The latest plan, as a watcher may read it at any time.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    plans: AtomicU64,
    extents: AtomicU64,
    sectors: AtomicU64,
    observed: AtomicU64,
    took_ns: AtomicU64,
}

/// A reading of [`Learned`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LatestPlan {
    /// Plans made so far.
    pub(crate) plans: u64,
    /// Of the latest.
    pub(crate) extents: u64,
    pub(crate) sectors: u64,
    /// Requests seen by then.
    pub(crate) observed: u64,
    /// How long it took to make.
    pub(crate) took: Duration,
}

impl Learned {
    fn made(&self, extents: usize, sectors: Sectors, took: Duration) {
        self.extents.store(extents as u64, Ordering::Relaxed);
        self.sectors.store(sectors.0, Ordering::Relaxed);
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.took_ns.store(ns, Ordering::Relaxed);
        // Last, and after the others: who sees the count sees what it counts.
        self.plans.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn latest(&self) -> LatestPlan {
        LatestPlan {
            plans: self.plans.load(Ordering::Acquire),
            extents: self.extents.load(Ordering::Relaxed),
            sectors: self.sectors.load(Ordering::Relaxed),
            observed: self.observed.load(Ordering::Relaxed),
            took: Duration::from_nanos(self.took_ns.load(Ordering::Relaxed)),
        }
    }
}

/// The volume's end of the learner.
pub(crate) struct LearnerLink {
    messages: Sender<Message>,
    called: Arc<AtomicBool>,
}

impl LearnerLink {
    /// The ring fills up: calls the learner, once.
    pub(crate) fn call(&self) {
        if !self.called.swap(true, Ordering::Relaxed) {
            // A learner that has ended empties no ring; what does not fit is counted.
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

/// What starting a learner gives.
pub(crate) struct Started {
    pub(crate) producer: Producer<Request>,
    pub(crate) link: LearnerLink,
    pub(crate) thread: LearnerThread,
}

/// Starts a learner that answers through `control` and `bell`; makes a plan by itself every `every`. Where there
/// is an observer, requests come from where it says. Those past the volume's end are none.
pub(crate) fn start(
    learner: Box<dyn Learner>,
    every: Option<Duration>,
    observer: Option<Observer>,
    config: &Config,
    control: Sender<Control>,
    bell: Arc<OwnedFd>,
) -> Result<Started, ServeError> {
    let (producer, consumer) = RingBuffer::new(RING);
    let (messages, inbox) = channel();
    let called = Arc::new(AtomicBool::new(false));
    let link = LearnerLink { messages: messages.clone(), called: Arc::clone(&called) };
    let learned = Arc::new(Learned::default());
    let counts = Arc::clone(&learned);
    let streams = observer.as_ref().map(Observer::streams).unwrap_or_default();
    let pupil = Pupil { learner, learned, volume: config.capacity };
    let replicates = config.replicas.0 > 0;
    let work = Work { pupil, observer, consumer, control, bell, called, every, replicates };
    let thread = std::thread::Builder::new()
        .name("seekless-learn".into())
        .spawn(move || work.run(&inbox))
        .map_err(cannot("start the learner's thread"))?;
    let thread = LearnerThread { messages, learned: counts, streams, thread };
    Ok(Started { producer, link, thread })
}

/// The learner, and what is counted of it.
struct Pupil {
    learner: Box<dyn Learner>,
    learned: Arc<Learned>,
    volume: Sectors,
}

impl Pupil {
    fn observe(&mut self, request: &Request) {
        if request.extent.end().0 <= self.volume.0 {
            self.learner.observe(request);
            self.learned.observed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Work {
    pupil: Pupil,
    observer: Option<Observer>,
    consumer: Consumer<Request>,
    control: Sender<Control>,
    bell: Arc<OwnedFd>,
    called: Arc<AtomicBool>,
    every: Option<Duration>,
    /// The volume has replicas in place of copies in an area.
    replicates: bool,
}

impl Work {
    /// Until the volume has ended.
    fn run(mut self, inbox: &Receiver<Message>) {
        // Clients come first. Where the host refuses, learning merely costs them a little.
        let _ = rustix::process::setpriority_process(None, NICE);
        let (mut planned, mut asked) = (Instant::now(), Instant::now());
        self.drain();
        loop {
            let look = self.observer.as_ref().map_or(LOOK_EVERY, Observer::patience);
            let wait = self.every.map_or(look, |e| look.min(e.saturating_sub(planned.elapsed())));
            let message = inbox.recv_timeout(wait);
            if self.drain() {
                asked = Instant::now();
            }
            self.grant(asked.elapsed());
            match message {
                Ok(Message::Drain) => {}
                Ok(Message::Relearn(reply)) => {
                    let sectors = self.plan();
                    // Whoever asked may have stopped waiting.
                    let _ = reply.send(sectors);
                    planned = Instant::now();
                }
                Err(RecvTimeoutError::Timeout) => {
                    let due = self.pupil.learner.is_due();
                    if self.every.is_some_and(|e| planned.elapsed() >= e || due) {
                        self.plan();
                        planned = Instant::now();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.consumer.is_abandoned() {
                break;
            }
        }
        self.pupil.learner.keep();
    }

    /// Whether any request had come.
    fn drain(&mut self) -> bool {
        self.called.store(false, Ordering::Relaxed);
        let mut any = false;
        let now = Instant::now();
        while let Ok(request) = self.consumer.pop() {
            any = true;
            if self.observer.as_mut().is_none_or(|o| o.takes_own(now)) {
                self.pupil.observe(&request);
            }
        }
        if let Some(observer) = &mut self.observer {
            observer.look(now, &mut |request| self.pupil.observe(request));
        }
        any
    }

    /// Passes on what the learner wants. Where the volume has ended, nobody needs it.
    fn grant(&mut self, quiet: Duration) {
        let began = Instant::now();
        for wish in self.pupil.learner.wishes(quiet) {
            let control = match wish {
                Wish::Install(plan) => {
                    let (extents, sectors) = (plan.copies.len(), plan.sectors());
                    self.pupil.learned.made(extents, sectors, began.elapsed());
                    Control::Install(plan)
                }
                Wish::Bypass(on) => Control::Bypass(on),
            };
            self.tell(control);
        }
    }

    fn plan(&mut self) -> u64 {
        let room = self.replicates.then(|| self.room()).flatten();
        let began = Instant::now();
        let (extents, sectors, control) = if let Some(room) = room {
            let list = self.pupil.learner.replicate(&room);
            let homes = || list.iter().flat_map(|r| &r.homes);
            let sectors = homes().map(|e| e.len.0).sum();
            (homes().count(), Sectors(sectors), Control::Replicate(list, false))
        } else {
            let plan = self.pupil.learner.plan();
            (plan.copies.len(), plan.sectors(), Control::Install(plan))
        };
        self.pupil.learned.made(extents, sectors, began.elapsed());
        self.tell(control);
        self.pupil.learner.keep();
        sectors.0
    }

    /// Where replicas may stand now.
    fn room(&self) -> Option<Room> {
        let part = |from| {
            let (reply, answer) = sync_channel(1);
            self.tell(Control::Room(from, reply));
            answer.recv()
        };
        Room::of_parts(part).ok().flatten()
    }

    /// Where the volume has ended, nobody needs it.
    fn tell(&self, control: Control) {
        if self.control.send(control).is_ok() {
            ring(&self.bell);
        }
    }
}
