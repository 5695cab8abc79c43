//! A device with a queue, without a clock: commands and times go in, completions come out.
//!
//! The same machine stands in the simulator's event loop and behind an emulation in real time, whatever the kind
//! of device. How each kind serves is its own file's; here commands find their way to it.

use seekless_block::{Extent, Flags, Op, Sectors, SimTime, StreamId};

use crate::arm::Arm;
use crate::device::Device;
use crate::disk::{Access, Disk, DiskError};
use crate::dual::Dual;
use crate::meter::Usage;
use crate::scheduler::Scheduler;
use crate::spin_down::{SpinDown, SpinDownError};
use crate::volume::{Operations, Volume};

/// What a drive is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The caller's name for it, handed back.
    pub tag: u64,
    /// What to do.
    pub op: Op,
    /// Where.
    pub extent: Extent,
    /// Whose it is.
    pub stream: StreamId,
    /// Starts only while no foreground command waits.
    pub background: bool,
}

impl Command {
    /// A foreground command of no known stream.
    #[must_use]
    pub const fn new(tag: u64, op: Op, extent: Extent) -> Self {
        Self { tag, op, extent, stream: StreamId(0), background: false }
    }
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

/// A device, its queue and its policy; above it, if wanted, a host's queue.
#[derive(Clone, Debug)]
pub struct Drive {
    machine: Machine,
    capacity: Sectors,
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "one of a drive")]
enum Machine {
    Arm(Arm),
    Dual(Dual),
    Volume(Volume),
}

/// Calls the same method on whichever machine it is.
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
    /// An idle drive that takes every command at once. A device without an arm has no use for a scheduler: it begins
    /// commands in the order in which they come.
    #[must_use]
    pub fn new(device: impl Into<Device>, scheduler: Scheduler) -> Self {
        Self::build(device.into(), |disk| Arm::new(disk, scheduler))
    }

    /// An idle drive each of whose arms takes `depth` commands at once (at least 1), the running one included; the
    /// others wait at the host, whose policy `host` picks the next when one has ended. With depth 1 the host alone
    /// decides. A device without an arm is as in [`Self::new`].
    #[must_use]
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

    /// Sectors a client sees.
    #[must_use]
    pub const fn capacity(&self) -> Sectors {
        self.capacity
    }

    /// Stops the platters by `policy` from now on. A new drive never does.
    ///
    /// # Errors
    /// Where the device's description does not say what spinning down and up costs, or it has no platters, or two
    /// actuators; the drive is as before.
    pub fn set_spin_down(&mut self, policy: SpinDown) -> Result<(), SpinDownError> {
        each!(&mut self.machine, m => m.set_spin_down(policy))
    }

    /// Time and energy by state, from time zero to `now`; call [`Self::poll`] for that time first. The times add up
    /// to `now`; those of two actuators, counted for each, to twice `now`. A device without an arm is idle, or in the state of
    /// transferring while at least one lane serves.
    #[must_use]
    pub fn usage(&self, now: SimTime) -> Usage {
        each!(&self.machine, m => m.usage(now))
    }

    /// Operations begun so far, as a provider counts them; none for a device with arms.
    #[must_use]
    pub const fn operations(&self) -> Option<Operations> {
        match &self.machine {
            Machine::Volume(volume) => Some(volume.operations()),
            _ => None,
        }
    }

    /// Commands that wait: that no arm has turned to, or background ones that have not begun.
    #[must_use]
    pub fn waiting(&self) -> usize {
        each!(&self.machine, m => m.waiting())
    }

    /// Whether nothing runs, waits, or is left to poll.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        each!(&self.machine, m => m.is_idle())
    }

    /// Takes a command at `now`, which must not run backwards between calls. A discard ends at once; so does a
    /// flush, unless a disk writes back: then it is served like a command that needs no movement.
    ///
    /// # Errors
    /// Where the extent passes the end of the device; the drive is as before.
    pub fn submit(&mut self, now: SimTime, command: Command) -> Result<(), DiskError> {
        self.submit_with(now, command, Flags::NONE)
    }

    /// As [`Self::submit`]; a write with [`Flags::FUA`] ends on the platter.
    ///
    /// # Errors
    /// Where the extent passes the end of the device; the drive is as before.
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

    /// When something happens next, if nothing more is submitted. Mostly a command ends then, and [`Self::poll`] has
    /// it; but it may be one of two halves, the end of a wait for a better command, or the start of one of the
    /// background.
    #[must_use]
    pub fn next_event(&self) -> Option<SimTime> {
        each!(&self.machine, m => m.next_event())
    }

    /// The next completion that has ended by `now`; call until `None`. The next command is chosen the
    /// moment its predecessor ends, before the caller can answer the completion with a new command.
    pub fn poll(&mut self, now: SimTime) -> Option<Completion> {
        each!(&mut self.machine, m => m.poll(now))
    }
}
