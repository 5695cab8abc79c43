//! A disk with a queue, without a clock: commands and times go in, completions come out.
//!
//! The same machine stands in the simulator's event loop and behind an emulation in real time. Told late,
//! it still serves as it would have served: a command that waited starts when the one before it ended.

use std::collections::VecDeque;

use seekless_block::{Extent, Flags, Op, SimTime};

use crate::disk::{Access, Disk, DiskError, Target};
use crate::scheduler::{Memory, Scheduler, Waiting};

/// What a drive is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The caller's name for it, handed back.
    pub tag: u64,
    /// What to do.
    pub op: Op,
    /// Where.
    pub extent: Extent,
    /// Starts only while no foreground command waits.
    pub background: bool,
}

/// A command that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The caller's name for it.
    pub tag: u64,
    /// Which sectors.
    pub extent: Extent,
    /// When it came.
    pub submitted: SimTime,
    /// When the drive turned to it.
    pub started: SimTime,
    /// When it ended.
    pub finished: SimTime,
    /// Its phases.
    pub access: Access,
    /// Logical distance from the end of the command before it, in sectors.
    pub seek_distance_sectors: u64,
    /// Whether it started where the one before it ended.
    pub sequential: bool,
}

/// A disk, its queue and its policy.
#[derive(Clone, Debug)]
pub struct Drive {
    disk: Disk,
    scheduler: Scheduler,
    foreground: Queue,
    background: Queue,
    running: Option<Completion>,
    done: VecDeque<Completion>,
    order: u64,
    memory: Memory,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    command: Command,
    flags: Flags,
    submitted: SimTime,
    target: Target,
}

/// In order of arrival for FCFS; for the others in any order, with what the policy looks at beside.
#[derive(Clone, Debug, Default)]
struct Queue {
    fifo: VecDeque<Entry>,
    bag: Vec<Entry>,
    waiting: Vec<Waiting>,
}

impl Queue {
    fn len(&self) -> usize {
        self.fifo.len() + self.bag.len()
    }

    fn push(&mut self, entry: Entry, waiting: Waiting) {
        self.bag.push(entry);
        self.waiting.push(waiting);
    }

    fn take(&mut self, i: usize) -> Entry {
        self.waiting.swap_remove(i);
        self.bag.swap_remove(i)
    }
}

impl Drive {
    /// An idle drive.
    #[must_use]
    pub fn new(disk: Disk, scheduler: Scheduler) -> Self {
        Self {
            disk,
            scheduler,
            foreground: Queue::default(),
            background: Queue::default(),
            running: None,
            done: VecDeque::new(),
            order: 0,
            memory: Memory::NEW,
        }
    }

    /// The disk under the queue.
    #[must_use]
    pub const fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Commands that wait, the running one excluded.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.foreground.len() + self.background.len()
    }

    /// Whether nothing runs, waits, or is left to poll.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.running.is_none() && self.done.is_empty() && self.waiting() == 0
    }

    /// Takes a command at `now`, which must not run backwards between calls. A discard ends at once; so does a
    /// flush, unless the disk writes back: then it is served like a command that needs no movement.
    ///
    /// # Errors
    /// Where the extent passes the end of the disk; the drive is as before.
    pub fn submit(&mut self, now: SimTime, command: Command) -> Result<(), DiskError> {
        self.submit_with(now, command, Flags::NONE)
    }

    /// As [`Self::submit`]; a write with [`Flags::FUA`] ends on the platter.
    ///
    /// # Errors
    /// Where the extent passes the end of the disk; the drive is as before.
    pub fn submit_with(
        &mut self,
        now: SimTime,
        command: Command,
        flags: Flags,
    ) -> Result<(), DiskError> {
        let target = self.disk.target(command.op, command.extent)?;
        self.advance(now);
        let waits = target.moves || (command.op == Op::Flush && self.disk.writes_back());
        if !waits {
            self.done.push_back(Completion {
                tag: command.tag,
                extent: command.extent,
                submitted: now,
                started: now,
                finished: now,
                access: Access::default(),
                seek_distance_sectors: 0,
                sequential: false,
            });
            return Ok(());
        }
        let entry = Entry { command, flags, submitted: now, target };
        let waiting = Waiting { key: target.key(), order: self.order, submitted: now };
        self.order += 1;
        let queue = if command.background { &mut self.background } else { &mut self.foreground };
        match self.scheduler {
            Scheduler::Fcfs => queue.fifo.push_back(entry),
            _ => queue.push(entry, waiting),
        }
        if self.running.is_none() {
            self.start(now);
        }
        Ok(())
    }

    /// When [`Self::poll`] will next have something, if nothing more is submitted.
    #[must_use]
    pub fn next_event(&self) -> Option<SimTime> {
        self.done.front().or(self.running.as_ref()).map(|c| c.finished)
    }

    /// The next completion that has ended by `now`; call until `None`. The next command is chosen the
    /// moment its predecessor ends, before the caller can answer the completion with a new command.
    pub fn poll(&mut self, now: SimTime) -> Option<Completion> {
        self.advance(now);
        self.done.pop_front()
    }

    /// Brings the drive up to `now`.
    fn advance(&mut self, now: SimTime) {
        while let Some(c) = self.running.filter(|c| c.finished <= now) {
            self.running = None;
            self.done.push_back(c);
            self.start(c.finished);
        }
    }

    /// Starts the next command at `at`, if one waits.
    fn start(&mut self, at: SimTime) {
        let queue =
            if self.foreground.len() > 0 { &mut self.foreground } else { &mut self.background };
        let chosen = match self.scheduler {
            Scheduler::Fcfs => queue.fifo.pop_front(),
            scheduler => {
                scheduler.choose(&queue.waiting, &self.disk, at, self.memory).map(|i| queue.take(i))
            }
        };
        let Some(entry) = chosen else { return };
        let Command { tag, op, extent, .. } = entry.command;
        let from = self.disk.next_sequential();
        let access = self.disk.access_target(at, op, extent, entry.flags, &entry.target);
        if !entry.target.moves {
            // A flush: the policy's place stays.
        } else if extent.start != self.memory.start {
            self.memory.upward = extent.start > self.memory.start;
        }
        self.memory.start = extent.start;
        self.memory.end = extent.end();
        self.running = Some(Completion {
            tag,
            extent,
            submitted: entry.submitted,
            started: at,
            finished: SimTime(at.0.saturating_add(access.total().0)),
            access,
            seek_distance_sectors: from.distance(extent.start).0,
            sequential: from == extent.start,
        });
    }
}
