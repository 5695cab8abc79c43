//! EEFS in the simulation: the group store beside the file system, learning and shuffles. The store
//! is the store that ships, on a medium in memory; all file bytes are zero.

use std::collections::VecDeque;

use crate::ffs::{Ffs, Work};
use rustc_hash::{FxHashMap, FxHashSet};
use seekless_block::{Bytes, Device as _, Duration, MemDevice, Op, SECTOR_BYTES, Sectors, SimTime};
use seekless_store::{
    Ask, Attributes, Config, DiskPhase, FILE_BYTES_MAX, Fault, FileNumber, Group, GroupStore,
    Input, IoId, Output, Reply, RequestId, SleepClock, Successors, format_store,
    groups_to_read_ahead,
};
use seekless_trace::{FileEvent, FileOp};

use super::group_use::GroupUses;
use super::moves::{FileMove, LateWrite};
use super::replay::{FilesOptions, Grouping, Simulated};
use super::simulation::{Kind, Purpose, World, join};

/// The purpose of a request to the store.
#[derive(Debug)]
pub(super) enum StoreRequest {
    Client(Kind, SimTime),
    Write(u64, SimTime, u64, u64),
    Form(Vec<u64>),
    Leave(Vec<u64>, Option<LateWrite>),
    Fetch(u64, Option<LateWrite>),
    Nothing,
}

#[derive(Debug)]
pub(super) struct Eefs {
    pub(super) gfs: GroupStore,
    pub(super) medium: MemDevice,
    pub(super) graph: Successors,
    /// The disk's sleep, if it sleeps.
    pub(super) rest: Option<SleepClock>,
    /// Since when a shuffle waits.
    pub(super) due: Option<SimTime>,
    pub(super) here: FxHashMap<u64, FileNumber>,
    pub(super) asked: FxHashMap<u64, StoreRequest>,
    /// Extents of reads in flight.
    pub(super) reads: FxHashMap<u32, seekless_block::Extent>,
    pub(super) next: u64,
    pub(super) moves: VecDeque<FileMove>,
    pub(super) moving: bool,
    /// The present batch of moves: unfinished requests to the store, the file system's work, and
    /// the store's numbers of the files.
    pub(super) open: usize,
    pub(super) work: Work,
    pub(super) lot: Vec<FileNumber>,
    pub(super) every: u64,
    pub(super) since: u64,
    pub(super) groups: Vec<Group>,
    pub(super) uses: GroupUses,
    /// Files read with a group for another file and not used since; `fetches`: number of these
    /// files, and of those used.
    pub(super) fetched: FxHashSet<u64>,
    pub(super) fetches: [u64; 2],
    /// Shuffles with a shuffle before them.
    pub(super) compared: f64,
    pub(super) result: Grouping,
}

impl Eefs {
    /// An empty group store, beside a disk that sleeps after this idle time.
    pub(super) fn new(options: &FilesOptions, sleeps_after: Option<Duration>) -> Simulated<Self> {
        let mut medium = MemDevice::new(Sectors(options.store.0 / SECTOR_BYTES));
        format_store(&mut medium, [1; 16], options.cluster, "simulated")?;
        let config = Config { cache: options.cache, ..Config::default() };
        Ok(Self {
            gfs: GroupStore::attach(&mut medium, config)?,
            medium,
            graph: Successors::new(options.groups)?,
            rest: sleeps_after.map(|after| SleepClock::new(after, SimTime(0))),
            due: None,
            here: FxHashMap::default(),
            asked: FxHashMap::default(),
            reads: FxHashMap::default(),
            next: 0,
            moves: VecDeque::new(),
            moving: false,
            open: 0,
            work: Work::default(),
            lot: Vec::new(),
            every: options.shuffle_every.max(1),
            since: 0,
            groups: Vec::new(),
            uses: GroupUses::default(),
            fetched: FxHashSet::default(),
            fetches: [0; 2],
            compared: 0.0,
            result: Grouping::default(),
        })
    }

    /// The next time at which the store has work.
    pub(super) fn wakeup(&mut self, now: SimTime) -> Option<SimTime> {
        let Some(rest) = &self.rest else { return self.gfs.wakeup() };
        self.gfs.set_disk_phase(rest.phase(now));
        // Waiting writes may go just before the disk sleeps.
        let phase = rest.next(now).filter(|_| !self.gfs.is_clean());
        [self.gfs.wakeup(), phase].into_iter().flatten().min()
    }

    /// Notes activity of the disk.
    pub(super) fn used(&mut self, now: SimTime) {
        if let Some(rest) = &mut self.rest {
            rest.used(now);
        }
    }

    /// Hits, and lookups.
    pub(super) fn stats(&self) -> (u64, u64) {
        let s = self.gfs.stats();
        (s.hits, s.hits + s.groups_read)
    }

    /// One memory for two caches: evicts the least recently used block or group of both.
    pub(super) fn share(&mut self, memory: Bytes, ffs: &mut Ffs) -> Work {
        let uses = self.gfs.cache_uses().max(ffs.uses());
        self.gfs.raise_cache_uses(uses);
        ffs.count_from(uses);
        let mut work = Work::default();
        while self.gfs.cached_bytes() + ffs.cached_bytes() > memory.0 {
            match (self.gfs.oldest_cache_use(), ffs.oldest_use()) {
                (Some(group), block) if block.is_none_or(|block| group < block) => {
                    self.gfs.evict_oldest();
                }
                (_, Some(_)) => join(&mut work, ffs.forget_oldest()),
                _ => break,
            }
        }
        work
    }

    pub(super) fn grouping(&self) -> Grouping {
        let [fetched, used] = self.fetches.map(|n| n as f64);
        let used_of_fetched = if fetched == 0.0 { 0.0 } else { used / fetched };
        self.uses.shares(Grouping { used_of_fetched, ..self.result })
    }

    /// Notes the other files of a group that a read of this file brings to memory.
    fn fetch(&mut self, file: u64, number: FileNumber) {
        self.fetches[1] += u64::from(self.fetched.remove(&file));
        let Some(group) = self.gfs.absent_group(number) else { return };
        for (&other, &n) in &self.here {
            if other != file && self.gfs.file(n).is_some_and(|f| f.group == group) {
                self.fetches[0] += u64::from(self.fetched.insert(other));
            }
        }
    }

    /// Whether these files, and no others, are a group.
    pub(super) fn stands(&self, files: &[u64]) -> bool {
        let group = |n: &FileNumber| self.gfs.file(*n).map(|f| f.group);
        let groups: FxHashSet<Option<u32>> =
            files.iter().map(|f| self.here.get(f).and_then(group)).collect();
        let (1, Some(Some(one))) = (groups.len(), groups.iter().next()) else { return false };
        self.here.values().filter(|n| group(n) == Some(*one)).count() == files.len()
    }
}

impl World {
    /// Handles a request before the file system; true if the group store answers it.
    pub(super) fn at_store(&mut self, event: &FileEvent) -> Simulated<bool> {
        let (now, file) = (self.now, u64::from(event.file));
        let Some(eefs) = &mut self.eefs else { return Ok(false) };
        if matches!(event.op, FileOp::Open | FileOp::Create) {
            // A file that is too large for a group must not separate two small files.
            let size = self.facts[event.file as usize].size;
            if size <= u64::from(FILE_BYTES_MAX) {
                eefs.graph.observe(event.stream, file);
            }
            if eefs.result.shuffles > 0 {
                eefs.uses.note(now, file);
            }
        }
        eefs.since += 1;
        if eefs.since >= eefs.every {
            let due = *eefs.due.get_or_insert(now);
            if eefs.rest.is_none_or(|rest| rest.may_begin(now, due)) {
                (eefs.since, eefs.due) = (0, None);
                self.shuffle()?;
            }
        }
        let Some(eefs) = &mut self.eefs else { return Ok(false) };
        let Some(&number) = eefs.here.get(&file) else { return Ok(false) };
        let time = now.0 as i64;
        match event.op {
            FileOp::Open | FileOp::Create | FileOp::Close | FileOp::Rename => {
                self.answered(Kind::Open, now);
            }
            FileOp::Read => {
                eefs.fetch(file, number);
                let attributes = eefs.gfs.file(number).map(|f| f.attributes).unwrap_or_default();
                if event.offset == 0 {
                    let attributes = Attributes { accessed: time, ..attributes };
                    self.ask(
                        Ask::SetAttributes { file: number, attributes },
                        StoreRequest::Nothing,
                    )?;
                }
                let len = event.len.min(u64::from(FILE_BYTES_MAX)) as u32;
                let ask = Ask::Read { file: number, offset: event.offset, len };
                self.ask(ask, StoreRequest::Client(Kind::Read, now))?;
                self.read_ahead(file)?;
            }
            FileOp::Write => self.write_to_store(event, number)?,
            FileOp::Truncate => {
                self.facts[event.file as usize].size = event.len;
                let size = event.len.min(u64::from(FILE_BYTES_MAX));
                let ask = Ask::Resize { file: number, size, time };
                self.ask(ask, StoreRequest::Client(Kind::Rest, now))?;
            }
            FileOp::Sync => {
                self.ask(Ask::Sync { file: Some(number) }, StoreRequest::Client(Kind::Rest, now))?;
            }
            FileOp::Unlink => {
                eefs.here.remove(&file);
                eefs.graph.forget(file);
                let work = self.ffs.unlink(now, file);
                self.begin(work, Purpose::Client(Kind::Rest), false)?;
                self.ask(Ask::Remove { file: number }, StoreRequest::Nothing)?;
            }
        }
        Ok(true)
    }

    fn write_to_store(&mut self, event: &FileEvent, number: FileNumber) -> Simulated {
        let (now, file) = (self.now, u64::from(event.file));
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        let (offset, len) = (event.offset, event.len);
        let end = offset.saturating_add(len);
        let fact = &mut self.facts[event.file as usize];
        fact.size = fact.size.max(end);
        if end > u64::from(FILE_BYTES_MAX) {
            eefs.moves.push_front(FileMove::Back(file, Some((now, offset, len))));
            self.next_move()
        } else {
            let data = vec![0; len as usize];
            let ask = Ask::Write { file: number, offset, data, time: now.0 as i64 };
            self.ask(ask, StoreRequest::Write(file, now, offset, len))
        }
    }

    /// Reads the likely next files while the disk turns.
    fn read_ahead(&mut self, file: u64) -> Simulated {
        let Some(eefs) = &self.eefs else { return Ok(()) };
        if eefs.rest.is_none_or(|rest| rest.phase(self.now) == DiskPhase::Asleep) {
            return Ok(());
        }
        for file in
            groups_to_read_ahead(&eefs.gfs, &eefs.graph, file, |f| eefs.here.get(&f).copied())
        {
            self.ask(Ask::Read { file, offset: 0, len: 1 }, StoreRequest::Nothing)?;
        }
        Ok(())
    }

    pub(super) fn ask(&mut self, ask: Ask, asked: StoreRequest) -> Simulated {
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        eefs.next += 1;
        eefs.asked.insert(eefs.next, asked);
        let id = RequestId(eefs.next);
        self.feed(Input::Ask { id, ask })
    }

    /// Passes an input to the store, and follows the store's outputs.
    pub(super) fn feed(&mut self, input: Input) -> Simulated {
        if let Some(eefs) = &mut self.eefs {
            eefs.gfs.handle(self.now, input);
        }
        self.pump()
    }

    pub(super) fn store_done(&mut self, io: IoId) -> Simulated {
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        let mut data = Vec::new();
        if let Some(extent) = eefs.reads.remove(&io.0) {
            data.resize(extent.bytes().0 as usize, 0);
            eefs.medium.read(extent, &mut data).map_err(seekless_store::AttachError::from)?;
        }
        self.feed(Input::Done { io, result: Some(data) })
    }

    fn pump(&mut self) -> Simulated {
        while let Some(eefs) = &mut self.eefs
            && let Some(output) = eefs.gfs.poll()
        {
            match output {
                Output::Submit(io) => match io.op {
                    Op::Flush => {
                        // The disk has no write-back cache.
                        eefs.gfs
                            .handle(self.now, Input::Done { io: io.id, result: Some(Vec::new()) });
                    }
                    Op::Write => {
                        eefs.medium
                            .write(io.extent, &io.data)
                            .map_err(seekless_store::AttachError::from)?;
                        self.begin_store(io.id, io.op, io.extent, io.what)?;
                    }
                    _ => {
                        eefs.reads.insert(io.id.0, io.extent);
                        self.begin_store(io.id, io.op, io.extent, io.what)?;
                    }
                },
                Output::SyncOther => {
                    // Names are written at once, and returned files were synced.
                    self.begin(Work::default(), Purpose::Other, true)?;
                }
                Output::Complete { id, result } => {
                    let asked = eefs.asked.remove(&id.0).unwrap_or(StoreRequest::Nothing);
                    self.asked_ended(asked, result)?;
                }
            }
        }
        Ok(())
    }

    fn asked_ended(&mut self, asked: StoreRequest, result: Result<Reply, Fault>) -> Simulated {
        match (asked, result) {
            (StoreRequest::Client(kind, arrived), Ok(_)) => self.answered(kind, arrived),
            (StoreRequest::Write(_, arrived, ..), Ok(_)) => self.answered(Kind::Write, arrived),
            (StoreRequest::Write(file, arrived, offset, len), Err(Fault::NoSpace)) => {
                let Some(eefs) = &mut self.eefs else { return Ok(()) };
                eefs.moves.push_front(FileMove::Back(file, Some((arrived, offset, len))));
                return self.next_move();
            }
            (StoreRequest::Form(files), Ok(Reply::Numbers(numbers))) => {
                return self.formed(files, numbers);
            }
            // A full store, or a file removed meanwhile: nothing has moved.
            (StoreRequest::Form(_), Err(Fault::NoSpace | Fault::TableFull | Fault::NoFile(_))) => {
                return self.one_less(FileMove::Left);
            }
            (StoreRequest::Leave(files, then), Ok(_)) => return self.fetch_all(files, then),
            (StoreRequest::Leave(..), Err(Fault::NoFile(_))) => return self.moved(),
            (StoreRequest::Fetch(file, then), Ok(_)) => return self.fetched(file, then),
            (StoreRequest::Fetch(..), Err(Fault::NoFile(_))) => {
                return self.one_less(FileMove::Returned(Vec::new()));
            }
            // A file removed while a request waited for its group.
            (_, Err(Fault::NoFile(_)) | Ok(_)) => {}
            (_, Err(fault)) => return Err(fault.into()),
        }
        Ok(())
    }

    /// A group's files are in the store.
    fn formed(&mut self, files: Vec<u64>, numbers: Vec<FileNumber>) -> Simulated {
        let now = self.now;
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        for (file, number) in files.into_iter().zip(numbers) {
            if eefs.here.insert(file, number).is_none() {
                eefs.result.arrived += 1;
                eefs.lot.push(number);
                join(&mut eefs.work, self.ffs.leave(now, file));
            }
        }
        self.one_less(FileMove::Left)
    }

    /// Reads files that move back out of the store.
    fn fetch_all(&mut self, files: Vec<u64>, then: Option<LateWrite>) -> Simulated {
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        let there: Vec<(u64, FileNumber)> =
            files.into_iter().filter_map(|f| Some((f, *eefs.here.get(&f)?))).collect();
        if there.is_empty() {
            return self.moved();
        }
        eefs.open = there.len();
        for (name, file) in there {
            let ask = Ask::Read { file, offset: 0, len: FILE_BYTES_MAX };
            self.ask(ask, StoreRequest::Fetch(name, then))?;
        }
        Ok(())
    }

    /// A file that moves back was read out of the store.
    fn fetched(&mut self, file: u64, then: Option<LateWrite>) -> Simulated {
        let (now, size) = (self.now, self.facts[file as usize].size);
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        if let Some(number) = eefs.here.remove(&file) {
            eefs.result.returned += 1;
            eefs.lot.push(number);
            let size = size.min(u64::from(FILE_BYTES_MAX));
            let mut work = self.ffs.come_back(now, file, size)?;
            if let Some((arrived, offset, len)) = then {
                join(&mut work, self.ffs.write(now, file, offset, len)?);
                self.answered(Kind::Write, arrived);
            }
            // The store may remove its copy after this sync.
            join(&mut work, self.ffs.sync(file));
            if let Some(eefs) = &mut self.eefs {
                join(&mut eefs.work, work);
            }
        }
        self.one_less(FileMove::Returned(Vec::new()))
    }
}
