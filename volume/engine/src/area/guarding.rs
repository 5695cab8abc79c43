//! When the guard of a volume's home goes up and comes down: up before anything is absorbed or replicated, down when
//! everything is at home again and replicas have left no trace. Meanwhile I/O of home's two ends waits here; the rest of the
//! volume goes on. The server and the crash enumerator drive the same machine; each knows how to move its guard.

use crate::{Engine, Io, Mode};

/// How far a move has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GuardMove {
    None,
    /// I/O of home's ends is in flight.
    Waiting(bool),
    /// The driver carries the move out.
    Running,
}

/// What the driver is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardStep {
    /// Nothing now.
    Rest,
    /// Move the guard, up where true, and report by [`Guarding::moved`].
    Move(bool),
    /// Tell the engine this mode: it may absorb, and replicate. Report by [`Guarding::obeyed`].
    Obey(Mode),
}

/// See the module.
#[derive(Debug)]
pub struct Guarding {
    /// Where the administrator wants writes to go; `None` after a drain, when everything is to stay at home.
    wants: Option<Mode>,
    /// The area has replicas.
    has_replicas: bool,
    /// Replicas keep the guard up, but not on a volume that was attached to be drained.
    replicates: bool,
    /// No replicas are written: there are none, or they were withdrawn.
    holds: bool,
    /// The engine has been told what is wanted.
    told: bool,
    now: GuardMove,
    /// The last move failed: the next command tries again.
    failed: bool,
    parked: Vec<Io>,
}

impl Guarding {
    /// Of a volume that was just attached, perhaps only to be drained.
    #[must_use]
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
            parked: Vec::new(),
        }
    }

    /// Whether a drain goes on that was cut short, so that the guard can come down: `up`, how the guard stands.
    #[must_use]
    pub fn resumes_drain(&self, engine: &Engine, up: bool) -> bool {
        up && engine.mode() == Mode::WriteThrough && !self.has_replicas
    }

    /// What the administrator wants from now on. Whether the engine may be told at once.
    pub fn want(&mut self, mode: Mode) -> bool {
        (self.wants, self.failed) = (Some(mode), false);
        self.told = !self.wants_up();
        self.told
    }

    /// Everything is to go home and to stay there.
    pub fn want_home(&mut self) {
        (self.wants, self.failed, self.told, self.holds) = (None, false, true, true);
    }

    /// The engine was told where writes go: replicas may be written, where there are any.
    pub const fn obeyed(&mut self) {
        self.holds = !self.has_replicas;
    }

    /// No more replicas are written.
    pub const fn hold(&mut self) {
        self.holds = true;
    }

    /// Whether no replicas are to be written now.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.holds
    }

    fn wants_up(&self) -> bool {
        self.wants.is_some_and(|mode| mode == Mode::WriteBack || self.replicates)
    }

    /// Whether a move is under way.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.now != GuardMove::None
    }

    /// Keeps an I/O that must wait for a move; `concerns` tells whether it is one of home's ends.
    #[inline]
    pub fn park(&mut self, io: &Io, concerns: impl FnOnce() -> bool) -> bool {
        let waits = self.now != GuardMove::None && concerns();
        if waits {
            self.parked.push(*io);
        }
        waits
    }

    /// Whether home alone holds what clients read, and the superblock says so.
    #[must_use]
    pub fn is_home_complete(&self, engine: &Engine) -> bool {
        engine.is_drained()
            && (!self.has_replicas || self.holds && engine.stained().next().is_none())
            && !engine.is_withdrawing()
            && !engine.is_replicating()
            // Else the area would take a page for stained that somebody writes at home.
            && !engine.free.is_pending()
    }

    /// What to do now: `up`, how the guard stands; `busy`, whether an I/O of home's ends is in flight.
    pub fn step(&mut self, engine: &Engine, up: bool, busy: impl FnOnce() -> bool) -> GuardStep {
        if self.now == GuardMove::None && !self.failed {
            self.now = match self.wants_up() {
                true if !up => GuardMove::Waiting(true),
                false if up && self.is_home_complete(engine) => GuardMove::Waiting(false),
                _ => GuardMove::None,
            };
        }
        match self.now {
            GuardMove::Waiting(to) if !busy() => {
                self.now = GuardMove::Running;
                GuardStep::Move(to)
            }
            GuardMove::None if up && !self.told => {
                self.told = true;
                self.wants.map_or(GuardStep::Rest, GuardStep::Obey)
            }
            _ => GuardStep::Rest,
        }
    }

    /// A move has ended: the I/Os that waited for it.
    pub fn moved(&mut self, ok: bool) -> Vec<Io> {
        (self.now, self.failed) = (GuardMove::None, !ok);
        std::mem::take(&mut self.parked)
    }
}
