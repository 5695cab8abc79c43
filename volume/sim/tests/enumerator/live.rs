//! A history in progress: the engine of one life after the other, and the moments of possible power
//! failures.

use std::cell::RefCell;
use std::rc::Rc;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use seekless_block::{Extent, Flags, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, Sectors};
use seekless_engine::{HomeGuard, Input, Mode, Proof, Target};

use super::history::{HistoryStep, plan_of, replicate};
use super::machine::{Machine, Placement, Refused, Setup, Stamp};
use super::medium::{Disk, Image, Medium};
use super::mend::Resize;
use super::model::{INITIAL, encode};
use super::world::{Past, RESTS_WITHIN, World};

/// Most I/Os to wait for with a device that fails for good, or with lost pages.
const TRIES: usize = 60;

pub(crate) type Shared = Rc<RefCell<Medium>>;

/// The history so far.
pub(super) struct Live<M> {
    world: World<M>,
    setup: Setup,
    stamp: Stamp,
    /// As [`Tally::done`], in the lives before this one.
    pub(super) done: [u64; 5],
    /// As [`Tally::trail`], in the lives before this one.
    ///
    /// [`Tally::trail`]: super::explore::Tally::trail
    pub(super) trail: [u64; 6],
    /// Pages that the scrub compared, in the lives before this one.
    pub(super) scrubbed: u64,
    /// Writes that went to copies in place, in the lives before this one.
    pub(super) in_place: u64,
    /// Pages newer than home that a plan moved within the area, in the lives before this one.
    pub(super) relocated: u64,
    /// Failed I/Os in the lives before this one.
    pub(super) failed: u64,
}

/// A moment at which the power may fail.
pub(super) enum Moment<'a, M> {
    Live(&'a World<M>),
    Resize(Resize<'a>),
}

/// Separates clocks of resizes from those of lives.
pub(super) const RESIZING: u64 = 1 << 32;

impl<M: Machine> Live<M> {
    /// A home with its first content, and a formatted area.
    pub(super) fn begin(setup: &Setup) -> Result<Self, String> {
        let mut image = Image::zeroed(Sectors(setup.home), Sectors(setup.area));
        for (lba, sector) in (0..).zip(image.sectors_mut(Target::Home)) {
            *sector = Rc::new(encode(INITIAL, lba));
        }
        for sector in image.sectors_mut(Target::Area) {
            *sector = Rc::new([0xA5; SECTOR_BYTES as usize]);
        }
        let medium = Rc::new(RefCell::new(Medium::new(image, setup.shared)));
        M::format(setup, &mut Disk::new(Rc::clone(&medium), Target::Area), 1)?;
        let stamp = [1; 32];
        let (mut machine, generation) =
            attach::<M>(setup, &medium, stamp).map_err(|r| format!("a new area: {r:?}"))?;
        let mut past = Past::new(setup.home);
        let unused = Extent::new(setup.unused.0, setup.unused.1);
        if !unused.is_empty() {
            machine.seed_free(unused);
            past.model.unused(unused);
        }
        let world = World::new((machine, generation), medium, past, setup.clone())?;
        Ok(Self {
            world,
            setup: setup.clone(),
            stamp,
            done: [0; 5],
            trail: [0; 6],
            scrubbed: 0,
            in_place: 0,
            relocated: 0,
            failed: 0,
        })
    }

    pub(super) fn end_life(&mut self) {
        self.failed += self.world.faults_met;
        self.scrubbed += self.world.machine.scrubbed().pages;
        let s = self.world.machine.stats();
        let pages = [
            s.moved_bytes / PAGE_BYTES,
            s.absorbed,
            s.destaged_bytes / PAGE_BYTES,
            s.copy_reads,
            s.proven,
        ];
        self.in_place += s.in_place;
        self.relocated += s.relocated_bytes / PAGE_BYTES;
        self.done.iter_mut().zip(pages).for_each(|(sum, n)| *sum += n);
        if self.world.setup.has_trail() {
            let [appended, .., reads, proven] = pages;
            let rounds = appended * PAGE_SECTORS / self.world.machine.room().max(1);
            let trail = [appended, reads, rounds, self.world.dropped, 0, proven];
            self.trail.iter_mut().zip(trail).for_each(|(sum, n)| *sum += n);
        }
    }

    pub(super) fn step(
        &mut self,
        step: &HistoryStep,
        mut look: impl FnMut(Moment<'_, M>, Stamp) -> Result<(), String>,
    ) -> Result<(), String> {
        let world = &mut self.world;
        match step {
            _ if world.setup.to_drain && step.needs_server() => {}
            &HistoryStep::Ask { op, start, len, fua } => {
                let flags = if fua { Flags::FUA } else { Flags::NONE };
                // Home may have shrunk.
                let start = start.min(self.setup.home - 1);
                let len = len.min(self.setup.home - start);
                world.issue(op, Extent::new(start, len), flags)?;
            }
            &HistoryStep::Repeat(back) => world.repeat(back)?,
            &HistoryStep::Execute(which) => drop(world.execute(which)?),
            &HistoryStep::Settle(order) => self.settle(order, &mut look)?,
            HistoryStep::Install(pieces) => {
                let plan = plan_of(pieces, self.setup.home, world.machine.room());
                world.handle(Input::Install(plan))?;
            }
            HistoryStep::Replicate(sides) => {
                world.replicate(replicate(sides, &self.setup))?;
            }
            HistoryStep::Withdraw => world.handle(Input::Withdraw)?,
            &HistoryStep::Mode(mode) => world.set_mode(mode)?,
            HistoryStep::Drain => world.drain()?,
            HistoryStep::Scrub => world.handle(Input::Scrub)?,
            &HistoryStep::Bypass(on) => world.handle(Input::Bypass(on))?,
            HistoryStep::Pass => drop(world.pass()?),
            &HistoryStep::Slow(slow) => world.slow = slow,
            &HistoryStep::Break(fault) => world.break_down(fault),
            HistoryStep::Heal => self.heal()?,
            HistoryStep::Restart(_) if world.may_never_drain() => self.restart_hindered()?,
            &HistoryStep::Restart(by_another) => self.restart(by_another, &mut look)?,
            // A volume with replicas is not resized.
            HistoryStep::Resize { .. } if world.may_never_drain() || self.setup.replicas > 0 => {}
            &HistoryStep::Resize { home, area } => {
                self.bring_home_and_resize(home, area, &mut look)?;
            }
            HistoryStep::Kill { choice } => {
                let left = self.world.killed(false, &mut Pcg64Mcg::seed_from_u64(*choice));
                self.begin_anew(left, &mut Pcg64Mcg::seed_from_u64(0), &[])?;
            }
            HistoryStep::Crash { choice, again } => {
                self.start_anew(&mut Pcg64Mcg::seed_from_u64(*choice), again)?;
            }
        }
        self.world.is_sound()?;
        look(Moment::Live(&self.world), self.stamp)
    }

    fn heal(&mut self) -> Result<(), String> {
        if self.world.is_broken() {
            self.ends_or_says_why("a drain", World::drain, M::is_drained)?;
        }
        self.world.heal(1)?;
        if self.world.wants == Mode::WriteBack && !self.world.setup.to_drain {
            // The engine left write-back when the area failed.
            self.world.set_mode(Mode::WriteBack)?;
        }
        Ok(())
    }

    fn settle(
        &mut self,
        order: u64,
        look: &mut impl FnMut(Moment<'_, M>, Stamp) -> Result<(), String>,
    ) -> Result<(), String> {
        let world = &mut self.world;
        for tries in 0..RESTS_WITHIN {
            // Each change of the devices is a moment.
            let before = world.medium.borrow().clock();
            if tries >= TRIES && world.may_never_drain() || !world.advance(order)? {
                return Ok(());
            }
            if world.medium.borrow().clock() != before {
                look(Moment::Live(world), self.stamp)?;
            }
        }
        Err("its work does not end".to_owned())
    }

    /// Everything ends, and the engine is stopped in order; then somebody else may write these
    /// sectors of home.
    fn restart(
        &mut self,
        by_another: Option<(u64, u64)>,
        look: &mut impl FnMut(Moment<'_, M>, Stamp) -> Result<(), String>,
    ) -> Result<(), String> {
        let (world, setup) = (&mut self.world, &self.setup);
        if by_another.is_some() {
            // A user of home alone sees the bytes in discarded pages.
            world.handle(Input::Withdraw)?;
            if setup.placement == Placement::Elsewhere && !world.is_home_open() {
                world.drain()?;
            }
        }
        world.rest(by_another.map_or(0, |b| b.0))?;
        if world.may_never_drain() {
            return self.restart_hindered();
        }
        if by_another.is_some() && setup.placement == Placement::Elsewhere && !world.is_home_open()
        {
            return Err("drained and withdrawn, and the guard stays up".to_owned());
        }
        self.stop(look)?;
        let world = &mut self.world;
        if by_another.is_some() && !world.machine.stained().is_empty() {
            return Err("all at rest, and replicas are not withdrawn".to_owned());
        }
        if !world.machine.is_dirty() {
            world.bare_home()?;
            if let Some((start, len)) = by_another.filter(|_| world.is_home_open()) {
                let start = start.min(self.setup.home - 1);
                let len = len.min(self.setup.home - start);
                world.by_another(Extent::new(start, len))?;
                self.stamp[0] = self.stamp[0].wrapping_add(1).max(1);
            }
        }
        // An orderly stop leaves everything on the medium: the caches lose nothing.
        self.start_anew(&mut Pcg64Mcg::seed_from_u64(0), &[])?;
        Ok(())
    }

    /// The same if the engine may never bring all home: it ends, or says why not.
    fn restart_hindered(&mut self) -> Result<(), String> {
        let stamp = self.stamp;
        let detach = |w: &mut World<M>| w.handle(Input::Detach { stamp });
        self.ends_or_says_why("a detach", detach, M::is_detached)?;
        self.start_anew(&mut Pcg64Mcg::seed_from_u64(0), &[])
    }

    /// Everything is brought home, and the engine is stopped in order; home and area get other
    /// sizes.
    fn bring_home_and_resize(
        &mut self,
        home: u64,
        area: u64,
        look: &mut impl FnMut(Moment<'_, M>, Stamp) -> Result<(), String>,
    ) -> Result<(), String> {
        let (world, setup) = (&mut self.world, &self.setup);
        world.rest(1)?;
        world.drain()?;
        world.rest(1)?;
        if world.may_never_drain() {
            return Ok(());
        }
        if setup.placement == Placement::Elsewhere && !world.is_home_open() {
            return Err("drained, and the guard stays up".to_owned());
        }
        self.stop(look)?;
        if self.world.machine.is_dirty() {
            return Err("drained and detached, and home is incomplete".to_owned());
        }
        self.world.bare_home()?;
        self.resize(home, area, look)?;
        Ok(())
    }

    fn stop(
        &mut self,
        look: &mut impl FnMut(Moment<'_, M>, Stamp) -> Result<(), String>,
    ) -> Result<(), String> {
        self.world.handle(Input::Detach { stamp: self.stamp })?;
        self.world.rest(1)?;
        if !self.world.machine.is_detached() {
            return Err("a stop in order does not end".to_owned());
        }
        self.world.stopped();
        look(Moment::Live(&self.world), self.stamp)
    }

    /// After the stop and the drain: home and area get other sizes.
    fn resize(
        &mut self,
        home: u64,
        area: u64,
        look: &mut impl FnMut(Moment<'_, M>, Stamp) -> Result<(), String>,
    ) -> Result<(), String> {
        let (image, mut past) = self.world.cut(&mut Pcg64Mcg::seed_from_u64(0));
        past.resize(home);
        let new = |lba| Rc::new(encode(INITIAL, lba));
        let image = image.resized((home, area), new, &Rc::new([0xA5; SECTOR_BYTES as usize]));
        self.setup = Setup { home, area, ..self.setup.clone() };
        self.stamp[0] = self.stamp[0].wrapping_add(1).max(1);
        self.end_life();
        for operations in 1.. {
            let medium = Medium::new(image.clone(), self.setup.shared);
            let medium = Rc::new(RefCell::new(medium));
            medium.borrow_mut().set_power(Some(operations));
            let done = M::resize(&self.setup, &mut Disk::new(Rc::clone(&medium), Target::Area));
            if medium.borrow().is_off() {
                let resize = Resize { setup: &self.setup, medium: &medium, past: &past };
                look(Moment::Resize(resize), self.stamp)?;
                continue;
            }
            medium.borrow_mut().set_power(None);
            if !done? {
                return Err("a resize finds no area".to_owned());
            }
            let attached = attach::<M>(&self.setup, &medium, self.stamp)
                .map_err(|r| format!("after a resize: {r:?}"))?;
            self.world = World::new(attached, medium, past, self.setup.clone())?;
            break;
        }
        if self.setup.write_back {
            self.world.set_mode(Mode::WriteBack)?;
        }
        Ok(())
    }

    /// The next life, from the state that this one left.
    fn start_anew(&mut self, rng: &mut Pcg64Mcg, again: &[u64]) -> Result<(), String> {
        let left = self.world.cut(rng);
        self.begin_anew(left, rng, again)
    }

    fn begin_anew(
        &mut self,
        (image, mut past): (Image, Past),
        rng: &mut Pcg64Mcg,
        again: &[u64],
    ) -> Result<(), String> {
        self.end_life();
        self.setup.adaptive ^= self.setup.toggles;
        self.setup.in_place ^= self.setup.in_place_toggles;
        self.setup.to_drain ^= self.setup.drains;
        let before = Some(image.clone());
        let (machine, medium, generation) =
            recover::<M>(&self.setup, (image, &mut past), again, self.stamp, rng)
                .map_err(|r| format!("the next life: {r:?}"))?;
        if self.setup.has_trail() {
            self.trail[4] += machine.in_doubt() / PAGE_SECTORS;
        }
        self.world = World::new((machine, generation), medium, past, self.setup.clone())?;
        self.world.before = before;
        Ok(())
    }

    /// With a device that fails for good, or with lost pages: every request ends, or the engine names
    /// its trouble.
    fn ends_or_says_why(
        &mut self,
        asked: &str,
        ask: impl FnOnce(&mut World<M>) -> Result<(), String>,
        ended: fn(&M) -> bool,
    ) -> Result<(), String> {
        self.world.rest(1)?;
        ask(&mut self.world)?;
        self.world.rest(1)?;
        let machine = &self.world.machine;
        if ended(machine) || machine.says_why() {
            Ok(())
        } else {
            Err(format!(
                "{asked} does not end with broken or lossy devices, and the engine names no trouble"
            ))
        }
    }
}

/// Attaches as a server does: the area's generation advances first, then that in home's guard.
pub(crate) fn attach<M: Machine>(
    setup: &Setup,
    medium: &Shared,
    stamp: Stamp,
) -> Result<(M, u64), Refused> {
    let mut area = Disk::new(Rc::clone(medium), Target::Area);
    let mut home = Disk::new(Rc::clone(medium), Target::Home);
    let guard = setup.placement.guard(medium.borrow().current().guard);
    let proof = Proof { stamp, guard, to_drain: setup.to_drain };
    let (machine, generation, needs_guard) = M::attach(setup, &mut area, &mut home, &proof)?;
    let is_up = matches!(guard, HomeGuard::Up(_));
    if (is_up || needs_guard && guard == HomeGuard::Down) && !medium.borrow().is_off() {
        medium.borrow_mut().sync_guard(Some(generation));
    }
    Ok((machine, generation))
}

/// Attaches; the power fails again at these operations of the recovery.
pub(super) fn recover<M: Machine>(
    setup: &Setup,
    (mut image, past): (Image, &mut Past),
    again: &[u64],
    stamp: Stamp,
    rng: &mut Pcg64Mcg,
) -> Result<(M, Shared, u64), Refused> {
    for operations in again.iter().map(Some).chain([None]) {
        let medium = Rc::new(RefCell::new(Medium::new(image, setup.shared)));
        medium.borrow_mut().set_power(operations.copied());
        let attached = attach::<M>(setup, &medium, stamp);
        if !medium.borrow().is_off() {
            medium.borrow_mut().set_power(None);
            return attached.map(|(machine, generation)| (machine, medium, generation));
        }
        image = medium.borrow().crash(rng);
        past.model.crash();
    }
    unreachable!("without a limit the power does not fail")
}
