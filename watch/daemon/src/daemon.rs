//! The daemon's loop: events in, orders out, runs that end, state that is saved.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use seekless_block::SimTime;
use seekless_host::notify::{ALIVE, Manager, READY, STOPPING};
use seekless_jobs::Watcher;

use crate::WatchError;
use crate::control;
use crate::events::Event;
use crate::fetch::{Fetcher, Found};
use crate::filesystem::Filesystem;
use crate::mounts::{Choice, mounted};
use crate::pressure;
use crate::processes::Processes;
use crate::report::{FilesystemReport, SCHEMA, WatchReport};
use crate::store::Store;
use crate::tracer::{Devices, Tracer, is_always_on};

/// Waits while a run goes on, and while the disk has enough orders.
const BUSY: Duration = Duration::from_millis(2);
const FULL: Duration = Duration::from_micros(300);
/// Longest wait while nothing goes on.
const IDLE: Duration = Duration::from_secs(5);
/// Most file systems that are remembered while they are not mounted.
const AWAY_MOST: usize = 64;
/// How often limits are looked at, and jobs are saved.
const LIMITS: Duration = Duration::from_millis(500);
const SAVE: Duration = Duration::from_secs(60);
/// More uses in memory in one round of limits are too expensive to follow.
const FLOOD: u64 = 150_000;
/// Rounds of limits without them after a flood.
const FLOOD_ROUNDS: u32 = 20;

/// Settings of a daemon.
#[derive(Clone, Debug)]
#[must_use]
pub struct Config {
    choice: Choice,
    state: PathBuf,
    dry_run: bool,
    names: bool,
}

impl Config {
    /// Watches these mount points; without any, every file system on a disk that rotates.
    pub fn new(points: Vec<PathBuf>, state: PathBuf) -> Self {
        let every = Choice::Every { also_flash: false };
        let choice = if points.is_empty() { every } else { Choice::Points(points) };
        Self { choice, state, dry_run: false, names: false }
    }

    /// Watches file systems on any disk.
    pub fn all(mut self, all: bool) -> Self {
        if all {
            self.choice = Choice::Every { also_flash: true };
        }
        self
    }

    /// Only watches, and counts what it would have saved.
    pub const fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Keeps the names of programs.
    pub const fn names(mut self, names: bool) -> Self {
        self.names = names;
        self
    }
}

/// A running daemon.
#[derive(Debug)]
pub struct Daemon {
    config: Config,
    started: Instant,
    tracer: Tracer,
    fetcher: Fetcher,
    filesystems: Vec<Filesystem>,
    /// What is known of file systems that are not mounted now: their guard goes on.
    away: FxHashMap<u64, Watcher>,
    processes: Processes,
    store: Store,
    control: UnixListener,
    mounts: File,
    /// Device number of the pages of block devices.
    bdev: Option<u64>,
    /// Uses in memory in this round of limits, and rounds without them.
    touches: u64,
    without: u32,
    pages_ahead: u64,
    looked: Instant,
    saved: Instant,
    /// The service manager heard that the daemon is alive.
    alive: Instant,
    manager: Option<Manager>,
    /// Messages for the user, taken by [`Self::messages`].
    messages: Vec<String>,
    /// A message about saving was given.
    save_failed: bool,
}

impl Daemon {
    /// Begins to watch.
    pub fn start(config: Config) -> Result<Self, WatchError> {
        let all = mounted()?;
        config.choice.check(&all)?;
        let path = PathBuf::from("/proc/self/mountinfo");
        let mounts = File::open(&path).map_err(|source| WatchError::Path {
            path,
            what: "watch mounts",
            source,
        })?;
        // First of all: without this right, the rest is of no use.
        let tracer = Tracer::start(&Devices::default())?;
        let store = Store::open(&config.state)?;
        let control = control::listen(&config.state)?;
        let fetcher = Fetcher::start().map_err(|source| WatchError::Path {
            path: config.state.clone(),
            what: "start threads",
            source,
        })?;
        let now = Instant::now();
        let mut daemon = Self {
            tracer,
            processes: Processes::new(config.names),
            config,
            started: now,
            fetcher,
            filesystems: Vec::new(),
            away: FxHashMap::default(),
            store,
            control,
            mounts,
            bdev: None,
            touches: 0,
            without: 0,
            pages_ahead: pressure::pages_ahead(),
            looked: now,
            saved: now,
            alive: now,
            manager: Manager::from_env().ok().flatten(),
            messages: Vec::new(),
            save_failed: false,
        };
        daemon.look_at_mounts()?;
        if daemon.filesystems.is_empty() {
            return Err(WatchError::Nothing);
        }
        if !daemon.tracer.sees_files() {
            let text = "this kernel does not show reads of files in memory: only metadata is \
                        read ahead";
            daemon.messages.push(text.to_owned());
        }
        Ok(daemon)
    }

    /// The mount points that are watched.
    pub fn points(&self) -> impl Iterator<Item = &std::path::Path> {
        self.filesystems.iter().map(|f| f.mounted.point.as_path())
    }

    /// Messages since the last call.
    pub fn messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    /// Tells the service manager that the daemon is ready.
    pub fn ready(&self) {
        self.tell(READY);
    }

    fn tell(&self, state: &str) {
        if let Some(manager) = &self.manager {
            manager.tell(state, &format!("watches {} file systems", self.filesystems.len()));
        }
    }

    /// Works until `stop` is readable, or a message is there. Returns true if it must stop.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> Result<bool, WatchError> {
        let mut events = Vec::new();
        while self.messages.is_empty() {
            events.clear();
            self.tracer.read(&mut events)?;
            let now = now();
            self.take(&events);
            let full = self.fetch(now);
            self.end_runs(now)?;
            let wait = match (full, self.is_busy()) {
                (true, _) => FULL,
                (false, true) => BUSY,
                _ => IDLE,
            };
            if self.wait(wait, stop)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends runs and saves the learned data.
    pub fn stop(mut self) -> Vec<String> {
        self.tell(STOPPING);
        let today = today();
        for filesystem in &mut self.filesystems {
            filesystem.watcher.finish(today);
            filesystem.changed = true;
        }
        self.save();
        control::remove(&self.config.state);
        self.messages
    }

    fn is_busy(&self) -> bool {
        self.filesystems.iter().any(Filesystem::is_busy)
    }

    fn take(&mut self, events: &[Event]) {
        let today = today();
        for event in events {
            let own =
                self.fetcher.threads.contains(&event.thread) || event.thread == std::process::id();
            self.touches += u64::from(!is_always_on(event.what));
            for filesystem in &mut self.filesystems {
                filesystem.event(event, own, today, &mut self.processes, &mut self.bdev);
            }
        }
    }

    /// Passes on what workers found, and sends orders.
    fn fetch(&mut self, now: u64) -> bool {
        for found in self.fetcher.found() {
            let (Found::Gone(number, _) | Found::Resolved(number, ..) | Found::Leaves(number, _)) =
                found;
            let of = |f: &&mut Filesystem| f.mounted.number() == number;
            let Some(filesystem) = self.filesystems.iter_mut().find(of) else { continue };
            match found {
                Found::Gone(_, file) => filesystem.watcher.gone(file),
                Found::Resolved(_, place, generation, block) => {
                    filesystem.watcher.resolved(place, generation, block);
                }
                Found::Leaves(_, leaves) => {
                    filesystem.found_leaves(leaves, today(), &mut self.processes);
                }
            }
        }
        let files = self.tracer.sees_files();
        let mut full = false;
        for filesystem in &mut self.filesystems {
            full |= filesystem.pump(now, &self.fetcher, files);
        }
        full
    }

    /// Ends idle runs; from time to time looks at limits and saves.
    fn end_runs(&mut self, now: u64) -> Result<(), WatchError> {
        let today = today();
        for filesystem in &mut self.filesystems {
            filesystem.end_runs(now, today);
        }
        if self.looked.elapsed() >= LIMITS {
            self.looked = Instant::now();
            if self.alive.elapsed() >= IDLE {
                self.alive = Instant::now();
                self.tell(ALIVE);
            }
            self.tracer.check()?;
            self.pages_ahead = pressure::pages_ahead();
            self.without = self.without.saturating_sub(1);
            self.touches = 0;
        }
        if self.touches > FLOOD {
            (self.without, self.touches) = (FLOOD_ROUNDS, 0);
        }
        for filesystem in &mut self.filesystems {
            filesystem.limit(!self.config.dry_run, self.pages_ahead);
        }
        let wanted = self.filesystems.iter().any(|f| f.watcher.wants_touches());
        if !wanted {
            // The next job does not pay for the flood of this one.
            self.without = 0;
        }
        self.tracer.touches(wanted && self.without == 0);
        if self.saved.elapsed() >= SAVE && !self.is_busy() {
            self.saved = Instant::now();
            self.save();
        }
        if !self.is_busy() {
            self.processes.forget();
        }
        Ok(())
    }

    fn save(&mut self) {
        for filesystem in self.filesystems.iter_mut().filter(|f| f.changed) {
            for (program, name) in self.processes.names() {
                filesystem.watcher.name(program, name);
            }
            match self.store.save(filesystem.id, filesystem.watcher.jobs()) {
                Ok(()) => {
                    filesystem.changed = false;
                    self.save_failed = false;
                }
                Err(_) if self.save_failed => {}
                Err(e) => {
                    self.save_failed = true;
                    let text = format!(
                        "{}: cannot save the learned data ({e}); watching goes on, and saving is tried again",
                        self.config.state.display()
                    );
                    self.messages.push(text);
                }
            }
        }
    }

    /// Waits for events, mounts, questions, or the end. Returns true at the end.
    fn wait(&mut self, most: Duration, stop: BorrowedFd<'_>) -> Result<bool, WatchError> {
        let idle = most == IDLE;
        let mut fds = vec![
            PollFd::from_borrowed_fd(stop, PollFlags::IN),
            PollFd::new(&self.control, PollFlags::IN),
            PollFd::new(&self.mounts, PollFlags::PRI),
        ];
        if idle {
            fds.extend(self.tracer.pipes().map(|p| PollFd::from_borrowed_fd(p, PollFlags::IN)));
        }
        let timeout =
            Timespec { tv_sec: most.as_secs().cast_signed(), tv_nsec: most.subsec_nanos().into() };
        let _ = poll(&mut fds, Some(&timeout));
        let ready = |i: usize| fds.get(i).is_some_and(|f: &PollFd<'_>| !f.revents().is_empty());
        let (ends, asked, mounts) = (ready(0), ready(1), ready(2));
        drop(fds);
        if mounts {
            self.look_at_mounts()?;
        }
        if asked {
            self.answer();
        }
        Ok(ends)
    }

    /// Follows mounts that come and go.
    fn look_at_mounts(&mut self) -> Result<(), WatchError> {
        let wanted = self.config.choice.of(&mounted()?);
        let today = today();
        for filesystem in &mut self.filesystems {
            if !wanted.contains(&filesystem.mounted) {
                filesystem.watcher.finish(today);
                filesystem.changed = true;
            }
        }
        self.save();
        if self.away.len() >= AWAY_MOST {
            self.away.clear();
        }
        let gone = self.filesystems.extract_if(.., |f| !wanted.contains(&f.mounted));
        let before = self.away.len();
        self.away.extend(gone.map(|f| (f.id, f.watcher)));
        let mut new = self.away.len() != before;
        for mounted in wanted {
            if self.filesystems.iter().any(|f| f.mounted == mounted) {
                continue;
            }
            let seen = match mounted.tree {
                Some(_) => self.tracer.sees_btrfs(),
                None => !mounted.is_xfs() || self.tracer.sees_xfs(),
            };
            if !seen {
                let (point, kind) = (mounted.point.display(), &mounted.kind);
                self.messages.push(format!(
                    "{point}: not watched: the kernel's events of {kind} were not there at the \
                     start; if its module was loaded since, start again"
                ));
                continue;
            }
            match Filesystem::open(mounted, &self.store, &mut self.away) {
                Ok((filesystem, wrong)) => {
                    self.messages.extend(wrong);
                    self.filesystems.push(filesystem);
                    new = true;
                }
                Err(e) => self.messages.push(e.to_string()),
            }
        }
        if new {
            let cached = self.filesystems.iter().filter(|f| f.mounted.is_cached());
            self.tracer.watch(&Devices {
                filesystems: self.filesystems.iter().map(|f| f.mounted.number()).collect(),
                cached: cached.map(|f| f.mounted.number()).collect(),
                disks: self.filesystems.iter().map(|f| f.disk_number).collect(),
                trees: self.filesystems.iter().filter_map(|f| f.mounted.tree).collect(),
            })?;
        }
        Ok(())
    }

    fn answer(&mut self) {
        let Ok((mut stream, _)) = self.control.accept() else { return };
        let report = self.report();
        let text = serde_json::to_vec(&report).unwrap_or_default();
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
        let written = stream.write_all(&text);
        debug_assert!(
            written.is_ok() || written.is_err_and(|e| e.kind() != ErrorKind::InvalidInput)
        );
    }

    fn report(&mut self) -> WatchReport {
        let time = SimTime(now());
        for filesystem in &mut self.filesystems {
            for (program, name) in self.processes.names() {
                filesystem.watcher.name(program, name);
            }
        }
        let filesystems = self.filesystems.iter_mut().map(|f| FilesystemReport {
            mount: f.mounted.point.display().to_string(),
            kind: f.mounted.kind.clone(),
            busy: f.watcher.is_busy(),
            totals: f.watcher.totals(time),
            jobs: f.watcher.report(),
        });
        WatchReport {
            schema: SCHEMA.to_owned(),
            seconds: self.started.elapsed().as_secs(),
            dry_run: self.config.dry_run,
            lost_events: self.tracer.lost(),
            pages_ahead: self.pages_ahead,
            filesystems: filesystems.collect(),
        }
    }
}

/// The present time of the trace clock.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Seconds since 1970.
fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
