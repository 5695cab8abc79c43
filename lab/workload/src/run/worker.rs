//! One thread of a flow: its descriptors, its buffer, its random numbers, its counts. Between two
//! operations it reads the clock once and takes no lock.

use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

use super::background::{Background, write_at};
use super::{FlowCounts, Shared, open_flags};
use crate::error::WorkloadError;
use crate::file_set::ALIGN;
use crate::personality::{FDS, FileSlot, PaceUnit, StepAction};
use crate::run_counts::Tally;
use crate::seeded_random::SeededRandom;

struct Open {
    fd: Arc<OwnedFd>,
    set: usize,
    file: usize,
}

pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    flow: usize,
    /// The index of the count for each step.
    tally_of: Vec<usize>,
    slots: Vec<Option<Open>>,
    /// The open flags of each descriptor.
    flags: Vec<OFlags>,
    /// For steps that use the files of a set in turn: descriptors by set and file, and the next
    /// file.
    rotating: Vec<Vec<Option<Arc<OwnedFd>>>>,
    turn: Vec<usize>,
    buffer: Vec<u8>,
    buffer_from: usize,
    chance: SeededRandom,
    background: Background,
    counts: FlowCounts,
    /// Operations since the last pace.
    paced_ops: u64,
    paced_transfers: u64,
    paced_bytes: u64,
    owed: u64,
    begun: Instant,
}

/// The bytes that an operation transferred; `None` if it had no effect and is not counted.
type Transferred = Option<u64>;

impl<'a> Worker<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, flow: usize, number: usize, seed: u64) -> Self {
        let steps = &shared.personality.flows[flow].steps;
        let largest = shared.personality.flows[flow].largest_read();
        let buffer = vec![0; largest as usize + ALIGN];
        let name = |s: &crate::personality::FlowStep| {
            shared.names.iter().position(|n| *n == s.name).unwrap_or(0)
        };
        let mut flags = vec![OFlags::empty(); FDS];
        for step in steps {
            if let Some(fd) = fd_of(&step.act) {
                flags[fd] |= open_flags(&step.act);
            }
        }
        let sets = &shared.files.sets;
        Self {
            shared,
            flow,
            tally_of: steps.iter().map(name).collect(),
            slots: (0..FDS).map(|_| None).collect(),
            flags,
            rotating: sets.iter().map(|_| Vec::new()).collect(),
            // Threads begin at different files.
            turn: sets.iter().map(|s| number % s.tree.len().max(1)).collect(),
            buffer_from: buffer.as_ptr().align_offset(ALIGN).min(ALIGN),
            buffer,
            chance: SeededRandom::new(seed, 1_000_000 + number as u64),
            background: Background::new(shared.names.len()),
            counts: FlowCounts {
                flow,
                steps: vec![Tally::default(); shared.names.len()],
                ..FlowCounts::default()
            },
            paced_ops: 0,
            paced_transfers: 0,
            paced_bytes: 0,
            owed: 0,
            begun: Instant::now(),
        }
    }

    /// Repeats the steps until the run is stopped. `live` counts every operation. If `paced`, turns
    /// begin at their due times.
    pub(super) fn work(&mut self, live: &AtomicU64, paced: bool) -> Result<(), WorkloadError> {
        let shared = self.shared;
        let steps = &shared.personality.flows[self.flow].steps;
        self.begun = Instant::now();
        let mut now = self.begun;
        let mut done = 0;
        loop {
            let mut turn_from = now;
            if paced && let Some(due) = shared.due.take(1) {
                turn_from = self.begun + due;
                if !shared.wait_until(turn_from) {
                    return Ok(());
                }
                now = Instant::now();
            }
            for (i, step) in steps.iter().enumerate() {
                for _ in 0..step.times {
                    if shared.stop.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    let result = self.act(&step.act, i, now);
                    let end = Instant::now();
                    let moved = result.map_err(|e| self.failed(i, e))?;
                    let background = matches!(step.act, StepAction::Write { background: true, .. });
                    if step.act.counts()
                        && let Some(bytes) = moved
                    {
                        done += 1;
                        live.store(done, Ordering::Relaxed);
                        self.paced_ops += 1;
                        self.account(&step.act, i, bytes, end - now, background);
                    }
                    now = end;
                }
            }
            if shared.measuring.load(Ordering::Relaxed) {
                let took = now.saturating_duration_since(turn_from);
                self.counts.turns.add(took.as_nanos() as u64, 0);
            }
        }
    }

    fn account(
        &mut self,
        act: &StepAction,
        step: usize,
        bytes: u64,
        took: Duration,
        background: bool,
    ) {
        let transfer = act.transfer();
        self.paced_transfers += u64::from(transfer.is_some());
        self.paced_bytes += bytes;
        if !self.shared.measuring.load(Ordering::Relaxed) {
            return;
        }
        match transfer {
            Some((_, true)) => {
                self.counts.reads += 1;
                self.counts.read_bytes += bytes;
            }
            // Background writes are counted when they end.
            Some(_) if background => return,
            Some(_) => {
                self.counts.writes += 1;
                self.counts.written_bytes += bytes;
            }
            None => {}
        }
        self.counts.steps[self.tally_of[step]].add(took.as_nanos() as u64, bytes);
    }

    fn failed(&self, step: usize, fault: Fault) -> WorkloadError {
        let step = &self.shared.personality.flows[self.flow].steps[step];
        let name = step.name.clone();
        match fault {
            Fault::None(set, what) => {
                let set = self.shared.personality.sets[set].name.clone();
                WorkloadError::RanOut { step: name, set, what }
            }
            Fault::Host(source) => {
                WorkloadError::FlowStep { step: name, what: step.act.word(), source }
            }
        }
    }

    pub(super) fn counts(mut self) -> FlowCounts {
        let (tallies, written) = self.background.end();
        self.counts.steps.iter_mut().zip(&tallies).for_each(|(a, t)| a.merge(t));
        self.counts.written_bytes += written;
        self.counts.writes += tallies.iter().map(|t| t.count).sum::<u64>();
        for open in self.slots.iter().flatten() {
            self.shared.files.sets[open.set].closed(open.file);
        }
        self.counts
    }

    /// Executes a step. Returns the bytes transferred, or `None` if it is not counted.
    fn act(&mut self, act: &StepAction, step: usize, now: Instant) -> Result<Transferred, Fault> {
        let shared = self.shared;
        let sets = &shared.files.sets;
        match *act {
            StepAction::Open { set, fd } => {
                self.close(fd);
                let opened = sets[set].open(self.flags[fd])?.ok_or(Fault::None(set, "open"))?;
                self.slots[fd] = Some(Open { file: opened.0, fd: Arc::new(opened.1), set });
                Ok(Some(0))
            }
            StepAction::Create { set, fd } => {
                self.close(fd);
                let made = sets[set].create(self.flags[fd])?.ok_or(Fault::None(set, "create"))?;
                self.slots[fd] = Some(Open { file: made.0, fd: Arc::new(made.1), set });
                Ok(Some(0))
            }
            StepAction::Close { fd } => {
                self.close(fd);
                Ok(Some(0))
            }
            StepAction::Delete { set } => {
                let deleted = sets[set].delete()?;
                deleted.then_some(Some(0)).ok_or(Fault::None(set, "delete"))
            }
            StepAction::Stat { set } => {
                let found = sets[set].stat()?;
                found.then_some(Some(0)).ok_or(Fault::None(set, "stat"))
            }
            StepAction::Fsync { fd } => {
                let open = self.slots[fd].as_ref().ok_or(Fault::Host(Errno::BADF.into()))?;
                rustix::fs::fsync(&open.fd)?;
                Ok(Some(0))
            }
            StepAction::ReadWhole { slot, io } => self.read_whole(slot, io).map(Some),
            StepAction::WriteWhole { slot, io } => self.write_whole(slot, io).map(Some),
            StepAction::Append { slot, io, random } => self.append(slot, io, random).map(Some),
            StepAction::Read { slot, io, random, .. } => self.read(slot, io, random).map(Some),
            StepAction::Write { slot, io, random, background, .. } => {
                let written = if random {
                    self.write_at_random(slot, io, background, (step, now))
                } else {
                    self.file(slot).and_then(|(fd, _)| self.write_on(&fd, io))
                };
                written.map(|()| Some(io))
            }
            StepAction::Await => {
                self.background.wait(0)?;
                Ok(Some(0))
            }
            StepAction::Think { .. }
            | StepAction::Burn { .. }
            | StepAction::Wait { .. }
            | StepAction::Post { .. }
            | StepAction::Pace { .. } => {
                self.pause(act);
                Ok(None)
            }
        }
    }

    /// Executes a step that does not count as an operation: waiting, computing, posts and rates.
    fn pause(&mut self, act: &StepAction) {
        let shared = self.shared;
        match *act {
            StepAction::Think { seconds } => {
                let at = Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or_default();
                shared.wait_until(at);
            }
            StepAction::Burn { loops } => {
                for i in 0..loops {
                    black_box(i);
                }
            }
            StepAction::Wait { gate, posts } => {
                shared.gates[gate].take(posts, &shared.stop);
            }
            StepAction::Post { gate, posts } => {
                shared.gates[gate].post(posts, &shared.stop);
            }
            StepAction::Pace { by } => self.pace(by),
            _ => {}
        }
    }

    /// Appends `io` bytes, or a random number of bytes below `io`. Returns the number.
    fn append(&mut self, slot: FileSlot, io: u64, random: bool) -> Result<u64, Fault> {
        let len = if random { self.chance.below(io) } else { io };
        let (fd, _) = self.file(slot)?;
        rustix::fs::seek(&fd, SeekFrom::End(0))?;
        self.write_on(&fd, len)?;
        Ok(len)
    }

    /// Writes `io` bytes at a random multiple of `io`, in the background if asked.
    fn write_at_random(
        &mut self,
        slot: FileSlot,
        io: u64,
        background: bool,
        (step, now): (usize, Instant),
    ) -> Result<(), Fault> {
        let (fd, size) = self.file(slot)?;
        let at = self.chance.below(size / io) * io;
        let pattern = self.shared.files.pattern();
        if background {
            let counted = self.shared.measuring.load(Ordering::Relaxed);
            let into = self.tally_of[step];
            self.background.write(&fd, pattern, (at, io as usize), (into, now, counted))?;
        } else {
            write_at(&fd, pattern, at, io as usize)?;
        }
        Ok(())
    }

    fn pace(&mut self, by: PaceUnit) {
        let n = match by {
            PaceUnit::Turns => 1,
            PaceUnit::Operations => std::mem::take(&mut self.paced_ops),
            PaceUnit::Transfers => std::mem::take(&mut self.paced_transfers),
            PaceUnit::Mebibytes => {
                let bytes = self.owed + std::mem::take(&mut self.paced_bytes);
                self.owed = bytes % (1 << 20);
                bytes >> 20
            }
        };
        if n > 0
            && let Some(due) = self.shared.pace.take(n)
        {
            self.shared.wait_until(self.begun + due);
        }
    }

    fn close(&mut self, fd: usize) {
        if let Some(open) = self.slots[fd].take() {
            drop(open.fd);
            self.shared.files.sets[open.set].closed(open.file);
        }
    }

    /// The step's file, opened if necessary, and its drawn size.
    fn file(&mut self, slot: FileSlot) -> Result<(Arc<OwnedFd>, u64), Fault> {
        let sets = &self.shared.files.sets;
        if let (true, Some(set)) = (slot.rotate, slot.set) {
            let (all, turn) = (&mut self.rotating[set], &mut self.turn[set]);
            all.resize_with(sets[set].tree.len(), || None);
            *turn = (*turn + 1) % all.len();
            let size = sets[set].tree.sizes[*turn];
            if let Some(fd) = &all[*turn] {
                return Ok((Arc::clone(fd), size));
            }
            let fd = Arc::new(sets[set].open_this(*turn, self.flags[slot.fd])?);
            all[*turn] = Some(Arc::clone(&fd));
            return Ok((fd, size));
        }
        if self.slots[slot.fd].is_none() {
            let set = slot.set.ok_or(Fault::Host(Errno::BADF.into()))?;
            let opened = sets[set].open(self.flags[slot.fd])?.ok_or(Fault::None(set, "open"))?;
            self.slots[slot.fd] = Some(Open { file: opened.0, fd: Arc::new(opened.1), set });
        }
        let open = self.slots[slot.fd].as_ref().ok_or(Fault::Host(Errno::BADF.into()))?;
        Ok((Arc::clone(&open.fd), sets[open.set].tree.sizes[open.file]))
    }

    fn buffer(&mut self, len: u64) -> &mut [u8] {
        &mut self.buffer[self.buffer_from..][..len as usize]
    }

    fn read_whole(&mut self, slot: FileSlot, io: u64) -> Result<u64, Fault> {
        let (fd, _) = self.file(slot)?;
        rustix::fs::seek(&fd, SeekFrom::Start(0))?;
        let mut all = 0;
        loop {
            match rustix::io::read(&fd, self.buffer(io)) {
                Ok(0) => return Ok(all),
                Ok(n) => all += n as u64,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn write_whole(&mut self, slot: FileSlot, io: u64) -> Result<u64, Fault> {
        let (fd, size) = self.file(slot)?;
        rustix::fs::seek(&fd, SeekFrom::Start(0))?;
        let len = if size > io { size.next_multiple_of(io) } else { size };
        let mut left = len;
        while left > 0 {
            let some = left.min(io);
            self.write_on(&fd, some)?;
            left -= some;
        }
        Ok(len)
    }

    fn read(&mut self, slot: FileSlot, io: u64, random: bool) -> Result<u64, Fault> {
        let (fd, size) = self.file(slot)?;
        if random {
            let at = self.chance.below(size / io) * io;
            return Ok(rustix::io::pread(&fd, self.buffer(io), at)? as u64);
        }
        let n = rustix::io::read(&fd, self.buffer(io))? as u64;
        if n == 0 {
            rustix::fs::seek(&fd, SeekFrom::Start(0))?;
        }
        Ok(n)
    }

    /// Writes at the file's position, in one call if the pattern is long enough.
    fn write_on(&self, fd: &OwnedFd, len: u64) -> Result<(), Fault> {
        let pattern = self.shared.files.pattern();
        let mut left = len as usize;
        while left > 0 {
            match rustix::io::write(fd, &pattern[..left.min(pattern.len())]) {
                Ok(0) => return Err(Fault::Host(Errno::IO.into())),
                Ok(n) => left -= n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}

fn fd_of(act: &StepAction) -> Option<usize> {
    match act {
        StepAction::Open { fd, .. } | StepAction::Create { fd, .. } => Some(*fd),
        StepAction::Read { slot, .. } | StepAction::Write { slot, .. } => Some(slot.fd),
        _ => None,
    }
}

enum Fault {
    /// No file was in the requested state.
    None(usize, &'static str),
    Host(std::io::Error),
}

impl From<Errno> for Fault {
    fn from(e: Errno) -> Self {
        Self::Host(e.into())
    }
}

impl From<std::io::Error> for Fault {
    fn from(e: std::io::Error) -> Self {
        Self::Host(e)
    }
}
