//! Lives a history, stops the world at each moment at which the devices changed, and looks at what would be there had
//! the power failed: attach, check, read all, go on for a while, bring all home.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use seekless_block::{Extent, Flags, Op, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, Sectors};
use seekless_engine::{HomeGuard, Input, Mode, Proof, Target};

use super::history::{History, Step, plan_of, replicate};
use super::machine::{Machine, Placement, Refused, Setup, Stamp};
use super::medium::{Disk, Image, Medium, UNREADABLE};
use super::mend::{Resize, mend};
use super::model::{INITIAL, Model, encode};
use super::world::{Past, World};

/// How a failure says that there was damage.
const DAMAGED: &str = "of the area was damaged";

/// With a device that fails for good, so many I/Os are waited for.
const TRIES: usize = 60;

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Histories.
    pub histories: u64,
    /// States after a loss of power.
    pub states: u64,
    /// Of these, those in which the power failed again during recovery.
    pub cut: u64,
    /// Of these, those with a sector of the area damaged as well.
    pub damaged: u64,
    /// Of these, those that the engine refused, or in which a request failed.
    pub told: u64,
    /// Of these, those that were repaired.
    pub mended: u64,
    /// Of these, those that the engine's death left, and no loss of power.
    pub killed: u64,
    /// Of these, those in the midst of a resize.
    pub resized: u64,
    /// Device I/Os that failed, in histories.
    pub failed: u64,
    /// Of the histories: pages that a plan moved, writes absorbed, pages brought home, reads of copies, copies proven.
    pub done: [u64; 5],
}

impl Tally {
    const fn count(&mut self, done: [u64; 5]) {
        let mut i = 0;
        while i < done.len() {
            self.done[i] += done[i];
            i += 1;
        }
    }

    /// Adds what another looked at.
    pub const fn add(&mut self, other: Self) {
        self.histories += other.histories;
        self.states += other.states;
        self.cut += other.cut;
        self.damaged += other.damaged;
        self.told += other.told;
        self.mended += other.mended;
        self.killed += other.killed;
        self.resized += other.resized;
        self.failed += other.failed;
        self.count(other.done);
    }
}

/// A promise that was broken.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was lived.
    pub history: History,
    /// The step at which it happened, counted from 0.
    pub step: usize,
    /// The state that showed it; `None` where it showed before the power failed.
    pub choice: Option<u64>,
    /// The engine died in that state, and the power did not fail.
    pub killed: bool,
    /// A sector of the area was damaged in that state.
    pub damaged: bool,
    /// What was wrong.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { history, step, choice, reason, killed, .. } = self;
        let killed = if *killed { ", killed" } else { "" };
        writeln!(f, "seed {}, step {step}, choice {choice:?}{killed}: {reason}", history.seed)?;
        writeln!(f, "{:?}", history.setup)?;
        for (i, s) in history.steps.iter().enumerate() {
            writeln!(f, "{i:4} {s:?}")?;
        }
        Ok(())
    }
}

/// Which states are looked at.
#[derive(Clone, Debug)]
pub enum Looks {
    /// So many at each moment, chosen by the history's seed.
    Each(u64),
    /// These at each moment.
    These(Vec<u64>),
    /// These at each moment, of what the engine's death leaves.
    Killed(Vec<u64>),
}

/// A state that is looked at.
#[derive(Clone, Copy, Debug)]
struct Look {
    choice: u64,
    killed: bool,
}

impl Looks {
    fn at(&self, history: &History, moment: u64) -> Vec<Look> {
        let these = |choices: &[u64], killed| {
            choices.iter().map(|&choice| Look { choice, killed }).collect::<Vec<_>>()
        };
        match self {
            Self::Each(count) => {
                let mut rng = Pcg64Mcg::seed_from_u64(history.seed ^ moment.rotate_left(32));
                let mut looks: Vec<u64> = (0..*count).map(|_| rng.random()).collect();
                let mut all = these(&looks, false);
                // A death leaves less to choose from: at every other moment one is enough.
                looks.truncate(usize::from(rng.random::<bool>()));
                all.extend(these(&looks, true));
                all
            }
            Self::These(choices) => these(choices, false),
            Self::Killed(choices) => these(choices, true),
        }
    }
}

/// Lives a history and looks at states on the way.
///
/// # Errors
/// The first promise that was broken; a panic is one.
pub fn explore<M: Machine>(
    history: &History,
    looks: &Looks,
    tally: &mut Tally,
) -> Result<(), Box<Failure>> {
    tally.histories += 1;
    let failure = |step, look: Option<Look>, reason: String| {
        let damaged = reason.contains(DAMAGED);
        let (choice, killed) = (look.map(|l| l.choice), look.is_some_and(|l| l.killed));
        Box::new(Failure { history: history.clone(), step, choice, killed, damaged, reason })
    };
    let setup = &history.setup;
    let mut live = caught(|| Live::<M>::begin(setup)).map_err(|e| failure(0, None, e))?;
    let mut seen = 0;
    for (i, step) in history.steps.iter().enumerate() {
        let mut choice = None;
        caught(|| {
            live.step(step, |moment, stamp| {
                let clock = match &moment {
                    Moment::Live(world) => world.medium().borrow().clock(),
                    Moment::Resize(resize) => resize.medium.borrow().clock() + RESIZING,
                };
                if seen == clock {
                    return Ok(());
                }
                seen = clock;
                for look in looks.at(history, seen) {
                    choice = Some(look);
                    tally.states += 1;
                    match &moment {
                        Moment::Live(world) => inspect(history, world, stamp, look, tally)?,
                        Moment::Resize(resize) => {
                            tally.resized += 1;
                            let mut rng = Pcg64Mcg::seed_from_u64(look.choice);
                            let (image, past) = resize.cut::<M>(stamp, &mut rng)?;
                            let all = (resize.setup, image, past, stamp);
                            go_on::<M>(all, false, &[], &mut rng, tally)
                                .map_err(|e| format!("a resize was cut short: {e}"))?;
                        }
                    }
                }
                choice = None;
                Ok(())
            })
        })
        .map_err(|e| failure(i, choice, e))?;
    }
    live.end_life();
    tally.count(live.done);
    tally.failed += live.failed;
    Ok(())
}

/// The same failure, or a like one, from a history with as few steps as can be found in `runs` runs.
#[must_use]
pub fn shrink<M: Machine>(failure: Box<Failure>, runs: usize) -> Box<Failure> {
    let mut best = failure;
    let looks = best.choice.into_iter().chain(0..3).collect();
    let looks = if best.killed { Looks::Killed(looks) } else { Looks::These(looks) };
    let mut left = runs;
    best.history.steps.truncate(best.step + 1);
    let mut size = best.history.steps.len().div_ceil(2);
    while size > 0 && left > 0 {
        let (mut at, before) = (0, best.history.steps.len());
        while at < best.history.steps.len() && left > 0 {
            left -= 1;
            let mut history = best.history.clone();
            history.steps.drain(at..(at + size).min(history.steps.len()));
            match explore::<M>(&history, &looks, &mut Tally::default()) {
                Err(mut found) if found.damaged == best.damaged => {
                    found.history.steps.truncate(found.step + 1);
                    best = found;
                }
                _ => at += size,
            }
        }
        if size > 1 || best.history.steps.len() == before {
            size /= 2;
        }
    }
    best
}

/// A panic is a finding like another.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let words = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", words.unwrap_or("no words")))
    })
}

pub(crate) type Shared = Rc<RefCell<Medium>>;

struct Live<M> {
    world: World<M>,
    setup: Setup,
    stamp: Stamp,
    /// As [`Tally::done`], of the lives before this one.
    done: [u64; 5],
    /// I/Os that failed, in the lives before this one.
    failed: u64,
}

/// When the power may fail.
enum Moment<'a, M> {
    Live(&'a World<M>),
    Resize(Resize<'a>),
}

/// Tells clocks of resizes from those of lives.
const RESIZING: u64 = 1 << 32;

impl<M: Machine> Live<M> {
    /// A home with its first content, an area with anything, formatted.
    fn begin(setup: &Setup) -> Result<Self, String> {
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
        let machine =
            attach::<M>(setup, &medium, stamp).map_err(|r| format!("a new area: {r:?}"))?;
        let world = World::new(machine, medium, Past::new(setup.home), setup.clone())?;
        Ok(Self { world, setup: setup.clone(), stamp, done: [0; 5], failed: 0 })
    }

    fn end_life(&mut self) {
        self.failed += self.world.faults();
        let s = self.world.machine().stats();
        let pages = [
            s.moved_bytes / PAGE_BYTES,
            s.absorbed,
            s.destaged_bytes / PAGE_BYTES,
            s.copy_reads,
            s.proven,
        ];
        self.done.iter_mut().zip(pages).for_each(|(sum, n)| *sum += n);
    }

    fn step(
        &mut self,
        step: &Step,
        mut look: impl FnMut(Moment<'_, M>, Stamp) -> Result<(), String>,
    ) -> Result<(), String> {
        let (world, setup) = (&mut self.world, &self.setup);
        match step {
            &Step::Ask { op, start, len, fua } => {
                let flags = if fua { Flags::FUA } else { Flags::NONE };
                // Home may have shrunk.
                let start = start.min(self.setup.home - 1);
                let len = len.min(self.setup.home - start);
                world.issue(op, Extent::new(start, len), flags)?;
            }
            &Step::Repeat(back) => world.repeat(back)?,
            &Step::Execute(which) => drop(world.execute(which)?),
            &Step::Settle(order) => {
                for _ in 0..if world.is_broken() { TRIES } else { usize::MAX } {
                    // Every moment of it is a moment.
                    let before = world.medium().borrow().clock();
                    if !world.advance(order)? {
                        break;
                    }
                    if world.medium().borrow().clock() != before {
                        look(Moment::Live(world), self.stamp)?;
                    }
                }
            }
            Step::Install(pieces) => {
                let plan = plan_of(pieces, self.setup.home, world.machine().room());
                world.handle(Input::Install(plan))?;
            }
            Step::Replicate(sides) => {
                world.replicate(replicate(sides, &self.setup))?;
            }
            Step::Withdraw => world.handle(Input::Withdraw)?,
            &Step::Mode(mode) => world.set_mode(mode)?,
            Step::Drain => world.drain()?,
            Step::Pass => drop(world.pass()?),
            &Step::Slow(slow) => world.set_slow(slow),
            &Step::Break(fault) => world.break_down(fault),
            Step::Heal => {
                if world.is_broken() {
                    self.ends_or_says_why("a drain", World::drain, M::is_drained)?;
                }
                self.world.heal(1)?;
            }
            Step::Restart(_) if world.is_broken() => {
                let stamp = self.stamp;
                let detach = |w: &mut World<M>| w.handle(Input::Detach { stamp });
                self.ends_or_says_why("a detach", detach, M::is_detached)?;
                self.start_anew(&mut Pcg64Mcg::seed_from_u64(0), &[])?;
            }
            &Step::Restart(by_another) => {
                if by_another.is_some() {
                    // Whoever uses home by itself sees what stands in discarded pages.
                    world.handle(Input::Withdraw)?;
                    if setup.placement == Placement::Elsewhere && !world.is_home_open() {
                        world.drain()?;
                    }
                }
                world.rest(by_another.map_or(0, |b| b.0))?;
                if by_another.is_some()
                    && setup.placement == Placement::Elsewhere
                    && !world.is_home_open()
                {
                    return Err("drained and withdrawn, and the guard stays up".to_owned());
                }
                self.stop(&mut look)?;
                let world = &mut self.world;
                if by_another.is_some() && !world.machine().stained().is_empty() {
                    return Err("all at rest, and replicas are not withdrawn".to_owned());
                }
                if !world.machine().is_dirty() {
                    world.bare_home()?;
                    if let Some((start, len)) = by_another.filter(|_| world.is_home_open()) {
                        let start = start.min(self.setup.home - 1);
                        let len = len.min(self.setup.home - start);
                        world.by_another(Extent::new(start, len))?;
                        self.stamp[0] = self.stamp[0].wrapping_add(1).max(1);
                    }
                }
                // What an orderly stop leaves is on the medium: none of it is lost with the caches.
                self.start_anew(&mut Pcg64Mcg::seed_from_u64(0), &[])?;
            }
            // What has replicas is not resized.
            Step::Resize { .. } if world.is_broken() || self.setup.replicas > 0 => {}
            &Step::Resize { home, area } => {
                world.rest(1)?;
                world.drain()?;
                world.rest(1)?;
                if setup.placement == Placement::Elsewhere && !world.is_home_open() {
                    return Err("drained, and the guard stays up".to_owned());
                }
                self.stop(&mut look)?;
                if self.world.machine().is_dirty() {
                    return Err("drained and detached, and home is not all there is".to_owned());
                }
                self.world.bare_home()?;
                self.resize(home, area, &mut look)?;
            }
            Step::Kill { choice } => {
                let left = self.world.killed(false, &mut Pcg64Mcg::seed_from_u64(*choice));
                self.begin_anew(left, &mut Pcg64Mcg::seed_from_u64(0), &[])?;
            }
            Step::Crash { choice, again } => {
                self.start_anew(&mut Pcg64Mcg::seed_from_u64(*choice), again)?;
            }
        }
        look(Moment::Live(&self.world), self.stamp)
    }

    fn stop(
        &mut self,
        look: &mut impl FnMut(Moment<'_, M>, Stamp) -> Result<(), String>,
    ) -> Result<(), String> {
        self.world.handle(Input::Detach { stamp: self.stamp })?;
        self.world.rest(1)?;
        if !self.world.machine().is_detached() {
            return Err("a stop in order does not end".to_owned());
        }
        self.world.stopped();
        look(Moment::Live(&self.world), self.stamp)
    }

    /// Stopped and drained: home and area get other sizes.
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
            let machine = attach::<M>(&self.setup, &medium, self.stamp)
                .map_err(|r| format!("after a resize: {r:?}"))?;
            self.world = World::new(machine, medium, past, self.setup.clone())?;
            break;
        }
        if self.setup.write_back {
            self.world.set_mode(Mode::WriteBack)?;
        }
        Ok(())
    }

    /// The next life, from what this one left.
    fn start_anew(&mut self, rng: &mut Pcg64Mcg, again: &[u64]) -> Result<(), String> {
        let left = self.world.cut(rng);
        self.begin_anew(left, rng, again)
    }

    fn begin_anew(
        &mut self,
        (image, past): (Image, Past),
        rng: &mut Pcg64Mcg,
        again: &[u64],
    ) -> Result<(), String> {
        let (machine, medium) = recover::<M>(&self.setup, image, again, self.stamp, rng)
            .map_err(|r| format!("the next life: {r:?}"))?;
        self.end_life();
        self.world = World::new(machine, medium, past, self.setup.clone())?;
        Ok(())
    }

    /// With a device that fails for good: what is asked comes to its end, or the engine says what keeps it.
    fn ends_or_says_why(
        &mut self,
        asked: &str,
        ask: impl FnOnce(&mut World<M>) -> Result<(), String>,
        ended: fn(&M) -> bool,
    ) -> Result<(), String> {
        self.world.rest(1)?;
        ask(&mut self.world)?;
        self.world.rest(1)?;
        let machine = self.world.machine();
        if ended(machine) || machine.says_why() {
            Ok(())
        } else {
            Err(format!("with a broken device {asked} neither ends nor is it said why"))
        }
    }
}

pub(crate) fn attach<M: Machine>(
    setup: &Setup,
    medium: &Shared,
    stamp: Stamp,
) -> Result<M, Refused> {
    let mut area = Disk::new(Rc::clone(medium), Target::Area);
    let mut home = Disk::new(Rc::clone(medium), Target::Home);
    let guard = setup.placement.guard(medium.borrow().current().guard_up);
    let proof = Proof { stamp, guard, to_drain: false };
    let (machine, needs_guard) = M::attach(setup, &mut area, &mut home, &proof)?;
    if needs_guard && guard == HomeGuard::Down && !medium.borrow().is_off() {
        medium.borrow_mut().move_guard(true);
    }
    Ok(machine)
}

/// Attaches; at these operations of the recovery the power fails again.
fn recover<M: Machine>(
    setup: &Setup,
    mut image: Image,
    again: &[u64],
    stamp: Stamp,
    rng: &mut Pcg64Mcg,
) -> Result<(M, Shared), Refused> {
    for operations in again.iter().map(Some).chain([None]) {
        let medium = Rc::new(RefCell::new(Medium::new(image, setup.shared)));
        medium.borrow_mut().set_power(operations.copied());
        let attached = attach::<M>(setup, &medium, stamp);
        if !medium.borrow().is_off() {
            medium.borrow_mut().set_power(None);
            return attached.map(|machine| (machine, medium));
        }
        image = medium.borrow().crash(rng);
    }
    unreachable!("without a limit the power does not fail")
}

/// Looks at one state that a loss of power may leave.
fn inspect<M: Machine>(
    history: &History,
    world: &World<M>,
    stamp: Stamp,
    look: Look,
    tally: &mut Tally,
) -> Result<(), String> {
    let setup = world.setup();
    let mut rng = Pcg64Mcg::seed_from_u64(look.choice);
    tally.killed += u64::from(look.killed);
    let left = if look.killed {
        world.killed(setup.replicas == 0 && history.never_absorbs(), &mut rng)
    } else {
        world.cut(&mut rng)
    };
    let (mut image, mut past) = left;
    bare_home_is_complete(history, setup, &image, &past.model)?;
    let stamp = strangers_write(setup, &mut image, &mut past, stamp, &mut rng)?;
    let damage = if !look.killed && rng.random_ratio(1, 4) {
        rot(&mut image, &world.medium().borrow(), &M::log(setup), &mut rng)
    } else {
        None
    };
    let cuts = if rng.random_ratio(1, 3) { rng.random_range(1..3) } else { 0 };
    let again: Vec<u64> = (0..cuts).map(|_| rng.random_range(1..16)).collect();
    tally.damaged += u64::from(damage.is_some());
    tally.cut += u64::from(cuts > 0);
    go_on::<M>((setup, image, past, stamp), damage.is_some(), &again, &mut rng, tally).map_err(
        |e| {
            let damage = damage.map_or(String::new(), |s| format!("; sector {s} {DAMAGED}"));
            let again = if cuts > 0 {
                format!("; the power failed again at {again:?}")
            } else {
                String::new()
            };
            format!("{e}{damage}{again}")
        },
    )
}

/// Recovers from a state, mends it where the engine refuses it or by way of trial, reads all, goes on for a while and
/// brings all home.
fn go_on<M: Machine>(
    (setup, mut image, mut past, stamp): (&Setup, Image, Past, Stamp),
    mut damage: bool,
    again: &[u64],
    rng: &mut Pcg64Mcg,
    tally: &mut Tally,
) -> Result<(), String> {
    let found = check::<M>(setup, &image)?;
    if !damage && !found.is_empty() {
        return Err(format!("check finds: {}", found.join("; ")));
    }
    let mut repaired = false;
    if rng.random_ratio(1, if damage { 3 } else { 16 }) {
        tally.mended += 1;
        repaired = true;
        match mend::<M>(setup, image, &mut past, damage, rng)? {
            Some(mended) => (image, damage) = (mended, false),
            None => {
                tally.told += 1;
                return Ok(());
            }
        }
    }
    let (machine, medium) = match recover::<M>(setup, image, again, stamp, rng) {
        Err(Refused::Damaged(_)) if damage => {
            tally.told += 1;
            return Ok(());
        }
        Err(refused) => {
            let when = if repaired { "a crash and a repair" } else { "a crash" };
            return Err(format!("after {when}: {refused:?}"));
        }
        Ok(found) => found,
    };
    let mut world = World::new(machine, medium, past, setup.clone())?;
    world.set_damaged(damage);
    let order = rng.random();
    world.read_all(rng.random_range(1..24), order)?;
    for _ in 0..rng.random_range(0..6) {
        let op = if setup.replicas > 0 && rng.random_ratio(1, 3) {
            let pages = (setup.home - setup.grid) / PAGE_SECTORS;
            let mut page = || rng.random_range(0..pages);
            let side = (page(), vec![(page(), 1), (page(), 1)]);
            world.replicate(replicate(&[side], setup))?;
            Op::Discard
        } else {
            [Op::Write, Op::Write, Op::Read, Op::Flush, Op::WriteZeroes][rng.random_range(0..5)]
        };
        let start = rng.random_range(0..setup.home);
        let len = if op == Op::Flush { 0 } else { rng.random_range(1..30).min(setup.home - start) };
        world.issue(
            op,
            Extent::new(start, len),
            if rng.random() { Flags::FUA } else { Flags::NONE },
        )?;
    }
    world.rest(order)?;
    world.read_all(rng.random_range(1..24), order)?;
    if world.has_failed() {
        return if found.is_empty() {
            Err("a request failed, and check found nothing".to_owned())
        } else {
            tally.told += 1;
            Ok(())
        };
    }
    world.drain()?;
    world.rest(order)?;
    if world.has_failed() || damage && world.machine().is_dirty() {
        tally.told += 1;
        return if world.machine().is_dirty() && !world.machine().says_why() {
            Err("a drain that does not end does not say why".to_owned())
        } else {
            Ok(())
        };
    }
    if world.machine().is_dirty() {
        return Err("all at rest after a drain, and home is not all there is".to_owned());
    }
    world.bare_home()
}

/// Where nothing keeps others from home, somebody may write there before the engine comes back. The stamp that then
/// proves what home is.
fn strangers_write(
    setup: &Setup,
    image: &mut Image,
    past: &mut Past,
    mut stamp: Stamp,
    rng: &mut Pcg64Mcg,
) -> Result<Stamp, String> {
    let kept =
        matches!(setup.placement.guard(image.guard_up), HomeGuard::SameDevice | HomeGuard::Up);
    if !kept && rng.random_ratio(1, 3) {
        let start = rng.random_range(0..setup.home);
        let len = rng.random_range(1..30).min(setup.home - start);
        past.by_another_on(image, Extent::new(start, len))?;
        stamp[1] = stamp[1].wrapping_add(1);
    }
    Ok(stamp)
}

/// Where nothing was ever absorbed, home alone is all there is.
fn bare_home_is_complete(
    history: &History,
    setup: &Setup,
    image: &Image,
    model: &Model,
) -> Result<(), String> {
    if !history.never_absorbs() {
        return Ok(());
    }
    for (lba, sector) in (0..).zip(image.sectors(Target::Home)) {
        // Where the client may have discarded, home may hold bytes of replicas.
        let zeroes = [0; SECTOR_BYTES as usize];
        if setup.replicas == 0 || model.survives(lba, &zeroes).is_err() {
            model
                .survives(lba, &sector[..])
                .map_err(|what| format!("in write-through, bare home: {what}"))?;
        }
    }
    Ok(())
}

/// One sector of the area is not what was written there: one bit, or all of them, or it cannot be read. Says which; in
/// the log only where what was lost can be known.
fn rot(image: &mut Image, medium: &Medium, log: &Range<u64>, rng: &mut Pcg64Mcg) -> Option<usize> {
    let sectors = image.sectors_mut(Target::Area);
    // Metadata stands in front.
    let most = if rng.random_ratio(2, 3) { sectors.len() } else { sectors.len() / 8 };
    let at = rng.random_range(0..most);
    if log.contains(&(at as u64)) && !medium.is_vouched(log, at) {
        return None;
    }
    let sector = &mut sectors[at];
    let mut bytes = **sector;
    match rng.random_range(0..3u8) {
        0 => bytes[rng.random_range(0..SECTOR_BYTES as usize)] ^= 1 << rng.random_range(0..8),
        1 => rng.fill(&mut bytes[..]),
        _ => bytes = UNREADABLE,
    }
    *sector = Rc::new(bytes);
    Some(at)
}

/// What a check finds lost. It writes nothing.
fn check<M: Machine>(setup: &Setup, image: &Image) -> Result<Vec<String>, String> {
    let medium = Rc::new(RefCell::new(Medium::new(image.clone(), setup.shared)));
    let found = M::check(&mut Disk::new(Rc::clone(&medium), Target::Area));
    if medium.borrow().clock() == 0 {
        Ok(found)
    } else {
        Err("a check wrote to the device".to_owned())
    }
}
