//! EEFS in the loop: the group store beside the file system, learning, shuffles, and files on their way between the two.
//! The store is the one that ships; its bytes are kept, all zero.

use std::collections::VecDeque;

use crate::ffs::Ffs;
use crate::ffs::Work;
use rustc_hash::{FxHashMap, FxHashSet};
use seekless_block::{Bytes, Device as _, Duration, MemDevice, Op, SECTOR_BYTES, Sectors, SimTime};
use seekless_store::{
    Arrival, Ask, Attributes, Config, DiskPhase, FILE_BYTES_MAX, Fault, FileNumber, GroupStore,
    Input, IoId, Member, Output, Reply, RequestId, SleepClock, format_store, groups_to_read_ahead,
};
use seekless_store::{Group, Stability, Successors};
use seekless_trace::{FileEvent, FileOp};

use super::world::{Kind, Purpose, World};
use super::{FilesError, FilesOptions, Grouping};

/// Groups that are formed, and files that go back, at once: as a mount does, so that the log is not written for each.
const AT_ONCE: usize = 64;

/// Files on their way, one lot after the other: a shuffle is bounded.
#[derive(Clone, Debug)]
pub(super) enum Move {
    /// A group is formed of these: read those that come.
    Form(Vec<u64>),
    /// Those of several groups have been read.
    Formed(Vec<Vec<u64>>),
    /// They are at the store: their places in the file system are free.
    Left,
    /// A file goes back, and what is then to be written to it.
    Back(u64, Option<(SimTime, u64, u64)>),
    /// Files stand there again.
    Returned(Vec<FileNumber>),
}

/// What an ask was for.
#[derive(Debug)]
enum Asked {
    Client(Kind, SimTime),
    Write(u64, SimTime, u64, u64),
    Form(Vec<u64>),
    Leave(Vec<u64>, Option<(SimTime, u64, u64)>),
    Fetch(u64, Option<(SimTime, u64, u64)>),
    Nothing,
}

/// What is seen of a group between two shuffles: Figure 5.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    group: u32,
    used: bool,
}

#[derive(Debug)]
pub(super) struct Eefs {
    group_store: GroupStore,
    medium: MemDevice,
    graph: Successors,
    /// When the disk sleeps, if it does.
    rest: Option<SleepClock>,
    /// Since when a shuffle has been waiting.
    due: Option<SimTime>,
    here: FxHashMap<u64, FileNumber>,
    asked: FxHashMap<u64, Asked>,
    /// Extents of reads in flight.
    reads: FxHashMap<u32, seekless_block::Extent>,
    next: u64,
    moves: VecDeque<Move>,
    moving: bool,
    /// Of the lot on its way: asks that have not ended, the file system's part, and the store's numbers of its files.
    open: usize,
    work: Work,
    lot: Vec<FileNumber>,
    every: u64,
    since: u64,
    groups: Vec<Group>,
    seen: FxHashMap<u64, Seen>,
    /// When each group was first used since the shuffle.
    first: Vec<Option<SimTime>>,
    counts: [u64; 6],
    /// Files that came to memory for another one's sake and were not used since; so many came, so many were used.
    fetched: FxHashSet<u64>,
    fetches: [u64; 2],
    /// Shuffles that had one before them.
    compared: f64,
    result: Grouping,
}

impl Eefs {
    /// Beside a disk that sleeps after so long without work.
    pub(super) fn new(
        options: &FilesOptions,
        sleeps_after: Option<Duration>,
    ) -> Result<Self, FilesError> {
        let mut medium = MemDevice::new(Sectors(options.store.0 / SECTOR_BYTES));
        format_store(&mut medium, [1; 16], options.cluster, "simulated")?;
        let config = Config { cache: options.cache, ..Config::default() };
        Ok(Self {
            group_store: GroupStore::attach(&mut medium, config)?,
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
            seen: FxHashMap::default(),
            first: Vec::new(),
            counts: [0; 6],
            fetched: FxHashSet::default(),
            fetches: [0; 2],
            compared: 0.0,
            result: Grouping::default(),
        })
    }

    /// When something is to be done, if nothing else happens.
    pub(super) fn wakeup(&mut self, now: SimTime) -> Option<SimTime> {
        let Some(rest) = &self.rest else { return self.group_store.wakeup() };
        self.group_store.set_disk_phase(rest.phase(now));
        // What waits may go where the disk is about to sleep.
        let phase = rest.next(now).filter(|_| !self.group_store.is_clean());
        [self.group_store.wakeup(), phase].into_iter().flatten().min()
    }

    /// The disk does something.
    pub(super) fn used(&mut self, now: SimTime) {
        if let Some(rest) = &mut self.rest {
            rest.used(now);
        }
    }

    /// Hits, and what was looked for.
    pub(super) fn stats(&self) -> (u64, u64) {
        let s = self.group_store.stats();
        (s.hits, s.hits + s.groups_read)
    }

    /// Two caches, one memory: what was not used for longest goes, whichever it is in.
    pub(super) fn share(&mut self, memory: Bytes, ffs: &mut Ffs) -> Work {
        let uses = self.group_store.cache_uses().max(ffs.uses());
        self.group_store.raise_cache_uses(uses);
        ffs.count_from(uses);
        let mut work = Work::default();
        while self.group_store.cached_bytes() + ffs.cached_bytes() > memory.0 {
            match (self.group_store.oldest_cache_use(), ffs.oldest_use()) {
                (Some(group), block) if block.is_none_or(|block| group < block) => {
                    self.group_store.evict_oldest();
                }
                (_, Some(_)) => super::world::join(&mut work, ffs.forget_oldest()),
                _ => break,
            }
        }
        work
    }

    pub(super) fn grouping(&self) -> Grouping {
        let [opens, grouped, others, after, soon, at_once] = self.counts.map(|c| c as f64);
        let share = |a: f64, b: f64| if b == 0.0 { 0.0 } else { a / b };
        Grouping {
            grouped_opens: share(grouped, opens),
            used_after_first: share(after, others),
            within_five_minutes: share(soon, others),
            at_once: share(at_once, others),
            used_of_fetched: share(self.fetches[1] as f64, self.fetches[0] as f64),
            ..self.result
        }
    }

    /// A file's bytes are asked for: notes what comes along with them.
    fn fetch(&mut self, file: u64, number: FileNumber) {
        self.fetches[1] += u64::from(self.fetched.remove(&file));
        let Some(group) = self.group_store.absent_group(number) else { return };
        for (&other, &n) in &self.here {
            if other != file && self.group_store.file(n).is_some_and(|f| f.group == group) {
                self.fetches[0] += u64::from(self.fetched.insert(other));
            }
        }
    }

    /// Whether these files are a group, and no other is in it.
    fn stands(&self, files: &[u64]) -> bool {
        let group = |n: &FileNumber| self.group_store.file(*n).map(|f| f.group);
        let groups: FxHashSet<Option<u32>> =
            files.iter().map(|f| self.here.get(f).and_then(group)).collect();
        let (1, Some(Some(one))) = (groups.len(), groups.iter().next()) else { return false };
        self.here.values().filter(|n| group(n) == Some(*one)).count() == files.len()
    }

    /// Notes who is used after whom in its group.
    fn note(&mut self, now: SimTime, file: u64) {
        if self.result.shuffles == 0 {
            return;
        }
        self.counts[0] += 1;
        let Some(seen) = self.seen.get_mut(&file) else { return };
        self.counts[1] += 1;
        let first = &mut self.first[seen.group as usize];
        if seen.used {
            return;
        }
        seen.used = true;
        match *first {
            None => {
                *first = Some(now);
                self.counts[2] += self.groups[seen.group as usize].len() as u64 - 1;
            }
            Some(since) => {
                self.counts[3] += 1;
                let later = now.since(since);
                self.counts[4] += u64::from(later <= Duration::from_millis(300_000));
                self.counts[5] += u64::from(later <= Duration::from_millis(1_000));
            }
        }
    }
}

impl World {
    /// A request as EEFS sees it first; whether the group store has answered it, or will.
    pub(super) fn at_store(&mut self, event: &FileEvent) -> Result<bool, FilesError> {
        let (now, file) = (self.now, u64::from(event.file));
        let Some(eefs) = &mut self.eefs else { return Ok(false) };
        if matches!(event.op, FileOp::Open | FileOp::Create) {
            // A file that is too large for a group must not stand between two that are not.
            let size = self.facts[event.file as usize].size;
            if size <= u64::from(FILE_BYTES_MAX) {
                eefs.graph.observe(event.stream, file);
            }
            eefs.note(now, file);
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
                let attributes =
                    eefs.group_store.file(number).map(|f| f.attributes).unwrap_or_default();
                if event.offset == 0 {
                    let attributes = Attributes { accessed: time, ..attributes };
                    self.ask(Ask::SetAttributes { file: number, attributes }, Asked::Nothing)?;
                }
                let len = event.len.min(u64::from(FILE_BYTES_MAX)) as u32;
                let ask = Ask::Read { file: number, offset: event.offset, len };
                self.ask(ask, Asked::Client(Kind::Read, now))?;
                self.read_ahead(file)?;
            }
            FileOp::Write => {
                let (offset, len) = (event.offset, event.len);
                let end = offset.saturating_add(len);
                let fact = &mut self.facts[event.file as usize];
                fact.size = fact.size.max(end);
                if end > u64::from(FILE_BYTES_MAX) {
                    eefs.moves.push_front(Move::Back(file, Some((now, offset, len))));
                    self.next_move()?;
                } else {
                    let data = vec![0; len as usize];
                    let ask = Ask::Write { file: number, offset, data, time };
                    self.ask(ask, Asked::Write(file, now, offset, len))?;
                }
            }
            FileOp::Truncate => {
                self.facts[event.file as usize].size = event.len;
                let size = event.len.min(u64::from(FILE_BYTES_MAX));
                let ask = Ask::Resize { file: number, size, time };
                self.ask(ask, Asked::Client(Kind::Rest, now))?;
            }
            FileOp::Sync => {
                self.ask(Ask::Sync { file: Some(number) }, Asked::Client(Kind::Rest, now))?;
            }
            FileOp::Unlink => {
                eefs.here.remove(&file);
                eefs.graph.forget(file);
                let work = self.ffs.unlink(now, file);
                self.begin(work, Purpose::Client(Kind::Rest), false)?;
                self.ask(Ask::Remove { file: number }, Asked::Nothing)?;
            }
        }
        Ok(true)
    }

    /// What is likely to be read next is read while the disk turns.
    fn read_ahead(&mut self, file: u64) -> Result<(), FilesError> {
        let Some(eefs) = &self.eefs else { return Ok(()) };
        if eefs.rest.is_none_or(|rest| rest.phase(self.now) == DiskPhase::Asleep) {
            return Ok(());
        }
        for file in groups_to_read_ahead(&eefs.group_store, &eefs.graph, file, |f| {
            eefs.here.get(&f).copied()
        }) {
            self.ask(Ask::Read { file, offset: 0, len: 1 }, Asked::Nothing)?;
        }
        Ok(())
    }

    fn ask(&mut self, ask: Ask, asked: Asked) -> Result<(), FilesError> {
        let now = self.now;
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        eefs.next += 1;
        eefs.asked.insert(eefs.next, asked);
        let id = RequestId(eefs.next);
        eefs.group_store.handle(now, Input::Ask { id, ask });
        self.pump()
    }

    pub(super) fn tick_store(&mut self) -> Result<(), FilesError> {
        let now = self.now;
        if let Some(eefs) = &mut self.eefs {
            eefs.group_store.handle(now, Input::Tick);
        }
        self.pump()
    }

    pub(super) fn store_done(&mut self, io: IoId) -> Result<(), FilesError> {
        let now = self.now;
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        let mut data = Vec::new();
        if let Some(extent) = eefs.reads.remove(&io.0) {
            data.resize(extent.bytes().0 as usize, 0);
            eefs.medium.read(extent, &mut data).map_err(seekless_store::AttachError::from)?;
        }
        eefs.group_store.handle(now, Input::Done { io, result: Some(data) });
        self.pump()
    }

    pub(super) fn other_done(&mut self) -> Result<(), FilesError> {
        let now = self.now;
        if let Some(eefs) = &mut self.eefs {
            eefs.group_store.handle(now, Input::OtherSynced(true));
        }
        self.pump()
    }

    fn pump(&mut self) -> Result<(), FilesError> {
        while let Some(eefs) = &mut self.eefs
            && let Some(output) = eefs.group_store.poll()
        {
            match output {
                Output::Submit(io) => match io.op {
                    Op::Flush => {
                        // The disk has no cache that it would write back later.
                        eefs.group_store
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
                    // Names go to the disk at once, and files that came back were synced.
                    self.begin(Work::default(), Purpose::Other, true)?;
                }
                Output::Complete { id, result } => {
                    let asked = eefs.asked.remove(&id.0).unwrap_or(Asked::Nothing);
                    self.asked_ended(asked, result)?;
                }
            }
        }
        Ok(())
    }

    fn asked_ended(
        &mut self,
        asked: Asked,
        result: Result<Reply, Fault>,
    ) -> Result<(), FilesError> {
        match (asked, result) {
            (Asked::Client(kind, arrived), Ok(_)) => self.answered(kind, arrived),
            (Asked::Write(_, arrived, ..), Ok(_)) => self.answered(Kind::Write, arrived),
            (Asked::Write(file, arrived, offset, len), Err(Fault::NoSpace)) => {
                let Some(eefs) = &mut self.eefs else { return Ok(()) };
                eefs.moves.push_front(Move::Back(file, Some((arrived, offset, len))));
                return self.next_move();
            }
            (Asked::Form(files), Ok(Reply::Numbers(numbers))) => {
                let now = self.now;
                let Some(eefs) = &mut self.eefs else { return Ok(()) };
                for (file, number) in files.into_iter().zip(numbers) {
                    if eefs.here.insert(file, number).is_none() {
                        eefs.result.arrived += 1;
                        eefs.lot.push(number);
                        super::world::join(&mut eefs.work, self.ffs.leave(now, file));
                    }
                }
                return self.one_less(Move::Left);
            }
            // A full store, or a file that went away meanwhile: nothing has moved.
            (Asked::Form(_), Err(Fault::NoSpace | Fault::TableFull | Fault::NoFile(_))) => {
                return self.one_less(Move::Left);
            }
            (Asked::Leave(files, then), Ok(_)) => {
                let Some(eefs) = &mut self.eefs else { return Ok(()) };
                let there: Vec<(u64, FileNumber)> =
                    files.into_iter().filter_map(|f| Some((f, *eefs.here.get(&f)?))).collect();
                if there.is_empty() {
                    return self.moved();
                }
                eefs.open = there.len();
                for (name, file) in there {
                    let ask = Ask::Read { file, offset: 0, len: FILE_BYTES_MAX };
                    self.ask(ask, Asked::Fetch(name, then))?;
                }
            }
            (Asked::Leave(..), Err(Fault::NoFile(_))) => return self.moved(),
            (Asked::Fetch(file, then), Ok(_)) => {
                let (now, size) = (self.now, self.facts[file as usize].size);
                let Some(eefs) = &mut self.eefs else { return Ok(()) };
                if let Some(number) = eefs.here.remove(&file) {
                    eefs.result.returned += 1;
                    eefs.lot.push(number);
                    let size = size.min(u64::from(FILE_BYTES_MAX));
                    let mut work = self.ffs.come_back(now, file, size)?;
                    if let Some((arrived, offset, len)) = then {
                        super::world::join(&mut work, self.ffs.write(now, file, offset, len)?);
                        self.answered(Kind::Write, arrived);
                    }
                    // The store may forget it once it stands here for good.
                    super::world::join(&mut work, self.ffs.sync(file));
                    if let Some(eefs) = &mut self.eefs {
                        super::world::join(&mut eefs.work, work);
                    }
                }
                return self.one_less(Move::Returned(Vec::new()));
            }
            (Asked::Fetch(..), Err(Fault::NoFile(_))) => {
                return self.one_less(Move::Returned(Vec::new()));
            }
            (Asked::Nothing, Ok(_)) => {}
            // A file that was removed while something waited for its group.
            (_, Err(Fault::NoFile(_))) => {}
            (_, Err(fault)) => return Err(fault.into()),
            (_, Ok(_)) => {}
        }
        Ok(())
    }

    /// An ask of the lot on its way has ended; behind the last, the file system does its part, and then comes `step`.
    fn one_less(&mut self, step: Move) -> Result<(), FilesError> {
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        eefs.open = eefs.open.saturating_sub(1);
        if eefs.open > 0 {
            return Ok(());
        }
        let (mut work, lot) = (std::mem::take(&mut eefs.work), std::mem::take(&mut eefs.lot));
        // Names of several files in one block are written once.
        work.wait.sort_unstable_by_key(|(op, e, _)| (e.start, e.len, *op == Op::Write));
        work.wait.dedup();
        let step = match step {
            Move::Returned(_) => Move::Returned(lot),
            step => {
                self.ask(Ask::Settle { files: lot }, Asked::Nothing)?;
                step
            }
        };
        self.begin(work, Purpose::Move(step), true)
    }

    /// EEFS's group shuffle: what is grouped and should not be goes back, what should be and is not comes.
    fn shuffle(&mut self) -> Result<(), FilesError> {
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        let facts = &self.facts;
        let ffs = &self.ffs;
        let small = |f: u64| {
            facts.get(f as usize).is_some_and(|f| f.size <= u64::from(FILE_BYTES_MAX))
                && ffs.knows(f)
        };
        let groups = eefs.graph.groups(small);
        if !eefs.groups.is_empty() {
            let s = Stability::between(&eefs.groups, &groups);
            let [before, after, stable] = [s.before, s.after, s.stable].map(|n| n as f64);
            let seen = [before, after, stable, s.mean_size, s.left, s.joined];
            eefs.compared += 1.0;
            for (mean, seen) in eefs.result.changes.iter_mut().zip(seen) {
                *mean += (seen - *mean) / eefs.compared;
            }
        }
        eefs.result.shuffles += 1;
        let wanted: FxHashSet<u64> = groups.iter().flatten().copied().collect();
        let mut back: Vec<u64> =
            eefs.here.keys().copied().filter(|f| !wanted.contains(f)).collect();
        back.sort_unstable();
        // What an earlier shuffle wanted and did not come to is of no use any more; what somebody waits for is.
        eefs.moves.retain(|m| matches!(m, Move::Back(_, Some(_))));
        eefs.moves.extend(back.into_iter().map(|f| Move::Back(f, None)));
        eefs.moves.extend(groups.iter().cloned().map(Move::Form));
        eefs.seen.clear();
        for (i, group) in (0..).zip(&groups) {
            eefs.seen.extend(group.iter().map(|&f| (f, Seen { group: i, used: false })));
        }
        eefs.first = vec![None; groups.len()];
        eefs.groups = groups;
        self.next_move()
    }

    fn next_move(&mut self) -> Result<(), FilesError> {
        let Some(eefs) = &mut self.eefs else { return Ok(()) };
        if eefs.moving {
            return Ok(());
        }
        let Some(step) = eefs.moves.pop_front() else { return Ok(()) };
        eefs.moving = true;
        match step {
            Move::Form(first) => {
                let mut lot = vec![first];
                while lot.len() < AT_ONCE
                    && let Some(Move::Form(next)) = eefs.moves.front_mut()
                {
                    lot.push(std::mem::take(next));
                    eefs.moves.pop_front();
                }
                lot.retain(|files| !eefs.stands(files));
                let now = self.now;
                let mut work = Work::default();
                for &file in lot.iter().flatten().filter(|f| !eefs.here.contains_key(f)) {
                    let size = self.ffs.size(file).unwrap_or(0);
                    super::world::join(&mut work, self.ffs.read(now, file, 0, size));
                }
                self.begin(work, Purpose::Move(Move::Formed(lot)), true)
            }
            Move::Back(file, then) => {
                let mut lot = vec![file];
                while then.is_none()
                    && lot.len() < AT_ONCE
                    && let Some(&Move::Back(next, None)) = eefs.moves.front()
                {
                    lot.push(next);
                    eefs.moves.pop_front();
                }
                lot.retain(|f| eefs.here.contains_key(f));
                let files: Vec<FileNumber> =
                    lot.iter().filter_map(|f| eefs.here.get(f).copied()).collect();
                if files.is_empty() {
                    return self.moved();
                }
                self.ask(Ask::Leave { files }, Asked::Leave(lot, then))
            }
            _ => self.moved(),
        }
    }

    pub(super) fn go_on_moving(&mut self, step: Move) -> Result<(), FilesError> {
        match step {
            Move::Formed(lot) => {
                let Some(eefs) = &mut self.eefs else { return Ok(()) };
                let mut asks = Vec::new();
                for mut files in lot {
                    files.retain(|f| eefs.here.contains_key(f) || self.ffs.size(*f).is_some());
                    if files.is_empty() {
                        continue;
                    }
                    let member = |f: &u64| match eefs.here.get(f) {
                        Some(number) => Member::Here(*number),
                        None => {
                            let size = self.ffs.size(*f).unwrap_or(0).min(FILE_BYTES_MAX.into());
                            Member::New(Arrival {
                                attributes: Attributes::default(),
                                name: format!("f{f}").into_bytes(),
                                data: vec![0; size as usize],
                            })
                        }
                    };
                    let members = files.iter().map(member).collect();
                    asks.push((Ask::Group { members }, Asked::Form(files)));
                }
                if asks.is_empty() {
                    return self.moved();
                }
                eefs.open = asks.len();
                asks.into_iter().try_for_each(|(ask, asked)| self.ask(ask, asked))
            }
            Move::Returned(numbers) => {
                for file in numbers {
                    self.ask(Ask::Remove { file }, Asked::Nothing)?;
                }
                self.moved()
            }
            _ => self.moved(),
        }
    }

    fn moved(&mut self) -> Result<(), FilesError> {
        if let Some(eefs) = &mut self.eefs {
            eefs.moving = false;
        }
        self.next_move()
    }
}
