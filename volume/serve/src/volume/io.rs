//! The device I/O of a volume: at once where possible, else by workers, with the emulated disk's
//! time.

use seekless_block::{Extent, Flags, Op, SECTOR_BYTES, SimTime};
use seekless_engine::{Input, Io, IoFailed, IoId, Memory, RequestId, Target};
use seekless_nbd::Errno;

use super::{Finished, Volume};
use crate::backend::errno_of;
use crate::backend::region::Region;
use crate::backend::workers::{EndedJob, Job, JobName, Work};
use crate::buffers::size_of;
use crate::memory::{Current, range_of, transfer};

/// Where a job's buffer returns to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// The request's own buffer.
    Client(usize),
    /// A read buffer of the engine.
    Buffer(u32),
    /// A bounce buffer: read data is copied from it.
    Bounce,
}

/// An I/O in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) io: Io,
    home: Home,
    began: SimTime,
    /// Memory that it holds while it runs.
    holds: usize,
    /// Bytes that a read through a bounce buffer has brought.
    done: usize,
}

/// Longest piece of a read through a bounce buffer: a longer read has several.
const BOUNCE_BYTES: usize = 1 << 20;

/// A failed I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoFailure {
    /// Home or the area.
    pub target: Target,
    /// The operation.
    pub op: Op,
    /// The sectors.
    pub extent: Extent,
    /// The error, as clients get it.
    pub errno: Errno,
}

impl Running {
    fn piece(&self) -> usize {
        let left = self.io.extent.bytes().0 as usize - self.done;
        let bounced = self.home == Home::Bounce && self.io.op == Op::Read;
        if bounced { left.min(BOUNCE_BYTES) } else { left }
    }
}

impl<O> Volume<O> {
    /// Starts an I/O; executes it at once if that cannot block.
    pub(super) fn submit(&mut self, io: Io, current: &mut Current<'_>) {
        let concerns = || concerns(self.files.guard(), &io);
        let of_current =
            matches!(io.memory, Some(Memory::Client { id, .. }) if id.0 as usize == current.id);
        let parked = self.guarding.park(&io, concerns);
        let began = self.tap.as_mut().map_or(self.now, |tap| tap.submitted(self.now));
        if !parked
            && self.emulated.is_none()
            && self.has_room_now(&io)
            && let Some(result) = self.try_now(&io, current)
        {
            self.reads_now += self.holds(&io);
            if let Some(tap) = &mut self.tap {
                tap.io(began, &io, None);
            }
            return self.report(&io, result);
        }
        if of_current {
            self.memories.detach(current);
        }
        if parked {
            return;
        }
        let slot = io.id.0 as usize;
        if slot >= self.running.len() {
            self.running.resize(slot + 1, None);
        }
        let running = Running { io, home: Home::Bounce, began, holds: 0, done: 0 };
        if let Some(entry) = self.running.get_mut(slot) {
            *entry = Some(running);
        }
        match &mut self.emulated {
            Some(disk) => {
                if disk.submit(self.now, &io) {
                    self.fetch(&io);
                } else {
                    self.ran(io.id);
                    self.report(&io, Err(Errno::Io));
                }
            }
            None => self.carry_out(running),
        }
    }

    /// The memory that a read holds while a device works.
    fn holds(&self, io: &Io) -> usize {
        let len = io.extent.bytes().0 as usize;
        match io.memory {
            _ if io.op != Op::Read => 0,
            Some(Memory::Buffer { .. }) => size_of(len),
            Some(Memory::Client { id, .. }) if self.memories.is_whole(id, len) => 0,
            _ => size_of(len.min(BOUNCE_BYTES)),
        }
    }

    /// Whether there is memory for a read. One read always has it.
    fn has_room(&self, io: &Io) -> bool {
        let held = self.reads_hold + self.reads_now;
        held == 0 || held.saturating_add(self.holds(io)) <= self.reads_most
    }

    /// The same for a read that may be done at once, which needs no bounce buffer. It is not done
    /// before those that wait.
    fn has_room_now(&self, io: &Io) -> bool {
        let buffered = io.op == Op::Read && matches!(io.memory, Some(Memory::Buffer { .. }));
        !buffered || self.starved.is_empty() && self.has_room(io)
    }

    /// Carries out the reads that waited for memory.
    pub(super) fn feed(&mut self) {
        let mut fed = true;
        while std::mem::take(&mut fed) {
            while let Some(next) = self.starved.front().copied()
                && self.has_room(&next.io)
            {
                self.starved.pop_front();
                self.begin(next);
                fed = true;
            }
            if fed {
                self.pump_background();
            }
        }
    }

    /// Lets the host read ahead while the emulated disk takes its time: otherwise the read would be
    /// late.
    fn fetch(&mut self, io: &Io) {
        let (at, len) = (io.extent.start.0.saturating_mul(SECTOR_BYTES), io.extent.bytes().0);
        if io.op != Op::Read || self.files.holds(io.target, at, len) {
            return;
        }
        let (name, work) = (JobName::Hint, Work::WillNeed(io.target));
        // If the worker is gone, the read itself will fail.
        let _ = self.workers.send(Job { name, work, at, len, buf: Vec::new(), from: 0 });
    }

    /// Does an I/O if that does not wait for the disk.
    #[inline]
    fn try_now(&mut self, io: &Io, current: &mut Current<'_>) -> Option<Result<(), Errno>> {
        let at = io.extent.start.0.checked_mul(SECTOR_BYTES)?;
        let len = io.extent.bytes().0 as usize;
        let memory = io.memory?;
        match io.op {
            Op::Read => {
                let buf = self.memories.place_mut(memory, len, current)?;
                self.files.read_now(io.target, at, buf).map(Ok)
            }
            Op::Write if !io.flags.contains(Flags::FUA) => {
                let buf = self.memories.place(memory, len, current)?;
                let result = self.files.write_now(io.target, at, buf)?;
                Some(result.map_err(errno_of))
            }
            _ => None,
        }
    }

    /// Reports the end of an I/O to the engine.
    fn report(&mut self, io: &Io, result: Result<(), Errno>) {
        let mut at = self.now;
        if let Some(disk) = &mut self.emulated
            && let Some(due) = disk.due(io.id)
        {
            disk.was_late(self.clock.wait(due, self.clock.now()));
            // The engine learns from the disk's times, not from this host's.
            at = due;
        }
        if let Err(errno) = result {
            self.errno = errno;
            let Io { target, op, extent, .. } = *io;
            self.failure = Some(IoFailure { target, op, extent, errno });
        }
        let result = result.map_err(|_| IoFailed);
        self.handle(at, Input::Done { io: io.id, result });
    }

    /// Gives an I/O to the workers, or executes it at once if that does not wait. A read without
    /// memory waits for the reads before it. A write never waits here: what it writes is copied now.
    pub(super) fn carry_out(&mut self, running: Running) {
        if running.io.op == Op::Read && !(self.starved.is_empty() && self.has_room(&running.io)) {
            self.starved.push_back(running);
        } else {
            self.begin(running);
        }
    }

    fn begin(&mut self, running: Running) {
        let io = running.io;
        let mut nobody = Current::nobody();
        if self.emulated.is_some()
            && let Some(result) = self.try_now(&io, &mut nobody)
        {
            self.reads_now += self.holds(&io);
            self.ran(io.id);
            return self.report(&io, result);
        }
        let holds = self.holds(&io);
        self.reads_hold += holds;
        let (buf, from, home) = self.lend(&io);
        let running = Running { home, holds, ..running };
        if let Some(entry) = self.running.get_mut(io.id.0 as usize) {
            *entry = Some(running);
        }
        self.employ(&running, buf, from);
    }

    /// Gives the next piece of an I/O, or all of it, to a worker.
    fn employ(&mut self, running: &Running, buf: Vec<u8>, from: usize) {
        let Running { io, done, .. } = *running;
        self.hand_over(Job {
            name: JobName::Io(io.id),
            work: Work::Io(io.target, io.op, io.flags),
            at: io.extent.start.0.saturating_mul(SECTOR_BYTES) + done as u64,
            len: running.piece() as u64,
            buf,
            from,
        });
    }

    /// The memory of an I/O as a buffer for a worker: its own buffer if it has one, else a bounce
    /// buffer.
    fn lend(&mut self, io: &Io) -> (Vec<u8>, usize, Home) {
        let Some(memory) = io.memory else { return (Vec::new(), 0, Home::Bounce) };
        let len = io.extent.bytes().0 as usize;
        let from = range_of(memory, len).start;
        match memory {
            Memory::Client { id, .. } => {
                let id = id.0 as usize;
                // Only if the I/O covers the whole request: otherwise bytes from other I/Os would
                // be lost when the buffer returns.
                if self.memories.is_whole(RequestId(id as u64), len)
                    && let Some(inflight) = self.memories.requests.get_mut(id)
                {
                    let bytes = inflight.bytes;
                    let own = inflight.buf.take();
                    let buf = own.unwrap_or_else(|| self.memories.buffers.take(bytes));
                    return (buf, from, Home::Client(id));
                }
            }
            // A piece inside a buffer is copied: other pieces may be in flight too.
            Memory::Buffer { index, offset } if offset.0 == 0 => {
                return (self.memories.lend_buffer(index, len), from, Home::Buffer(index));
            }
            Memory::Buffer { .. } | Memory::Slot { .. } | Memory::Stage { .. } => {}
        }
        let piece = if io.op == Op::Read { len.min(BOUNCE_BYTES) } else { len };
        let mut bounce = self.memories.buffers.take(piece);
        if io.op == Op::Write {
            let nobody = Current::nobody();
            transfer(bounce.get_mut(..len), self.memories.place(memory, len, &nobody));
        }
        (bounce, 0, Home::Bounce)
    }

    /// Removes an I/O in flight.
    fn ran(&mut self, io: IoId) -> Option<Running> {
        self.running.get_mut(io.0 as usize).and_then(Option::take)
    }

    pub(super) fn ended(&mut self, ended: EndedJob) {
        let io = match ended.name {
            JobName::Io(io) => io,
            JobName::Hint => return,
            JobName::Scrub => return self.tell(Input::Scrub),
            JobName::Guard => return self.guard_moved(ended.result),
            JobName::Question(index) => {
                if let Some(owner) = self.questions.try_remove(index) {
                    let EndedJob { result, runs, .. } = ended;
                    self.finished.push_back(Finished { owner, result, buf: None, runs });
                }
                return;
            }
        };
        let Some(running) = self.ran(io) else { return };
        let Some(ended) = self.bounced(running, ended) else { return };
        let Running { io, home, began, holds, .. } = running;
        self.reads_hold -= holds;
        if self.emulated.is_none()
            && let Some(tap) = &mut self.tap
        {
            let took = (io.op == Op::Read).then(|| self.now.since(began));
            tap.io(began, &io, took);
        }
        match home {
            Home::Client(id) => {
                if let Some(inflight) = self.memories.requests.get_mut(id) {
                    inflight.buf = Some(ended.buf);
                }
            }
            Home::Buffer(index) => self.memories.buffer_is_back(index, ended.buf),
            Home::Bounce => self.memories.buffers.give(ended.buf),
        }
        self.report(&io, ended.result);
        self.pump_background();
    }

    /// Takes what a read has brought from its bounce buffer. `None`: another piece is on its way.
    fn bounced(&mut self, running: Running, ended: EndedJob) -> Option<EndedJob> {
        let (Home::Bounce, Op::Read, Some(memory)) =
            (running.home, running.io.op, running.io.memory)
        else {
            return Some(ended);
        };
        let (len, piece) = (running.io.extent.bytes().0 as usize, running.piece());
        let next = Running { done: running.done + piece, ..running };
        let mut nobody = Current::nobody();
        let to = self.memories.place_mut(memory, len, &mut nobody);
        transfer(to.and_then(|to| to.get_mut(running.done..next.done)), ended.buf.get(..piece));
        if ended.result.is_err() || next.done == len {
            return Some(ended);
        }
        if let Some(entry) = self.running.get_mut(running.io.id.0 as usize) {
            *entry = Some(next);
        }
        self.employ(&next, ended.buf, 0);
        None
    }

    /// Gives a job to the workers. A job without a worker, which only a bug can cause, fails.
    pub(super) fn hand_over(&mut self, job: Job) {
        if let Err(Job { name, buf, .. }) = self.workers.send(job) {
            self.ended(EndedJob { name, result: Err(Errno::Io), buf, runs: Vec::new() });
        }
    }
}

/// True if an I/O touches the sectors that the guard moves.
pub(super) fn concerns(region: Option<&Region>, io: &Io) -> bool {
    io.target == Target::Home
        && io.op != Op::Flush
        && region.is_some_and(|region| region.touches(io.extent))
}
