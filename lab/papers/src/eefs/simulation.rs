//! The simulation's loop: file requests, the models of the file systems, the disk. A file request
//! is a chain of disk requests, one after the other; requests without a waiting client are
//! background work.

use std::collections::VecDeque;

use crate::ffs::{BlockContent, Ffs, FfsConfig, Work};
use rustc_hash::FxHashMap;
use seekless_block::{Bytes, Duration, Energy, Extent, Lba, Op, SECTOR_BYTES, Sectors, SimTime};
use seekless_disk::{Command, Completion, Disk, Drive, PowerStates, Scheduler, SpinDown};
use seekless_store::{Input, IoId, IoPurpose};
use seekless_trace::{FileEvent, FileOp};

use super::group_module::Eefs;
use super::moves::FileMove;
use super::replay::{
    FileCauses, FileEnergy, FileFacts, FileOutcome, FileSystem, FilesOptions, Simulated,
};

/// The purpose of a chain of disk requests.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A file request.
    Client(Kind),
    /// No client waits.
    Nothing,
    /// An I/O of the group store; a write's bytes are already on the store's medium.
    Store(IoId, IoPurpose),
    /// The file system's sync for the group store.
    Other,
    /// A file that moves between the two.
    Move(FileMove),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Open,
    Read,
    Write,
    Rest,
}

#[derive(Debug)]
struct Chain {
    arrived: SimTime,
    left: VecDeque<(Op, Extent, BlockContent)>,
    background: bool,
    purpose: Purpose,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn get(self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }
}

#[derive(Debug)]
pub(super) struct World {
    system: FileSystem,
    drive: Drive,
    power: PowerStates,
    pub(super) ffs: Ffs,
    pub(super) eefs: Option<Eefs>,
    pub(super) now: SimTime,
    chains: FxHashMap<u64, Chain>,
    next: u64,
    /// The file system's addresses from here on are shifted behind the store.
    store_at: Lba,
    store: Sectors,
    memory: Bytes,
    pub(super) facts: Vec<FileFacts>,
    requests: u64,
    opens: u64,
    means: [Mean; 4],
    disk: [u64; 3],
    causes: FileCauses,
    energy: [Energy; 4],
    idle_since: Option<SimTime>,
    busy: Duration,
    idle_times: [u64; 6],
    /// Whether the disk may stop its platters.
    sleeps: bool,
    /// Idling after the last request, which does not count.
    idled_after: Energy,
}

impl World {
    pub(super) fn new(
        system: FileSystem,
        facts: &[FileFacts],
        options: &FilesOptions,
    ) -> Simulated<Self> {
        let disk = Disk::new(&options.disk)?;
        let capacity = disk.capacity();
        let mut drive = Drive::new(disk, Scheduler::CLook);
        drive.set_spin_down(options.spin_down).or_else(|e| match options.spin_down {
            SpinDown::None => Ok(()),
            _ => Err(e),
        })?;
        let eefs = system == FileSystem::Eefs;
        // All three have the same space for files, and the same addresses.
        let store = Sectors(options.store.0 / SECTOR_BYTES);
        let room = Sectors(capacity.0.saturating_sub(store.0));
        let cache = options.cache;
        let read_ahead =
            if system == FileSystem::FfsReadAhead { options.cluster } else { Bytes(0) };
        let mut ffs = Ffs::new(FfsConfig {
            read_ahead,
            sync: options.sync,
            ..FfsConfig::new(room, cache, options.inodes)
        });
        for (file, fact) in (0..).zip(facts) {
            if fact.existed {
                ffs.place(file, fact.directory, fact.size)?;
            }
        }
        Ok(Self {
            system,
            drive,
            power: PowerStates::new(&options.disk.power),
            ffs,
            eefs: if eefs { Some(Eefs::new(options, sleeps_after(options))?) } else { None },
            now: SimTime(0),
            chains: FxHashMap::default(),
            next: 0,
            store_at: Lba(room.0 / 2 / 16 * 16),
            store,
            memory: options.cache,
            facts: facts.to_vec(),
            requests: 0,
            opens: 0,
            means: [Mean::default(); 4],
            disk: [0; 3],
            causes: FileCauses::default(),
            energy: [Energy::ZERO; 4],
            idle_since: Some(SimTime(0)),
            busy: Duration::ZERO,
            idle_times: [0; 6],
            sleeps: options.spin_down != SpinDown::None,
            idled_after: Energy::ZERO,
        })
    }

    /// Runs all events up to `until`.
    pub(super) fn advance(&mut self, until: SimTime) -> Simulated {
        loop {
            let now = self.now;
            let store = self.eefs.as_mut().and_then(|e| e.wakeup(now));
            let next = [self.drive.next_event(), self.ffs.wakeup(), store];
            let Some(at) = next.into_iter().flatten().min().filter(|at| *at <= until) else {
                break;
            };
            self.now = self.now.max(at);
            while let Some(done) = self.drive.poll(self.now) {
                self.completed(&done)?;
            }
            if self.ffs.wakeup().is_some_and(|t| t <= self.now) {
                let work = self.ffs.update(self.now);
                self.later(work)?;
            }
            if store.is_some_and(|t| t <= self.now) {
                self.feed(Input::Tick)?;
            }
        }
        self.now = self.now.max(until);
        self.share()
    }

    /// The trace is over: finishes requests, writes dirty blocks. This work counts. Idling counts
    /// only until the last request, so that the days of all systems are equally long; a disk that
    /// may sleep is also charged for the time after it.
    pub(super) fn finish(&mut self, last: SimTime) -> Simulated {
        let before = self.idling();
        self.advance(last + Duration::from_millis(120_000))?;
        if !self.sleeps {
            self.idled_after = self.idling() - before;
        }
        Ok(())
    }

    /// Energy of idling so far, platters turning.
    fn idling(&self) -> Energy {
        let e = self.drive.usage(self.now).energy;
        e.idle + e.low_idle
    }

    pub(super) fn request(&mut self, event: &FileEvent) -> Simulated {
        self.requests += 1;
        self.opens += u64::from(matches!(event.op, FileOp::Open | FileOp::Create));
        let (now, file) = (self.now, u64::from(event.file));
        if self.facts.len() <= event.file as usize {
            let fact = FileFacts { directory: 0, size: 0, existed: false };
            self.facts.resize(event.file as usize + 1, fact);
        }
        if self.eefs.is_some() && self.at_store(event)? {
            return self.share();
        }
        let fact = self.facts[event.file as usize];
        let mut work = Work::default();
        let kind = match event.op {
            FileOp::Open | FileOp::Close => Kind::Open,
            FileOp::Read => Kind::Read,
            FileOp::Write => Kind::Write,
            _ => Kind::Rest,
        };
        if !self.ffs.knows(file)
            && matches!(event.op, FileOp::Open | FileOp::Create | FileOp::Read | FileOp::Write)
        {
            join(&mut work, self.ffs.create(now, file, fact.directory)?);
        }
        match event.op {
            FileOp::Open | FileOp::Create => join(&mut work, self.ffs.lookup(file)),
            FileOp::Read => join(&mut work, self.ffs.read(now, file, event.offset, event.len)),
            FileOp::Write => {
                let end = event.offset.saturating_add(event.len);
                let fact = &mut self.facts[event.file as usize];
                fact.size = fact.size.max(end);
                join(&mut work, self.ffs.write(now, file, event.offset, event.len)?);
            }
            FileOp::Truncate => {
                self.facts[event.file as usize].size = event.len;
                join(&mut work, self.ffs.truncate(now, file, event.len));
            }
            FileOp::Sync => join(&mut work, self.ffs.sync(file)),
            FileOp::Unlink => join(&mut work, self.ffs.unlink(now, file)),
            FileOp::Close | FileOp::Rename => {}
        }
        self.begin(work, Purpose::Client(kind), false)?;
        self.share()
    }

    /// Keeps the memory of the group store and the file system together within the baseline's.
    fn share(&mut self) -> Simulated {
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        let work = eefs.share(self.memory, &mut self.ffs);
        self.later(work)
    }

    /// Starts work of the file system.
    pub(super) fn begin(&mut self, work: Work, purpose: Purpose, background: bool) -> Simulated {
        let wait =
            work.wait.into_iter().map(|(op, e, part)| (op, self.of_files(e), part)).collect();
        for (op, extent, part) in work.later {
            let left = VecDeque::from([(op, self.of_files(extent), part)]);
            self.chain(left, Purpose::Nothing, true)?;
        }
        self.chain(wait, purpose, background)
    }

    fn later(&mut self, work: Work) -> Simulated {
        self.begin(work, Purpose::Nothing, true)
    }

    /// Starts an I/O of the store.
    pub(super) fn begin_store(
        &mut self,
        io: IoId,
        op: Op,
        extent: Extent,
        what: IoPurpose,
    ) -> Simulated {
        let at = Extent { start: self.store_at + Sectors(extent.start.0), len: extent.len };
        // Reads have a waiting client; writes are background, as the file system's delayed writes
        // are.
        let left = VecDeque::from([(op, at, BlockContent::Summary)]);
        self.chain(left, Purpose::Store(io, what), op == Op::Write)
    }

    fn of_files(&self, extent: Extent) -> Extent {
        if extent.start < self.store_at {
            // No block crosses the store's boundary.
            extent
        } else {
            Extent { start: extent.start + self.store, len: extent.len }
        }
    }

    fn chain(
        &mut self,
        left: VecDeque<(Op, Extent, BlockContent)>,
        purpose: Purpose,
        background: bool,
    ) -> Simulated {
        let chain = Chain { arrived: self.now, left, background, purpose };
        self.go_on(self.next + 1, chain)
    }

    fn go_on(&mut self, tag: u64, mut chain: Chain) -> Simulated {
        self.next = self.next.max(tag);
        let Some((op, extent, part)) = chain.left.pop_front() else { return self.ended(chain) };
        if let Some(since) = self.idle_since.take() {
            let ms = self.now.since(since).as_millis_f64();
            let class = [10.0, 100.0, 1e3, 1e4, 1e5].iter().filter(|limit| ms >= **limit).count();
            self.idle_times[class] += 1;
        }
        if let Some(eefs) = &mut self.eefs {
            eefs.used(self.now);
        }
        let command = Command { background: chain.background, ..Command::new(tag, op, extent) };
        self.disk[usize::from(op == Op::Write)] += 1;
        self.disk[2] += extent.bytes().0;
        let (causes, writes) = (&mut self.causes, op == Op::Write);
        *match (&chain.purpose, part) {
            (Purpose::Store(..), _) if !writes => &mut causes.groups_read,
            (Purpose::Store(_, IoPurpose::Group), _) => &mut causes.groups_written,
            (Purpose::Store(..), _) => &mut causes.log_written,
            (Purpose::Move(_) | Purpose::Other, _) if writes => &mut causes.moves_written,
            (Purpose::Move(_) | Purpose::Other, _) => &mut causes.moves_read,
            (_, BlockContent::Inode) if writes => &mut causes.inodes_written,
            (_, BlockContent::Inode) => &mut causes.inodes_read,
            (_, BlockContent::Directory) if writes => &mut causes.names_written,
            (_, BlockContent::Directory) => &mut causes.names_read,
            (_, BlockContent::Data(_) | BlockContent::Indirect | BlockContent::Summary)
                if writes =>
            {
                &mut causes.data_written
            }
            (_, BlockContent::Data(_) | BlockContent::Indirect | BlockContent::Summary) => {
                &mut causes.data_read
            }
        } += 1;
        self.chains.insert(tag, chain);
        self.drive.submit(self.now, command)?;
        Ok(())
    }

    fn completed(&mut self, done: &Completion) -> Simulated {
        let (a, power) = (&done.access, &self.power);
        self.energy[usize::from(a.write)] += power.transfer(a.write) * a.transfer;
        self.energy[2] += power.rotation_transfer * (a.rotation + a.overhead);
        self.energy[3] += power.seeking(a.seek);
        self.busy += a.overhead + a.seek + a.rotation + a.transfer;
        if let Some(eefs) = &mut self.eefs {
            eefs.used(self.now);
        }
        if self.drive.is_idle() {
            self.idle_since = Some(self.now);
        }
        match self.chains.remove(&done.tag) {
            Some(chain) => self.go_on(done.tag, chain),
            None => Ok(()),
        }
    }

    fn ended(&mut self, chain: Chain) -> Simulated {
        match chain.purpose {
            Purpose::Client(kind) => {
                self.answered(kind, chain.arrived);
                Ok(())
            }
            Purpose::Nothing => Ok(()),
            Purpose::Store(io, _) => self.store_done(io),
            Purpose::Other => self.feed(Input::OtherSynced(true)),
            Purpose::Move(step) => self.go_on_moving(step),
        }
    }

    pub(super) fn answered(&mut self, kind: Kind, arrived: SimTime) {
        let mean = &mut self.means[kind as usize];
        mean.sum += self.now.since(arrived).as_millis_f64();
        mean.count += 1;
    }

    pub(super) fn outcome(&self, first: SimTime, last: SimTime) -> FileOutcome {
        let usage = self.drive.usage(self.now);
        let j = |e: Energy| e.as_joules_f64();
        let e = usage.energy;
        let ffs = self.ffs.stats();
        let (mut hits, mut looked) = (ffs.hits, ffs.lookups);
        if let Some(eefs) = &self.eefs {
            let s = eefs.stats();
            hits += s.0;
            looked += s.1;
        }
        FileOutcome {
            system: self.system,
            requests: self.requests,
            opens: self.opens,
            disk_reads: self.disk[0],
            disk_writes: self.disk[1],
            disk_bytes: self.disk[2],
            causes: self.causes,
            energy: FileEnergy {
                read: j(self.energy[0]),
                write: j(self.energy[1]),
                rotation: j(self.energy[2]),
                seek: j(self.energy[3]),
                idle: j(self.idling() - self.idled_after),
                standby: j(e.standby) + j(e.spin_down) + j(e.spin_up),
                total: j(e.total() - self.idled_after),
            },
            spin_downs: usage.spin_downs,
            open_ms: self.means[Kind::Open as usize].get(),
            read_ms: self.means[Kind::Read as usize].get(),
            write_ms: self.means[Kind::Write as usize].get(),
            hits: hits as f64 / looked.max(1) as f64,
            name_hits: ffs.name_hits as f64 / ffs.names.max(1) as f64,
            busy: self.busy.as_secs_f64() / last.since(first).as_secs_f64(),
            idle_times: self.idle_times,
            seconds: last.since(first).as_secs_f64(),
            grouping: self.eefs.as_ref().map(Eefs::grouping),
        }
    }
}

/// Idle time before the disk sleeps, as the host knows it; for an adaptive disk, its initial value.
fn sleeps_after(options: &FilesOptions) -> Option<Duration> {
    match options.spin_down {
        SpinDown::None => None,
        SpinDown::After(time) => Some(time),
        SpinDown::Adaptive => PowerStates::new(&options.disk.power).break_even(),
    }
}

pub(super) fn join(work: &mut Work, more: Work) {
    work.wait.extend(more.wait);
    work.later.extend(more.later);
}
