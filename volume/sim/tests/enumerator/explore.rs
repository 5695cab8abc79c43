//! Runs a history, stops at each moment at which the devices changed, and examines what a power
//! failure would leave: attach, check, read everything, go on for a while, bring all data home.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::history::History;
use super::inspect::{go_on, inspect};
use super::live::{Live, Moment, RESIZING};
use super::machine::Machine;

/// The words in a failure that mean damage.
pub(super) const DAMAGED: &str = "of the area was damaged";

/// The number of cases examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Histories.
    pub(crate) histories: u64,
    /// States after a power failure.
    pub(crate) states: u64,
    /// Of these, states with another power failure during recovery.
    pub(crate) cut: u64,
    /// Of these, states with a damaged sector of the area.
    pub(crate) damaged: u64,
    /// Of these, states that the engine refused, or in which a request failed.
    pub(crate) told: u64,
    /// Of these, repaired states.
    pub(crate) mended: u64,
    /// Of these, states that the engine's death left, without a power failure.
    pub(crate) killed: u64,
    /// Of these, states in the middle of a resize.
    pub(crate) resized: u64,
    /// Of these, states in which somebody else wrote home before the engine was back.
    pub(crate) strangers: u64,
    /// Of these, states in which an older copy of the area was restored and refused.
    pub(crate) older: u64,
    /// Of these, states in which zeroes stood over a superblock.
    pub(crate) zeroed: u64,
    /// Of these, states in which a failed flush of the area may have lost pages.
    pub(crate) forgot: u64,
    /// Device I/Os that failed, in histories.
    pub(crate) failed: u64,
    /// Pages that the scrub compared, in histories.
    pub(crate) scrubbed: u64,
    /// In states: passes of the scrub, pages found damaged, and only copies among them.
    pub(crate) scrubs: [u64; 3],
    /// In the histories: pages moved by a plan, writes absorbed, pages destaged, reads of copies,
    /// copies proven.
    pub(crate) done: [u64; 5],
    /// In the histories: writes that went to copies in place, whole or in part.
    pub(crate) in_place: u64,
    /// In the histories: pages newer than home that a plan moved within the area.
    pub(crate) relocated: u64,
    /// In lives with a trail: pages appended, reads of the trail, rounds of the ring, copies that
    /// a write dropped, copies in doubt at an attach, copies proven.
    pub(crate) trail: [u64; 6],
}

impl Tally {
    fn count(&mut self, done: &[u64], trail: &[u64]) {
        let all = self.done.iter_mut().chain(&mut self.trail);
        all.zip(done.iter().chain(trail)).for_each(|(sum, n)| *sum += n);
    }

    /// Adds the counts of another tally.
    pub(crate) fn add(&mut self, other: Self) {
        self.histories += other.histories;
        self.states += other.states;
        self.cut += other.cut;
        self.damaged += other.damaged;
        self.told += other.told;
        self.mended += other.mended;
        self.killed += other.killed;
        self.resized += other.resized;
        self.strangers += other.strangers;
        self.older += other.older;
        self.zeroed += other.zeroed;
        self.forgot += other.forgot;
        self.failed += other.failed;
        self.scrubbed += other.scrubbed;
        self.in_place += other.in_place;
        self.relocated += other.relocated;
        self.scrubs.iter_mut().zip(other.scrubs).for_each(|(sum, n)| *sum += n);
        self.count(&other.done, &other.trail);
    }
}

/// A broken promise.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Its history.
    pub(crate) history: History,
    /// The step at which it happened, counted from 0.
    pub(crate) step: usize,
    /// The state that showed it; `None` if it showed before the power failed.
    pub(crate) choice: Option<u64>,
    /// In that state the engine died, and the power did not fail.
    pub(crate) killed: bool,
    /// In that state a sector of the area was damaged.
    pub(crate) damaged: bool,
    /// The finding.
    pub(crate) reason: String,
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

/// Which states are examined.
#[derive(Clone, Debug)]
pub(crate) enum Looks {
    /// This many at each moment, chosen by the history's seed.
    Each(u64),
    /// These at each moment.
    These(Vec<u64>),
    /// These at each moment, of the states that the engine's death leaves.
    Killed(Vec<u64>),
}

/// One state to examine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) choice: u64,
    pub(super) killed: bool,
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
                // A death leaves fewer choices: one state at every other moment is enough.
                looks.truncate(usize::from(rng.random::<bool>()));
                all.extend(these(&looks, true));
                all
            }
            Self::These(choices) => these(choices, false),
            Self::Killed(choices) => these(choices, true),
        }
    }
}

/// Runs a history and examines states on the way.
///
/// # Errors
/// The first broken promise, or a panic.
pub(crate) fn explore<M: Machine>(
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
                    Moment::Live(world) => world.medium.borrow().clock(),
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
    tally.count(&live.done, &live.trail);
    tally.failed += live.failed;
    tally.scrubbed += live.scrubbed;
    tally.in_place += live.in_place;
    tally.relocated += live.relocated;
    Ok(())
}

/// The same failure, or a similar one, from a history with as few steps as `runs` runs can find.
pub(crate) fn shrink<M: Machine>(failure: Box<Failure>, runs: usize) -> Box<Failure> {
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

/// A panic counts as a finding.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let words = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", words.unwrap_or("no words")))
    })
}
