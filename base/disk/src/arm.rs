//! One arm with its queue, without a clock: commands and times go in, completions come out.
//!
//! Told late, it still serves as it would have served: a command that waited starts when the one before it ended.

use std::collections::VecDeque;

use seekless_block::{Extent, Flags, Op, SimTime};

use crate::disk::{Access, Disk, DiskError};
use crate::drive::{Command, Completion};
use crate::meter::{Meter, Usage, Wake};
use crate::queue::{Entry, Next, Queue};
use crate::scheduler::Scheduler;
use crate::spin_down::{SpinDown, SpinDownError};

/// A disk, its queue and its policy; above it, if wanted, a host's queue.
#[derive(Clone, Debug)]
pub(crate) struct Arm {
    disk: Disk,
    queue: Queue,
    host: Option<Host>,
    meter: Meter,
    running: Option<Completion>,
    /// What is running.
    command: Command,
    /// Idle although commands wait, until then at the latest.
    waits_until: Option<SimTime>,
    done: VecDeque<Completion>,
    order: u64,
}

/// Commands the disk has not been given yet.
#[derive(Clone, Debug)]
struct Host {
    queue: Queue,
    /// Commands the disk takes at once, the running one included.
    depth: usize,
}

impl Arm {
    /// An idle arm that takes every command at once.
    pub(crate) fn new(disk: Disk, scheduler: Scheduler) -> Self {
        Self {
            disk,
            queue: Queue::new(scheduler),
            host: None,
            meter: Meter::new(),
            running: None,
            command: Command::new(0, Op::Read, Extent::default()),
            waits_until: None,
            done: VecDeque::new(),
            order: 0,
        }
    }

    /// An idle arm that takes `depth` commands at once (at least 1), the running one included; the others wait
    /// at the host, whose policy `host` picks the next when one has ended. With depth 1 the host alone decides.
    pub(crate) fn with_host(
        disk: Disk,
        scheduler: Scheduler,
        depth: usize,
        host: Scheduler,
    ) -> Self {
        let host = Host { queue: Queue::new(host), depth: depth.max(1) };
        Self { host: Some(host), ..Self::new(disk, scheduler) }
    }

    /// Stops the platters by `policy` from now on. A new drive never does.
    ///
    /// # Errors
    /// Where the disk's description does not say what spinning down and up costs; the drive is as before.
    pub(crate) fn set_spin_down(&mut self, policy: SpinDown) -> Result<(), SpinDownError> {
        self.meter.set_policy(self.disk.power(), policy)
    }

    /// Time and energy by state, from time zero to `now`; call [`Self::poll`] for that time first. The times add up
    /// to `now`.
    pub(crate) fn usage(&self, now: SimTime) -> Usage {
        self.meter.usage(self.disk.power(), now)
    }

    /// The disk under the queue.
    pub(crate) const fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Commands that wait, the running one excluded.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len() + self.host.as_ref().map_or(0, |h| h.queue.len())
    }

    /// Whether nothing runs, waits, or is left to poll.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none() && self.done.is_empty() && self.waiting() == 0
    }

    /// Takes a command at `now`, which must not run backwards between calls. A discard ends at once; so does a
    /// flush, unless the disk writes back: then it is served like a command that needs no movement. A write with
    /// [`Flags::FUA`] ends on the platter.
    ///
    /// # Errors
    /// Where the extent passes the end of the disk; the drive is as before.
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
        let entry = Entry { command, flags, submitted: now, order: self.order, target };
        self.order += 1;
        match &mut self.host {
            Some(host) => host.queue.push(entry),
            None => self.queue.push(entry),
        }
        self.feed(now);
        Ok(())
    }

    /// Gives the disk what it can take, and starts it where it stands idle.
    fn feed(&mut self, at: SimTime) {
        if let Some(host) = &mut self.host {
            loop {
                let given = self.queue.len() + usize::from(self.running.is_some());
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

    /// When to call [`Self::poll`] next, if nothing more is submitted: a command will have ended then, or a wait
    /// for a better one.
    pub(crate) fn next_event(&self) -> Option<SimTime> {
        let ends = self.done.front().or(self.running.as_ref()).map(|c| c.finished);
        ends.or(self.waits_until)
    }

    /// The next completion that has ended by `now`; call until `None`. The next command is chosen the
    /// moment its predecessor ends, before the caller can answer the completion with a new command.
    pub(crate) fn poll(&mut self, now: SimTime) -> Option<Completion> {
        self.advance(now);
        self.done.pop_front()
    }

    /// Brings the drive up to `now`.
    fn advance(&mut self, now: SimTime) {
        loop {
            if let Some(c) = self.running.take_if(|c| c.finished <= now) {
                let at = c.finished;
                self.done.push_back(c);
                self.queue.ended(at, &self.command);
                if let Some(host) = &mut self.host {
                    host.queue.ended(at, &self.command);
                }
                // The disk goes on with what it has before the host hears of the end.
                self.start(at);
                self.feed(at);
            } else if let Some(at) = self.waits_until.filter(|&at| at <= now) {
                self.feed(at);
            } else {
                break;
            }
        }
    }

    /// Starts the next command at `at`, if one waits.
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
        let Command { tag, op, extent, background, .. } = entry.command;
        let from = self.disk.next_sequential();
        // Only what needs the platter wakes it.
        let moves = entry.target.moves;
        let wake = if moves { self.meter.wake(self.disk.power(), at) } else { Wake::default() };
        let ready = SimTime(at.0.saturating_add(wake.time().0));
        let access = self.disk.access_target(ready, op, extent, entry.flags, &entry.target);
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
