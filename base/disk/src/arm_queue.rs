//! One arm with its queue, without a clock: commands and times go in, completions come out.
//!
//! A late call gives the same result as a call in time: a command that waited starts when the
//! command before it ended.

use std::collections::VecDeque;

use seekless_block::{Extent, Flags, Op, SimTime};

use crate::disk::{Access, Disk, DiskError};
use crate::drive::{Command, Completion};
use crate::power_meter::{Meter, Usage, WakeTransitions};
use crate::queue::{Entry, Next, Queue};
use crate::scheduler::Scheduler;
use crate::spin_down::{SpinDown, SpinDownError};

/// A disk, its queue and its policy, and optionally the host's queue above them.
#[derive(Clone, Debug)]
pub(crate) struct Arm {
    disk: Disk,
    queue: Queue,
    host: Option<Host>,
    meter: Meter,
    running: Option<Completion>,
    command: Command,
    /// Commands that are served as one with the running command.
    merged: Vec<Entry>,
    /// The disk is idle until this time at the latest, although commands wait.
    waits_until: Option<SimTime>,
    done: VecDeque<Completion>,
    order: u64,
}

/// Commands that the host has not yet sent to the disk.
#[derive(Clone, Debug)]
struct Host {
    queue: Queue,
    /// The number of commands the disk takes at once, including the command in progress.
    depth: usize,
}

impl Arm {
    /// An idle arm that takes every command at once.
    pub(crate) fn new(disk: Disk, scheduler: Scheduler) -> Self {
        Self {
            disk,
            queue: Queue::new(scheduler),
            host: None,
            meter: Meter::default(),
            running: None,
            command: Command::new(0, Op::Read, Extent::default()),
            merged: Vec::new(),
            waits_until: None,
            done: VecDeque::new(),
            order: 0,
        }
    }

    pub(crate) fn with_host(
        disk: Disk,
        scheduler: Scheduler,
        depth: usize,
        host: Scheduler,
    ) -> Self {
        let host = Host { queue: Queue::new(host), depth: depth.max(1) };
        Self { host: Some(host), ..Self::new(disk, scheduler) }
    }

    pub(crate) fn set_spin_down(&mut self, policy: SpinDown) -> Result<(), SpinDownError> {
        self.meter.set_policy(self.disk.power(), policy)
    }

    pub(crate) fn usage(&self, now: SimTime) -> Usage {
        self.meter.usage(self.disk.power(), now)
    }

    /// The disk below the queue.
    pub(crate) const fn disk(&self) -> &Disk {
        &self.disk
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len() + self.host.as_ref().map_or(0, |h| h.queue.len())
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none() && self.done.is_empty() && self.waiting() == 0
    }

    pub(crate) fn submit_with(
        &mut self,
        now: SimTime,
        command: Command,
        flags: Flags,
    ) -> Result<(), DiskError> {
        let target = self.disk.target(command.op, command.extent)?;
        self.advance(now);
        let waits = target.moves || (command.op == Op::Flush && self.disk.writes_back());
        if !waits {
            let sequential = false;
            self.done.push_back(without_access(&command, now, [now, now], sequential));
            return Ok(());
        }
        let entry = Entry { command, flags, submitted: now, order: self.order, target };
        self.order += 1;
        match &mut self.host {
            Some(host) => host.queue.push(entry),
            None => self.queue.push(entry),
        }
        self.feed(now);
        Ok(())
    }

    /// Sends commands to the disk up to its depth, and starts the disk if it is idle.
    fn feed(&mut self, at: SimTime) {
        if let Some(host) = &mut self.host {
            loop {
                let running = usize::from(self.running.is_some());
                let given = self.queue.len() + self.merged.len() + running;
                if given >= host.depth {
                    break;
                }
                match host.queue.pop(&self.disk, at, given == 0) {
                    Next::Serve(entry) => self.queue.push(entry),
                    Next::Wait(until) => {
                        self.waits_until = Some(until);
                        return;
                    }
                    Next::Nothing => break,
                }
            }
        }
        if self.running.is_none() {
            self.start(at);
        }
    }

    pub(crate) fn next_event(&self) -> Option<SimTime> {
        let ends = self.done.front().or(self.running.as_ref()).map(|c| c.finished);
        ends.or(self.waits_until)
    }

    pub(crate) fn poll(&mut self, now: SimTime) -> Option<Completion> {
        self.advance(now);
        self.done.pop_front()
    }

    fn advance(&mut self, now: SimTime) {
        loop {
            if let Some(c) = self.running.take_if(|c| c.finished <= now) {
                let (at, times) = (c.finished, [c.started, c.finished]);
                self.done.push_back(c);
                let merged = self.merged.drain(..);
                self.done
                    .extend(merged.map(|m| without_access(&m.command, m.submitted, times, true)));
                self.queue.ended(at, &self.command);
                if let Some(host) = &mut self.host {
                    host.queue.ended(at, &self.command);
                }
                // The disk continues with its own queue before the host learns of the end.
                self.start(at);
                self.feed(at);
            } else if let Some(at) = self.waits_until.filter(|&at| at <= now) {
                self.feed(at);
            } else {
                break;
            }
        }
    }

    fn start(&mut self, at: SimTime) {
        self.waits_until = None;
        let entry = match self.queue.pop(&self.disk, at, true) {
            Next::Serve(entry) => entry,
            Next::Wait(until) => {
                self.waits_until = Some(until);
                return;
            }
            Next::Nothing => return,
        };
        self.command = entry.command;
        let whole = self.queue.merge(&entry, &mut self.merged);
        let Command { tag, op, extent, background, .. } = entry.command;
        let target = self.disk.target(op, whole).unwrap_or(entry.target);
        let from = self.disk.next_sequential();
        // Only a command that needs the platter ends the standby state.
        let moves = entry.target.moves;
        let wake =
            if moves { self.meter.wake(self.disk.power(), at) } else { WakeTransitions::default() };
        let ready = SimTime(at.0.saturating_add(wake.time().0));
        let access = self.disk.access_target(ready, op, whole, entry.flags, &target);
        let access = Access { spin_up: wake.time(), ..access };
        let written_back = self.disk.written_back_at();
        self.meter.book(self.disk.power(), at, wake, &access, background, written_back);
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

/// A command that cost nothing, or whose cost another completion has. `times`: start and end.
fn without_access(
    command: &Command,
    submitted: SimTime,
    times: [SimTime; 2],
    sequential: bool,
) -> Completion {
    Completion {
        tag: command.tag,
        extent: command.extent,
        submitted,
        started: times[0],
        finished: times[1],
        access: Access::default(),
        seek_distance_sectors: 0,
        sequential,
    }
}
