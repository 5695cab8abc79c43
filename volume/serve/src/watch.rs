//! The watcher's thread. Four times per second it empties the tap, reads the volume's counters,
//! feeds the shadow of the vanilla system, and updates the board. Readers of the board do not reach
//! the volume.

mod narrate;
mod shown;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use seekless_block::{Bytes, Op, SECTOR_BYTES, SimTime};
use seekless_disk::VolumeSpec;
use seekless_host::cannot;

use crate::error::ServeError;
use crate::handle::Injector;
use crate::learner::Learned;
use crate::observe::{SharedStreams, Streams};
use crate::policy_guard::PolicyGuard;
use crate::server::{Control, ServerStats};
use crate::shadow::{Compared, Shadow};
use crate::status::{
    AdaptiveStatus, BudgetStatus, BusyStatus, CopyStatus, Event, Events, GuardStatus, History,
    LearningStatus, OperationStatus, PlanStatus, Point, RequestStatus, Sample, Status,
    VerdictStatus, VolumeStatus,
};
use crate::tap::TapEnd;
use crate::verdict::Judge;
use shown::{books, head, point};

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Intervals kept: two minutes.
const SAMPLES: usize = 480;
/// I/Os kept per interval, and number of intervals: a minute.
const POINTS: usize = 25;
const POINT_INTERVALS: usize = 240;
const EVENTS: usize = 256;
/// Intervals of a rate: ten seconds, because a move reads for a while before it writes.
const RATE: usize = 40;

/// Facts that the watcher cannot see.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The backing file or device.
    pub backing: String,
    /// The emulated or modelled disk; empty without one.
    pub disk: String,
    /// The modelled disk stands in for an unknown one: only the guard uses its times.
    pub stand_in: bool,
    /// Speed of the emulated disk relative to the real one.
    pub speed: f64,
    /// The provider's prices, if the modelled device has some.
    pub provider: Option<VolumeSpec>,
    /// Most bytes per second for moving data; zero is no limit.
    pub background_rate: Bytes,
}

/// The latest status; cheap to clone.
#[derive(Clone, Default)]
pub struct Board(Arc<Mutex<BoardContent>>);

#[derive(Default)]
struct BoardContent {
    status: Arc<Status>,
    samples: VecDeque<Sample>,
    points: VecDeque<(Vec<Point>, u64)>,
    events: VecDeque<Event>,
    numbered: u64,
    axis: (u64, u64, &'static str),
}

impl Board {
    /// The status of the volume.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.lock().status)
    }

    /// The last minutes.
    pub fn history(&self) -> History {
        let shown = self.lock();
        let kept: u64 = shown.points.iter().map(|p| p.0.len() as u64).sum();
        let seen: u64 = shown.points.iter().map(|p| p.1).sum();
        let (area_from_bytes, end_bytes, position) = shown.axis;
        History {
            schema: "seekless.history/1".to_owned(),
            end_bytes,
            area_from_bytes,
            position: position.to_owned(),
            one_in: seen.div_ceil(kept.max(1)).max(1),
            samples: shown.samples.iter().copied().collect(),
            points: shown.points.iter().flat_map(|p| p.0.iter().copied()).collect(),
        }
    }

    /// Recent decisions.
    pub fn events(&self) -> Events {
        let events = self.lock().events.iter().cloned().collect();
        Events { schema: "seekless.events/1".to_owned(), events }
    }

    /// Held for a copy of plain data: a panic cannot leave it half changed.
    fn lock(&self) -> MutexGuard<'_, BoardContent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, time_unix_ms: u64, text: String) {
        let mut shown = self.lock();
        shown.numbered += 1;
        let number = shown.numbered;
        if shown.events.len() == EVENTS {
            shown.events.pop_front();
        }
        shown.events.push_back(Event { number, time_unix_ms, text });
    }

    /// A board with this status, for tests.
    #[cfg(test)]
    pub(crate) fn of(status: Status) -> Self {
        Self(Arc::new(Mutex::new(BoardContent {
            status: Arc::new(status),
            ..BoardContent::default()
        })))
    }
}

/// The watcher. Dropping it ends its thread.
pub(crate) struct Watcher {
    board: Board,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(crate) fn board(&self) -> Board {
        self.board.clone()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A watcher that panicked returns nothing.
            let _ = thread.join();
        }
    }
}

/// Inputs of a watcher.
pub(crate) struct Sources {
    pub(crate) volume: Injector,
    pub(crate) tap: TapEnd,
    pub(crate) learned: Option<Arc<Learned>>,
    pub(crate) streams: Option<SharedStreams>,
    pub(crate) size: Bytes,
    pub(crate) area: Bytes,
    pub(crate) read_only: bool,
    pub(crate) emulated: bool,
    /// The policy is adaptive.
    pub(crate) adapts: bool,
}

pub(crate) fn start(
    sources: Sources,
    about: About,
    shadow: Option<Box<dyn Shadow>>,
) -> Result<Watcher, ServeError> {
    let board = Board::default();
    let (stop, stopped) = channel();
    let mut work = WatcherWork::new(sources, about, shadow, board.clone());
    work.look();
    let thread = std::thread::Builder::new()
        .name("seekless-watch".into())
        .spawn(move || work.run(&stopped))
        .map_err(cannot("start the watcher's thread"))?;
    Ok(Watcher { board, stop: Some(stop), thread: Some(thread) })
}

struct WatcherWork {
    from: Sources,
    about: About,
    shadow: Option<Box<dyn Shadow>>,
    board: Board,
    began: Instant,
    began_unix: u64,
    looked: Instant,
    before: Option<(ServerStats, Option<f64>, Option<f64>)>,
    plans: u64,
    streams: Streams,
    /// Current or last move: done and total bytes.
    progress: (u64, u64),
    said: OnceMessages,
    /// Of the adaptive policy, if there is a model of the vanilla system.
    guard: Option<PolicyGuard>,
    judge: Judge,
    verdict: Option<VerdictStatus>,
}

/// The times of an emulated disk, and of the vanilla system on one.
fn of(busy: &BusyStatus) -> Option<Compared> {
    let (vanilla_s, actual_s) = (busy.vanilla?.total_s(), busy.now.total_s());
    Some(Compared { vanilla_s, actual_s, ..Compared::default() })
}

/// Messages that appear only once.
#[derive(Default)]
struct OnceMessages {
    missed: bool,
    unwatched: bool,
    vanilla: bool,
}

impl WatcherWork {
    fn new(from: Sources, about: About, shadow: Option<Box<dyn Shadow>>, board: Board) -> Self {
        let position = if from.emulated { "head" } else { "address" };
        board.lock().axis = (from.size.0, from.size.0 + from.area.0, position);
        let now = Instant::now();
        let guard = (from.adapts && shadow.is_some()).then(PolicyGuard::default);
        Self {
            from,
            about,
            shadow,
            board,
            began: now,
            began_unix: unix_ms(),
            looked: now,
            before: None,
            plans: 0,
            streams: Streams::default(),
            progress: (0, 0),
            said: OnceMessages::default(),
            guard,
            judge: Judge::default(),
            verdict: None,
        }
    }

    /// Runs until told to stop, or until the volume stops.
    fn run(mut self, stopped: &Receiver<()>) {
        if self.from.adapts && self.about.stand_in && self.shadow.is_none() {
            let _ = self.from.volume.send(Control::Bypass(true));
            let why = "The policy stands aside: its guard has no model of a disk of this size.";
            self.board.tell(unix_ms(), why.to_owned());
        }
        while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if !self.look() {
                return;
            }
        }
    }

    /// False if the volume has stopped.
    fn look(&mut self) -> bool {
        let unix = unix_ms();
        let (points, ios) = self.drain(unix);
        let Ok(stats) = self.from.volume.stats() else { return false };
        if let Some(shadow) = &mut self.shadow {
            shadow.mode(stats.area.mode);
        }
        let took = self.looked.elapsed();
        self.looked = Instant::now();
        let busy = self.busy(&stats);
        self.look_after(busy.as_ref(), &stats, unix);
        let busy = busy.filter(|_| !self.about.stand_in);
        self.narrate(&stats, busy.as_ref(), unix);
        let sample = self.sample(&stats, busy.as_ref(), took, unix);
        let mut status = self.status(&stats, busy, unix);
        let mut shown = self.board.lock();
        if shown.samples.len() == SAMPLES {
            shown.samples.pop_front();
        }
        shown.samples.push_back(sample);
        if shown.points.len() == POINT_INTERVALS {
            shown.points.pop_front();
        }
        shown.points.push_back((points, ios));
        let recent = shown.samples.iter().rev().take(RATE);
        let (bytes, seconds) = recent.fold((0, 0.0), |(b, s), x| (b + x.moved_bytes, s + x.took_s));
        // Each byte moved is read once and written once. A trail is written from RAM.
        let passes = if stats.adaptive.is_some() { 1.0 } else { 2.0 };
        status.budget.used_bytes_per_s =
            if seconds > 0.0 { passes * bytes as f64 / seconds } else { 0.0 };
        shown.status = Arc::new(status);
        true
    }

    /// Judges the last hour, and lets the guard decide whether the adaptive policy stands aside.
    fn look_after(&mut self, busy: Option<&BusyStatus>, stats: &ServerStats, unix: u64) {
        if let Some(shadow) = &self.shadow
            && let Err(why) = shadow.vanilla()
        {
            // The last one would stay for ever.
            self.verdict = None;
            if self.guard.as_mut().is_some_and(PolicyGuard::lose) {
                let _ = self.from.volume.send(Control::Bypass(true));
                self.board.tell(unix, format!("The policy stands aside without a guard: {why}"));
            }
            return;
        }
        let missed = self.from.tap.missed();
        let compared = self.shadow.as_ref().and_then(|s| s.compared());
        let Some(compared) = compared.or_else(|| of(busy?)) else { return };
        // A trail on another device is written from RAM: its moving never costs time of this disk.
        let elsewhere = self.shadow.as_ref().is_some_and(|s| s.area_elsewhere());
        let moved = if elsewhere && self.from.adapts { 0 } else { stats.engine.moved_bytes };
        // A clock that is set changes no account.
        let now = self.began_unix + self.began.elapsed().as_millis() as u64;
        self.verdict = Some(self.judge.look(now, unix, compared, missed, moved));
        let Some(guard) = &mut self.guard else { return };
        let counted = self.shadow.as_ref().and_then(|s| s.operations());
        let Some(bypass) = guard.look(now, compared, counted, missed) else { return };
        // A volume that has ended needs no command.
        let _ = self.from.volume.send(Control::Bypass(bypass));
        self.board.tell(unix, guard.why().to_owned());
    }

    /// Empties the tap through the shadow. Returns evenly chosen I/Os for the graph, and their
    /// total number.
    fn drain(&mut self, unix: u64) -> (Vec<Point>, u64) {
        // Later arrivals wait for the next time: a busy volume must not hold the watcher.
        let came = self.from.tap.requests.slots();
        if let Some(shadow) = self.shadow.as_mut().filter(|_| came == 0) {
            shadow.quiet();
        }
        for _ in 0..came {
            let Ok(request) = self.from.tap.requests.pop() else { break };
            if let Some(shadow) = &mut self.shadow {
                shadow.request(&request);
            }
        }
        let count = self.from.tap.ios.slots();
        let step = count.div_ceil(POINTS).max(1);
        let mut points = Vec::with_capacity(POINTS);
        let home = self.from.size.0;
        let mut last = SimTime::ZERO;
        for i in 0..count {
            let Ok(io) = self.from.tap.ios.pop() else { break };
            if let Some(shadow) = &mut self.shadow {
                shadow.io(&io);
            }
            last = last.max(io.at);
            if i % step == 0 && io.op != Op::Flush {
                points.push((io.at, point(&io, home)));
            }
        }
        if let Some(shadow) = &mut self.shadow {
            shadow.look();
        }
        // The volume's clock counts from its start, and may be fast: the latest I/O was just now.
        let speed = if self.about.speed > 0.0 { self.about.speed } else { 1.0 };
        let place = |(at, p): (SimTime, Point)| {
            let ago = last.since(at).as_secs_f64() / speed * 1e3;
            Point { time_unix_ms: unix.saturating_sub(ago as u64), ..p }
        };
        (points.into_iter().map(place).collect(), count as u64)
    }

    fn busy(&self, stats: &ServerStats) -> Option<BusyStatus> {
        let (basis, (now, moving_s)) = match (&stats.disk, self.shadow.as_ref()) {
            (Some(disk), _) => ("emulated", books(disk)),
            (None, Some(shadow)) => ("modelled", shadow.now()?),
            (None, None) => return None,
        };
        let elapsed = stats.disk.as_ref().map(|d| d.elapsed.as_secs_f64());
        let vanilla = match &self.shadow {
            Some(shadow) => shadow.vanilla().map(|v| (v, shadow.note())),
            None => Err("there is no model of the vanilla system".to_owned()),
        };
        let (vanilla, note) = match vanilla {
            Ok((busy, note)) => (Some(busy), note),
            Err(why) => (None, why),
        };
        Some(BusyStatus {
            disk: self.about.disk.clone(),
            basis: basis.to_owned(),
            elapsed_s: elapsed.unwrap_or_else(|| self.began.elapsed().as_secs_f64()),
            now,
            total_j: stats.disk.as_ref().map(|d| d.energy_total().as_joules_f64()),
            moving_s,
            head: stats.disk.as_ref().map(head),
            vanilla,
            note,
        })
    }

    fn sample(
        &mut self,
        stats: &ServerStats,
        busy: Option<&BusyStatus>,
        took: Duration,
        unix: u64,
    ) -> Sample {
        let now_s = busy.map(|b| b.now.total_s());
        let vanilla_s = busy.and_then(|b| b.vanilla).map(|v| v.total_s());
        let before = self.before.replace((stats.clone(), now_s, vanilla_s));
        let (old, old_now, old_vanilla) =
            before.unwrap_or_else(|| (stats.clone(), now_s, vanilla_s));
        let (e, o) = (&stats.engine, &old.engine);
        let less = |new: Option<f64>, old: Option<f64>| Some((new? - old?).max(0.0));
        Sample {
            time_unix_ms: unix,
            took_s: took.as_secs_f64(),
            requests: e.requests.saturating_sub(o.requests),
            ram_reads: e.cache_hits.saturating_sub(o.cache_hits),
            copy_reads: e.copy_reads.saturating_sub(o.copy_reads),
            home_reads: e.home_reads.saturating_sub(o.home_reads),
            moved_bytes: e.moved_bytes.saturating_sub(o.moved_bytes),
            busy_s: less(now_s, old_now),
            vanilla_busy_s: less(vanilla_s, old_vanilla),
        }
    }

    fn status(&mut self, stats: &ServerStats, busy: Option<BusyStatus>, unix: u64) -> Status {
        let e = &stats.engine;
        let learned = self.from.learned.as_ref().map(|l| l.latest()).unwrap_or_default();
        let limit = self.about.background_rate.0;
        Status {
            schema: "seekless.status/1".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time_unix_ms: unix,
            uptime_s: self.began.elapsed().as_secs_f64(),
            volume: VolumeStatus {
                backing: self.about.backing.clone(),
                size_bytes: self.from.size.0,
                read_only: self.from.read_only,
                nbd_clients: stats.clients as u64,
                trouble: stats.area.trouble.map(|t| t.to_string()),
            },
            requests: RequestStatus {
                total: e.requests,
                ram_reads: e.cache_hits,
                copy_reads: e.copy_reads,
                home_reads: e.home_reads,
            },
            copies: CopyStatus {
                area_bytes: self.from.area.0,
                usable_bytes: stats.copied_sectors * SECTOR_BYTES,
                moved_bytes: e.moved_bytes,
                overtaken_bytes: e.overtaken * SECTOR_BYTES,
            },
            plan: PlanStatus {
                made: learned.plans,
                refused: e.plans_refused,
                extents: learned.extents,
                plan_bytes: learned.sectors * SECTOR_BYTES,
                moving: stats.progress.is_some(),
                done_bytes: self.progress.0,
                total_bytes: self.progress.1,
            },
            budget: BudgetStatus {
                limit_bytes_per_s: (limit > 0).then_some(limit),
                used_bytes_per_s: 0.0,
            },
            learning: LearningStatus {
                learns: self.from.learned.is_some(),
                streams: if self.streams.observed.is_some() { "observed" } else { "one" }
                    .to_owned(),
                streams_note: self.streams.to_string(),
                lost_events: self.streams.lost_events,
                missed_requests: stats.unobserved,
                unwatched: self.from.tap.missed(),
            },
            scrub: stats.area.scrub,
            elsewhere: stats.elsewhere,
            memory: stats.memory,
            operations: OperationStatus::of(self.shadow.as_deref(), self.about.provider.as_ref()),
            adaptive: AdaptiveStatus::of(stats, self.guard_status()),
            busy,
            verdict: self.verdict.clone(),
        }
    }

    /// The guard, if it can compare.
    fn guard_status(&self) -> Option<(GuardStatus, String)> {
        let status = self.guard.as_ref()?.status()?;
        Some((status, status.note(&self.about.disk)))
    }
}

pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
