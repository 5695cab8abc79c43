//! When the guard of a volume's home goes up and comes down: up before anything is absorbed or replicated, down when
//! everything is at home again and replicas have left no trace. Meanwhile whatever concerns home's two ends waits here; the rest of the volume goes on. It refuses to
//! know how a guard is moved.

use seekless_block::Op;
use seekless_engine::{Io, Mode, Target};

use crate::backend::region::Region;

/// How far a move has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    None,
    /// I/O of home's ends is in flight.
    Waiting(bool),
    /// A worker has it.
    Running,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing now.
    Rest,
    /// Hand a worker the job: up or down.
    Move(bool),
    /// The engine may absorb in this mode, and replicate.
    Obey(Mode),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Guarding {
    /// Where the administrator wants writes to go; `None` after a drain, when everything is to stay at home.
    wants: Option<Mode>,
    /// There are replicas, too, but after a drain.
    replicates: bool,
    /// The engine has been told.
    told: bool,
    now: Move,
    /// The last move failed: the next command tries again.
    failed: bool,
    parked: Vec<Io>,
}

impl Guarding {
    /// Of a volume that was just attached; without a mode it was so to be drained.
    pub(crate) fn new(wants: Option<Mode>, replicates: bool) -> Self {
        let (now, parked) = (Move::None, Vec::new());
        Self { wants, replicates, told: true, now, failed: false, parked }
    }

    /// What the administrator wants from now on. Whether the engine may be told at once.
    pub(crate) fn want(&mut self, mode: Option<Mode>) -> bool {
        (self.wants, self.failed) = (mode, false);
        self.told = !self.wants_up();
        self.told
    }

    fn wants_up(&self) -> bool {
        self.wants.is_some_and(|mode| mode == Mode::WriteBack || self.replicates)
    }

    /// Whether a move is under way.
    pub(crate) fn is_moving(&self) -> bool {
        self.now != Move::None
    }

    /// Keeps an I/O that must wait for a move.
    #[inline]
    pub(crate) fn park(&mut self, region: Option<&Region>, io: &Io) -> bool {
        let waits = self.now != Move::None && concerns(region, io);
        if waits {
            self.parked.push(*io);
        }
        waits
    }

    /// What to do now: `up`, how it stands; `home`, whether everything is there and the superblock says so; `busy`,
    /// whether an I/O that concerns the guard is in flight.
    pub(crate) fn step(&mut self, up: bool, home: bool, busy: impl FnOnce() -> bool) -> Step {
        if self.now == Move::None && !self.failed {
            self.now = match self.wants_up() {
                true if !up => Move::Waiting(true),
                false if up && home => Move::Waiting(false),
                _ => Move::None,
            };
        }
        match self.now {
            Move::Waiting(to) if !busy() => {
                self.now = Move::Running;
                Step::Move(to)
            }
            Move::None if up && !self.told => {
                self.told = true;
                self.wants.map_or(Step::Rest, Step::Obey)
            }
            _ => Step::Rest,
        }
    }

    /// A move has ended: what waited for it.
    pub(crate) fn moved(&mut self, ok: bool) -> Vec<Io> {
        (self.now, self.failed) = (Move::None, !ok);
        std::mem::take(&mut self.parked)
    }
}

/// Whether an I/O concerns what the guard moves.
pub(crate) fn concerns(region: Option<&Region>, io: &Io) -> bool {
    io.target == Target::Home
        && io.op != Op::Flush
        && region.is_some_and(|region| region.touches(io.extent))
}
