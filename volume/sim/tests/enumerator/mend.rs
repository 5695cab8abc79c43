//! The administrator's help where the engine alone cannot go on: a repair, and a resize that a
//! power failure interrupted.

use std::cell::RefCell;
use std::rc::Rc;

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use seekless_engine::Target;

use super::live::{Shared, attach};
use super::machine::{Machine, Mended, Setup, Stamp};
use super::medium::{Disk, Image, Medium};
use super::world::Past;

/// Repairs the area of a state, without loss if possible, else with loss; the power may fail
/// meanwhile. Clients no longer expect data that was reported as lost. `None` if no area is left to
/// be repaired.
///
/// # Errors
/// If a repair without loss writes, loses data without a report, or loses data in an area that is
/// not `damaged`.
pub(crate) fn mend<M: Machine>(
    setup: &Setup,
    mut image: Image,
    past: &mut Past,
    damaged: bool,
    rng: &mut Pcg64Mcg,
) -> Result<Option<Image>, String> {
    let mut power = rng.random_ratio(1, 3).then(|| rng.random_range(1..8));
    let mut lose = false;
    if power.is_some() && damaged {
        // The power may fail after the repair, before its report.
        let medium = Rc::new(RefCell::new(Medium::new(image.clone(), setup.shared)));
        let whole = M::repair(&mut Disk::new(medium, Target::Area), true);
        if let Ok(Mended::But(lost)) = whole {
            past.expect_less(setup.home, lost);
        }
    }
    loop {
        let medium = Rc::new(RefCell::new(Medium::new(image.clone(), setup.shared)));
        medium.borrow_mut().set_power(power);
        let ended = M::repair(&mut Disk::new(Rc::clone(&medium), Target::Area), lose);
        if medium.borrow().is_off() {
            power = None;
            image = medium.borrow().crash(rng);
            past.model.crash();
            continue;
        }
        match ended {
            Ok(Mended::WouldLose) if medium.borrow().clock() > 0 => {
                return Err("a repair that was not to lose anything wrote".to_owned());
            }
            Ok(Mended::WouldLose) if damaged && !lose => {
                lose = true;
                // The losses may be real even if the power fails before the report.
                power = None;
            }
            Ok(Mended::But(lost)) if damaged || lost.as_ref().is_some_and(Vec::is_empty) => {
                past.expect_less(setup.home, lost);
                let image = medium.borrow().current().clone();
                return Ok(Some(image));
            }
            Err(_) if damaged => return Ok(None),
            other => return Err(format!("a repair, allowed to lose: {lose}, ends as {other:?}")),
        }
    }
}

/// A resize in progress: home is complete, the area was drained and detached.
pub(crate) struct Resize<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) medium: &'a Shared,
    pub(crate) past: &'a Past,
}

impl Resize<'_> {
    /// Makes a whole area again out of the state after a power failure: attaches it, resizes it
    /// again, or formats it.
    ///
    /// # Errors
    /// If none of that works.
    pub(crate) fn cut<M: Machine>(
        &self,
        stamp: Stamp,
        rng: &mut Pcg64Mcg,
    ) -> Result<(Image, Past), String> {
        let mut past = self.past.clone();
        past.model.crash();
        let image = self.medium.borrow().crash(rng);
        let again = |image: &Image| {
            let medium = Rc::new(RefCell::new(Medium::new(image.clone(), self.setup.shared)));
            (Disk::new(Rc::clone(&medium), Target::Area), medium)
        };
        let (_, medium) = again(&image);
        if attach::<M>(self.setup, &medium, stamp).is_ok() {
            return Ok((image, past));
        }
        let (mut area, medium) = again(&image);
        if !M::resize(self.setup, &mut area)? {
            M::format(self.setup, &mut area, 2)?;
        }
        let image = medium.borrow().current().clone();
        Ok((image, past))
    }
}
