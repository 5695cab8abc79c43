//! The administrator of a volume whose home may have a guard. Nothing is absorbed or replicated
//! before the guard is up, and nobody else writes home while it is up. A server moves the guard by
//! the same rules.

use seekless_engine::{Command, GuardStep, Guarding, Input, Mode};

use super::machine::{Machine, Placement};
use super::world::World;

impl<M: Machine> World<M> {
    /// The administrator wants another mode. Nothing is absorbed or replicated before home's guard
    /// is up.
    pub(crate) fn set_mode(&mut self, mode: Mode) -> Result<(), String> {
        self.wants = mode;
        self.past.buffered |= mode == Mode::WriteBack;
        if self.guarding.as_mut().is_some_and(|guarding| !guarding.want(mode)) {
            return self.move_guard();
        }
        self.guarding.iter_mut().for_each(Guarding::obeyed);
        self.handle(Input::Command(Command::SetMode(mode)))
    }

    /// The administrator wants everything at home.
    pub(crate) fn drain(&mut self) -> Result<(), String> {
        self.wants = Mode::WriteThrough;
        let drain = Input::Command(Command::Drain);
        let Some(guarding) = &mut self.guarding else { return self.handle(drain) };
        guarding.want_home();
        self.handle(drain)?;
        // As in a server: replicas are withdrawn too, so that the guard can go down.
        self.handle(Input::Withdraw)
    }

    /// The administrator wants replicas, perhaps after a drain.
    pub(crate) fn replicate(&mut self, input: Input) -> Result<(), String> {
        if self.setup.replicas > 0 && self.guarding.as_ref().is_some_and(Guarding::holds) {
            self.set_mode(self.wants)?;
        }
        self.handle(input)
    }

    /// Whether somebody else could write home: if the area is not on home's own device, and the
    /// guard is down.
    pub(crate) fn is_home_open(&self) -> bool {
        match self.setup.placement {
            Placement::SameDevice => false,
            Placement::Elsewhere => !self.is_guarded(),
            Placement::ElsewhereUnguarded => true,
        }
    }

    pub(super) fn is_guarded(&self) -> bool {
        self.medium.borrow().current().guard.is_some()
    }

    /// Moves home's guard if that is due, and checks that nobody can mount home while its data is
    /// incomplete.
    pub(super) fn move_guard(&mut self) -> Result<(), String> {
        while let Some(guarding) = &mut self.guarding {
            let up = self.medium.borrow().current().guard.is_some();
            match self.machine.guard_step(guarding, up) {
                GuardStep::Rest => break,
                GuardStep::Move(to) => {
                    self.medium.borrow_mut().move_guard(to.then_some(self.generation));
                    guarding.moved(true);
                }
                GuardStep::Obey(mode) => {
                    guarding.obeyed();
                    self.handle(Input::Command(Command::SetMode(mode)))?;
                }
            }
        }
        self.is_kept()
    }

    /// Whether nobody can mount home alone while it may lack data that clients read.
    pub(super) fn is_kept(&self) -> Result<(), String> {
        if self.is_home_open() && self.machine.needs_guard() {
            return Err("home can be mounted by itself while it lacks what clients read".to_owned());
        }
        Ok(())
    }
}
