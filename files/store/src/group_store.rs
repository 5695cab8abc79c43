//! The group store as a state machine: asks in, I/O and answers out. Here are asks, the files' newest state, and reading
//! groups; how changes reach the store is in [`crate::commit`]. It touches no device and no clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;
use seekless_block::{Duration, Extent, Op, SimTime};

use crate::api::{
    Arrival, Ask, Config, FILE_BYTES_MAX, Fault, FileNumber, FileState, GROUP_FILES_MAX, Input, Io,
    IoId, IoPurpose, Member, NAME_BYTES_MAX, Output, Reply, RequestId, Stats,
};
use crate::cluster_map::ClusterMap;
use crate::commit::{Job, Log, WaitScope, Waiter};
use crate::disk_sleep::{DiskPhase, PATIENCE};
use crate::file_name::Name;
use crate::format::{Geometry, file_bytes, group_bytes};
use crate::group_cache::Cache;
use crate::tables::{FileEntry, Tables};

/// A file that is newer than the tables have it; `None` where it is gone.
#[derive(Clone, Debug)]
pub(crate) struct Changed {
    pub(crate) file: Option<FileEntry>,
    /// The change that made it so.
    pub(crate) version: u64,
}

/// A group that is newer than the tables have it. Number 0 stands for no group: files that are gone.
#[derive(Clone, Debug)]
pub(crate) struct Dirty {
    /// Its first change that is not on its way.
    pub(crate) since: u64,
    /// When that was.
    pub(crate) time: SimTime,
    /// Not only entries, but bytes.
    pub(crate) data: bool,
    /// Files with new entries.
    pub(crate) files: BTreeSet<FileNumber>,
    /// Clusters that it takes at worst, file by file.
    pub(crate) bins: u32,
}

/// What an I/O in flight is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flight {
    Load(u32),
    Job,
}

/// The group store of EEFS.
#[derive(Debug)]
pub struct GroupStore {
    pub(crate) config: Config,
    pub(crate) geometry: Geometry,
    pub(crate) uuid: [u8; 16],
    pub(crate) table: Tables,
    pub(crate) space: ClusterMap,
    pub(crate) cache: Cache,
    pub(crate) changed: FxHashMap<FileNumber, Changed>,
    pub(crate) dirty: BTreeMap<u32, Dirty>,
    loading: FxHashMap<u32, Vec<(RequestId, Ask)>>,
    flights: FxHashMap<u32, Flight>,
    next_io: u32,
    pub(crate) job: Option<Job>,
    pub(crate) waiters: VecDeque<Waiter>,
    /// Asks for which there may be clusters when the job at hand is done.
    pub(crate) starved: VecDeque<(RequestId, Ask)>,
    pub(crate) checkpoints: Vec<RequestId>,
    out: VecDeque<Output>,
    pub(crate) now: SimTime,
    /// Counts changes.
    pub(crate) clock: u64,
    pub(crate) log: Log,
    /// Of the checkpoint that stands.
    pub(crate) generation: u64,
    /// Bytes of records that files on their way will take.
    pub(crate) coming: u64,
    /// Everything dirty should go now.
    pub(crate) kick: bool,
    pub(crate) broken: bool,
    phase: DiskPhase,
    pub(crate) stats: Stats,
}

impl GroupStore {
    pub(crate) fn new(
        config: Config,
        geometry: Geometry,
        uuid: [u8; 16],
        table: Tables,
        space: ClusterMap,
        log: Log,
        generation: u64,
    ) -> Self {
        Self {
            config,
            geometry,
            uuid,
            table,
            space,
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
            coming: 0,
            kick: false,
            broken: false,
            phase: DiskPhase::Turning,
            stats: Stats::default(),
        }
    }

    /// Something happens at `now`, which must not run backwards between calls.
    pub fn handle(&mut self, now: SimTime, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Ask { id, ask } => {
                self.stats.asks += 1;
                self.ask(id, ask, true);
            }
            Input::Done { io, result } => match self.flights.remove(&io.0) {
                Some(Flight::Load(group)) => self.loaded(group, result),
                Some(Flight::Job) => self.job_done(result.is_some()),
                None => {}
            },
            Input::OtherSynced(done) => self.other_synced(done),
            Input::Tick => {}
        }
        self.advance();
    }

    /// What the driver must do next; call until `None`.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When it wants to be called with [`Input::Tick`], if nothing else happens.
    #[must_use]
    pub fn wakeup(&self) -> Option<SimTime> {
        if self.broken || self.job.is_some() {
            return None;
        }
        self.oldest().map(|t| t + self.commit_after())
    }

    /// What the disk does, as far as that is known: changes that nobody syncs wait for one that sleeps, and go to one that is
    /// about to. [`GroupStore::wakeup`] may be another time now.
    pub const fn disk_is(&mut self, phase: DiskPhase) {
        self.phase = phase;
    }

    pub(crate) fn commit_after(&self) -> Duration {
        match self.phase {
            DiskPhase::Turning => self.config.commit_after,
            DiskPhase::Drowsy => self.config.commit_along,
            DiskPhase::Asleep => self.config.commit_after.max(PATIENCE),
        }
    }

    /// The group of a file whose bytes are not in memory.
    #[must_use]
    pub fn absent_group(&self, file: FileNumber) -> Option<u32> {
        self.file(file).map(|f| f.group).filter(|g| !self.cache.contains(*g))
    }

    /// When the oldest change was made that is not on its way.
    pub(crate) fn oldest(&self) -> Option<SimTime> {
        self.dirty.values().map(|d| d.time).min()
    }

    /// A file as it is now, whether a crash would keep it or not.
    #[must_use]
    pub fn file(&self, number: FileNumber) -> Option<&FileEntry> {
        match self.changed.get(&number) {
            Some(changed) => changed.file.as_ref(),
            None => self.table.file(number),
        }
    }

    /// Every file, in no particular order.
    pub fn files(&self) -> impl Iterator<Item = (FileNumber, &FileEntry)> {
        let old = self.table.files_from(0).filter(|(n, _)| !self.changed.contains_key(n));
        old.chain(self.changed.iter().filter_map(|(n, c)| c.file.as_ref().map(|f| (*n, f))))
    }

    /// Files on their way here or back: after attaching, the driver must find out of each whether the other module has
    /// its marker; see the crate's documentation.
    #[must_use]
    pub fn unsettled(&self) -> Vec<FileNumber> {
        let mut found: Vec<FileNumber> =
            self.files().filter(|(_, f)| f.state != FileState::Settled).map(|(n, _)| n).collect();
        found.sort_unstable();
        found
    }

    /// Files on the store, as of the last commit.
    #[must_use]
    pub const fn file_count(&self) -> u32 {
        self.table.files()
    }

    /// Groups on the store, as of the last commit.
    #[must_use]
    pub fn group_count(&self) -> u32 {
        self.table.groups()
    }

    /// The files of each group on the store, as of the last commit; the dead left out.
    #[must_use]
    pub fn groups(&self) -> Vec<Vec<FileNumber>> {
        let numbers = self.table.group_numbers();
        let files = |group: u32| {
            let slots = self.table.group(group).map(|g| g.slots.iter()).into_iter().flatten();
            let live =
                slots.filter(move |s| self.table.file(s.number).is_some_and(|f| f.group == group));
            live.map(|s| s.number).collect()
        };
        numbers.into_iter().map(files).collect()
    }

    /// What it has done.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// Where things stand.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Tells this store from every other one.
    #[must_use]
    pub const fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Clusters that are free, and that the next checkpoint frees.
    #[must_use]
    pub const fn free_clusters(&self) -> (u32, u32) {
        (self.space.free(), self.space.deleted())
    }

    /// Bytes of files in memory.
    #[must_use]
    pub const fn cached_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// Counts uses of groups in memory; one used later has a larger one. Two caches that share their memory share
    /// this count.
    #[must_use]
    pub const fn uses(&self) -> u64 {
        self.cache.uses()
    }

    /// Goes on counting uses from here, if that is further.
    pub const fn count_from(&mut self, uses: u64) {
        self.cache.count_from(uses);
    }

    /// The use of the group that was not used for longest, among those that may be forgotten.
    #[must_use]
    pub fn oldest_use(&self) -> Option<u64> {
        self.cache.oldest().map(|(used, _)| used)
    }

    /// Forgets that group.
    pub fn forget_oldest(&mut self) {
        if let Some((_, group)) = self.cache.oldest() {
            self.cache.remove(group);
        }
    }

    /// Whether nothing is under way and nothing waits to be written.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.job.is_none() && self.dirty.is_empty() && self.flights.is_empty()
    }

    pub(crate) fn complete(&mut self, id: RequestId, result: Result<Reply, Fault>) {
        self.out.push_back(Output::Complete { id, result });
    }

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

    /// Carries an ask out, or lets it wait for its group. `first`: it has not waited yet.
    pub(crate) fn ask(&mut self, id: RequestId, ask: Ask, first: bool) {
        if let Some(group) = self.missing(&ask) {
            self.load(group, id, ask);
            return;
        }
        if first && matches!(ask, Ask::Read { .. } | Ask::Write { .. } | Ask::Resize { .. }) {
            self.stats.hits += 1;
        }
        let changes = !matches!(ask, Ask::Read { .. });
        if changes && self.broken {
            return self.complete(id, Err(Fault::Broken));
        }
        let result = match ask {
            Ask::Read { file, offset, len } => self.read(file, offset, len).map(Reply::Data),
            Ask::Write { file, ref data, .. } if data.is_empty() => {
                self.file(file).map(|_| Reply::Done).ok_or(Fault::NoFile(file))
            }
            Ask::Write { file, offset, ref data, time } => {
                let result = self.edit(file, time, data.len() as u64, offset, |bytes| {
                    let end = offset as usize + data.len();
                    if bytes.len() < end {
                        bytes.resize(end, 0);
                    }
                    bytes[offset as usize..end].copy_from_slice(data);
                });
                match result {
                    Err(Fault::NoSpace) if self.may_wait() => {
                        return self.starved.push_back((id, ask));
                    }
                    other => other.map(|()| Reply::Done),
                }
            }
            Ask::Resize { file, size, time } => {
                let result = self.edit(file, time, 0, size, |b| b.resize(size as usize, 0));
                match result {
                    Err(Fault::NoSpace) if self.may_wait() => {
                        return self.starved.push_back((id, ask));
                    }
                    other => other.map(|()| Reply::Done),
                }
            }
            Ask::SetAttributes { file, attributes } => {
                self.modify(file, |f| f.attributes = attributes).map(|()| Reply::Done)
            }
            Ask::Rename { file, name } => self.rename(file, name).map(|()| Reply::Done),
            Ask::Remove { file } => self.remove(file).map(|()| Reply::Done),
            Ask::Settle { files } => {
                let mut done = Ok(());
                for file in files {
                    done = done.and(self.modify(file, |f| f.state = FileState::Settled));
                }
                done.map(|()| Reply::Done)
            }
            Ask::Leave { files } => {
                let mut groups = Vec::new();
                for file in files {
                    if let Err(fault) = self.modify(file, |f| f.state = FileState::Leaving) {
                        return self.complete(id, Err(fault));
                    }
                    groups.extend(self.file(file).map(|f| f.group));
                }
                return self.wait(id, WaitScope::Groups(groups), Reply::Done);
            }
            Ask::Group { members } if self.is_new(&members) => {
                // A group may be formed of others only when these are on the store: see `GroupStore::needs`.
                return self.starved.push_back((id, Ask::Group { members }));
            }
            Ask::Group { members } => match self.form(&members) {
                Ok((group, numbers)) => {
                    return self.wait(id, WaitScope::Groups(vec![group]), Reply::Numbers(numbers));
                }
                Err(Fault::NoSpace) if self.may_wait() => {
                    return self.starved.push_back((id, Ask::Group { members }));
                }
                Err(fault) => Err(fault),
            },
            Ask::Sync { file } => {
                let scope = match file.map(|f| (f, self.file(f))) {
                    None => WaitScope::All,
                    Some((_, Some(f))) => WaitScope::Groups(vec![f.group]),
                    Some((f, None)) => return self.complete(id, Err(Fault::NoFile(f))),
                };
                return self.wait(id, scope, Reply::Done);
            }
            Ask::Checkpoint => return self.checkpoints.push(id),
        };
        self.complete(id, result);
    }

    fn wait(&mut self, id: RequestId, scope: WaitScope, reply: Reply) {
        self.waiters.push_back(Waiter { id, scope, clock: self.clock, reply });
    }

    /// A group that must be in memory before this can be done.
    fn missing(&mut self, ask: &Ask) -> Option<u32> {
        let of = |gfs: &Self, file: FileNumber| {
            gfs.file(file).map(|f| f.group).filter(|g| !gfs.cache.contains(*g))
        };
        match ask {
            Ask::Read { file, offset, len } => {
                let inside = self.file(*file).is_some_and(|f| *offset < f.size.into());
                of(self, *file).filter(|_| inside && *len > 0)
            }
            Ask::Write { file, .. } | Ask::Resize { file, .. } => of(self, *file),
            Ask::Group { members } => {
                // Those in memory stay until the others have come.
                for member in members {
                    let &Member::Here(file) = member else { continue };
                    if let Some(group) = of(self, file) {
                        return Some(group);
                    }
                    if let Some(group) = self.file(file).map(|f| f.group) {
                        self.cache.hold(group, true);
                    }
                }
                None
            }
            _ => None,
        }
    }

    fn load(&mut self, group: u32, id: RequestId, ask: Ask) {
        if let Some(waiting) = self.loading.get_mut(&group) {
            waiting.push((id, ask));
            return;
        }
        self.loading.insert(group, vec![(id, ask)]);
        let Some(at) = self.table.group(group) else {
            // Every group that is not on the store is in memory.
            unreachable!("group {group} is neither in memory nor on the store");
        };
        let extent = self.geometry.group_extent(at.cluster, at.bytes);
        self.stats.groups_read += 1;
        self.stats.bytes_read += extent.bytes().0;
        self.submit(Flight::Load(group), Op::Read, extent, Vec::new(), IoPurpose::Group);
    }

    fn loaded(&mut self, group: u32, result: Option<Vec<u8>>) {
        let waiting = self.loading.remove(&group).unwrap_or_default();
        // Where its last file was removed meanwhile, it is of no use to anyone.
        let fault = match (self.table.group(group), result) {
            (None, _) => None,
            (Some(at), None) => Some(Fault::Read(self.geometry.group_extent(at.cluster, at.bytes))),
            (Some(at), Some(bytes)) => {
                let whole =
                    bytes.get(..at.bytes as usize).filter(|b| crc_fast::crc32_iscsi(b) == at.sum);
                match whole {
                    None => {
                        self.stats.damaged += 1;
                        let extent = self.geometry.group_extent(at.cluster, at.bytes);
                        Some(Fault::Damaged { group, extent })
                    }
                    Some(bytes) => {
                        let live = at
                            .slots
                            .iter()
                            .filter(|s| self.file(s.number).is_some_and(|f| f.group == group));
                        let files = live
                            .map(|s| {
                                let range = s.offset as usize..(s.offset + s.bytes) as usize;
                                (s.number, bytes[range].to_vec())
                            })
                            .collect();
                        self.cache.put(group, files);
                        self.cache.shrink(self.config.cache.0);
                        None
                    }
                }
            }
        };
        if self.oldest().is_some_and(|t| t + self.config.commit_along <= self.now) {
            self.kick = true;
        }
        for (id, ask) in waiting {
            match fault {
                Some(fault) => {
                    self.release(&ask);
                    self.complete(id, Err(fault));
                }
                None => self.ask(id, ask, false),
            }
        }
    }

    /// Lets groups go that were to stay for the forming of another.
    fn release(&mut self, ask: &Ask) {
        if let Ask::Group { members } = ask {
            for member in members {
                if let &Member::Here(file) = member
                    && let Some(group) = self.file(file).map(|f| f.group)
                {
                    self.settle_hold(group);
                }
            }
        }
    }

    /// A group stays in memory while it is newer than on the store, or on its way there.
    pub(crate) fn settle_hold(&mut self, group: u32) {
        let newer = self.dirty.get(&group).is_some_and(|d| d.data);
        let going = self.job.as_ref().is_some_and(|j| j.carries(group));
        self.cache.hold(group, newer || going);
    }

    fn read(&mut self, file: FileNumber, offset: u64, len: u32) -> Result<Vec<u8>, Fault> {
        let Some(f) = self.file(file) else { return Err(Fault::NoFile(file)) };
        if offset >= f.size.into() {
            return Ok(Vec::new());
        }
        let group = f.group;
        let bytes = self.cache.get(group).and_then(|c| c.files.get(&file));
        let Some(bytes) = bytes.and_then(|b| b.get(offset as usize..)) else {
            return Ok(Vec::new());
        };
        Ok(bytes[..bytes.len().min(len as usize)].to_vec())
    }

    /// Changes a file's bytes; it will reach at least to `offset + len`, and where `len` is 0 exactly to `offset`.
    fn edit(
        &mut self,
        file: FileNumber,
        time: i64,
        len: u64,
        offset: u64,
        change: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Fault> {
        let Some(f) = self.file(file) else { return Err(Fault::NoFile(file)) };
        let end = offset.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX.into());
        let Some(end) = end else { return Err(Fault::TooLarge) };
        let (group, size) = (f.group, u64::from(f.size));
        let size = if len == 0 { end } else { size.max(end) };
        let sizes = self.cache.peek(group).into_iter().flat_map(|c| c.files.iter());
        let sizes = sizes.map(|(n, b)| if *n == file { size as u32 } else { b.len() as u32 });
        let bins = bins(sizes, self.geometry.cluster_bytes());
        self.reserve(group, bins, 0)?;
        self.cache.edit(group, |files| change(files.entry(file).or_default()));
        self.modify(file, |f| {
            f.size = size as u32;
            f.attributes.modified = time;
            f.attributes.changed = time;
        })?;
        self.dirty_data(group, bins);
        Ok(())
    }

    /// Whether there will be clusters for a group that takes `bins` at worst, and `spare` beside.
    fn reserve(&self, group: u32, bins: u32, spare: u32) -> Result<(), Fault> {
        let others = self.dirty.iter().filter(|(g, d)| **g != group && d.data).map(|(_, d)| d.bins);
        let wanted = u64::from(bins) + others.map(u64::from).sum::<u64>() + u64::from(spare);
        let there = u64::from(self.space.free()) + u64::from(self.space.deleted());
        if wanted <= there { Ok(()) } else { Err(Fault::NoSpace) }
    }

    /// Whether the job at hand may free clusters.
    fn may_wait(&self) -> bool {
        self.job.is_some() || !self.dirty.is_empty()
    }

    /// Changes an entry.
    fn modify(
        &mut self,
        file: FileNumber,
        change: impl FnOnce(&mut FileEntry),
    ) -> Result<(), Fault> {
        let Some(mut f) = self.file(file).cloned() else { return Err(Fault::NoFile(file)) };
        change(&mut f);
        let group = f.group;
        self.clock += 1;
        self.changed.insert(file, Changed { file: Some(f), version: self.clock });
        self.dirty(group).files.insert(file);
        Ok(())
    }

    pub(crate) fn dirty(&mut self, group: u32) -> &mut Dirty {
        let (since, time) = (self.clock, self.now);
        self.dirty.entry(group).or_insert_with(|| Dirty {
            since,
            time,
            data: false,
            files: BTreeSet::new(),
            bins: 0,
        })
    }

    fn dirty_data(&mut self, group: u32, bins: u32) {
        let dirty = self.dirty(group);
        (dirty.data, dirty.bins) = (true, bins);
        self.cache.hold(group, true);
    }

    fn rename(&mut self, file: FileNumber, name: Vec<u8>) -> Result<(), Fault> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Fault::NoGroup);
        }
        if self.file(file).is_some_and(|f| f.name.len() < name.len()) {
            self.expect_records(name.len() as u64, 0)?;
        }
        self.modify(file, |f| f.name = Name::from(&name[..]))
    }

    /// Room in the checkpoints for more records, a part of it kept back.
    fn expect_records(&mut self, bytes: u64, spare: u64) -> Result<(), Fault> {
        let (taken, room) = (self.table.bytes() + self.coming, self.geometry.table_bytes_max());
        if taken + bytes + spare > room {
            return Err(Fault::TableFull);
        }
        self.coming += bytes;
        Ok(())
    }

    fn remove(&mut self, file: FileNumber) -> Result<(), Fault> {
        let Some(group) = self.file(file).map(|f| f.group) else { return Err(Fault::NoFile(file)) };
        self.clock += 1;
        self.changed.insert(file, Changed { file: None, version: self.clock });
        // Whoever waits for what was done to it before waits for its end instead.
        let owed = self.dirty.get(&group).filter(|d| d.files.contains(&file)).map(|d| d.since);
        let gone = self.dirty(0);
        gone.files.insert(file);
        if let Some(since) = owed {
            gone.since = gone.since.min(since);
            self.waiters.iter_mut().for_each(|w| w.scope.follow(group, 0));
        }
        self.left(group, file);
        Ok(())
    }

    /// A file is no longer of this group: forgets it there, and the group where it was the last.
    fn left(&mut self, group: u32, file: FileNumber) {
        if self.cache.contains(group) {
            let empty = self.cache.edit(group, |files| {
                files.remove(&file);
                files.is_empty()
            });
            if empty {
                self.dirty.remove(&group);
                self.cache.remove(group);
                return;
            }
        }
        if let Some(dirty) = self.dirty.get_mut(&group) {
            dirty.files.remove(&file);
            if dirty.files.is_empty() && !dirty.data {
                self.dirty.remove(&group);
            }
        }
    }

    /// Makes a group; its members' own groups are in memory.
    fn form(&mut self, members: &[Member]) -> Result<(u32, Vec<FileNumber>), Fault> {
        let checked = self.check_members(members);
        let cluster = self.geometry.cluster_bytes();
        let room = checked.and_then(|()| {
            // In the order of their numbers, as they will stand.
            let mut sizes: Vec<(FileNumber, u32)> = members
                .iter()
                .map(|m| match m {
                    Member::Here(n) => (*n, self.file(*n).map_or(0, |f| f.size)),
                    Member::New(a) => (FileNumber(u64::MAX), a.data.len() as u32),
                })
                .collect();
            sizes.sort_by_key(|s| s.0);
            let bins = bins(sizes.into_iter().map(|s| s.1), cluster);
            // Files that are here need clusters to be written anew; newcomers must leave them some.
            let spare = 2 + self.geometry.clusters / 16;
            self.reserve(0, bins, spare)?;
            let names = members.iter().map(|m| match m {
                Member::Here(_) => 0,
                Member::New(a) => file_bytes(a.name.len()) as u64,
            });
            let bytes = names.sum::<u64>() + group_bytes(members.len()) as u64;
            self.expect_records(bytes, self.geometry.table_bytes_max() / 16)?;
            Ok(bins)
        });
        let bins = match room {
            Ok(bins) => bins,
            Err(fault) => {
                self.release(&Ask::Group { members: members.to_vec() });
                return Err(fault);
            }
        };
        let group = self.table.next_group;
        self.table.next_group += 1;
        self.clock += 1;
        let mut files = BTreeMap::new();
        let mut numbers = Vec::with_capacity(members.len());
        // What a member's old group owed to those who wait, the new one owes.
        let mut since = u64::MAX;
        for member in members {
            if let Member::Here(number) = member
                && let Some(old) = self.file(*number).map(|f| f.group)
                && let Some(dirty) = self.dirty.get(&old)
            {
                since = since.min(dirty.since);
                self.waiters.iter_mut().for_each(|w| w.scope.follow(old, group));
            }
            let (number, data) = match member {
                Member::New(arrival) => (self.arrive(group, arrival), arrival.data.clone()),
                Member::Here(number) => self.move_to(group, *number),
            };
            files.insert(number, data);
            numbers.push(number);
        }
        self.cache.put(group, files);
        let since = since.min(self.clock);
        let dirty = self.dirty(group);
        dirty.since = since;
        dirty.files.extend(numbers.iter().copied());
        self.dirty_data(group, bins);
        Ok((group, numbers))
    }

    /// Whether one of these is in a group that the store does not have yet.
    fn is_new(&self, members: &[Member]) -> bool {
        members.iter().any(|m| match m {
            Member::Here(n) => self.file(*n).is_some_and(|f| self.table.group(f.group).is_none()),
            Member::New(_) => false,
        })
    }

    fn check_members(&self, members: &[Member]) -> Result<(), Fault> {
        if !(1..=GROUP_FILES_MAX).contains(&members.len()) || self.table.next_count == u32::MAX {
            return Err(Fault::NoGroup);
        }
        let mut seen = BTreeSet::new();
        for member in members {
            match member {
                Member::Here(n) if self.file(*n).is_none() => return Err(Fault::NoFile(*n)),
                Member::Here(n) if !seen.insert(*n) => return Err(Fault::NoGroup),
                Member::New(a) if a.name.len() > NAME_BYTES_MAX => return Err(Fault::NoGroup),
                Member::New(a) if a.data.len() > FILE_BYTES_MAX as usize => {
                    return Err(Fault::TooLarge);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn arrive(&mut self, group: u32, arrival: &Arrival) -> FileNumber {
        let number = self.table.number();
        let file = FileEntry {
            size: arrival.data.len() as u32,
            group,
            attributes: arrival.attributes,
            state: FileState::Arriving,
            name: Name::from(&arrival.name[..]),
        };
        self.changed.insert(number, Changed { file: Some(file), version: self.clock });
        number
    }

    fn move_to(&mut self, group: u32, number: FileNumber) -> (FileNumber, Vec<u8>) {
        let Some(mut file) = self.file(number).cloned() else { return (number, Vec::new()) };
        let old = std::mem::replace(&mut file.group, group);
        self.changed.insert(number, Changed { file: Some(file), version: self.clock });
        let data = self.cache.edit(old, |files| files.remove(&number).unwrap_or_default());
        self.left(old, number);
        self.settle_hold(old);
        (number, data)
    }
}

/// Clusters that files take where each lies within one, in their order: what can always be had, however the free
/// clusters lie. Never fewer than all of them in one run.
pub(crate) fn bins(sizes: impl Iterator<Item = u32>, cluster: u32) -> u32 {
    let (mut bins, mut room) = (1, cluster);
    for size in sizes {
        if size > room {
            bins += 1;
            room = cluster;
        }
        room -= size;
    }
    bins
}
