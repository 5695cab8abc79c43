//! A disk: its mechanism, and the controller with its buffer where it has one.
//!
//! Knows one access at a time; queues are [`crate::Drive`]'s.

use seekless_block::{Duration, Extent, Flags, Lba, Op, Sectors, SimTime};

use crate::buffer::Buffer;
use crate::check::{RangeError, fault};
use crate::device::Kind;
use crate::energy::{EnergyByState, PowerStates};
use crate::geometry::{Geometry, Place, Run};
use crate::mechanism::{Mechanism, Phases};
use crate::seek::SeekCurve;
use crate::shingled::Shingled;
use crate::spec::DiskSpec;
use crate::turn::Turn;

/// An access that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// The extent passes the end of the disk.
    #[error("{extent} passes the end of the disk, which has {capacity}")]
    PastEnd {
        /// What was asked.
        extent: Extent,
        /// What there is.
        capacity: Sectors,
    },
}

/// How long an access took, by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Everything that is neither of the others: the controller's own time, the bus after the platter is done,
    /// and waiting for work begun before.
    pub overhead: Duration,
    /// First movement of the arm, head switch and write settle included.
    pub seek: Duration,
    /// First wait for the platter.
    pub rotation: Duration,
    /// From the first sector to the last, later track switches and the waits after them included.
    pub transfer: Duration,
    /// Wait for the platters to turn again, or for the drive to leave a lower level of idling; before all others.
    pub spin_up: Duration,
    /// Cylinders crossed by the first movement.
    pub cylinders: u32,
    /// Whether data went to the disk.
    pub write: bool,
    /// Arm movement on the disk's own account that this access set off (writing back what it accepted) or
    /// ended (reading ahead); not part of the time the access took.
    pub behind_seek: Duration,
    /// Waiting and transfer on the disk's own account, as above.
    pub behind_rotation_transfer: Duration,
    /// The work on the disk's own account was done before the access, whatever it is. Else a read ended it, and a
    /// write set it off.
    pub behind_before: bool,
}

impl Access {
    /// Spin-up, overhead, seek, rotation and transfer together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.spin_up + self.busy()
    }

    /// Overhead, seek, rotation and transfer: what the access takes of a disk that is ready.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.overhead + self.seek + self.rotation + self.transfer
    }
}

/// Where an access starts; computed once per command, so that a queue can be searched quickly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// First address.
    pub lba: Lba,
    /// Its first sectors: as many as lie on one track.
    pub(crate) run: Run,
    pub(crate) moves: bool,
    pub(crate) write: bool,
}

impl Target {
    /// Where the first sector lies.
    #[must_use]
    pub const fn place(&self) -> Place {
        self.run.place
    }

    /// What a queue has to know of it.
    pub(crate) fn key(&self) -> Key {
        Key {
            lba: self.lba,
            angle: self.run.angle,
            cylinder: self.run.place.cylinder,
            head: self.run.place.head,
            moves: self.moves,
            write: self.write,
        }
    }
}

/// What decides how long a positioning takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) lba: Lba,
    pub(crate) angle: u64,
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
    pub(crate) moves: bool,
    pub(crate) write: bool,
}

/// A disk with its arm somewhere.
#[derive(Clone, Debug)]
pub struct Disk {
    mechanism: Mechanism,
    buffer: Option<Buffer>,
    shingled: Option<Shingled>,
    power: PowerStates,
}

impl Disk {
    /// A disk at rest over its first track, its buffer empty.
    ///
    /// # Errors
    /// Where a value of the specification is out of its range.
    pub fn new(spec: &DiskSpec) -> Result<Self, RangeError> {
        spec.validate()?;
        if spec.kind == Kind::DualActuator {
            return fault("kind", spec.kind, "disk or shingled: one arm");
        }
        Ok(Self {
            mechanism: Mechanism::new(spec),
            buffer: spec.controller.as_ref().map(Buffer::new),
            shingled: spec.shingled.as_ref().map(|s| Shingled::new(s, spec.capacity_sectors)),
            power: PowerStates::new(&spec.power),
        })
    }

    /// Sectors a client sees.
    #[must_use]
    pub const fn capacity(&self) -> Sectors {
        match &self.shingled {
            Some(s) => Sectors(s.capacity()),
            None => self.mechanism.geometry.capacity(),
        }
    }

    /// Where sectors lie; on a shingled disk those of the media cache come first.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.mechanism.geometry
    }

    /// The spindle.
    #[must_use]
    pub const fn turn(&self) -> Turn {
        self.mechanism.turn
    }

    /// The seek curve.
    #[must_use]
    pub const fn curve(&self) -> &SeekCurve {
        &self.mechanism.curve
    }

    /// Power in each state.
    #[must_use]
    pub const fn power(&self) -> &PowerStates {
        &self.power
    }

    /// Energy of one access, work behind it included; that of spinning up is [`crate::Drive`]'s to count.
    #[must_use]
    pub fn energy(&self, access: &Access) -> EnergyByState {
        self.power.of(access)
    }

    /// The address after the last sector the head has passed over.
    #[must_use]
    pub const fn next_sequential(&self) -> Lba {
        match &self.shingled {
            Some(s) => s.next,
            None => self.mechanism.next,
        }
    }

    /// Cylinder and head under which the arm stands.
    #[must_use]
    pub const fn arm(&self) -> (u32, u32) {
        (self.mechanism.cylinder, self.mechanism.head)
    }

    /// Whether a completed write may not be on the platter yet, so that a flush takes time.
    #[must_use]
    pub fn writes_back(&self) -> bool {
        self.buffer.as_ref().is_some_and(Buffer::writes_back)
    }

    /// When the disk will have written back what it accepted; in the past where it has.
    pub(crate) fn written_back_at(&self) -> SimTime {
        self.buffer.as_ref().map_or(SimTime(0), Buffer::free_at)
    }

    /// Where an access would start.
    ///
    /// # Errors
    /// Where the extent passes the end of the disk.
    pub fn target(&self, op: Op, extent: Extent) -> Result<Target, DiskError> {
        let capacity = self.capacity();
        let inside = extent.start.0.checked_add(extent.len.0).is_some_and(|end| end <= capacity.0);
        if !inside {
            return Err(DiskError::PastEnd { extent, capacity });
        }
        let moves = !extent.is_empty() && matches!(op, Op::Read | Op::Write | Op::WriteZeroes);
        let lbn = extent.start.0.min(capacity.0 - 1);
        let lbn = self.shingled.as_ref().map_or(lbn, |s| s.home(lbn));
        let target = self.mechanism.target(lbn, extent.len.0.max(1), moves, op.is_write_like());
        Ok(Target { lba: extent.start, ..target })
    }

    /// Seek and rotation an access would take if it started at `at`: what shortest-positioning-time-first
    /// compares. The arm does not move; what the buffer holds is not asked.
    ///
    /// # Errors
    /// Where the extent passes the end of the disk.
    pub fn positioning(&self, at: SimTime, op: Op, extent: Extent) -> Result<Duration, DiskError> {
        let target = self.target(op, extent)?;
        let angle = self.turn().angle_at(at);
        let ticks = self.mechanism.positioning(angle, &target.key(), u64::MAX);
        Ok(Duration(self.turn().nanos(ticks)))
    }

    /// As [`Self::positioning`], from a known angle, within a bound, in ticks.
    pub(crate) fn positioning_ticks(&self, angle: u64, key: &Key, bound: u64) -> u64 {
        self.mechanism.positioning(angle, key, bound)
    }

    /// Time of the arm's movement to a place, with no head switch and no settle.
    pub(crate) fn seek_to(&self, key: &Key) -> Duration {
        let sectors = self.next_sequential().distance(key.lba).0;
        self.curve().time(self.arm().0.abs_diff(key.cylinder), sectors)
    }

    /// Makes an access that starts at `at`; the arm ends where the access ends. Discard costs no time, a
    /// flush what writing back still takes, write zeroes what a write costs.
    ///
    /// # Errors
    /// Where the extent passes the end of the disk; the arm does not move.
    pub fn access(&mut self, at: SimTime, op: Op, extent: Extent) -> Result<Access, DiskError> {
        self.access_with(at, op, extent, Flags::NONE)
    }

    /// As [`Self::access`]; with [`Flags::FUA`] a write ends on the platter even where the disk writes back.
    ///
    /// # Errors
    /// Where the extent passes the end of the disk; the arm does not move.
    pub fn access_with(
        &mut self,
        at: SimTime,
        op: Op,
        extent: Extent,
        flags: Flags,
    ) -> Result<Access, DiskError> {
        let target = self.target(op, extent)?;
        Ok(self.access_target(at, op, extent, flags, &target))
    }

    /// As [`Self::access_with`], for a target that is known already.
    pub(crate) fn access_target(
        &mut self,
        at: SimTime,
        op: Op,
        extent: Extent,
        flags: Flags,
        target: &Target,
    ) -> Access {
        // No sum of times can overflow below; 2^63 ns are 292 years.
        let at = at.min(SimTime(1 << 63));
        let mechanism = &mut self.mechanism;
        if let Some(shingled) = self.shingled.as_mut().filter(|_| target.moves) {
            let access = shingled.access(mechanism, at, target.write, extent);
            return Access { write: target.write, ..access };
        }
        let access = match (&mut self.buffer, target.moves) {
            (None, false) => Access::default(),
            (None, true) => {
                let phases = mechanism.access(at, target, extent, &mut |_, _, _| {});
                Access::plain(phases)
            }
            (Some(buffer), false) if op == Op::Flush => buffer.flush(at),
            (Some(_), false) => Access::default(),
            (Some(buffer), true) if target.write => {
                buffer.write(mechanism, at, target, extent, flags.contains(Flags::FUA))
            }
            (Some(buffer), true) => buffer.read(mechanism, at, target, extent),
        };
        Access { write: target.write, ..access }
    }
}

impl Access {
    /// What the mechanism alone took.
    pub(crate) fn plain(phases: Phases) -> Self {
        let Phases { seek, rotation, transfer, cylinders } = phases;
        Self { seek, rotation, transfer, cylinders, ..Self::default() }
    }
}
