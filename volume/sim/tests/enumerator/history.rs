//! A history: the actions of clients and operators, and the power failures. Plain data.

use seekless_block::{Extent, Lba, Op, PAGE_SECTORS};
use seekless_engine::{Input, Io, Mode, Target};
use seekless_learn::{Copy, Plan, Replica};

use super::machine::Setup;

/// A piece of a plan: home sector, sectors, free sectors before its place.
pub(crate) type Piece = (u64, u64, u64);

/// Replicas to be written: runs of home pages in this order, from a home page on.
pub(crate) type Side = (u64, Vec<(u64, u64)>);

/// One event. A number that chooses is reduced to the number of choices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HistoryStep {
    /// A client asks for `len` sectors from `start`.
    Ask {
        /// The operation.
        op: Op,
        /// First sector.
        start: u64,
        /// Sectors.
        len: u64,
        /// With FUA.
        fua: bool,
    },
    /// A client repeats its write of this many writes ago.
    Repeat(usize),
    /// One of the I/Os in flight takes effect.
    Execute(usize),
    /// All of them take effect, and all that follows.
    Settle(u64),
    /// A new plan.
    Install(Vec<Piece>),
    /// Write replicas into discarded pages.
    Replicate(Vec<Side>),
    /// Remove all replicas, and write zeroes in their places.
    Withdraw,
    /// Set the mode.
    Mode(Mode),
    /// Destage everything.
    Drain,
    /// Compare the area with its checksums.
    Scrub,
    /// The policy's guard or the learner sends reads home, or lets copies answer again.
    Bypass(bool),
    /// Lets the time pass that the engine waits for.
    Pass,
    /// From now on, these I/Os take effect only when no others are in flight.
    Slow(Option<Slow>),
    /// A device begins to fail.
    Break(Fault),
    /// The device works again; everything in flight ends.
    Heal,
    /// Everything ends, and the engine is stopped in order. With sectors `(start, len)`, somebody
    /// else then writes them at home. Then the engine is started.
    Restart(Option<(u64, u64)>),
    /// Everything is brought home, and the engine is stopped in order. Home and area get other
    /// sizes, in sectors, and the area is divided again.
    Resize {
        /// Home's.
        home: u64,
        /// The area's.
        area: u64,
    },
    /// Only the engine dies; then it is started.
    Kill {
        /// Chooses which I/Os in flight took effect.
        choice: u64,
    },
    /// The power fails, and the engine is started.
    Crash {
        /// Chooses the losses of the caches.
        choice: u64,
        /// For each attempt at recovery, the write or flush at which the power fails again.
        again: Vec<u64>,
    },
}

impl HistoryStep {
    /// Whether it comes from a client or an administrator of a served volume.
    pub(crate) const fn needs_server(&self) -> bool {
        use HistoryStep::{Ask, Bypass, Install, Mode, Repeat, Replicate, Resize, Scrub, Withdraw};
        matches!(
            self,
            Ask { .. }
                | Repeat(_)
                | Install(_)
                | Replicate(_)
                | Withdraw
                | Mode(_)
                | Scrub
                | Bypass(_)
                | Resize { .. }
        )
    }
}

/// I/Os that are slower than all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slow {
    /// Flushes of either device.
    Flushes,
    /// Background I/Os.
    Background,
    /// All of a device.
    Device(Target),
    /// Writes to a device.
    Writes(Target),
}

impl Slow {
    pub(crate) fn is(self, io: &Io) -> bool {
        match self {
            Self::Flushes => io.op == Op::Flush,
            Self::Background => io.class.is_background(),
            Self::Device(target) => io.target == target,
            Self::Writes(target) => io.target == target && io.op.is_write_like(),
        }
    }
}

/// The I/Os that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The device.
    pub(crate) target: Target,
    /// Reads, flushes, or writes of any kind.
    pub(crate) op: Op,
    /// This many times; `None`: until it is repaired.
    pub(crate) left: Option<u32>,
}

impl Fault {
    pub(crate) fn hits(&self, io: &Io) -> bool {
        let op = if io.op.is_write_like() { Op::Write } else { io.op };
        (self.target, self.op) == (io.target, op)
    }
}

/// A whole history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct History {
    /// Its seed, which also chooses the states to examine.
    pub(crate) seed: u64,
    /// How it begins.
    pub(crate) setup: Setup,
    /// The event.
    pub(crate) steps: Vec<HistoryStep>,
}

/// Requests these replicas.
pub(crate) fn replicate(sides: &[Side], setup: &Setup) -> Input {
    let extent =
        |page: u64, pages: u64| Extent::new(setup.grid + page * PAGE_SECTORS, pages * PAGE_SECTORS);
    let side = |(place, runs): &Side| Replica {
        place: extent(*place, 1).start,
        homes: runs.iter().map(|&(page, pages)| extent(page, pages)).collect(),
    };
    let replicas = sides.iter().map(side).collect();
    if setup.soon { Input::ReplicateSoon(replicas) } else { Input::Replicate(replicas) }
}

/// The plan of these pieces on a device of `home` sectors, with capacity for copies of `room`.
/// Pieces that do not fit or repeat a sector are left out.
pub(crate) fn plan_of(pieces: &[Piece], home: u64, room: u64) -> Plan {
    let mut used = vec![false; home as usize];
    let mut place = 0;
    let mut copies = Vec::new();
    for &(start, len, gap) in pieces {
        let sectors = Extent::span(start, home.min(start + len));
        let taken = &mut used[start.min(home) as usize..sectors.end().0.min(home) as usize];
        if sectors.is_empty() || taken.contains(&true) || place + gap + sectors.len.0 > room {
            continue;
        }
        taken.fill(true);
        copies.push(Copy { home: sectors, place: Lba(place + gap) });
        place += gap + sectors.len.0;
    }
    Plan { copies }
}
