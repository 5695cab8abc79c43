//! The queue of waiting commands, at the disk or at the host, with the policy that chooses from it.

use std::collections::VecDeque;

use seekless_block::{Duration, Extent, Flags, Lba, Sectors, SimTime, StreamId};

use crate::anticipation::{Advice, Anticipation};
use crate::disk::{Disk, Target};
use crate::drive::Command;
use crate::scheduler::{Memory, Scheduler, Waiting};

/// A command, with values computed at its arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) command: Command,
    pub(crate) flags: Flags,
    pub(crate) submitted: SimTime,
    /// Increases with arrival.
    pub(crate) order: u64,
    pub(crate) target: Target,
}

/// The longest command that merging makes: Linux's default (`max_sectors_kb`) for a SATA drive.
const MERGED_MOST: Sectors = Sectors(512 * 1024 / 512);

/// A background command waits for foreground commands at most this long: `prio_aging_expire` of
/// Linux's mq-deadline, 10 s. A disk that is always busy would never serve it.
pub(crate) const AGES: Duration = Duration(10_000_000_000);

/// Commands in order of arrival for FCFS; for the other policies in any order, with the policy's
/// search keys.
#[derive(Clone, Debug, Default)]
struct Class {
    fifo: VecDeque<Entry>,
    bag: Vec<Entry>,
    waiting: Vec<Waiting>,
}

impl Class {
    fn len(&self) -> usize {
        self.fifo.len() + self.bag.len()
    }

    /// When the command that has waited longest came.
    fn oldest(&self) -> Option<SimTime> {
        let fifo = self.fifo.front().map(|entry| entry.submitted);
        fifo.or_else(|| self.waiting.iter().map(|waiting| waiting.submitted).min())
    }

    /// Index of the command that has waited longest.
    fn first(&self) -> Option<usize> {
        (0..self.waiting.len()).min_by_key(|&i| self.waiting[i].order)
    }

    /// Index of the stream's command with the shortest seek, if its seek is not longer than that of
    /// `chosen`.
    fn nearest_of(&self, stream: Option<StreamId>, disk: &Disk, chosen: usize) -> usize {
        let seek = |i: usize| disk.seek_to(&self.waiting[i].key);
        (0..self.bag.len())
            .filter(|&i| Anticipation::is_of(&self.bag[i].command, stream))
            .min_by_key(|&i| (seek(i), self.waiting[i].order))
            .filter(|&i| seek(i) <= seek(chosen))
            .unwrap_or(chosen)
    }

    /// Takes the command that begins at `end` and can be one command with `first`, which moves at
    /// most `most` sectors.
    fn take_adjoining(&mut self, first: &Entry, end: Lba, most: Sectors) -> Option<Entry> {
        let kind = |e: &Entry| (e.command.op, e.flags, e.command.background);
        let adjoins = |e: &Entry| {
            let Extent { start, len } = e.command.extent;
            e.target.moves && start == end && len <= most && kind(e) == kind(first)
        };
        let i = (0..self.bag.len())
            .filter(|&i| adjoins(&self.bag[i]))
            .min_by_key(|&i| self.waiting[i].order)?;
        self.waiting.swap_remove(i);
        Some(self.bag.swap_remove(i))
    }
}

/// The queue's answer to the disk.
pub(crate) enum Next {
    Serve(Entry),
    /// Serve no command now: wait for a better command until this time at the latest.
    Wait(SimTime),
    Nothing,
}

/// A queue with one policy, with background commands kept apart.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    scheduler: Scheduler,
    foreground: Class,
    background: Class,
    memory: Memory,
    anticipation: Option<Box<Anticipation>>,
}

impl Queue {
    pub(crate) fn new(scheduler: Scheduler) -> Self {
        let (foreground, background) = (Class::default(), Class::default());
        let anticipation = (scheduler == Scheduler::Anticipatory).then(Box::default);
        Self { scheduler, foreground, background, memory: Memory::NEW, anticipation }
    }

    pub(crate) fn len(&self) -> usize {
        self.foreground.len() + self.background.len()
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        if let Some(anticipation) = &mut self.anticipation {
            anticipation.came(entry.submitted, &entry.command, &entry.target.key());
        }
        let background = entry.command.background && !entry.command.in_turn;
        let class = if background { &mut self.background } else { &mut self.foreground };
        if self.scheduler == Scheduler::Fcfs {
            class.fifo.push_back(entry);
        } else {
            let Entry { order, submitted, target, .. } = entry;
            class.bag.push(entry);
            class.waiting.push(Waiting { key: target.key(), order, submitted });
        }
    }

    pub(crate) fn ended(&mut self, at: SimTime, command: &Command) {
        if let Some(anticipation) = &mut self.anticipation {
            anticipation.ended(at, command);
        }
    }

    /// The command to serve next at `at`. A background command is returned if no foreground command
    /// waits, or if a background command has waited for [`AGES`]. The queue waits for a better command only if `may_wait`.
    pub(crate) fn pop(&mut self, disk: &Disk, at: SimTime, may_wait: bool) -> Next {
        let aged = self.background.oldest().is_some_and(|came| at.since(came) >= AGES);
        let foreground = self.foreground.len() > 0 && !aged;
        let class = if foreground { &mut self.foreground } else { &mut self.background };
        let entry = match self.scheduler {
            Scheduler::Fcfs => match class.fifo.pop_front() {
                Some(entry) => entry,
                None => return Next::Nothing,
            },
            scheduler => {
                let chosen = if aged {
                    class.first()
                } else {
                    scheduler.choose(&class.waiting, disk, at, self.memory)
                };
                let Some(mut i) = chosen else {
                    return Next::Nothing;
                };
                if let Some(anticipation) = &mut self.anticipation {
                    let chosen = (&class.bag[i].command, &class.waiting[i].key);
                    match anticipation.advice(disk, at, chosen) {
                        Advice::Wait(until) if may_wait && !aged => return Next::Wait(until),
                        Advice::Wait(_) | Advice::Go => {}
                        Advice::Prefer(stream) => i = class.nearest_of(stream, disk, i),
                    }
                    anticipation.started(at, &class.bag[i].command);
                }
                class.waiting.swap_remove(i);
                class.bag.swap_remove(i)
            }
        };
        // A flush moves nothing, so the policy's position is unchanged.
        if entry.target.moves {
            let extent = entry.command.extent;
            if extent.start != self.memory.start {
                self.memory.upward = extent.start > self.memory.start;
            }
            self.memory.start = extent.start;
            self.memory.end = extent.end();
        }
        Next::Serve(entry)
    }

    /// Adds to `merged` the waiting commands that adjoin `first`, in order of address, if the policy
    /// merges. Returns the sectors of all of them together.
    pub(crate) fn merge(&mut self, first: &Entry, merged: &mut Vec<Entry>) -> Extent {
        let Extent { start, mut len } = first.command.extent;
        if self.scheduler != Scheduler::Elevator || !first.target.moves {
            return Extent { start, len };
        }
        let background = first.command.background && !first.command.in_turn;
        let class = if background { &mut self.background } else { &mut self.foreground };
        while let Some(most) = MERGED_MOST.0.checked_sub(len.0)
            && let Some(next) = class.take_adjoining(first, start + len, Sectors(most))
        {
            len += next.command.extent.len;
            merged.push(next);
        }
        self.memory.end = start + len;
        Extent { start, len }
    }
}
