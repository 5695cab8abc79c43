//! A history: what clients and operators do, and when the power fails. Plain data.

use seekless_block::{Extent, Lba, Op, PAGE_SECTORS};
use seekless_engine::{Class, Input, Io, Mode, Target};
use seekless_learn::{Copy, Plan, Replica};

use super::machine::Setup;

/// A piece of a plan: home sector, sectors, sectors left free before its place.
pub type Piece = (u64, u64, u64);

/// Replicas to be written: from a home page on, these runs of home pages in this order.
pub type Side = (u64, Vec<(u64, u64)>);

/// One thing that happens. A number that chooses is reduced to what there is to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryStep {
    /// A client asks for `len` sectors from `start`.
    Ask {
        /// What.
        op: Op,
        /// First sector.
        start: u64,
        /// Sectors.
        len: u64,
        /// With FUA.
        fua: bool,
    },
    /// A client writes once more what it wrote so many writes ago.
    Repeat(usize),
    /// One of the I/Os in flight takes effect.
    Execute(usize),
    /// All of them do, and what comes of them.
    Settle(u64),
    /// A new plan.
    Install(Vec<Piece>),
    /// Replicas to be written into what was discarded.
    Replicate(Vec<Side>),
    /// No more replicas, and zeroes where they stood.
    Withdraw,
    /// Another mode.
    Mode(Mode),
    /// Bring all home.
    Drain,
    /// The time passes that the engine waits for.
    Pass,
    /// Some I/Os take effect only where no others are in flight, from now on.
    Slow(Option<Slow>),
    /// A device begins to fail.
    Break(Fault),
    /// It works again; all comes to rest.
    Heal,
    /// All comes to rest and the engine is stopped in order; then, where there are sectors `(start, len)`, somebody else
    /// writes them at home; then the engine is started.
    Restart(Option<(u64, u64)>),
    /// All is brought home and the engine stopped in order; home and area have other sizes, in sectors, and the area is
    /// divided anew.
    Resize {
        /// Home's.
        home: u64,
        /// The area's.
        area: u64,
    },
    /// The engine dies, and nothing else; then it is started.
    Kill {
        /// Chooses what becomes of what was in flight.
        choice: u64,
    },
    /// The power fails, and the engine is started.
    Crash {
        /// Chooses what the caches lose.
        choice: u64,
        /// The writes and flushes of the recovery at which it fails again, attempt by attempt.
        again: Vec<u64>,
    },
}

/// I/Os that are slower than all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// Flushes of either device.
    Flushes,
    /// What the engine does by itself.
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
            Self::Background => io.class == Class::Background,
            Self::Device(target) => io.target == target,
            Self::Writes(target) => io.target == target && io.op.is_write_like(),
        }
    }
}

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Of which device.
    pub target: Target,
    /// Reads, flushes, or writes of any kind.
    pub op: Op,
    /// So often; `None`: until it is healed.
    pub left: Option<u32>,
}

impl Fault {
    pub(crate) fn hits(&self, io: &Io) -> bool {
        let op = if io.op.is_write_like() { Op::Write } else { io.op };
        (self.target, self.op) == (io.target, op)
    }
}

/// A whole history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// What it was made from; also chooses the states that are looked at.
    pub seed: u64,
    /// How it begins.
    pub setup: Setup,
    /// What happens.
    pub steps: Vec<HistoryStep>,
}

/// Asks for these replicas.
#[must_use]
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

/// The plan of these pieces on a device of `home` sectors with room for copies of `room`; pieces that do not fit or copy
/// a sector twice are left out.
#[must_use]
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
