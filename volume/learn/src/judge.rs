//! Whether a learned layout is worth what it costs: BORG's "avoiding performance degradation" and "timely
//! reconfiguration" (FAST'09, 7) as one state machine. Costs that others observed go in, a decision comes out.
//!
//! Three systems are asked the same requests: the *actual* one; *vanilla*, which has no copy; and *paper*, which
//! has the whole plan in question as if moving it had cost nothing. What the paper system saves, on requests that came
//! after its plan was made, is the *credit* that moving may be paid from: a plan moves when it would already
//! have saved what moving it costs (the ski-rental rule: Karlin, Manasse, Rudolph and Sleator, Algorithmica 1988).
//!
//! Beside that stands a *ledger* for each day: what was moved, and what copies made slower, less what they made
//! faster. Moving stops where that comes to three quarters of the allowance. Beyond, copies are bypassed at the first look
//! in which they lose, and what coming back to them may cost is kept to the last quarter. So at every moment of every day the disk
//! was busy at most `1 + allowance` times as long as vanilla's, and what one look lost at once, whatever the requests were.

use seekless_block::Duration;

/// Failures after which the proof that is asked for grows no more: a thousandfold.
const FAILURES_MAX: u32 = 10;

/// Days in a row on which copies lose, moving not counted, before they are forgotten.
const LOST_DAYS: u32 = 3;

/// What the judge may risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgeConfig {
    /// Busy time that a day may cost more than vanilla's, in thousandths of vanilla's.
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
    /// The paper system's, for clients.
    pub paper: Duration,
}

/// What happened since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The day that all of it belongs to; never runs backwards.
    pub day: u64,
    /// How many intervals of reconfiguration have passed; never runs backwards.
    pub turn: u64,
    /// What it cost.
    pub costs: Costs,
    /// Whether data may be moved now: the budget allows it, and nothing is being moved.
    pub may_move: bool,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// Nothing.
    Keep,
    /// Make a plan of what was learned, put it on paper, and call [`Judge::on_paper`].
    Replan,
    /// Adopt a part of the plan on paper, and call [`Judge::moved`].
    Move(Means),
    /// Serve from home alone, and move nothing. Copies are kept, and kept equal to their homes.
    Bypass,
    /// Serve from the copies again.
    Resume,
    /// Forget every copy.
    Withdraw,
}

/// What may be moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// Busy time that it may take.
    pub most: Duration,
    /// How often the plan on paper has earned what is left of its price: 1 where it has, as a whole. A part is worth
    /// moving where its share of the uses, times this, reaches its share of the price.
    pub proof: f64,
}

/// A plan on paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// Busy time that moving all of it takes.
    pub all: Duration,
    /// Busy time below which a move is not worth the way of the head.
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
    /// Nanoseconds lost against vanilla, moving counted; negative where they were gained.
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

/// How copies stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is none.
    Vanilla,
    /// They are served from.
    Serving,
    /// They are not served from.
    Bypassed(Bypassed),
}

/// Copies on trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bypassed {
    /// Since this turn.
    turn: u64,
    /// Nanoseconds they lost before.
    owed: i128,
    /// Nanoseconds they have saved on paper since.
    shown: i128,
    /// Nanoseconds that vanilla was busy since.
    vanilla: i128,
}

/// The judge of one volume's layout.
#[derive(Clone, Debug)]
pub struct Judge {
    config: JudgeConfig,
    state: State,
    day: u64,
    turn: u64,
    today: Ledger,
    /// Nanoseconds that copies had lost when they had lost least today; negative where they had saved.
    best: i128,
    price: Option<Price>,
    /// Nanoseconds that plans on paper have saved and that have not been spent.
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
            state: State::Vanilla,
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

    /// How often a layout was given up; less one for every day since that ended with a gain. The proof asked for doubles with each.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// A new plan stands on paper.
    pub const fn on_paper(&mut self, price: Price) {
        self.price = Some(price);
    }

    /// A part of the plan on paper was adopted: this share of the uses of what was left; and the price of what is left now.
    pub fn moved(&mut self, uses: f64, price: Price) {
        self.credit = (self.credit as f64 * (1.0 - uses.clamp(0.0, 1.0))) as i128;
        self.price = Some(price);
        if self.state == State::Vanilla {
            (self.state, self.lost_days) = (State::Serving, 0);
        }
    }

    /// Someone had a plan installed, and all of it stands: it is served from until it shows that it loses.
    pub fn adopted(&mut self) {
        (self.state, self.lost_days) = (State::Serving, 0);
        self.credit = self.credit.min(0);
        self.price = None;
    }

    /// With these means nothing of the plan on paper is worth moving: asks again when there is a quarter more.
    pub const fn nothing_for(&mut self, means: &Means) {
        if let Some(p) = &mut self.price {
            p.least = Duration(means.most.0.saturating_add(means.most.0 / 4));
        }
    }

    /// Takes in what happened, and decides.
    pub fn look(&mut self, look: &Look) -> Decision {
        if look.day != self.day {
            self.new_day(look.day);
        }
        let Costs { vanilla, actual, paper, .. } = look.costs;
        self.today.add(&look.costs);
        let better = i128::from(actual.0) - i128::from(paper.0);
        match &mut self.state {
            State::Bypassed(b) => {
                b.shown += better;
                b.vanilla += i128::from(vanilla.0);
            }
            State::Vanilla | State::Serving if self.price.is_some() => self.credit += better,
            State::Vanilla | State::Serving => {}
        }
        self.decide(look)
    }

    fn decide(&mut self, look: &Look) -> Decision {
        let loss = self.today.loss();
        let limit = self.share(self.today.vanilla, 3);
        // Of clients alone: what was moved is spent, and no reason to leave copies that serve well.
        let slower = loss - i128::from(self.today.moving.0);
        self.best = self.best.min(slower);
        let slump = slower - self.best;
        let demand = 1i128 << self.failures;
        match self.state {
            State::Serving | State::Bypassed(_) if self.lost_days >= LOST_DAYS => {
                self.withdraw(look.turn)
            }
            State::Serving if loss > limit && slump > 0 => {
                let turn = look.turn;
                self.state = State::Bypassed(Bypassed { turn, owed: slump, shown: 0, vanilla: 0 });
                Decision::Bypass
            }
            State::Bypassed(b)
                if b.shown >= b.owed * demand
                    && (loss <= limit - b.owed
                        || self.share(Duration(b.vanilla as u64), 1) >= b.owed) =>
            {
                self.state = State::Serving;
                self.best = slower;
                Decision::Resume
            }
            State::Bypassed(b) if look.turn > b.turn + 1 => self.withdraw(look.turn),
            State::Bypassed(_) => Decision::Keep,
            _ if look.turn > self.turn => {
                self.turn = look.turn;
                Decision::Replan
            }
            State::Vanilla | State::Serving => {
                let Some(price) = self.price.filter(|p| look.may_move && p.all.0 > 0) else {
                    return Decision::Keep;
                };
                // Half of what was saved today may be spent on more: the other half keeps what stands from being bypassed.
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

    /// So many quarters of the allowance for a time that vanilla was busy, in nanoseconds.
    fn share(&self, vanilla: Duration, quarters: i128) -> i128 {
        i128::from(vanilla.0) * i128::from(self.config.allowance) * quarters / 4000
    }

    /// Evidence of plans that failed is none for those to come.
    fn withdraw(&mut self, turn: u64) -> Decision {
        self.failures = (self.failures + 1).min(FAILURES_MAX);
        self.credit = self.credit.min(0);
        self.state = State::Vanilla;
        self.turn = turn;
        self.lost_days = 0;
        Decision::Withdraw
    }

    /// Evidence fades by a fifth: about five days' worth count, as many as an access graph remembers.
    fn new_day(&mut self, day: u64) {
        let slower = self.today.loss() - i128::from(self.today.moving.0);
        if self.today.loss() < 0 {
            self.failures = self.failures.saturating_sub(1);
        }
        match slower.signum() {
            1 if self.state != State::Vanilla => self.lost_days += 1,
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
