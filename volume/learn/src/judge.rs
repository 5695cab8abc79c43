//! Whether a learned layout is worth its cost: BORG's "avoiding performance degradation" and
//! "timely reconfiguration" (FAST'09, 7) as one state machine. Observed costs go in, a decision
//! comes out.
//!
//! Three systems serve the same requests: the *actual* one; *vanilla*, which has no copies; and the
//! *trial*, which has the whole candidate plan as if its move were free. The *credit* pays for
//! moving: the disk time that the trial saves on requests after its plan was made. A plan moves
//! when it would already have saved the price of its move (the ski-rental rule: Karlin, Manasse,
//! Rudolph and Sleator, Algorithmica 1988).
//!
//! A *ledger* holds each day's loss: disk time for moving data, and time lost by copies, less time
//! saved by copies. Moving stops at three quarters of the allowance. Above that, copies are
//! bypassed at the first look in which they lose; the last quarter pays for the return to them. So
//! at every moment of every day the disk was busy at most `1 + allowance` times as long as
//! vanilla's, plus the loss of one look, whatever the requests were.

use seekless_block::Duration;

/// After this many failures the required proof stops growing: a thousandfold.
const FAILURES_MAX: u32 = 10;

/// Copies are forgotten after this many days in a row on which they lose, without counting moves.
const LOST_DAYS: u32 = 3;

/// The judge's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgeConfig {
    /// Most busy time that a day may cost above vanilla's, in thousandths of vanilla's.
    pub allowance: u32,
}

impl Default for JudgeConfig {
    /// One per cent.
    fn default() -> Self {
        Self { allowance: 10 }
    }
}

/// Disk busy time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Vanilla's.
    pub vanilla: Duration,
    /// The actual system's, for clients.
    pub actual: Duration,
    /// The actual system's, for moving data.
    pub moving: Duration,
    /// The trial's, for clients.
    pub trial: Duration,
}

/// What happened since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The day of all of it; never runs backwards.
    pub day: u64,
    /// The number of intervals of reconfiguration so far; never runs backwards.
    pub turn: u64,
    /// The costs.
    pub costs: Costs,
    /// Whether data may be moved now: the budget allows it, and no move is in progress.
    pub may_move: bool,
}

/// The decision for now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// Nothing.
    Keep,
    /// Make a candidate plan of the learned data, and call [`Judge::candidate_made`].
    Replan,
    /// Move a part of the candidate plan, and call [`Judge::moved`].
    Move(Means),
    /// Serve from home alone, and move nothing. Copies are kept, and stay equal to their homes.
    Bypass,
    /// Serve from the copies again.
    Resume,
    /// Forget every copy.
    Withdraw,
}

/// The limits of a move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// Most busy time.
    pub most: Duration,
    /// Credit over the price of the rest of the candidate plan; 1 if the credit pays for all of it.
    /// A part is worth its move if its share of the uses, times this, reaches its share of the
    /// price.
    pub proof: f64,
}

/// The price of a candidate plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// Busy time that moving all of it takes.
    pub all: Duration,
    /// Moves with less busy time than this are not worth a seek.
    pub least: Duration,
}

/// A day's account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Vanilla's busy time.
    pub vanilla: Duration,
    /// The actual system's, for clients.
    pub actual: Duration,
    /// The actual system's, for moving data.
    pub moving: Duration,
}

impl Ledger {
    /// Nanoseconds lost against vanilla, moves included; negative for a gain.
    #[must_use]
    pub const fn loss(&self) -> i128 {
        (self.actual.0 as i128 + self.moving.0 as i128) - self.vanilla.0 as i128
    }

    fn add(&mut self, costs: &Costs) {
        self.vanilla += costs.vanilla;
        self.actual += costs.actual;
        self.moving += costs.moving;
    }
}

/// Whether copies are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyUse {
    /// There are no copies.
    Vanilla,
    /// Reads are served from copies.
    Serving,
    /// Copies stand, and reads go home.
    Bypassed(Bypassed),
}

/// Copies on trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bypassed {
    /// The turn at which the trial began.
    turn: u64,
    /// Nanoseconds that they lost before.
    owed: i128,
    /// Nanoseconds that the trial has saved since.
    shown: i128,
    /// Nanoseconds that vanilla was busy since.
    vanilla: i128,
}

/// The judge of one volume's layout.
#[derive(Clone, Debug)]
pub struct Judge {
    config: JudgeConfig,
    copies: CopyUse,
    day: u64,
    turn: u64,
    today: Ledger,
    /// The least loss of copies so far today, in nanoseconds; negative for a saving.
    best: i128,
    price: Option<Price>,
    /// Nanoseconds saved by candidate plans and not yet spent.
    credit: i128,
    /// Days in a row on which copies lost.
    lost_days: u32,
    failures: u32,
}

impl Judge {
    /// A judge of a system without copies.
    #[must_use]
    pub const fn new(config: JudgeConfig) -> Self {
        Self {
            config,
            copies: CopyUse::Vanilla,
            day: 0,
            turn: 0,
            today: Ledger { vanilla: Duration(0), actual: Duration(0), moving: Duration(0) },
            best: 0,
            price: None,
            credit: 0,
            lost_days: 0,
            failures: 0,
        }
    }

    /// The account of the day of the last look.
    #[must_use]
    pub const fn today(&self) -> &Ledger {
        &self.today
    }

    /// How often a layout was given up, less one for every day since that ended with a gain. Each
    /// doubles the required proof.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// There is a new candidate plan.
    pub const fn candidate_made(&mut self, price: Price) {
        self.price = Some(price);
    }

    /// A part of the candidate plan was moved: this share of the remaining uses; and the price of
    /// the new rest.
    pub fn moved(&mut self, uses: f64, price: Price) {
        self.credit = (self.credit as f64 * (1.0 - uses.clamp(0.0, 1.0))) as i128;
        self.price = Some(price);
        if self.copies == CopyUse::Vanilla {
            (self.copies, self.lost_days) = (CopyUse::Serving, 0);
        }
    }

    /// A person installed a plan, and all of it is in place: it is used until it proves to lose.
    pub fn adopted(&mut self) {
        (self.copies, self.lost_days) = (CopyUse::Serving, 0);
        self.credit = self.credit.min(0);
        self.price = None;
    }

    /// With these limits no part of the candidate plan is worth moving: the judge asks again with a
    /// quarter more.
    pub const fn nothing_for(&mut self, means: &Means) {
        if let Some(p) = &mut self.price {
            p.least = Duration(means.most.0.saturating_add(means.most.0 / 4));
        }
    }

    /// Takes in the costs, and decides.
    pub fn look(&mut self, look: &Look) -> Decision {
        if look.day != self.day {
            self.new_day(look.day);
        }
        let Costs { vanilla, actual, trial, .. } = look.costs;
        self.today.add(&look.costs);
        let better = i128::from(actual.0) - i128::from(trial.0);
        match &mut self.copies {
            CopyUse::Bypassed(b) => {
                b.shown += better;
                b.vanilla += i128::from(vanilla.0);
            }
            CopyUse::Vanilla | CopyUse::Serving if self.price.is_some() => self.credit += better,
            CopyUse::Vanilla | CopyUse::Serving => {}
        }
        self.decide(look)
    }

    fn decide(&mut self, look: &Look) -> Decision {
        let loss = self.today.loss();
        let limit = self.share(self.today.vanilla, 3);
        // Only clients' time: time for moves is spent, and no reason to leave copies that serve
        // well.
        let slower = loss - i128::from(self.today.moving.0);
        self.best = self.best.min(slower);
        let slump = slower - self.best;
        let demand = 1i128 << self.failures;
        match self.copies {
            CopyUse::Serving | CopyUse::Bypassed(_) if self.lost_days >= LOST_DAYS => {
                self.withdraw(look.turn)
            }
            CopyUse::Serving if loss > limit && slump > 0 => {
                let turn = look.turn;
                self.copies =
                    CopyUse::Bypassed(Bypassed { turn, owed: slump, shown: 0, vanilla: 0 });
                Decision::Bypass
            }
            CopyUse::Bypassed(b)
                if b.shown >= b.owed * demand
                    && (loss <= limit - b.owed
                        || self.share(Duration(b.vanilla as u64), 1) >= b.owed) =>
            {
                self.copies = CopyUse::Serving;
                self.best = slower;
                Decision::Resume
            }
            CopyUse::Bypassed(b) if look.turn > b.turn + 1 => self.withdraw(look.turn),
            CopyUse::Bypassed(_) => Decision::Keep,
            _ if look.turn > self.turn => {
                self.turn = look.turn;
                Decision::Replan
            }
            CopyUse::Vanilla | CopyUse::Serving => {
                let Some(price) = self.price.filter(|p| look.may_move && p.all.0 > 0) else {
                    return Decision::Keep;
                };
                // Half of today's savings may pay for moves. The other half keeps copies from being
                // bypassed.
                let moved = i128::from(self.today.moving.0);
                let most = self.share(self.today.vanilla, 2) + (-slower).max(0) / 2
                    - slower.max(0)
                    - moved;
                let most = most.min(self.credit / demand);
                if most < i128::from(price.least.0.max(1)) {
                    return Decision::Keep;
                }
                let proof = self.credit as f64 / (demand as f64 * price.all.0 as f64);
                let most = Duration(u64::try_from(most).unwrap_or(u64::MAX));
                Decision::Move(Means { most, proof })
            }
        }
    }

    /// A number of quarters of the allowance for a time that vanilla was busy, in nanoseconds.
    fn share(&self, vanilla: Duration, quarters: i128) -> i128 {
        i128::from(vanilla.0) * i128::from(self.config.allowance) * quarters / 4000
    }

    /// Credit of failed plans does not count for later ones.
    fn withdraw(&mut self, turn: u64) -> Decision {
        self.failures = (self.failures + 1).min(FAILURES_MAX);
        self.credit = self.credit.min(0);
        self.copies = CopyUse::Vanilla;
        self.turn = turn;
        self.lost_days = 0;
        Decision::Withdraw
    }

    /// A day lowers the credit by a fifth: about five days count, as many as an access graph
    /// remembers.
    fn new_day(&mut self, day: u64) {
        let slower = self.today.loss() - i128::from(self.today.moving.0);
        if self.today.loss() < 0 {
            self.failures = self.failures.saturating_sub(1);
        }
        match slower.signum() {
            1 if self.copies != CopyUse::Vanilla => self.lost_days += 1,
            -1 => self.lost_days = 0,
            _ => {}
        }
        self.credit = self.credit * 4 / 5;
        self.today = Ledger::default();
        self.best = 0;
        self.day = day;
    }
}

#[cfg(test)]
mod tests;
