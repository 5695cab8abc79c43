//! The mechanism, an arm and a spindle: the duration of a movement or a sweep that starts at a
//! given time.
//!
//! It handles one access at a time, without queue and buffer.

use seekless_block::{Duration, Extent, Lba, SimTime};

use crate::disk::{Key, Target};
use crate::geometry::{Geometry, Run};
use crate::rotation::{REVOLUTION, Spindle, wait};
use crate::seek_curve::SeekCurve;
use crate::spec::{DiskSpec, ZeroLatency};

/// Phases of one access on the platters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccessPhases {
    pub(crate) seek: Duration,
    pub(crate) rotation: Duration,
    pub(crate) transfer: Duration,
    pub(crate) cylinders: u32,
}

impl AccessPhases {
    pub(crate) fn total(&self) -> Duration {
        self.seek + self.rotation + self.transfer
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Mechanism {
    pub(crate) geometry: Geometry,
    pub(crate) curve: SeekCurve,
    pub(crate) turn: Spindle,
    head_switch: Duration,
    write_settle_ns: i64,
    pub(crate) zero_latency: ZeroLatency,
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
    /// The address after the last sector transferred.
    pub(crate) next: Lba,
}

impl Mechanism {
    /// A mechanism at rest above its first track. The specification must have been checked.
    pub(crate) fn new(spec: &DiskSpec) -> Self {
        let geometry = Geometry::new(&spec.geometry, spec.disk_sectors());
        Self {
            curve: SeekCurve::new(&spec.seek, geometry.cylinders()),
            turn: Spindle::new(spec.mechanics.rpm),
            head_switch: Duration::from_millis_f64(spec.mechanics.head_switch_ms),
            write_settle_ns: (spec.mechanics.write_settle_ms * 1e6).round() as i64,
            zero_latency: spec.mechanics.zero_latency,
            cylinder: 0,
            head: 0,
            next: Lba(0),
            geometry,
        }
    }

    pub(crate) const fn arm(&self) -> (u32, u32, Lba) {
        (self.cylinder, self.head, self.next)
    }

    pub(crate) const fn put_back(&mut self, (cylinder, head, next): (u32, u32, Lba)) {
        (self.cylinder, self.head, self.next) = (cylinder, head, next);
    }

    /// The start position of an access to `len` sectors from `lbn`. The sectors must be on the
    /// disk.
    pub(crate) fn target(&self, lbn: u64, len: u64, moves: bool, write: bool) -> Target {
        Target { lba: Lba(lbn), run: self.geometry.run(lbn, len), moves, write }
    }

    /// Seek and rotation from a known angle, in ticks. If the result is certain to reach `bound`,
    /// the function may stop early and return any value of at least `bound`.
    pub(crate) fn positioning(&self, angle: u64, key: &Key, bound: u64) -> u64 {
        if !key.moves {
            return 0;
        }
        let seek = self.seek_to(key);
        let ticks = self.turn.ticks(seek);
        if ticks >= bound {
            return ticks;
        }
        ticks + wait(self.turn.after(angle, seek), key.angle)
    }

    /// The first movement towards a target.
    pub(crate) fn seek_to(&self, key: &Key) -> Duration {
        let cylinders = self.cylinder.abs_diff(key.cylinder);
        let switch = self.head != key.head;
        let sectors = if cylinders == 0 && !switch { 0 } else { self.next.distance(key.lba).0 };
        self.movement(cylinders, sectors, switch, key.write)
    }

    /// `max(curve(distance), head switch)`, plus the settle time of a write if the arm or the head
    /// changes.
    fn movement(&self, cylinders: u32, sectors: u64, switch: bool, write: bool) -> Duration {
        let arm = self.curve.time(cylinders, sectors);
        let time = if switch { arm.max(self.head_switch) } else { arm };
        if write && time > Duration::ZERO {
            Duration(time.0.saturating_add_signed(self.write_settle_ns))
        } else {
            time
        }
    }

    /// The movement from the arm's track to the track of the run that follows in address order.
    pub(crate) fn step_to(&self, run: &Run, write: bool) -> Duration {
        let cylinders = self.cylinder.abs_diff(run.place.cylinder);
        let switch = self.head != run.place.head;
        self.movement(cylinders, u64::from(cylinders > 0 || switch), switch, write)
    }

    /// Performs an access that starts at `at`; the arm ends at the end of the access. Calls
    /// `passed` for every run with the time when its first sector begins to pass the head, the time
    /// that all of them take, and their number. For a run read from its middle, the times follow
    /// the order in which its sectors can leave. The end is rounded down, so that the next sector
    /// can still be reached.
    pub(crate) fn access(
        &mut self,
        at: SimTime,
        target: &Target,
        extent: Extent,
        passed: &mut impl FnMut(SimTime, Duration, u64),
    ) -> AccessPhases {
        let turn = self.turn;
        let seek = self.seek_to(&target.key());
        let cylinders = self.cylinder.abs_diff(target.run.place.cylinder);
        let begin = at + seek;
        let end = extent.end().0;
        let mut lbn = extent.start.0;
        let mut run = target.run;
        let mut angle = turn.angle_at(begin);
        let (first_wait, mut pass, mut front) = self.approach(angle, &run, target.write);
        let mut ns = 0;
        let mut ticks = first_wait;
        angle += first_wait;
        loop {
            let from = begin + Duration(ns + turn.nanos(ticks));
            let whole = turn.nanos(pass);
            if front == 0 || target.write {
                passed(from, Duration(whole), run.len);
            } else {
                // Read sectors leave in order: sectors read early wait for the sectors at the
                // front.
                let sweep = turn.nanos(run.sweep / run.len * front).min(whole);
                passed(from + Duration(whole - sweep), Duration(sweep), front);
                passed(from + Duration(whole), Duration::ZERO, run.len - front);
            }
            ticks += pass;
            lbn += run.len;
            self.cylinder = run.place.cylinder;
            self.head = run.place.head;
            if lbn >= end {
                break;
            }
            angle = (angle + pass) % REVOLUTION;
            run = self.geometry.run(lbn, end - lbn);
            let movement = self.step_to(&run, target.write);
            angle = turn.after(angle, movement);
            let (wait, next_pass, next_front) = self.approach(angle, &run, target.write);
            angle += wait;
            ns += turn.nanos(ticks) + movement.0;
            ticks = turn.rest(ticks) + wait;
            (pass, front) = (next_pass, next_front);
        }
        self.next = Lba(end);
        let rotation = turn.nanos(first_wait);
        let transfer = Duration(ns + turn.nanos(ticks) - rotation);
        AccessPhases { seek, rotation: Duration(rotation), transfer, cylinders }
    }

    /// Returns the ticks until the first useful sector of a run, the ticks from there until all of
    /// it has passed, and the number of front sectors that pass last.
    ///
    /// With zero-latency access and the head inside the run, the rest of the run comes first, then
    /// the gap, then the beginning of the run: one revolution from the next sector's edge.
    fn approach(&self, angle: u64, run: &Run, write: bool) -> (u64, u64, u64) {
        let on_arrival = match self.zero_latency {
            ZeroLatency::None => false,
            ZeroLatency::Reads => !write,
            ZeroLatency::All => true,
        };
        if on_arrival {
            let inside = wait(run.angle, angle % REVOLUTION);
            let width = run.sweep.div_ceil(run.len);
            let edge = inside.div_ceil(width) * width;
            if inside > 0 && edge < run.sweep {
                return (edge - inside, REVOLUTION, edge / width);
            }
        }
        (wait(angle % REVOLUTION, run.angle), run.sweep, 0)
    }
}
