//! A device with a queue, without a clock: commands and times go in, completions come out.
//!
//! The simulator's event loop and the real-time emulation use the same type, for every kind of
//! device. Each kind's behaviour is in its own file; this file sends commands to the right one.

use seekless_block::{Extent, Flags, Op, Sectors, SimTime, StreamId};

use crate::arm_queue::Arm;
use crate::device::Device;
use crate::disk::{Access, Disk, DiskError};
use crate::dual_actuator::Dual;
use crate::power_meter::Usage;
use crate::scheduler::Scheduler;
use crate::spin_down::{SpinDown, SpinDownError};
use crate::volume::{Operations, Volume};

/// A command to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The caller's identifier; the completion carries the same number.
    pub tag: u64,
    /// The operation.
    pub op: Op,
    /// The sectors.
    pub extent: Extent,
    /// The stream that sent the command.
    pub stream: StreamId,
    /// A background command starts if no foreground command waits, or after 10 s, or `in_turn`.
    pub background: bool,
    /// A background command that takes its turn among foreground commands.
    pub in_turn: bool,
}

impl Command {
    /// A foreground command of an unknown stream.
    pub const fn new(tag: u64, op: Op, extent: Extent) -> Self {
        Self { tag, op, extent, stream: StreamId(0), background: false, in_turn: false }
    }
}

/// A completed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The caller's identifier.
    pub tag: u64,
    /// The sectors.
    pub extent: Extent,
    /// Time of arrival.
    pub submitted: SimTime,
    /// Time at which the drive began to serve it.
    pub started: SimTime,
    /// Time at which it ended.
    pub finished: SimTime,
    /// Duration of its phases.
    pub access: Access,
    /// Logical distance from the end of the command before it, in sectors.
    pub seek_distance_sectors: u64,
    /// Whether it started at the end of the command before it.
    pub sequential: bool,
}

/// A device, its queue and its policy, and optionally the host's queue above them.
#[derive(Clone, Debug)]
pub struct Drive {
    machine: Machine,
    capacity: Sectors,
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "each drive has only one")]
enum Machine {
    Arm(Arm),
    Dual(Dual),
    Volume(Volume),
}

/// Calls the same method on the machine of any kind.
macro_rules! each {
    ($machine:expr, $it:ident => $call:expr) => {
        match $machine {
            Machine::Arm($it) => $call,
            Machine::Dual($it) => $call,
            Machine::Volume($it) => $call,
        }
    };
}

impl Drive {
    /// An idle drive that takes every command at once. A device without an arm ignores the
    /// scheduler: it starts commands in the order of arrival.
    pub fn new(device: impl Into<Device>, scheduler: Scheduler) -> Self {
        Self::build(device.into(), |disk| Arm::new(disk, scheduler))
    }

    /// An idle drive. Each of its arms takes `depth` commands at once (at least 1), including the
    /// command in progress. The others wait at the host. When a command ends, the host's policy
    /// `host` picks the next one. With depth 1, only the host decides. A host's elevator merges
    /// nothing. A device without an arm behaves as in [`Self::new`].
    pub fn with_host(
        device: impl Into<Device>,
        scheduler: Scheduler,
        depth: usize,
        host: Scheduler,
    ) -> Self {
        Self::build(device.into(), |disk| Arm::with_host(disk, scheduler, depth, host))
    }

    fn build(device: Device, arm: impl Fn(Disk) -> Arm) -> Self {
        let capacity = device.capacity();
        let machine = match device {
            Device::Disk(disk) => Machine::Arm(arm(disk)),
            Device::Dual(first, second) => Machine::Dual(Dual::new(arm(first), arm(second))),
            Device::Volume(volume) => Machine::Volume(volume),
        };
        Self { machine, capacity }
    }

    /// Capacity visible to a client, in sectors.
    pub const fn capacity(&self) -> Sectors {
        self.capacity
    }

    /// Sets the policy for stopping the platters. A new drive never stops them.
    /// After an error the drive is unchanged.
    pub fn set_spin_down(&mut self, policy: SpinDown) -> Result<(), SpinDownError> {
        each!(&mut self.machine, m => m.set_spin_down(policy))
    }

    /// Time and energy by state, from time zero to `now`. Call [`Self::poll`] for that time first.
    /// The sum of the times is `now`; with two actuators, each counted on its own, it is twice
    /// `now`. A device without an arm is transferring if at least one lane is busy; otherwise it is
    /// idle.
    pub fn usage(&self, now: SimTime) -> Usage {
        each!(&self.machine, m => m.usage(now))
    }

    /// Number of operations started so far, as a provider counts them; `None` for a device with
    /// arms.
    pub const fn operations(&self) -> Option<Operations> {
        match &self.machine {
            Machine::Volume(volume) => Some(volume.operations()),
            _ => None,
        }
    }

    /// Number of waiting commands: those that no arm has started, or background commands that have
    /// not begun.
    pub fn waiting(&self) -> usize {
        each!(&self.machine, m => m.waiting())
    }

    /// Whether no command is in progress or waiting, and no completion is left to poll.
    pub fn is_idle(&self) -> bool {
        each!(&self.machine, m => m.is_idle())
    }

    /// Takes a command at `now`. `now` must not decrease between calls. A discard ends at once. A
    /// flush also ends at once, except if a disk writes back: then it is served like a command
    /// without movement.
    /// After an error the drive is unchanged.
    pub fn submit(&mut self, now: SimTime, command: Command) -> Result<(), DiskError> {
        self.submit_with(now, command, Flags::NONE)
    }

    /// As [`Self::submit`]. A write with [`Flags::FUA`] ends when the data is on the platter.
    /// After an error the drive is unchanged.
    pub fn submit_with(
        &mut self,
        now: SimTime,
        command: Command,
        flags: Flags,
    ) -> Result<(), DiskError> {
        let extent = command.extent;
        if extent.start.0.checked_add(extent.len.0).is_none_or(|end| end > self.capacity.0) {
            return Err(DiskError::PastEnd { extent, capacity: self.capacity });
        }
        each!(&mut self.machine, m => m.submit_with(now, command, flags))
    }

    /// The time of the next event, if no command is submitted before. Usually a command ends then,
    /// and [`Self::poll`] returns it. The event can also be the end of one of two halves, the end
    /// of a wait for a better command, or the start of a background command.
    pub fn next_event(&self) -> Option<SimTime> {
        each!(&self.machine, m => m.next_event())
    }

    /// The next completion up to `now`; call until `None`. The next command is chosen at the end of
    /// the command before it, before the caller can answer the completion with a new command.
    pub fn poll(&mut self, now: SimTime) -> Option<Completion> {
        each!(&mut self.machine, m => m.poll(now))
    }
}
