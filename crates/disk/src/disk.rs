//! The mechanism: an arm, a spindle, and how long an access takes from a given instant.
//!
//! Knows one access at a time; queues are [`crate::Drive`]'s.

use seekless_block::{Duration, Energy, Extent, Lba, Op, Sectors, SimTime};

use crate::energy::{EnergyByState, PowerStates};
use crate::geometry::{Geometry, Place, Run};
use crate::seek::SeekCurve;
use crate::spec::{DiskSpec, RangeError};
use crate::turn::{REVOLUTION, Turn, wait};

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
    /// Controller time before the mechanism starts.
    pub overhead: Duration,
    /// First movement of the arm, head switch and write settle included.
    pub seek: Duration,
    /// First wait for the platter.
    pub rotation: Duration,
    /// From the first sector to the last, later track switches and the waits after them included.
    pub transfer: Duration,
    /// Cylinders crossed by the first movement.
    pub cylinders: u32,
}

impl Access {
    /// Overhead, seek, rotation and transfer together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.overhead + self.seek + self.rotation + self.transfer
    }
}

/// Where an access starts; computed once per command, so that a queue can be searched quickly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// First address.
    pub lba: Lba,
    /// Where it lies.
    pub place: Place,
    pub(crate) angle: u64,
    pub(crate) moves: bool,
    pub(crate) write: bool,
}

/// A disk with its arm somewhere.
#[derive(Clone, Debug)]
pub struct Disk {
    geometry: Geometry,
    curve: SeekCurve,
    turn: Turn,
    head_switch: Duration,
    write_settle_ns: i64,
    power: PowerStates,
    cylinder: u32,
    head: u32,
    /// The address after the last sector transferred.
    next: Lba,
}

impl Disk {
    /// A disk at rest over its first track.
    ///
    /// # Errors
    /// Where a value of the specification is out of its range.
    pub fn new(spec: &DiskSpec) -> Result<Self, RangeError> {
        spec.validate()?;
        let geometry = Geometry::new(&spec.geometry, spec.capacity_sectors);
        let cylinders = spec.geometry.zones.last().map_or(1, |z| z.first_cylinder + z.cylinders);
        Ok(Self {
            curve: SeekCurve::new(&spec.seek, cylinders),
            turn: Turn::new(spec.mechanics.rpm),
            head_switch: Duration::from_millis_f64(spec.mechanics.head_switch_ms),
            write_settle_ns: (spec.mechanics.write_settle_ms * 1e6).round() as i64,
            power: PowerStates::new(&spec.power),
            cylinder: 0,
            head: 0,
            next: Lba(0),
            geometry,
        })
    }

    /// Sectors a client sees.
    #[must_use]
    pub const fn capacity(&self) -> Sectors {
        self.geometry.capacity()
    }

    /// Where sectors lie.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The spindle.
    #[must_use]
    pub const fn turn(&self) -> Turn {
        self.turn
    }

    /// The seek curve.
    #[must_use]
    pub const fn curve(&self) -> &SeekCurve {
        &self.curve
    }

    /// Power in each state.
    #[must_use]
    pub const fn power(&self) -> PowerStates {
        self.power
    }

    /// Energy of one access.
    #[must_use]
    pub fn energy(&self, access: &Access) -> EnergyByState {
        self.power.of(access)
    }

    /// Energy of doing nothing for a time.
    #[must_use]
    pub fn idle_energy(&self, time: Duration) -> Energy {
        self.power.idle * time
    }

    /// The address after the last sector transferred: an access that starts here is sequential.
    #[must_use]
    pub const fn next_sequential(&self) -> Lba {
        self.next
    }

    /// Cylinder and head under which the arm stands.
    #[must_use]
    pub const fn arm(&self) -> (u32, u32) {
        (self.cylinder, self.head)
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
        let run = self.geometry.run(extent.start.0.min(capacity.0 - 1), 1);
        Ok(Target {
            lba: extent.start,
            place: run.place,
            angle: run.angle,
            moves,
            write: op.is_write_like(),
        })
    }

    /// Seek and rotation an access would take if it started at `at`: what shortest-positioning-time-first
    /// compares. The arm does not move.
    ///
    /// # Errors
    /// Where the extent passes the end of the disk.
    pub fn positioning(&self, at: SimTime, op: Op, extent: Extent) -> Result<Duration, DiskError> {
        let target = self.target(op, extent)?;
        Ok(self.positioning_to(self.turn.angle_at(at), &target, Duration(u64::MAX)))
    }

    /// As [`Self::positioning`], from a known angle; may stop early with any value of at least `bound`
    /// once it is certain to reach it.
    pub(crate) fn positioning_to(&self, angle: u64, target: &Target, bound: Duration) -> Duration {
        if !target.moves {
            return Duration::ZERO;
        }
        let seek = self.seek_to(target);
        if seek >= bound {
            return seek;
        }
        let rotation = wait(self.turn.after(angle, seek), target.angle);
        seek + Duration(self.turn.nanos(rotation))
    }

    /// The first movement towards a target.
    pub(crate) fn seek_to(&self, target: &Target) -> Duration {
        let cylinders = self.cylinder.abs_diff(target.place.cylinder);
        let switch = self.head != target.place.head;
        let sectors = if cylinders == 0 && !switch { 0 } else { self.next.distance(target.lba).0 };
        self.movement(cylinders, sectors, switch, target.write)
    }

    /// `max(curve(distance), head switch)`, and the settle of a write where anything moves.
    fn movement(&self, cylinders: u32, sectors: u64, switch: bool, write: bool) -> Duration {
        let arm = self.curve.time(cylinders, sectors);
        let time = if switch { arm.max(self.head_switch) } else { arm };
        if write && time > Duration::ZERO {
            Duration(time.0.saturating_add_signed(self.write_settle_ns))
        } else {
            time
        }
    }

    /// Makes an access that starts at `at`; the arm ends where the access ends. Discard and flush cost no
    /// mechanical time; write zeroes costs what a write costs.
    ///
    /// # Errors
    /// Where the extent passes the end of the disk; the arm does not move.
    pub fn access(&mut self, at: SimTime, op: Op, extent: Extent) -> Result<Access, DiskError> {
        let target = self.target(op, extent)?;
        if !target.moves {
            return Ok(Access::default());
        }
        let seek = self.seek_to(&target);
        let cylinders = self.cylinder.abs_diff(target.place.cylinder);
        let angle = self.turn.after(self.turn.angle_at(at), seek);
        let run = self.geometry.run(extent.start.0, extent.len.0);
        let rotation = wait(angle, run.angle);
        let transfer = self.transfer(run, extent, target.write, rotation);
        let rotation = Duration(self.turn.nanos(rotation));
        Ok(Access { overhead: Duration::ZERO, seek, rotation, transfer, cylinders })
    }

    /// Transfers `extent`, whose first run the head has reached after `rotation` ticks; returns the time
    /// since then. The end is rounded down, so that the sector that follows can still be caught.
    fn transfer(&mut self, first: Run, extent: Extent, write: bool, rotation: u64) -> Duration {
        let mut run = first;
        let mut lbn = extent.start.0;
        let end = extent.end().0;
        let mut ns = 0;
        let mut ticks = self.turn.rest(rotation) + run.sweep;
        loop {
            let from = run.place;
            lbn += run.len;
            if lbn >= end {
                self.cylinder = from.cylinder;
                self.head = from.head;
                break;
            }
            let angle = (run.angle + run.sweep) % REVOLUTION;
            run = self.geometry.run(lbn, end - lbn);
            let cylinders = from.cylinder.abs_diff(run.place.cylinder);
            let switch = from.head != run.place.head;
            let sectors = u64::from(cylinders > 0 || switch);
            let movement = self.movement(cylinders, sectors, switch, write);
            ns += self.turn.nanos(ticks) + movement.0;
            ticks = self.turn.rest(ticks)
                + wait(self.turn.after(angle, movement), run.angle)
                + run.sweep;
        }
        self.next = Lba(end);
        Duration(ns + self.turn.nanos(ticks))
    }
}
