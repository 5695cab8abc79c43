//! The judge against hostile costs: the bound holds for any sequence.

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// What a day's steps are like: per step vanilla's time in ms, how much slower (or faster) copies
/// are in thousandths, how much better the plan on trial is, and how far the cost of a move is off
/// its price, in hundredths.
type Step = (u64, i64, i64, u64);

fn step() -> impl Strategy<Value = Step> {
    (1u64..20, -900i64..900, -900i64..900, 0u64..200)
}

/// A world with the costs of these steps, which obeys the judge.
#[derive(Default)]
struct World {
    serving: bool,
    stands: bool,
    /// The cost of a started move, in the next look.
    moving: u64,
    moved: u32,
}

/// The account of one day, and the most that one look lost beyond what was granted.
#[derive(Clone, Copy, Debug, Default)]
struct Day {
    vanilla: u64,
    spent: u64,
    sudden: u64,
}

/// Runs the days; returns their accounts, and the moved amount.
fn run(config: JudgeConfig, days: &[Vec<Step>]) -> (Vec<Day>, u32) {
    let mut judge = Judge::new(config);
    let mut world = World::default();
    let mut accounts = Vec::new();
    for (day, steps) in days.iter().enumerate() {
        let mut account = Day::default();
        for (i, &(vanilla_ms, copies, trial, off)) in steps.iter().enumerate() {
            let vanilla = vanilla_ms * MS;
            let scaled =
                |thousandths: i64| (vanilla as i64 + vanilla as i64 * thousandths / 1000) as u64;
            let actual = if world.serving { scaled(copies) } else { vanilla };
            let moving = std::mem::take(&mut world.moving);
            let costs = Costs {
                vanilla: Duration(vanilla),
                actual: Duration(actual),
                moving: Duration(moving),
                trial: Duration(scaled(trial)),
            };
            account.vanilla += vanilla;
            account.spent += actual + moving;
            account.sudden = account.sudden.max(actual.saturating_sub(vanilla));
            let last = i + 1 == steps.len();
            let look = Look { day: day as u64, turn: day as u64, costs, may_move: !last };
            match judge.look(&look) {
                Decision::Keep => {}
                Decision::Replan => {
                    judge.candidate_made(Price { all: Duration(900 * MS), least: Duration(MS) });
                }
                Decision::Move(means) => {
                    assert!(!last, "what is moved now would be another day's");
                    world.moving = means.most.0 * off.min(100) / 100;
                    world.moved += 1;
                    (world.serving, world.stands) = (true, true);
                    judge.moved(0.01, Price { all: Duration(900 * MS), least: Duration(MS) });
                }
                Decision::Bypass => {
                    assert!(world.serving);
                    world.serving = false;
                }
                Decision::Resume => {
                    assert!(world.stands && !world.serving);
                    world.serving = true;
                }
                Decision::Withdraw => {
                    assert!(world.stands);
                    (world.serving, world.stands) = (false, false);
                }
            }
        }
        accounts.push(account);
    }
    (accounts, world.moved)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Whatever the costs, no day loses more than the allowance and the loss of a single look.
    #[test]
    fn no_day_loses_more_than_the_allowance(
        days in prop::collection::vec(prop::collection::vec(step(), 1..400), 1..6),
        allowance in 1u32..50,
    ) {
        let (accounts, _) = run(JudgeConfig { allowance }, &days);
        for (day, a) in accounts.iter().enumerate() {
            let most = a.vanilla + a.vanilla * u64::from(allowance) / 1000 + a.sudden;
            prop_assert!(a.spent <= most, "day {day}: {a:?}, allowance {allowance}");
        }
    }

    /// The same if every day begins with copies that serve well and then turn bad: the worst case.
    #[test]
    fn gains_of_the_morning_do_not_pay_for_losses_of_the_evening(
        good in 1usize..300, bad in 1usize..300, gain in 1i64..900, loss in 1i64..900, days in 1usize..8,
    ) {
        let day: Vec<Step> = (0..good).map(|_| (10, -gain, -900, 100))
            .chain((0..bad).map(|_| (10, loss, -900, 100))).collect();
        let (accounts, _) = run(JudgeConfig::default(), &vec![day; days]);
        for (day, a) in accounts.iter().enumerate() {
            let most = a.vanilla + a.vanilla / 100 + a.sudden;
            prop_assert!(a.spent <= most, "day {day}: {a:?}");
        }
    }
}

fn days(n: usize, steps: usize, step: Step) -> Vec<Vec<Step>> {
    vec![vec![step; steps]; n]
}

#[test]
fn what_saves_candidate_made_is_moved_and_saves() {
    let (accounts, moved) = run(JudgeConfig::default(), &days(10, 1000, (10, -300, -400, 100)));
    assert!(moved > 10, "{moved}");
    let last = accounts[9];
    assert!(last.spent * 100 < last.vanilla * 90, "{last:?}");
}

#[test]
fn what_does_not_save_candidate_made_is_never_moved() {
    for trial in [0, 1, 300] {
        let (accounts, moved) =
            run(JudgeConfig::default(), &days(10, 1000, (10, -300, trial, 100)));
        assert_eq!(moved, 0);
        assert!(accounts.iter().all(|a| a.spent == a.vanilla));
    }
}

/// The simulation says that the plan saves, but it never does: each time, the required proof
/// doubles.
#[test]
fn a_plan_that_fails_is_withdrawn_and_the_next_must_prove_twice_as_much() {
    let mut judge = Judge::new(JudgeConfig::default());
    let mut moves = Vec::new();
    let (mut serving, mut proof_since) = (false, 0u64);
    for i in 0..200_000u64 {
        let vanilla = Duration(10 * MS);
        let actual = if serving { Duration(11 * MS) } else { vanilla };
        let costs = Costs { vanilla, actual, trial: Duration(9 * MS), ..Costs::default() };
        proof_since += 1;
        let day = i / 1000;
        match judge.look(&Look { day, turn: day, costs, may_move: true }) {
            Decision::Replan => {
                judge.candidate_made(Price { all: Duration(500 * MS), least: Duration(40 * MS) });
            }
            Decision::Move(means) => {
                assert!(means.proof > 0.0);
                serving = true;
                judge.moved(1.0, Price::default());
            }
            Decision::Bypass => serving = false,
            Decision::Resume => serving = true,
            Decision::Withdraw => {
                serving = false;
                moves.push(proof_since);
                proof_since = 0;
            }
            Decision::Keep => {}
        }
    }
    assert!(moves.len() >= 3, "{moves:?}");
    assert!(judge.failures() >= 3, "{}", judge.failures());
    let (first, last) = (moves[1], *moves.last().unwrap_or(&0));
    assert!(last > first, "retried at ever longer intervals: {moves:?}");
}

#[test]
fn nothing_is_moved_while_it_may_not_be() {
    let mut judge = Judge::new(JudgeConfig::default());
    for i in 0..10_000u64 {
        let costs = Costs {
            vanilla: Duration(10 * MS),
            actual: Duration(10 * MS),
            trial: Duration(MS),
            ..Costs::default()
        };
        let decision = judge.look(&Look { day: i / 1000, turn: i / 1000, costs, may_move: false });
        if decision == Decision::Replan {
            judge.candidate_made(Price { all: Duration(5 * MS), least: Duration(MS) });
        }
        assert!(!matches!(decision, Decision::Move(_)));
    }
    let costs = Costs::default();
    let now = judge.look(&Look { day: 9, turn: 9, costs, may_move: true });
    assert!(matches!(now, Decision::Move(m) if m.proof > 1.0), "{now:?}");
}
