//! One state that a crash may leave: recover it, check it, read it, serve for a while, bring
//! everything home.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use seekless_block::{Extent, Flags, Op, PAGE_SECTORS, SECTOR_BYTES};
use seekless_engine::{HomeGuard, Input, Target};

use super::explore::{DAMAGED, Look, Tally};
use super::history::{History, replicate};
use super::live::{attach, recover};
use super::machine::{Machine, Refused, Setup, Stamp};
use super::medium::{Disk, Image, Medium, UNREADABLE};
use super::mend::mend;
use super::model::Model;
use super::world::{Past, World};

/// Examines one state that a power failure may leave.
pub(super) fn inspect<M: Machine>(
    history: &History,
    world: &World<M>,
    stamp: Stamp,
    look: Look,
    tally: &mut Tally,
) -> Result<(), String> {
    // Also after a drain, the next life serves the area.
    let mut rng = Pcg64Mcg::seed_from_u64(look.choice);
    let toggles = world.setup.in_place && world.setup.toggles && rng.random();
    let adaptive = world.setup.adaptive ^ toggles;
    let setup = &Setup { to_drain: false, adaptive, ..world.setup.clone() };
    tally.killed += u64::from(look.killed);
    let left = if look.killed {
        world.killed(setup.replicas == 0 && history.never_absorbs(), &mut rng)
    } else {
        world.cut(&mut rng)
    };
    let (mut image, mut past) = left;
    bare_home_is_complete(history, setup, &image, &past.model)?;
    if let Some(before) = world.before.as_ref().filter(|_| rng.random_ratio(1, 16)) {
        tally.older += u64::from(older_is_refused::<M>(setup, &image, before, stamp)?);
    }
    let was = stamp;
    let stamp = strangers_write(setup, &mut image, &mut past, stamp, &mut rng)?;
    tally.strangers += u64::from(stamp != was);
    let damage = if !look.killed && rng.random_ratio(1, 4) {
        let medium = Rc::new(RefCell::new(Medium::new(image.clone(), setup.shared)));
        let unsummed = M::unsummed(&mut Disk::new(medium, Target::Area));
        let before = image.clone();
        let at = rot(&mut image, &world.medium.borrow(), &M::log(setup), M::HEALS, &mut rng);
        let hidden = |at: usize| unsummed.iter().any(|e| e.contains(Extent::new(at as u64, 1)));
        if at.is_some_and(hidden) {
            image = before;
        }
        at.filter(|&at| !hidden(at))
    } else {
        None
    };
    let zeroed = damage.is_none() && rng.random_ratio(1, 12) && M::HEALS;
    if zeroed {
        tally.zeroed += 1;
        zero_superblock(&mut image, &M::superblocks(setup), &mut rng);
    }
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

/// Recovers a state; repairs it if the engine refuses it, or as a trial; reads everything; goes on
/// for a while; brings everything home.
pub(super) fn go_on<M: Machine>(
    (setup, mut image, mut past, stamp): (&Setup, Image, Past, Stamp),
    mut damage: bool,
    again: &[u64],
    rng: &mut Pcg64Mcg,
    tally: &mut Tally,
) -> Result<(), String> {
    let found = check::<M>(setup, &image)?;
    // Pages that a failed flush has lost. The area must not be refused for that.
    let lossy = past.model.has_unreadable();
    tally.forgot += u64::from(lossy);
    if !damage && !lossy && !found.is_empty() {
        return Err(format!("check finds: {}", found.join("; ")));
    }
    if damage {
        // The losses reported before the attach are not reported again after it.
        let medium = Rc::new(RefCell::new(Medium::new(image.clone(), setup.shared)));
        let told = M::perhaps_lost(&mut Disk::new(medium, Target::Area));
        past.expect_less(setup.home, Some(told));
    }
    let mut repaired = false;
    if rng.random_ratio(1, if damage { 3 } else { 16 }) {
        tally.mended += 1;
        repaired = true;
        match mend::<M>(setup, image, &mut past, damage || lossy, rng)? {
            Some(mended) => {
                (image, damage) = (mended, false);
                past.model.all_is_readable();
            }
            None => {
                tally.told += 1;
                return Ok(());
            }
        }
    }
    let (machine, medium, generation) =
        match recover::<M>(setup, (image, &mut past), again, stamp, rng) {
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
    let mut world = World::new((machine, generation), medium, past, setup.clone())?;
    world.damaged = damage;
    // A repair leaves damaged clean copies alone.
    if rng.random_ratio(1, 3) && !repaired {
        scrub(&mut world, &found, rng, tally)?;
    }
    tally.told += u64::from(live_on(world, setup, damage, &found, rng)?);
    Ok(())
}

/// Begins a pass of the scrub, and mostly lets it end. It finds what a check found, and no read has
/// to meet the damage first.
fn scrub<M: Machine>(
    world: &mut World<M>,
    found: &[String],
    rng: &mut Pcg64Mcg,
    tally: &mut Tally,
) -> Result<(), String> {
    world.handle(Input::Scrub)?;
    if rng.random_ratio(1, 4) {
        // Clients come meanwhile.
        return Ok(());
    }
    world.rest(rng.random())?;
    world.is_sound()?;
    let done = world.machine.scrubbed();
    for (sum, n) in tally.scrubs.iter_mut().zip([done.passes, done.damaged, done.lost]) {
        *sum += n;
    }
    if done.passes > 0 && (done.lost > 0) == found.is_empty() {
        return Err(format!("check and scrub disagree: {found:?}, {done:?}"));
    }
    Ok(())
}

/// Reads everything, serves, and brings everything home. True if the engine reported a failure.
fn live_on<M: Machine>(
    mut world: World<M>,
    setup: &Setup,
    damage: bool,
    found: &[String],
    rng: &mut Pcg64Mcg,
) -> Result<bool, String> {
    let order = rng.random();
    world.read_all(rng.random_range(1..24), order)?;
    serve(&mut world, setup, rng)?;
    world.rest(order)?;
    world.read_all(rng.random_range(1..24), order)?;
    if world.failed {
        return if found.is_empty() {
            Err("a request failed, and check found nothing".to_owned())
        } else {
            Ok(true)
        };
    }
    world.drain()?;
    world.rest(order)?;
    let damage = damage || world.may_never_drain();
    if world.failed || damage && world.machine.is_dirty() {
        return if world.machine.is_dirty() && !world.machine.says_why() {
            Err("a drain does not end, and the engine names no trouble".to_owned())
        } else {
            Ok(true)
        };
    }
    if world.machine.is_dirty() {
        return Err("after a drain, home is incomplete".to_owned());
    }
    world.bare_home().map(|()| false)
}

/// A few requests of clients.
fn serve<M: Machine>(
    world: &mut World<M>,
    setup: &Setup,
    rng: &mut Pcg64Mcg,
) -> Result<(), String> {
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
    Ok(())
}

/// Somebody restores the copy of the area from before the last attach. If home's guard is up, the
/// copy must be refused; false if the guard is down.
fn older_is_refused<M: Machine>(
    setup: &Setup,
    image: &Image,
    before: &Image,
    stamp: Stamp,
) -> Result<bool, String> {
    if image.guard.is_none() {
        return Ok(false);
    }
    let mut mixed = image.clone();
    mixed.sectors_mut(Target::Area).clone_from_slice(before.sectors(Target::Area));
    let medium = Rc::new(RefCell::new(Medium::new(mixed, setup.shared)));
    match attach::<M>(setup, &medium, stamp) {
        Err(_) if medium.borrow().clock() == 0 => Ok(true),
        Err(_) => Err("an older copy of the area was changed".to_owned()),
        Ok(_) => Err("an older copy of the area was attached".to_owned()),
    }
}

/// If nothing keeps others from home, somebody may write there before the engine is back. Returns
/// the stamp that then proves home's state.
fn strangers_write(
    setup: &Setup,
    image: &mut Image,
    past: &mut Past,
    mut stamp: Stamp,
    rng: &mut Pcg64Mcg,
) -> Result<Stamp, String> {
    let kept =
        matches!(setup.placement.guard(image.guard), HomeGuard::SameDevice | HomeGuard::Up(_));
    if !kept && rng.random_ratio(1, 3) {
        let start = rng.random_range(0..setup.home);
        let len = rng.random_range(1..30).min(setup.home - start);
        image.flush();
        past.by_another_on(image, Extent::new(start, len))?;
        stamp[1] = stamp[1].wrapping_add(1);
    }
    Ok(stamp)
}

/// A volume that never absorbed anything must have all data at home.
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
        // In pages that the client may have discarded, home may hold bytes of replicas.
        let zeroes = [0; SECTOR_BYTES as usize];
        if setup.replicas == 0 || model.survives(lba, &zeroes).is_err() {
            model
                .survives(lba, &sector[..])
                .map_err(|what| format!("in write-through, bare home: {what}"))?;
        }
    }
    Ok(())
}

/// Zeroes stand over one of the superblocks: nothing is lost.
fn zero_superblock(image: &mut Image, places: &[u64], rng: &mut Pcg64Mcg) {
    image.flush();
    let sectors = image.sectors_mut(Target::Area);
    let at = places[rng.random_range(0..places.len())] * PAGE_SECTORS;
    // The second page is not used.
    let len = if at == 0 { 2 * PAGE_SECTORS } else { PAGE_SECTORS };
    sectors[at as usize..(at + len) as usize].fill(Rc::new([0; SECTOR_BYTES as usize]));
}

/// Damages one sector of the area: one bit, all bits, zeroes, or unreadable. Returns which. In the
/// log of a machine that does not heal itself, only if the loss can be known.
fn rot(
    image: &mut Image,
    medium: &Medium,
    log: &Range<u64>,
    heals: bool,
    rng: &mut Pcg64Mcg,
) -> Option<usize> {
    let sectors = image.sectors_mut(Target::Area);
    // The metadata is at the front.
    let most = if rng.random_ratio(2, 3) { sectors.len() } else { sectors.len() / 8 };
    let at = rng.random_range(0..most);
    if !heals && log.contains(&(at as u64)) && !medium.is_vouched(log, at) {
        return None;
    }
    let sector = &mut sectors[at];
    let mut bytes = **sector;
    match rng.random_range(0..4u8) {
        0 => bytes[rng.random_range(0..SECTOR_BYTES as usize)] ^= 1 << rng.random_range(0..8),
        1 => rng.fill(&mut bytes[..]),
        2 => bytes.fill(0),
        _ => bytes = UNREADABLE,
    }
    *sector = Rc::new(bytes);
    Some(at)
}

/// The losses that a check finds. The check writes nothing.
fn check<M: Machine>(setup: &Setup, image: &Image) -> Result<Vec<String>, String> {
    let medium = Rc::new(RefCell::new(Medium::new(image.clone(), setup.shared)));
    let found = M::check(&mut Disk::new(Rc::clone(&medium), Target::Area));
    if medium.borrow().clock() == 0 {
        Ok(found)
    } else {
        Err("a check wrote to the device".to_owned())
    }
}
