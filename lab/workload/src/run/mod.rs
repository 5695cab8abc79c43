//! Runs a workload: each thread repeats its flow's steps until the time is over. `worker` executes
//! the steps; this file starts and stops the threads and adds up their counts.

mod background;
mod worker;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::error::WorkloadError;
use crate::file_set::FileSet;
use crate::gate::Gate;
use crate::personality::{Personality, StepAction};
use crate::run_counts::{CpuUse, Outcome, Tally, cpu_ticks, cpu_use};
use worker::Worker;

/// The arrival of operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Closed load: each operation starts when the one before has ended.
    Closed,
    /// Open load: operations arrive at fixed times, also if earlier ones have not ended. The turns
    /// of the flow with the most threads are due at equal intervals, and their durations start at
    /// the due time. The flow's threads limit the number of turns that can be late at once.
    Open {
        /// Operations per second of that flow.
        ops_per_s: f64,
    },
}

/// Options of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunOptions {
    /// Time before counting starts.
    pub warm_up: Duration,
    /// Time with counting.
    pub measured: Duration,
    /// Closed or open load.
    pub load: Load,
    /// Seed for random offsets and lengths.
    pub seed: u64,
}

/// The data common to all threads. Each counter has its own cache line.
pub(crate) struct Shared<'a> {
    pub(crate) personality: &'a Personality,
    pub(crate) files: &'a FileSet,
    pub(crate) gates: Vec<Gate>,
    pub(crate) names: Vec<String>,
    pub(crate) measuring: AtomicBool,
    pub(crate) stop: AtomicBool,
    pub(crate) due: Schedule,
    pub(crate) pace: Schedule,
    live: Vec<LiveCounter>,
    failed: Mutex<Option<WorkloadError>>,
}

#[derive(Default)]
#[repr(align(128))]
pub(crate) struct LiveCounter(pub(crate) AtomicU64);

/// Tickets and their due times: number `n` is due `n / rate` seconds after the start.
pub(crate) struct Schedule {
    rate: f64,
    given: LiveCounter,
}

impl Schedule {
    const fn new(rate: f64) -> Self {
        Self { rate, given: LiveCounter(AtomicU64::new(0)) }
    }

    /// Takes `n` tickets. Returns the due time of the last one after the start, or `None` without a
    /// rate.
    pub(crate) fn take(&self, n: u64) -> Option<Duration> {
        if self.rate <= 0.0 {
            return None;
        }
        let before = self.given.0.fetch_add(n, Ordering::Relaxed);
        Duration::try_from_secs_f64((before + n) as f64 / self.rate).ok()
    }
}

impl Shared<'_> {
    /// Records a failure. The first failure ends the run.
    pub(crate) fn fail(&self, error: WorkloadError) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert(error);
        drop(failed);
        self.end();
    }

    fn end(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.gates.iter().for_each(Gate::wake);
    }

    /// Waits until a time, in short slices, so that a stop is noticed. Returns false if the run was
    /// stopped.
    pub(crate) fn wait_until(&self, at: Instant) -> bool {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}

/// Interval between observations of the run.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Stack size of a thread; its buffers are on the heap.
const STACK: usize = 256 << 10;

/// Runs the personality's flows on files that were created for it, and counts. `watch` is called
/// several times a second with the operations so far and the time since the start of the
/// measurement (`None` during the warm-up). Setting `stop` ends the run early.
///
/// # Errors
/// The first operation that failed, or [`WorkloadError::Stopped`].
pub fn run(
    personality: &Personality,
    files: &FileSet,
    options: &RunOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Option<Duration>, u64),
) -> Result<Outcome, WorkloadError> {
    let most = personality.flows.iter().map(|f| f.threads).max().unwrap_or(0);
    let busiest = personality.flows.iter().position(|f| f.threads == most).unwrap_or(0);
    let per_turn = personality.operations_per_turn();
    let turns_per_s = match options.load {
        Load::Closed => 0.0,
        Load::Open { ops_per_s } => ops_per_s / per_turn[busiest].max(1) as f64,
    };
    let names = names(personality);
    let threads = personality.threads() as usize;
    let shared = Shared {
        personality,
        files,
        gates: personality.gates.iter().map(|g| Gate::new(g.1)).collect(),
        names,
        measuring: AtomicBool::new(false),
        stop: AtomicBool::new(false),
        due: Schedule::new(turns_per_s),
        pace: Schedule::new(personality.rate.unwrap_or(0.0)),
        live: (0..threads).map(|_| LiveCounter::default()).collect(),
        failed: Mutex::new(None),
    };
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let handles = spawn_workers(scope, &shared, &barrier, (busiest, turns_per_s), options.seed);
        barrier.wait();
        let span = observe(&shared, options, stop, watch);
        shared.end();
        let mut outcome = RunTotals::new(&shared);
        for handle in handles {
            match handle.join() {
                Ok(counts) => outcome.add(&counts),
                Err(_) => shared.fail(WorkloadError::Panicked),
            }
        }
        let failed = shared.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (failed, span) {
            (Some(error), _) => Err(error),
            (None, None) => Err(WorkloadError::Stopped),
            (None, Some(span)) => Ok(outcome.finish(span)),
        }
    })
}

/// Starts the threads of all flows. Turns of flow `busiest` begin at their due times if
/// `turns_per_s` is above 0.
fn spawn_workers<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared<'a>,
    barrier: &'scope Barrier,
    (busiest, turns_per_s): (usize, f64),
    seed: u64,
) -> Vec<ScopedJoinHandle<'scope, FlowCounts>> {
    let threads = shared.live.len();
    let mut handles = Vec::with_capacity(threads);
    let flows = shared.personality.flows.iter().enumerate();
    let each = flows.flat_map(|(i, f)| (0..f.threads).map(move |_| i)).enumerate();
    for (number, flow) in each {
        let paced = flow == busiest && turns_per_s > 0.0;
        let work = move || {
            let mut worker = Worker::new(shared, flow, number, seed);
            barrier.wait();
            let result = worker.work(&shared.live[number].0, paced);
            if let Err(error) = result {
                shared.fail(error);
            }
            worker.counts()
        };
        let name = format!("flow-{number}");
        let spawned =
            std::thread::Builder::new().name(name).stack_size(STACK).spawn_scoped(scope, work);
        match spawned {
            Ok(handle) => handles.push(handle),
            Err(source) => {
                shared.fail(WorkloadError::Io {
                    what: "start a thread of",
                    path: "the flow".into(),
                    source,
                });
                // Without these, threads at the barrier would wait forever.
                (number..threads).for_each(|_| drop(scope.spawn(|| barrier.wait())));
                break;
            }
        }
    }
    handles
}

/// Observations from outside the threads.
struct Span {
    seconds: f64,
    each_second: Vec<u64>,
    cpu: CpuUse,
}

/// Waits for the end of the run. Returns `None` if it ended early.
fn observe(
    shared: &Shared<'_>,
    options: &RunOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Option<Duration>, u64),
) -> Option<Span> {
    let live = || shared.live.iter().map(|l| l.0.load(Ordering::Relaxed)).sum::<u64>();
    let warm = Instant::now() + options.warm_up;
    let over = || stop.load(Ordering::Relaxed) || shared.stop.load(Ordering::Relaxed);
    while Instant::now() < warm {
        if over() {
            return None;
        }
        std::thread::sleep(LOOK_EVERY.min(warm.saturating_duration_since(Instant::now())));
        watch(None, live());
    }
    // What the watcher does takes time in which nothing is counted.
    watch(Some(Duration::ZERO), 0);
    let before = read_cpu();
    let (begin, counted) = (Instant::now(), live());
    shared.measuring.store(true, Ordering::SeqCst);
    let (mut each_second, mut last) = (Vec::new(), 0);
    loop {
        let gone = begin.elapsed();
        let ops = live() - counted;
        if gone.as_secs() as usize > each_second.len() {
            each_second.push(ops - last);
            last = ops;
        }
        if gone >= options.measured {
            break;
        }
        if over() {
            return None;
        }
        std::thread::sleep(LOOK_EVERY.min(options.measured.saturating_sub(gone)));
        watch(Some(begin.elapsed()), live() - counted);
    }
    shared.measuring.store(false, Ordering::SeqCst);
    let seconds = begin.elapsed();
    watch(Some(seconds), live() - counted);
    let cpu = match (before, read_cpu()) {
        (Some(a), Some(b)) => cpu_use(a, b),
        _ => CpuUse::default(),
    };
    Some(Span { seconds: seconds.as_secs_f64(), each_second, cpu })
}

fn read_cpu() -> Option<[u64; 5]> {
    cpu_ticks(&std::fs::read_to_string(Path::new("/proc/stat")).ok()?)
}

/// The names of all steps, each once, in order.
fn names(personality: &Personality) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for step in personality.flows.iter().flat_map(|f| &f.steps) {
        if step.act.counts() && !names.contains(&step.name) {
            names.push(step.name.clone());
        }
    }
    names
}

#[derive(Default)]
pub(crate) struct FlowCounts {
    pub(crate) flow: usize,
    pub(crate) steps: Vec<Tally>,
    pub(crate) turns: Tally,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

struct RunTotals<'a> {
    shared: &'a Shared<'a>,
    all: FlowCounts,
    turns: Vec<Tally>,
}

impl<'a> RunTotals<'a> {
    fn new(shared: &'a Shared<'a>) -> Self {
        let all = FlowCounts {
            steps: vec![Tally::default(); shared.names.len()],
            ..FlowCounts::default()
        };
        Self { shared, all, turns: vec![Tally::default(); shared.personality.flows.len()] }
    }

    fn add(&mut self, counts: &FlowCounts) {
        for (all, one) in self.all.steps.iter_mut().zip(&counts.steps) {
            all.merge(one);
        }
        self.turns[counts.flow].merge(&counts.turns);
        self.all.read_bytes += counts.read_bytes;
        self.all.written_bytes += counts.written_bytes;
        self.all.reads += counts.reads;
        self.all.writes += counts.writes;
    }

    fn finish(self, span: Span) -> Outcome {
        let steps: Vec<_> =
            self.shared.names.iter().zip(&self.all.steps).map(|(n, t)| t.summary(n)).collect();
        let flows = &self.shared.personality.flows;
        let operations = steps.iter().map(|s| s.count).sum::<u64>();
        Outcome {
            seconds: span.seconds,
            operations,
            ops_per_s: operations as f64 / span.seconds.max(1e-9),
            read_bytes: self.all.read_bytes,
            written_bytes: self.all.written_bytes,
            reads: self.all.reads,
            writes: self.all.writes,
            turns: flows.iter().zip(&self.turns).map(|(f, t)| t.summary(&f.name)).collect(),
            steps,
            each_second: span.each_second,
            cpu: span.cpu,
        }
    }
}

/// The flags for opening the step's file: durable or direct writes.
pub(crate) fn open_flags(act: &StepAction) -> rustix::fs::OFlags {
    let mut flags = rustix::fs::OFlags::empty();
    match act {
        StepAction::Write { sync, direct, .. } => {
            flags.set(rustix::fs::OFlags::SYNC, *sync);
            flags.set(rustix::fs::OFlags::DIRECT, *direct);
        }
        StepAction::Read { direct, .. } => flags.set(rustix::fs::OFlags::DIRECT, *direct),
        _ => {}
    }
    flags
}

#[cfg(test)]
mod tests;
