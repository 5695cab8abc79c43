//! Commands that wait, at the disk or at the host, and the policy that picks among them.

use std::collections::VecDeque;

use seekless_block::{Flags, SimTime};

use crate::disk::{Disk, Target};
use crate::drive::Command;
use crate::scheduler::{Memory, Scheduler, Waiting};

/// A command with what was found out about it when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) command: Command,
    pub(crate) flags: Flags,
    pub(crate) submitted: SimTime,
    /// Rises with arrival.
    pub(crate) order: u64,
    pub(crate) target: Target,
}

/// In order of arrival for FCFS; for the others in any order, with what the policy looks at beside.
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
}

/// A queue under one policy, background commands apart.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    scheduler: Scheduler,
    foreground: Class,
    background: Class,
    memory: Memory,
}

impl Queue {
    pub(crate) fn new(scheduler: Scheduler) -> Self {
        let (foreground, background) = (Class::default(), Class::default());
        Self { scheduler, foreground, background, memory: Memory::NEW }
    }

    pub(crate) fn len(&self) -> usize {
        self.foreground.len() + self.background.len()
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        let background = entry.command.background;
        let class = if background { &mut self.background } else { &mut self.foreground };
        if self.scheduler == Scheduler::Fcfs {
            class.fifo.push_back(entry);
        } else {
            let Entry { order, submitted, target, .. } = entry;
            class.bag.push(entry);
            class.waiting.push(Waiting { key: target.key(), order, submitted });
        }
    }

    /// The command to serve next at `at`; a background one only where no foreground one waits.
    pub(crate) fn pop(&mut self, disk: &Disk, at: SimTime) -> Option<Entry> {
        let foreground = self.foreground.len() > 0;
        let class = if foreground { &mut self.foreground } else { &mut self.background };
        let entry = match self.scheduler {
            Scheduler::Fcfs => class.fifo.pop_front()?,
            scheduler => {
                let i = scheduler.choose(&class.waiting, disk, at, self.memory)?;
                class.waiting.swap_remove(i);
                class.bag.swap_remove(i)
            }
        };
        // A flush moves nothing: the policy's place stays.
        if entry.target.moves {
            let extent = entry.command.extent;
            if extent.start != self.memory.start {
                self.memory.upward = extent.start > self.memory.start;
            }
            self.memory.start = extent.start;
            self.memory.end = extent.end();
        }
        Some(entry)
    }
}
