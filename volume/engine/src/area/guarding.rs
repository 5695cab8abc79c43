//! When the guard of a volume's home goes up and down: up before anything is absorbed or
//! replicated; down when everything is at home again and no bytes of replicas are left. During a
//! move, I/O of home's two ends waits here; other I/O goes on. The server and the crash enumerator
//! drive the same machine; each knows how to move its guard.

use seekless_block::Op;

use crate::{Engine, Io, Mode};

/// The operation that carries out `op` in the guard region. The region keeps its space, so a
/// discard must write zeroes there: clients read zeroes there, and after a crash the
/// area may not know of the discard.
pub const fn in_guard_region(op: Op) -> Op {
    match op {
        Op::Discard => Op::WriteZeroes,
        other => other,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GuardMove {
    None,
    /// I/O of home's ends is in flight.
    Waiting(bool),
    /// The driver carries the move out.
    Running,
}

/// The driver's next task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardStep {
    /// Nothing now.
    Rest,
    /// Move the guard, up if true, and report by [`Guarding::moved`].
    Move(bool),
    /// Send this mode to the engine, which may now absorb and replicate. Report by
    /// [`Guarding::obeyed`].
    Obey(Mode),
}

/// The moves of one volume's guard.
#[derive(Debug)]
pub struct Guarding {
    /// Where the administrator wants writes to go; `None` after a drain.
    wants: Option<Mode>,
    has_replicas: bool,
    /// Replicas keep the guard up, but not on a volume that was attached to be drained.
    replicates: bool,
    /// No replicas are written: the area has none, or they were withdrawn.
    holds: bool,
    /// The engine knows the wanted mode.
    told: bool,
    now: GuardMove,
    /// The last move failed: the next command tries again.
    failed: bool,
    /// The last move failed: perhaps the guard is neither up nor down.
    halfway: bool,
    parked: Vec<Io>,
}

impl Guarding {
    /// For a volume that was just attached, perhaps only to be drained.
    pub fn new(engine: &Engine, to_drain: bool) -> Self {
        let has_replicas = engine.replicated().is_some();
        let mode = engine.mode();
        Self {
            wants: (!to_drain || mode == Mode::WriteBack).then_some(mode),
            has_replicas,
            replicates: has_replicas && !to_drain,
            holds: !has_replicas || to_drain,
            told: true,
            now: GuardMove::None,
            failed: false,
            halfway: false,
            parked: Vec::new(),
        }
    }

    /// Whether to go on with an interrupted drain, so that the guard can go down. `up`: the guard
    /// is up.
    pub fn resumes_drain(&self, engine: &Engine, up: bool) -> bool {
        up && engine.mode() == Mode::WriteThrough && !self.has_replicas
    }

    /// Notes the administrator's wish. True if the engine may get it at once.
    pub fn want(&mut self, mode: Mode) -> bool {
        (self.wants, self.failed) = (Some(mode), false);
        self.told = !self.wants_up();
        self.told
    }

    /// Everything is to go home, and to stay there.
    pub fn want_home(&mut self) {
        (self.wants, self.failed, self.told, self.holds) = (None, false, true, true);
    }

    /// The engine has the wanted mode: replicas may be written, if the area has them.
    pub const fn obeyed(&mut self) {
        self.holds = !self.has_replicas;
    }

    /// No more replicas are written.
    pub const fn hold(&mut self) {
        self.holds = true;
    }

    /// Whether replicas are off now.
    pub const fn holds(&self) -> bool {
        self.holds
    }

    fn wants_up(&self) -> bool {
        self.wants.is_some_and(|mode| mode == Mode::WriteBack || self.replicates)
    }

    /// Whether a move is in progress.
    pub fn is_moving(&self) -> bool {
        self.now != GuardMove::None
    }

    /// Keeps an I/O that must wait for a move. `concerns` says whether the I/O is at one of home's
    /// ends.
    #[inline]
    pub fn park(&mut self, io: &Io, concerns: impl FnOnce() -> bool) -> bool {
        let waits = self.now != GuardMove::None && concerns();
        if waits {
            self.parked.push(*io);
        }
        waits
    }

    /// Whether home alone holds what clients read, and the superblock says so.
    pub fn is_home_complete(&self, engine: &Engine) -> bool {
        engine.is_drained()
            && (!self.has_replicas || self.holds)
            && !engine.is_withdrawing()
            && !engine.is_replicating()
            // Else the area would count a page as stained that somebody writes at home.
            && engine.free.map.is_unstained()
    }

    /// The next task. `up`: the guard is up; `busy`: an I/O at home's ends is in flight.
    pub fn step(&mut self, engine: &Engine, up: bool, busy: impl FnOnce() -> bool) -> GuardStep {
        if engine.has_fallen_back() && self.told && self.wants == Some(Mode::WriteBack) {
            self.wants = Some(Mode::WriteThrough);
        }
        if self.now == GuardMove::None && !self.failed {
            self.now = match self.wants_up() {
                true if !up || self.halfway => GuardMove::Waiting(true),
                false if up && self.is_home_complete(engine) => GuardMove::Waiting(false),
                _ => GuardMove::None,
            };
        }
        match self.now {
            GuardMove::Waiting(to) if !busy() => {
                self.now = GuardMove::Running;
                GuardStep::Move(to)
            }
            GuardMove::None if up && !self.told && !self.halfway => {
                self.told = true;
                self.wants.map_or(GuardStep::Rest, GuardStep::Obey)
            }
            _ => GuardStep::Rest,
        }
    }

    /// A move has ended: returns the I/Os that waited for it.
    pub fn moved(&mut self, ok: bool) -> Vec<Io> {
        (self.now, self.failed, self.halfway) = (GuardMove::None, !ok, !ok);
        std::mem::take(&mut self.parked)
    }
}
