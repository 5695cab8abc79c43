//! The group store as a state machine: asks and ended I/Os in, I/Os and replies out. The store uses
//! no device and no clock.
//!
//! [`mod@asks`] answers asks and reads groups, [`mod@changes`] changes entries and contents in
//! memory, [`crate::commit`] writes changes to the device.

mod asks;
mod changes;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;
use seekless_block::{Duration, Extent, Op, SimTime};

use crate::api::{
    Ask, Config, Fault, FileNumber, FileState, Input, Io, IoId, IoPurpose, Output, Reply,
    RequestId, Stats,
};
use crate::cluster_map::ClusterMap;
use crate::commit::{Job, Log, Waiter};
use crate::disk_sleep::{DiskPhase, PATIENCE};
use crate::format::Geometry;
use crate::group_cache::Cache;
use crate::tables::{FileEntry, Tables};

pub(crate) use changes::worst_clusters;

/// A file whose entry in memory is newer than the tables on the device.
#[derive(Clone, Debug)]
pub(crate) struct Changed {
    /// `None`: the file was removed.
    pub(crate) file: Option<FileEntry>,
    /// Number of the latest change.
    pub(crate) version: u64,
}

/// A group that is newer in memory than on the device. Group number 0 collects removed files.
#[derive(Clone, Debug)]
pub(crate) struct Dirty {
    /// Number of its first change that no commit carries yet.
    pub(crate) since: u64,
    pub(crate) time: SimTime,
    /// File contents changed, not only entries.
    pub(crate) data: bool,
    /// Files with changed entries.
    pub(crate) files: BTreeSet<FileNumber>,
    /// Clusters needed in the worst case: each file within one cluster.
    pub(crate) bins: u32,
    /// Bytes of records that were reserved when the group was formed.
    pub(crate) records: u64,
}

/// The purpose of an I/O in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flight {
    Load(u32),
    /// Belongs to the current job.
    Job,
}

/// The group store of EEFS as a state machine.
#[derive(Debug)]
pub struct GroupStore {
    pub(crate) config: Config,
    pub(crate) geometry: Geometry,
    pub(crate) uuid: [u8; 16],
    pub(crate) tables: Tables,
    pub(crate) clusters: ClusterMap,
    pub(crate) cache: Cache,
    pub(crate) changed: FxHashMap<FileNumber, Changed>,
    pub(crate) dirty: BTreeMap<u32, Dirty>,
    loading: FxHashMap<u32, Vec<(RequestId, Ask)>>,
    flights: FxHashMap<u32, Flight>,
    next_io: u32,
    pub(crate) job: Option<Job>,
    pub(crate) waiters: VecDeque<Waiter>,
    /// Asks that wait for clusters, which the current job may free.
    pub(crate) starved: VecDeque<(RequestId, Ask)>,
    pub(crate) checkpoints: Vec<RequestId>,
    out: VecDeque<Output>,
    pub(crate) now: SimTime,
    /// Number of the latest change.
    pub(crate) clock: u64,
    pub(crate) log: Log,
    /// Generation of the latest complete checkpoint.
    pub(crate) generation: u64,
    /// Commit everything dirty as soon as possible.
    pub(crate) commit_now: bool,
    /// A write failed: no more changes are accepted.
    pub(crate) broken: bool,
    disk: DiskPhase,
    /// Groups that could not be read, or had wrong checksums, at their latest read.
    pub(crate) damaged: BTreeSet<u32>,
    pub(crate) stats: Stats,
    /// See [`GroupStore::lost_checkpoint()`].
    pub(crate) lost_checkpoint: bool,
}

impl GroupStore {
    pub(crate) fn new(
        config: Config,
        geometry: Geometry,
        uuid: [u8; 16],
        tables: Tables,
        clusters: ClusterMap,
        log: Log,
        generation: u64,
    ) -> Self {
        Self {
            config,
            geometry,
            uuid,
            tables,
            clusters,
            cache: Cache::default(),
            changed: FxHashMap::default(),
            dirty: BTreeMap::new(),
            loading: FxHashMap::default(),
            flights: FxHashMap::default(),
            next_io: 0,
            job: None,
            waiters: VecDeque::new(),
            starved: VecDeque::new(),
            checkpoints: Vec::new(),
            out: VecDeque::new(),
            now: SimTime(0),
            clock: 0,
            log,
            generation,
            commit_now: false,
            broken: false,
            disk: DiskPhase::Turning,
            damaged: BTreeSet::new(),
            stats: Stats::default(),
            lost_checkpoint: false,
        }
    }

    /// Takes an input at time `now`. Time never runs backwards.
    pub fn handle(&mut self, now: SimTime, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Ask { id, ask } => self.ask(id, ask, true),
            Input::Done { io, result } => match self.flights.remove(&io.0) {
                Some(Flight::Load(group)) => self.loaded(group, result),
                Some(Flight::Job) => self.job_io_ended(result.is_some()),
                None => {}
            },
            Input::OtherSynced(done) => self.other_synced(done),
            Input::Tick => {}
        }
        self.advance();
    }

    /// The next output for the driver. Call until `None`.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// Time for the next [`Input::Tick`], if no other input comes first.
    pub fn wakeup(&self) -> Option<SimTime> {
        if self.broken || self.job.is_some() {
            return None;
        }
        self.oldest_change().map(|t| t + self.commit_after())
    }

    /// Sets the assumed phase of the disk. Unsynced changes wait for a sleeping disk, and are
    /// written before a drowsy disk falls asleep. The time of [`GroupStore::wakeup`] may change.
    pub const fn set_disk_phase(&mut self, phase: DiskPhase) {
        self.disk = phase;
    }

    /// Age at which a change is committed.
    pub(crate) fn commit_after(&self) -> Duration {
        match self.disk {
            DiskPhase::Turning => self.config.commit_after,
            DiskPhase::Drowsy => self.config.commit_along,
            DiskPhase::Asleep => self.config.commit_after.max(PATIENCE),
        }
    }

    /// The group of a file, if the group is not in memory.
    pub fn absent_group(&self, file: FileNumber) -> Option<u32> {
        self.file(file).map(|f| f.group).filter(|g| !self.cache.contains(*g))
    }

    /// True if the group of a file waits to be written: one more change costs no more writes.
    pub fn waits_to_be_written(&self, file: FileNumber) -> bool {
        self.file(file).and_then(|f| self.dirty.get(&f.group)).is_some_and(|d| d.data)
    }

    /// True if the latest contents of a file are not durable yet.
    pub fn is_being_written(&self, file: FileNumber) -> bool {
        let in_job = |group| self.job.as_ref().is_some_and(|job| job.carries(group));
        self.waits_to_be_written(file) || self.file(file).is_some_and(|f| in_job(f.group))
    }

    /// True if changes that wait for a commit fill their part of the memory.
    pub fn is_crowded(&self) -> bool {
        self.dirty_bytes() > self.config.cache.0 / 2
    }

    /// Time of the oldest change that no commit carries yet.
    pub(crate) fn oldest_change(&self) -> Option<SimTime> {
        self.dirty.values().map(|d| d.time).min()
    }

    /// The current entry of a file; a crash may lose its latest changes.
    pub fn file(&self, number: FileNumber) -> Option<&FileEntry> {
        match self.changed.get(&number) {
            Some(changed) => changed.file.as_ref(),
            None => self.tables.file(number),
        }
    }

    /// Every file, in any order.
    pub fn files(&self) -> impl Iterator<Item = (FileNumber, &FileEntry)> {
        let unchanged = self.tables.files_from(0).filter(|(n, _)| !self.changed.contains_key(n));
        unchanged.chain(self.changed.iter().filter_map(|(n, c)| c.file.as_ref().map(|f| (*n, f))))
    }

    /// Files that are arriving or leaving. After attaching, the driver must look for the marker of
    /// each in the other module; see the documentation of the crate.
    pub fn unsettled(&self) -> Vec<FileNumber> {
        let mut found: Vec<FileNumber> =
            self.files().filter(|(_, f)| f.state != FileState::Settled).map(|(n, _)| n).collect();
        found.sort_unstable();
        found
    }

    /// Number of committed files.
    pub const fn file_count(&self) -> u32 {
        self.tables.files()
    }

    /// Number of committed groups.
    pub fn group_count(&self) -> u32 {
        self.tables.groups()
    }

    /// The live files of each committed group.
    pub fn groups(&self) -> Vec<Vec<FileNumber>> {
        let numbers = self.tables.group_numbers();
        let files = |group: u32| {
            let slots = self.tables.group(group).map(|g| g.slots.iter()).into_iter().flatten();
            let live =
                slots.filter(move |s| self.tables.file(s.number).is_some_and(|f| f.group == group));
            live.map(|s| s.number).collect()
        };
        numbers.into_iter().map(files).collect()
    }

    /// Counters since the attach.
    pub fn stats(&self) -> Stats {
        let damaged = self.damaged.iter().filter(|group| self.tables.group(**group).is_some());
        Stats { damaged: damaged.count() as u64, ..self.stats }
    }

    /// The layout of the store on its device.
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The UUID of this store.
    pub const fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Number of the latest complete checkpoint.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// True if the attach found only one whole checkpoint: there may have been a later one.
    pub const fn lost_checkpoint(&self) -> bool {
        self.lost_checkpoint
    }

    /// Number of free clusters, and of clusters that the next checkpoint frees.
    pub const fn free_clusters(&self) -> (u32, u32) {
        (self.clusters.free(), self.clusters.deleted())
    }

    /// Bytes of cached groups.
    pub const fn cached_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// Number of the latest use of a cached group. Two caches that share memory share this counter.
    pub const fn cache_uses(&self) -> u64 {
        self.cache.uses()
    }

    /// Raises the counter of cache uses to `uses`, if it is lower.
    pub const fn raise_cache_uses(&mut self, uses: u64) {
        self.cache.raise_uses(uses);
    }

    /// Number of the latest use of the evictable group that was unused for longest.
    pub fn oldest_cache_use(&self) -> Option<u64> {
        self.cache.oldest().map(|(used, _)| used)
    }

    /// Evicts that group from the cache.
    pub fn evict_oldest(&mut self) {
        if let Some((_, group)) = self.cache.oldest() {
            self.cache.remove(group);
        }
    }

    /// True if no I/O is in flight and no change waits to be committed.
    pub fn is_clean(&self) -> bool {
        self.job.is_none() && self.dirty.is_empty() && self.flights.is_empty()
    }

    pub(crate) fn complete(&mut self, id: RequestId, result: Result<Reply, Fault>) {
        self.out.push_back(Output::Complete { id, result });
    }

    /// Starts an I/O.
    pub(crate) fn submit(
        &mut self,
        flight: Flight,
        op: Op,
        extent: Extent,
        data: Vec<u8>,
        what: IoPurpose,
    ) {
        while self.flights.contains_key(&self.next_io) {
            self.next_io = self.next_io.wrapping_add(1);
        }
        let id = IoId(self.next_io);
        self.next_io = self.next_io.wrapping_add(1);
        self.flights.insert(id.0, flight);
        self.out.push_back(Output::Submit(Io { id, op, extent, data, what }));
    }

    pub(crate) fn sync_other(&mut self) {
        self.out.push_back(Output::SyncOther);
    }
}
