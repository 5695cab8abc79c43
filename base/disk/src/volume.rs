//! A device without a mechanism and without a clock: parallel lanes serve operations, a rate limit
//! admits them, and they are counted as a provider bills them. The model covers cloud volumes,
//! object stores and SSDs. It has no arm and no scheduler.
//!
//! Commands start in the order of arrival, so the times of a foreground command are known when it
//! arrives. Only background commands wait, for a time without waiting foreground commands, or for
//! 10 s.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use seekless_block::{Duration, Extent, Flags, Lba, Op, Power, Sectors, SimTime};
use serde::Serialize;

use crate::disk::{Access, DiskError};
use crate::drive::{Command, Completion};
use crate::power_meter::Usage;
use crate::queue::AGES;
use crate::spec_check::RangeError;
use crate::spin_down::{SpinDown, SpinDownError};
use crate::token_bucket::TokenBucket;
use crate::volume_spec::{OperationSpec, RateSpec, VolumeSpec};

/// Number of operations served, as the provider counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Operations {
    /// Operations that read, including the read of a rewritten object.
    pub reads: u64,
    /// Operations that write.
    pub writes: u64,
    /// Reads and writes of background commands.
    pub background: u64,
}

impl Operations {
    /// Reads and writes together.
    pub const fn total(&self) -> u64 {
        self.reads + self.writes
    }

    /// The difference to `before`, an earlier count.
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
            background: self.background - before.background,
        }
    }
}

/// A time in which at least one lane was busy, with the kind of operation that ended last.
#[derive(Clone, Copy, Debug)]
struct Busy {
    from: SimTime,
    to: SimTime,
    write: bool,
    background: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Watts {
    read: Power,
    write: Power,
    idle: Power,
}

/// A run of addresses that later commands can continue.
#[derive(Clone, Copy, Debug)]
struct SequentialRun {
    write: bool,
    next: Lba,
    /// Sectors that fit into its current operation.
    room: u64,
    /// End of the last command in the run.
    ended: SimTime,
}

/// A command and its arrival time.
#[derive(Clone, Copy, Debug)]
struct WaitingCommand {
    command: Command,
    submitted: SimTime,
}

/// A part of a command that is served as one operation.
#[derive(Clone, Copy, Debug)]
struct OperationPart {
    sectors: u64,
    /// Whether it continues at the end of an earlier operation.
    continued: bool,
    /// Number of operations billed; 0 if it fills an operation that was already counted.
    reads: u64,
    writes: u64,
}

/// A cloud volume, an object store or an SSD.
#[derive(Clone, Debug)]
pub struct Volume {
    capacity: Sectors,
    rule: OperationSpec,
    size: u64,
    window: Duration,
    streams_max: usize,
    read: Duration,
    write: Duration,
    continued: Option<Duration>,
    /// Femtoseconds per byte in a lane: reading, writing.
    lane_byte_fs: [u128; 2],
    operation_limits: Vec<TokenBucket>,
    byte_limits: Vec<TokenBucket>,
    /// Times at which the lanes become free.
    lanes: BinaryHeap<Reverse<SimTime>>,
    /// Ordered by last use, the oldest first.
    streams: VecDeque<SequentialRun>,
    /// Start of the last operation. No operation starts before it.
    last_start: SimTime,
    /// Address after the end of the last command.
    next: Lba,
    background: VecDeque<WaitingCommand>,
    /// Commands in progress, by end time.
    running: BTreeMap<(SimTime, u64), Completion>,
    order: u64,
    operations: Operations,
    power: Watts,
    /// Busy times without gaps and overlap, in order. Ended ones are in `booked`.
    busy: VecDeque<Busy>,
    booked: Usage,
    busy_until: SimTime,
}

impl Volume {
    /// An idle device with full buckets.
    pub fn new(spec: &VolumeSpec) -> Result<Self, RangeError> {
        spec.validate()?;
        let s = &spec.service;
        let fs = |mb_s: f64| (1e15 / (mb_s * 1e6)).round() as u128;
        let buckets = |limit: &Option<RateSpec>, unit: f64| {
            let long = limit.iter().map(|l| TokenBucket::new(l.per_s * unit, l.credits * unit));
            let peak = limit.iter().filter_map(|l| l.burst_per_s);
            long.chain(peak.map(|rate| TokenBucket::new(rate * unit, 0.0))).collect()
        };
        let (window, streams_max) = match spec.operations {
            OperationSpec::Merged { window_ms, streams, .. } => {
                (Duration::from_millis_f64(window_ms), streams as usize)
            }
            _ => (Duration::ZERO, 0),
        };
        let mw = |w: f64| Power((w * 1e3).round() as u32);
        let power = spec.power.as_ref().map_or_else(Watts::default, |p| Watts {
            read: mw(p.read_w),
            write: mw(p.write_w),
            idle: mw(p.idle_w),
        });
        Ok(Self {
            capacity: Sectors(spec.capacity_sectors),
            size: u64::from(spec.operations.kib()) * 2,
            rule: spec.operations.clone(),
            window,
            streams_max,
            read: Duration::from_millis_f64(s.read_ms),
            write: Duration::from_millis_f64(s.write_ms),
            continued: s.continued_ms.map(Duration::from_millis_f64),
            lane_byte_fs: [fs(s.lane_read_mb_s), fs(s.lane_write_mb_s)],
            operation_limits: buckets(&spec.limits.operations, 1.0),
            byte_limits: buckets(&spec.limits.megabytes, 1e6),
            lanes: (0..s.lanes).map(|_| Reverse(SimTime::ZERO)).collect(),
            streams: VecDeque::new(),
            last_start: SimTime::ZERO,
            next: Lba(0),
            background: VecDeque::new(),
            running: BTreeMap::new(),
            order: 0,
            operations: Operations::default(),
            power,
            busy: VecDeque::new(),
            booked: Usage::default(),
            busy_until: SimTime::ZERO,
        })
    }

    /// Capacity visible to a client, in sectors.
    pub const fn capacity(&self) -> Sectors {
        self.capacity
    }

    pub(crate) const fn operations(&self) -> Operations {
        self.operations
    }

    /// Refused: there are no platters to stop.
    pub(crate) fn set_spin_down(&mut self, policy: SpinDown) -> Result<(), SpinDownError> {
        if policy == SpinDown::None { Ok(()) } else { Err(SpinDownError::Never) }
    }

    pub(crate) fn usage(&self, now: SimTime) -> Usage {
        let mut usage = self.booked;
        for b in self.busy.iter().take_while(|b| b.from < now) {
            self.book(&mut usage, Busy { to: b.to.min(now), ..*b });
        }
        let idle = now.since(SimTime(usage.time.rotation_transfer.0));
        usage.time.idle = idle;
        usage.energy.idle = self.power.idle * idle;
        usage
    }

    fn book(&self, usage: &mut Usage, busy: Busy) {
        let time = busy.to.since(busy.from);
        let energy = if busy.write { self.power.write } else { self.power.read } * time;
        usage.time.rotation_transfer += time;
        usage.energy.rotation_transfer += energy;
        if busy.background {
            usage.background.rotation_transfer += energy;
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.background.len()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_empty() && self.background.is_empty()
    }

    /// Takes a command at `now`. `now` must not decrease between calls. Discard and flush end at
    /// once, because acknowledged writes are stable.
    pub(crate) fn submit_with(
        &mut self,
        now: SimTime,
        command: Command,
        _: Flags,
    ) -> Result<(), DiskError> {
        let Command { op, extent, .. } = command;
        // With this limit no later sum of times overflows; 2^62 ns are 146 years.
        let now = now.min(SimTime(1 << 62));
        self.advance(now);
        let waiting = WaitingCommand { command, submitted: now };
        if extent.is_empty() || !matches!(op, Op::Read | Op::Write | Op::WriteZeroes) {
            self.end(&waiting, (now, now), Duration::ZERO);
        } else if command.background {
            self.background.push_back(waiting);
            self.advance(now);
        } else {
            self.serve(&waiting);
        }
        Ok(())
    }

    pub(crate) fn next_event(&self) -> Option<SimTime> {
        let ends = self.running.first_key_value().map(|((at, _), _)| *at);
        let begins = self.background.front().map(|w| self.begins(w));
        ends.into_iter().chain(begins).min()
    }

    pub(crate) fn poll(&mut self, now: SimTime) -> Option<Completion> {
        self.advance(now);
        let first = self.running.first_entry().filter(|e| e.key().0 <= now)?;
        Some(first.remove())
    }

    /// Starts the background commands that can start up to `now`.
    fn advance(&mut self, now: SimTime) {
        while let Some(w) = self.background.front().copied().filter(|w| self.begins(w) <= now) {
            self.background.pop_front();
            self.serve(&w);
        }
        while let Some(b) = self.busy.front().copied().filter(|b| b.to <= now) {
            self.busy.pop_front();
            let mut booked = self.booked;
            self.book(&mut booked, b);
            self.booked = booked;
        }
    }

    /// The earliest start of the first operation of a command.
    fn begins(&self, w: &WaitingCommand) -> SimTime {
        let turn = self.turn(w.submitted);
        let piece = self.piece(w.command.op, w.command.extent, w.submitted);
        // A volume that is always busy would never serve it.
        turn.max(self.admitted(&piece)).min(w.submitted + AGES)
    }

    /// The time at which an operation that arrived at `submitted` gets a lane, after all earlier
    /// operations.
    fn turn(&self, submitted: SimTime) -> SimTime {
        let lane = self.lanes.peek().map_or(SimTime::ZERO, |l| l.0);
        submitted.max(self.last_start).max(lane)
    }

    fn admitted(&self, piece: &OperationPart) -> SimTime {
        let operations = self.operation_limits.iter().map(|b| b.ready(piece.reads + piece.writes));
        let bytes = self.byte_limits.iter().map(|b| b.ready(piece.sectors * 512));
        operations.chain(bytes).max().unwrap_or(SimTime::ZERO)
    }

    /// The first piece of the rest of a command that arrived at `at`.
    fn piece(&self, op: Op, left: Extent, at: SimTime) -> OperationPart {
        let write = op != Op::Read;
        let (reads, writes) = (u64::from(!write), u64::from(write));
        let sectors = left.len.0.min(self.size);
        let new = OperationPart { sectors, continued: false, reads, writes };
        match self.rule {
            OperationSpec::Commands { .. } => new,
            OperationSpec::Merged { .. } => match self.stream(write, left.start, at) {
                None => new,
                Some(i) => match self.streams[i].room {
                    0 => OperationPart { continued: true, ..new },
                    room => {
                        let sectors = left.len.0.min(room);
                        OperationPart { sectors, continued: true, reads: 0, writes: 0 }
                    }
                },
            },
            OperationSpec::Objects { .. } => {
                let first = left.start.0 / self.size * self.size;
                let whole = self.size.min(self.capacity.0 - first);
                let sectors = left.len.0.min(first + whole - left.start.0);
                let rewrite = u64::from(write && sectors < whole);
                OperationPart { sectors, reads: reads + rewrite, ..new }
            }
        }
    }

    /// The run that a command at `start` continues.
    fn stream(&self, write: bool, start: Lba, at: SimTime) -> Option<usize> {
        self.streams
            .iter()
            .position(|s| s.write == write && s.next == start && at.since(s.ended) <= self.window)
    }

    fn takes(&self, op: Op, left: Extent, piece: &OperationPart) -> (Duration, Duration) {
        let time = |sectors: u64, write: bool| {
            let fs = u128::from(sectors) * 512 * self.lane_byte_fs[usize::from(write)];
            Duration(u64::try_from(fs.div_ceil(1_000_000)).unwrap_or(u64::MAX).min(1 << 60))
        };
        let write = op != Op::Read;
        if write && piece.reads > 0 {
            // The whole object is read, and written back.
            let first = left.start.0 / self.size * self.size;
            let whole = self.size.min(self.capacity.0 - first);
            return (self.read + self.write, time(whole, false) + time(whole, true));
        }
        let latency = if write { self.write } else { self.read };
        let latency = self.continued.filter(|_| piece.continued).unwrap_or(latency);
        (latency, time(piece.sectors, write))
    }

    /// Serves a command at the first possible time, and records its end.
    fn serve(&mut self, w: &WaitingCommand) {
        let Command { op, extent, .. } = w.command;
        let write = op != Op::Read;
        let started = self.turn(w.submitted);
        let (mut finished, mut transfer) = (started, Duration::ZERO);
        let mut left = extent;
        while !left.is_empty() {
            let turn = self.turn(w.submitted);
            let piece = self.piece(op, left, w.submitted);
            let at = turn.max(self.admitted(&piece));
            self.operation_limits.iter_mut().for_each(|b| b.take(at, piece.reads + piece.writes));
            self.byte_limits.iter_mut().for_each(|b| b.take(at, piece.sectors * 512));
            let (latency, moving) = self.takes(op, left, &piece);
            let end = SimTime(at.0.saturating_add(latency.0).saturating_add(moving.0));
            self.lanes.pop();
            self.lanes.push(Reverse(end));
            self.last_start = at;
            self.count(w, at, end, &piece);
            self.remember(write, left, &piece, end);
            if end >= finished {
                (finished, transfer) = (end, moving);
            }
            left = Extent::span(left.start.0 + piece.sectors, left.end().0);
        }
        self.end(w, (started, finished), transfer);
    }

    fn count(&mut self, w: &WaitingCommand, at: SimTime, end: SimTime, piece: &OperationPart) {
        self.operations.reads += piece.reads;
        self.operations.writes += piece.writes;
        if w.command.background {
            self.operations.background += piece.reads + piece.writes;
        }
        let from = self.busy_until.max(at);
        if end > from {
            let (write, background) = (w.command.op != Op::Read, w.command.background);
            self.busy.push_back(Busy { from, to: end, write, background });
            self.busy_until = end;
        }
    }

    /// Records the progress of a run of addresses.
    fn remember(&mut self, write: bool, left: Extent, piece: &OperationPart, ended: SimTime) {
        if self.streams_max == 0 {
            return;
        }
        let at = left.start;
        let known = self.streams.iter().position(|s| s.write == write && s.next == at);
        let room = match known.and_then(|i| self.streams.remove(i)) {
            Some(s) if piece.reads + piece.writes == 0 => s.room - piece.sectors,
            _ => self.size - piece.sectors,
        };
        if self.streams.len() == self.streams_max {
            self.streams.pop_front();
        }
        self.streams.push_back(SequentialRun {
            write,
            next: at + Sectors(piece.sectors),
            room,
            ended,
        });
    }

    fn end(
        &mut self,
        w: &WaitingCommand,
        (started, finished): (SimTime, SimTime),
        transfer: Duration,
    ) {
        let extent = w.command.extent;
        let moved = started < finished;
        let overhead = Duration(finished.since(started).0.saturating_sub(transfer.0));
        let completion = Completion {
            tag: w.command.tag,
            extent,
            submitted: w.submitted,
            started,
            finished,
            access: Access {
                overhead,
                transfer,
                write: w.command.op != Op::Read,
                ..Access::default()
            },
            seek_distance_sectors: if moved { self.next.distance(extent.start).0 } else { 0 },
            sequential: moved && self.next == extent.start,
        };
        if moved {
            self.next = extent.end();
        }
        self.running.insert((finished, self.order), completion);
        self.order += 1;
    }
}
