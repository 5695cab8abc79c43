//! The daemon's loop: events in, orders out, runs that end, state that is saved.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustc_hash::{FxHashMap, FxHashSet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use seekless_block::{Duration as SimDuration, SimTime};
use seekless_host::mounts::MOUNTS;
use seekless_host::notify::{ALIVE, Manager, READY, STOPPING};
use seekless_host::{cannot_at, tracing};
use seekless_jobs::{Job, Watcher};

use crate::WatchError;
use crate::control;
use crate::events::Event;
use crate::fetch::{FetchResult, Fetcher};
use crate::filesystem::Filesystem;
use crate::mounts::{Choice, Mounted, mounted};
use crate::pressure;
use crate::processes::Processes;
use crate::report::{FilesystemReport, SCHEMA, WatchReport};
use crate::store::Store;
use crate::tracer::{Devices, Tracer, is_always_on};

/// Waits while a run goes on or events come, and while the disk has enough orders.
const BUSY: Duration = Duration::from_millis(2);
const FULL: Duration = Duration::from_micros(300);
/// Longest wait while nothing goes on.
const IDLE: Duration = Duration::from_secs(5);
/// Most file systems that are remembered while they are not mounted.
const AWAY_MOST: usize = 64;
/// How often limits are looked at, and jobs are saved.
const LIMITS: Duration = Duration::from_millis(500);
const SAVE: Duration = Duration::from_secs(600);
/// More uses in memory in one round of limits are too expensive to follow.
const FLOOD: u64 = 150_000;
/// Rounds of limits without them after a flood.
const FLOOD_ROUNDS: u32 = 20;

/// Settings of a daemon.
#[derive(Clone, Debug)]
pub struct Config {
    /// The mount points to watch; without any, every file system on a disk that rotates.
    pub points: Vec<PathBuf>,
    /// The folder of the state.
    pub state: PathBuf,
    /// Watches file systems on any disk.
    pub all: bool,
    /// Only watches, and counts what it would have saved.
    pub dry_run: bool,
    /// Keeps the names of programs.
    pub names: bool,
}

impl Config {
    fn choice(&self) -> Choice {
        if self.all || self.points.is_empty() {
            return Choice::Every { also_flash: self.all };
        }
        Choice::Points(self.points.clone())
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
    /// File systems that are not mounted now: their guard goes on. With jobs, if those have changed
    /// since they were saved.
    away: FxHashMap<u64, (Watcher, bool)>,
    /// Mounts that cannot be watched, and that the user knows.
    refused: Vec<Mounted>,
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
    /// Events that were lost until now.
    lost: u64,
    /// The service manager heard that the daemon is alive.
    alive: Instant,
    manager: Option<Manager>,
    /// Messages for the user, taken by [`Self::messages`].
    messages: Vec<String>,
    /// File systems whose jobs could not be saved: a message was given for the first one.
    save_failed: FxHashSet<u64>,
}

impl Daemon {
    /// Begins to watch.
    pub fn start(config: Config) -> Result<Self, WatchError> {
        let (_, all) = mounted()?;
        config.choice().check(&all)?;
        let mounts = Path::new(MOUNTS);
        let mounts = File::open(mounts).map_err(cannot_at(mounts, "watch mounts"))?;
        // First of all: without this right, the rest is of no use.
        let tracer = Tracer::start(&Devices::default())?;
        let store = Store::open(&config.state)?;
        let control = control::listen(&config.state)?;
        let fetcher = Fetcher::start().map_err(cannot_at(&config.state, "start threads"))?;
        let messages = if config.names { Vec::new() } else { store.forget_names() };
        let now = Instant::now();
        let mut daemon = Self {
            tracer,
            processes: Processes::new(config.names),
            config,
            started: now,
            fetcher,
            filesystems: Vec::new(),
            away: FxHashMap::default(),
            refused: Vec::new(),
            store,
            control,
            mounts,
            bdev: None,
            touches: 0,
            without: 0,
            pages_ahead: pressure::pages_ahead(),
            looked: now,
            saved: now,
            lost: 0,
            alive: now,
            manager: Manager::from_env().ok().flatten(),
            messages,
            save_failed: FxHashSet::default(),
        };
        daemon.look_at_mounts()?;
        if daemon.filesystems.is_empty() {
            return Err(WatchError::Nothing(daemon.messages));
        }
        if !daemon.tracer.sees_files() {
            let text = "this kernel does not show reads of files in memory: only metadata is \
                        read ahead";
            daemon.messages.push(text.to_owned());
        }
        Ok(daemon)
    }

    /// The mount points that are watched.
    pub fn points(&self) -> impl Iterator<Item = &Path> {
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
            let now = tracing::now();
            self.take(&events);
            let full = self.fetch(now);
            self.end_runs(now)?;
            let active = self.is_busy() || !events.is_empty();
            if self.wait(pause(full, active), stop)? {
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
            filesystem.changed |= filesystem.watcher.finish(today);
        }
        self.save(true);
        control::remove(&self.config.state);
        self.messages
    }

    fn is_busy(&self) -> bool {
        self.filesystems.iter().any(Filesystem::is_busy)
    }

    fn take(&mut self, events: &[Event]) {
        let today = today();
        for event in events {
            let own = self.fetcher.threads.contains(&event.thread);
            self.touches += u64::from(!is_always_on(event.what));
            for filesystem in &mut self.filesystems {
                filesystem.event(event, own, today, &mut self.processes, &mut self.bdev);
            }
        }
    }

    /// Passes on what workers found, and sends orders.
    fn fetch(&mut self, now: u64) -> bool {
        for found in self.fetcher.found() {
            let (FetchResult::Gone(number, ..)
            | FetchResult::Resolved(number, ..)
            | FetchResult::Device(number, _)
            | FetchResult::Leaves(number, _)) = found;
            let of = |f: &&mut Filesystem| f.target.number == number;
            let Some(filesystem) = self.filesystems.iter_mut().find(of) else { continue };
            match found {
                FetchResult::Gone(_, file, generation) => filesystem.watcher.gone(file, generation),
                FetchResult::Resolved(_, place, generation, block) => {
                    filesystem.watcher.resolved(place, generation, block);
                }
                FetchResult::Device(_, device) => filesystem.opened(device, now),
                FetchResult::Leaves(_, leaves) => {
                    filesystem.found_leaves(leaves, now, today(), &mut self.processes);
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
            filesystem.end_runs(now, today, self.without > 0);
        }
        if self.looked.elapsed() >= LIMITS {
            self.looked = Instant::now();
            if self.alive.elapsed() >= IDLE {
                self.alive = Instant::now();
                self.tell(ALIVE);
            }
            self.tracer.check()?;
            self.pages_ahead = pressure::pages_ahead();
            self.filesystems.iter_mut().for_each(Filesystem::look_at_disk);
            self.without = self.without.saturating_sub(1);
            self.touches = 0;
            let lost = self.tracer.lost();
            if self.without > 0 || lost != std::mem::replace(&mut self.lost, lost) {
                self.filesystems.iter_mut().for_each(|f| f.watcher.blind());
            }
        }
        if self.touches > FLOOD {
            (self.without, self.touches) = (FLOOD_ROUNDS, 0);
            self.filesystems.iter_mut().for_each(|f| f.watcher.blind());
        }
        self.limit(now);
        let helped = || self.filesystems.iter().filter(|f| f.watcher.wants_touches());
        if helped().next().is_none() {
            // The next job does not pay for the flood of this one.
            self.without = 0;
        }
        let shown = if self.without == 0 { devices(helped()) } else { Devices::default() };
        self.tracer.touches(shown);
        if self.saved.elapsed() >= SAVE {
            self.saved = Instant::now();
            self.save(true);
        }
        if !self.is_busy() {
            self.processes.forget();
        }
        Ok(())
    }

    /// Sets the limits of each file system: memory is of the machine, and time is of the disk.
    fn limit(&mut self, now: u64) {
        let shares: Vec<_> = self.filesystems.iter_mut().map(|f| f.share(now)).collect();
        for (i, filesystem) in self.filesystems.iter_mut().enumerate() {
            let (ahead, vain) = others(&shares, i);
            let pages_ahead = self.pages_ahead.saturating_sub(ahead);
            filesystem.limit(!self.config.dry_run, pages_ahead, vain);
        }
    }

    /// Saves what has changed: of file systems that are away, and with `here` of the others.
    fn save(&mut self, here: bool) {
        let ready = |f: &&mut Filesystem| here && f.changed && f.watcher.fits();
        let here = self.filesystems.iter_mut().filter(ready);
        let here = here.map(|f| (f.id, &mut f.watcher, &mut f.changed));
        let away = self.away.iter_mut().filter(|(_, a)| a.1 && a.0.fits());
        let away = away.map(|(&id, a)| (id, &mut a.0, &mut a.1));
        for (id, watcher, changed) in here.chain(away) {
            for (program, name) in self.processes.names() {
                watcher.name(program, name);
            }
            match self.store.save(id, watcher.jobs()) {
                Ok(()) => {
                    *changed = false;
                    self.save_failed.remove(&id);
                }
                Err(e) => {
                    if self.save_failed.is_empty() {
                        let text = format!(
                            "{}: cannot save the learned data ({e}); watching continues, and seekless will try again",
                            self.config.state.display()
                        );
                        self.messages.push(text);
                    }
                    self.save_failed.insert(id);
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
        let (listed, all) = mounted()?;
        let wanted = self.config.choice().of(&all);
        let today = today();
        // Their devices are closed first: a script may stop a device right after the unmount, and a
        // save waits for a disk.
        let gone = self.filesystems.extract_if(.., |f| !wanted.contains(&f.mounted));
        let gone: Vec<_> = gone.map(|f| (f.id, f.watcher, f.changed)).collect();
        let mut new = !gone.is_empty();
        for (id, mut watcher, changed) in gone {
            let changed = watcher.finish(today) || changed;
            remember(&mut self.away, id, (watcher, changed));
            self.save(false);
        }
        // The jobs are in the state; the guard goes on.
        let saved = self.away.values_mut().filter(|a| !a.1);
        saved.for_each(|a| a.0.set_jobs(Vec::new()));
        self.refused.retain(|m| wanted.contains(m));
        for mounted in wanted {
            let known = self.filesystems.iter().any(|f| f.mounted == mounted);
            if known || mounted.is_hidden(&listed) {
                continue;
            }
            match self.open(&mounted, today) {
                Ok(()) => new = true,
                Err(_) if self.refused.contains(&mounted) => {}
                Err(why) => {
                    self.messages.push(why);
                    self.refused.push(mounted);
                }
            }
        }
        if new {
            self.tracer.watch(&devices(self.filesystems.iter()))?;
        }
        Ok(())
    }

    /// Watches one more file system, or says why it cannot.
    fn open(&mut self, mounted: &Mounted, today: u64) -> Result<(), String> {
        let seen = match mounted.tree {
            Some(_) => self.tracer.sees_btrfs(),
            None => !mounted.is_xfs() || self.tracer.sees_xfs(),
        };
        if !seen {
            let (point, kind) = (mounted.point.display(), &mounted.kind);
            return Err(format!(
                "{point}: not watched: the kernel had no events of {kind} at the start; \
                 if its module is loaded now, start seekless watch again"
            ));
        }
        let taken: Vec<u64> = self.filesystems.iter().map(|f| f.id).collect();
        let mut new = Filesystem::open(mounted.clone(), &taken).map_err(|e| e.to_string())?;
        if let Some((watcher, changed)) = self.away.remove(&new.id) {
            (new.watcher, new.changed) = (watcher, changed);
        }
        if !new.changed {
            let (mut jobs, wrong) = self.store.load(new.id);
            self.messages.extend(wrong);
            new.changed = settle(&mut jobs, self.config.names, today);
            new.watcher.set_jobs(jobs);
        }
        self.filesystems.push(new);
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
        let time = SimTime(tracing::now());
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

/// The devices of file systems, as events name them.
fn devices<'a>(of: impl Iterator<Item = &'a Filesystem> + Clone) -> Devices {
    let cached = of.clone().filter(|f| f.mounted.is_cached());
    Devices {
        filesystems: of.clone().map(|f| f.mounted.number()).collect(),
        cached: cached.map(|f| f.mounted.number()).collect(),
        disks: of.clone().map(|f| f.disk_number).collect(),
        trees: of.filter_map(|f| f.mounted.tree).collect(),
    }
}

/// How long to wait. While events come, also those of writes, many are taken at once: to wake up for
/// each costs a turn of the loop, and time of the program that made it.
const fn pause(full: bool, active: bool) -> Duration {
    match (full, active) {
        (true, _) => FULL,
        (false, true) => BUSY,
        (false, false) => IDLE,
    }
}

/// Remembers a file system that is away. If there are too many, one is forgotten: if possible, one
/// whose jobs are saved.
fn remember(away: &mut FxHashMap<u64, (Watcher, bool)>, id: u64, gone: (Watcher, bool)) {
    if away.len() >= AWAY_MOST
        && let Some(&first) = away.iter().min_by_key(|(_, a)| a.1).map(|(id, _)| id)
    {
        away.remove(&first);
    }
    away.insert(id, gone);
}

/// Seconds since 1970.
fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Pages ahead and time in vain of the others: of all, and of those on the same disk.
fn others(shares: &[(u64, u64, SimDuration)], own: usize) -> (u64, SimDuration) {
    let disk = shares.get(own).map(|s| s.0);
    let others = || shares.iter().enumerate().filter(|(i, _)| *i != own).map(|(_, s)| s);
    let vain = others().filter(|s| Some(s.0) == disk).map(|s| s.2.0);
    (others().map(|s| s.1).sum(), SimDuration(vain.fold(0, u64::saturating_add)))
}

/// Jobs as they may go on: without names if none are kept, and none from the future, as a wrong clock
/// leaves them. Returns true if some have changed.
fn settle(jobs: &mut [Job], names: bool, today: u64) -> bool {
    let mut changed = false;
    for job in jobs {
        if !names && !job.name.is_empty() {
            job.name.clear();
            changed = true;
        }
        job.last_used = job.last_used.min(today);
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_of_all_and_time_is_of_a_disk() {
        let second = SimDuration(1_000_000_000);
        let shares = [(7, 10, second), (7, 20, second), (8, 40, second)];
        assert_eq!(others(&shares, 0), (60, second));
        assert_eq!(others(&shares, 2), (30, SimDuration(0)));
    }

    /// The first event ends the pause of an idle loop.
    #[test]
    fn only_a_loop_without_events_waits_for_the_first_one() {
        assert_eq!(pause(false, false), IDLE);
        assert_eq!([pause(false, true), pause(true, false), pause(true, true)], [BUSY, FULL, FULL]);
    }

    #[test]
    fn one_more_file_system_that_is_away_costs_one_other_its_jobs_at_most() {
        let mut away = FxHashMap::default();
        let most = AWAY_MOST as u64;
        for id in 0..most {
            remember(&mut away, id, (Watcher::default(), id != 5));
        }
        remember(&mut away, most, (Watcher::default(), true));
        assert!(away.len() == AWAY_MOST && !away.contains_key(&5), "its jobs are saved");
        remember(&mut away, most + 1, (Watcher::default(), true));
        assert!(away.len() == AWAY_MOST && away.contains_key(&(most + 1)));
    }

    #[test]
    fn names_are_forgotten_if_none_are_kept() {
        let mut jobs = [Job::default(), Job::default()];
        jobs[0].name = "tar".to_owned();
        jobs[1].last_used = 9;
        assert!(!settle(&mut jobs, true, 5) && jobs[0].name == "tar");
        assert_eq!(jobs[1].last_used, 5);
        assert!(settle(&mut jobs, false, 5) && jobs[0].name.is_empty());
        assert!(!settle(&mut jobs, false, 5));
    }
}
