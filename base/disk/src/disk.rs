//! A disk: its mechanism, and its controller with a buffer, if the disk has one.
//!
//! It serves one access at a time; [`crate::Drive`] has the queues.

use seekless_block::{Duration, Extent, Flags, Lba, Op, Sectors, SimTime};

use crate::buffer::Buffer;
use crate::device::Kind;
use crate::energy::{EnergyByState, PowerStates};
use crate::geometry::{Geometry, PlatterPosition, Run};
use crate::mechanism::{AccessPhases, Mechanism};
use crate::rotation::Spindle;
use crate::seek_curve::SeekCurve;
use crate::shingled::Shingled;
use crate::spec::DiskSpec;
use crate::spec_check::{RangeError, fault};

/// An access that is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say the same")]
pub enum DiskError {
    #[error("extent {extent} ends after the end of the disk, which has {capacity}")]
    PastEnd { extent: Extent, capacity: Sectors },
}

/// Duration of an access, by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// All other time: the controller's own time, the bus after the platter has finished, and
    /// waiting for work that began earlier.
    pub overhead: Duration,
    /// First movement of the arm, including head switch and write settle.
    pub seek: Duration,
    /// First wait for the rotation of the platter.
    pub rotation: Duration,
    /// From the first sector to the last, including later track switches and the waits after them.
    pub transfer: Duration,
    /// Time until the platters rotate again, or until the drive leaves a lower idle level; comes
    /// before all other phases.
    pub spin_up: Duration,
    /// Cylinders crossed by the first movement.
    pub cylinders: u32,
    /// Whether data was written to the disk.
    pub write: bool,
    /// Arm movement for the drive's own work that this access started (write-back of accepted data)
    /// or ended (read-ahead). Not part of the duration of the access.
    pub behind_seek: Duration,
    /// Waiting and transfer for the same work of the drive.
    pub behind_rotation_transfer: Duration,
}

impl Access {
    /// Sum of spin-up, overhead, seek, rotation and transfer.
    pub fn total(&self) -> Duration {
        self.spin_up + self.busy()
    }

    /// Sum of overhead, seek, rotation and transfer: the duration of the access on a disk that is
    /// ready.
    pub fn busy(&self) -> Duration {
        self.overhead + self.seek + self.rotation + self.transfer
    }
}

/// Start position of an access. It is computed once per command, so that searching a queue is fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// First address.
    pub lba: Lba,
    /// Its first sectors, as far as they are on one track.
    pub(crate) run: Run,
    pub(crate) moves: bool,
    pub(crate) write: bool,
}

impl Target {
    /// Position of the first sector.
    pub const fn place(&self) -> PlatterPosition {
        self.run.place
    }

    /// The values that a queue needs for its choice.
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

/// The values that determine a positioning time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) lba: Lba,
    pub(crate) angle: u64,
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
    pub(crate) moves: bool,
    pub(crate) write: bool,
}

/// A disk with a present arm position.
#[derive(Clone, Debug)]
pub struct Disk {
    mechanism: Mechanism,
    buffer: Option<Buffer>,
    shingled: Option<Shingled>,
    power: PowerStates,
}

impl Disk {
    /// A disk at rest above its first track, with an empty buffer.
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

    /// Capacity visible to a client, in sectors.
    pub const fn capacity(&self) -> Sectors {
        match &self.shingled {
            Some(s) => Sectors(s.capacity()),
            None => self.mechanism.geometry.capacity(),
        }
    }

    /// The positions of sectors. On a shingled disk the sectors of the media cache come first.
    pub const fn geometry(&self) -> &Geometry {
        &self.mechanism.geometry
    }

    /// The spindle.
    pub const fn spindle(&self) -> Spindle {
        self.mechanism.turn
    }

    /// The seek curve.
    pub const fn curve(&self) -> &SeekCurve {
        &self.mechanism.curve
    }

    /// Power in each state.
    pub const fn power(&self) -> &PowerStates {
        &self.power
    }

    /// Energy of one access, including the drive's own work. [`crate::Drive`] counts the energy of
    /// spinning up.
    pub fn energy(&self, access: &Access) -> EnergyByState {
        self.power.of(access)
    }

    /// The address after the last sector that the head passed.
    pub const fn next_sequential(&self) -> Lba {
        match &self.shingled {
            Some(s) => s.next,
            None => self.mechanism.next,
        }
    }

    /// Cylinder and head of the arm's present position.
    pub const fn arm(&self) -> (u32, u32) {
        (self.mechanism.cylinder, self.mechanism.head)
    }

    /// Whether a completed write can still be missing on the platter, so that a flush takes time.
    pub(crate) fn writes_back(&self) -> bool {
        self.buffer.as_ref().is_some_and(Buffer::writes_back)
    }

    /// The time at which all accepted data is written back. It can be in the past.
    pub(crate) fn written_back_at(&self) -> SimTime {
        self.buffer.as_ref().map_or(SimTime(0), Buffer::free_at)
    }

    /// The start position of an access.
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

    /// Seek time and rotation time of an access that starts at `at`.
    /// Shortest-positioning-time-first compares this value. The arm does not move, and the buffer
    /// is ignored.
    pub fn positioning(&self, at: SimTime, op: Op, extent: Extent) -> Result<Duration, DiskError> {
        let target = self.target(op, extent)?;
        let angle = self.spindle().angle_at(at);
        let ticks = self.mechanism.positioning(angle, &target.key(), u64::MAX);
        Ok(Duration(self.spindle().nanos(ticks)))
    }

    /// As [`Self::positioning`], in ticks, from a known angle and with a bound.
    pub(crate) fn positioning_ticks(&self, angle: u64, key: &Key, bound: u64) -> u64 {
        self.mechanism.positioning(angle, key, bound)
    }

    /// Time of the arm's movement to a position, without head switch and settle.
    pub(crate) fn seek_to(&self, key: &Key) -> Duration {
        let sectors = self.next_sequential().distance(key.lba).0;
        self.curve().time(self.arm().0.abs_diff(key.cylinder), sectors)
    }

    /// Performs an access that starts at `at`; the arm ends at the end of the access. A discard
    /// takes no time. A flush takes the remaining time of the write-back. Writing zeroes takes the
    /// time of a write.
    /// After an error the arm has not moved.
    pub fn access(&mut self, at: SimTime, op: Op, extent: Extent) -> Result<Access, DiskError> {
        self.access_with(at, op, extent, Flags::NONE)
    }

    /// As [`Self::access`]. A write with [`Flags::FUA`] ends when the data is on the platter, even
    /// if the disk writes back.
    /// After an error the arm has not moved.
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

    /// As [`Self::access_with`], for a known target.
    pub(crate) fn access_target(
        &mut self,
        at: SimTime,
        op: Op,
        extent: Extent,
        flags: Flags,
        target: &Target,
    ) -> Access {
        // With this limit no later sum of times overflows; 2^63 ns are 292 years.
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
    /// An access of the mechanism alone.
    pub(crate) fn plain(phases: AccessPhases) -> Self {
        let AccessPhases { seek, rotation, transfer, cylinders } = phases;
        Self { seek, rotation, transfer, cylinders, ..Self::default() }
    }
}
