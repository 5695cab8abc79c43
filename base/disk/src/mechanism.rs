//! The mechanism: an arm, a spindle, and how long a movement or a sweep takes from a given instant.
//!
//! Knows one access at a time, no queue and no buffer.

use seekless_block::{Duration, Extent, Lba, SimTime};

use crate::disk::{Key, Target};
use crate::geometry::{Geometry, Run};
use crate::seek::SeekCurve;
use crate::spec::{DiskSpec, ZeroLatency};
use crate::turn::{REVOLUTION, Turn, wait};

/// Phases of one access on the platters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Phases {
    pub(crate) seek: Duration,
    pub(crate) rotation: Duration,
    pub(crate) transfer: Duration,
    pub(crate) cylinders: u32,
}

impl Phases {
    pub(crate) fn total(&self) -> Duration {
        self.seek + self.rotation + self.transfer
    }
}

/// A disk's moving parts, with the arm somewhere.
#[derive(Clone, Debug)]
pub(crate) struct Mechanism {
    pub(crate) geometry: Geometry,
    pub(crate) curve: SeekCurve,
    pub(crate) turn: Turn,
    head_switch: Duration,
    write_settle_ns: i64,
    pub(crate) zero_latency: ZeroLatency,
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
    /// The address after the last sector transferred.
    pub(crate) next: Lba,
}

impl Mechanism {
    /// At rest over the first track. The specification has been checked.
    pub(crate) fn new(spec: &DiskSpec) -> Self {
        let geometry = Geometry::new(&spec.geometry, spec.disk_sectors());
        Self {
            curve: SeekCurve::new(&spec.seek, geometry.cylinders()),
            turn: Turn::new(spec.mechanics.rpm),
            head_switch: Duration::from_millis_f64(spec.mechanics.head_switch_ms),
            write_settle_ns: (spec.mechanics.write_settle_ms * 1e6).round() as i64,
            zero_latency: spec.mechanics.zero_latency,
            cylinder: 0,
            head: 0,
            next: Lba(0),
            geometry,
        }
    }

    /// The arm's place, to come back to.
    pub(crate) const fn arm(&self) -> (u32, u32, Lba) {
        (self.cylinder, self.head, self.next)
    }

    /// Puts the arm back where it was.
    pub(crate) const fn put_back(&mut self, (cylinder, head, next): (u32, u32, Lba)) {
        (self.cylinder, self.head, self.next) = (cylinder, head, next);
    }

    /// Where an access to `len` sectors from `lbn`, which lie on the disk, would start.
    pub(crate) fn target(&self, lbn: u64, len: u64, moves: bool, write: bool) -> Target {
        Target { lba: Lba(lbn), run: self.geometry.run(lbn, len), moves, write }
    }

    /// Seek and rotation from a known angle, in ticks; may stop early with any value of at least `bound` once
    /// it is certain to reach it.
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

    /// The movement from the arm's track to that of a run that follows in address order.
    pub(crate) fn step_to(&self, run: &Run, write: bool) -> Duration {
        let cylinders = self.cylinder.abs_diff(run.place.cylinder);
        let switch = self.head != run.place.head;
        self.movement(cylinders, u64::from(cylinders > 0 || switch), switch, write)
    }

    /// Makes an access that starts at `at`; the arm ends where the access ends. `passed` hears of every run:
    /// when its first sector begins to pass the head, how long all of them take, and how many there are; of one read from its
    /// middle on, in the order its sectors can leave. The
    /// end is rounded down, so that the sector that follows can still be caught.
    pub(crate) fn access(
        &mut self,
        at: SimTime,
        target: &Target,
        extent: Extent,
        passed: &mut impl FnMut(SimTime, Duration, u64),
    ) -> Phases {
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
                // Read sectors leave in order: those read first wait for the front.
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
        Phases { seek, rotation: Duration(rotation), transfer, cylinders }
    }

    /// Ticks until the first useful sector of a run, from there until all of it has passed, and how many sectors of
    /// its front pass last.
    ///
    /// With zero-latency access and the head inside the run, the rest of the run comes first, then the gap,
    /// then its beginning: one revolution from the next sector's edge.
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
