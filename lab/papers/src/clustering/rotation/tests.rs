//! Counted costs against brute force, random draws and the paper.

use super::*;
use seekless_block::Dice;

/// The cost of one configuration, by the words of the paper and by turning a platter. The head
/// arrives exactly at the beginning of the position `passing`.
fn watched(counts: &[u32], start: Start, passing: usize) -> (u64, u64) {
    let (s, most) = (counts.len() as u64, counts.iter().max().copied().unwrap_or(0));
    let fullest: Vec<u64> =
        (0..counts.len()).filter(|&i| counts[i] == most).map(|i| i as u64).collect();
    match start {
        Start::Paper => {
            let apart = fullest[fullest.len() - 1] - fullest[0] + 1;
            // In units of 1 / 2 s: half a revolution, the whole revolutions, the partial one.
            (s + 2 * s * u64::from(most - 1) + 2 * apart, 2 * s)
        }
        Start::Arrival => {
            // Block by block: the platter turns until every block is read.
            let mut left = counts.to_vec();
            let (mut at, mut slots) = (passing, 0);
            while left.iter().any(|n| *n > 0) {
                left[at] = left[at].saturating_sub(1);
                at = (at + 1) % counts.len();
                slots += 1;
            }
            // And half a slot until the first begins.
            (2 * slots + 1, 2 * s)
        }
    }
}

/// The mean over every set of k blocks and every position of arrival.
fn brute(s: u32, t: u32, k: u32, start: Start) -> (BigUint, BigUint) {
    let all = s * t;
    let (mut sum, mut ways) = (0u64, 0u64);
    for set in (0u32..1 << all).filter(|x| x.count_ones() == k) {
        let counts: Vec<u32> =
            (0..s).map(|p| (0..t).map(|h| (set >> (h * s + p)) & 1).sum()).collect();
        for passing in 0..s as usize {
            sum += watched(&counts, start, passing).0;
            ways += 1;
        }
    }
    (BigUint::from(sum), BigUint::from(ways * 2 * u64::from(s)))
}

fn equals(exact: &Exact, numerator: &BigUint, denominator: &BigUint) -> bool {
    &exact.numerator * denominator == numerator * &exact.denominator
}

#[test]
fn counting_is_brute_force_on_tiny_cylinders() {
    for (s, t) in [(1, 1), (1, 4), (5, 1), (2, 2), (3, 2), (2, 5), (4, 3), (3, 4), (7, 2)] {
        for start in [Start::Paper, Start::Arrival] {
            let ours = Rotation::new(s, t, u32::MAX, start);
            assert_eq!((ours.most(), ours.blocks()), (s * t, s * t));
            let exact = exact(s, t, s * t, start);
            for k in 1..=s * t {
                let (n, d) = brute(s, t, k, start);
                let exact = &exact[k as usize - 1];
                assert!(
                    equals(exact, &n, &d),
                    "{s} x {t}, {k}, {start:?}: {exact:?} is not {n}/{d}"
                );
            }
        }
    }
}

#[test]
fn two_blocks_are_the_papers_example() {
    // Section 5.2: s C(t, 2) ways at 1 + 1/s, and (s - d) t^2 ways at (d + 1)/s; half a revolution
    // before.
    let (s, t) = (9u64, 15u64);
    let mut sum = BigUint::from(s * t * (t - 1) / 2 * (s + 1));
    sum += (1..s).map(|d| (s - d) * t * t * (d + 1)).sum::<u64>();
    let ways = s * t * (s * t - 1) / 2;
    let (n, d) = (sum * 2u8 + BigUint::from(ways * s), BigUint::from(2 * s * ways));
    assert!(equals(&exact(9, 15, 2, Start::Paper)[1], &n, &d));
    // One block: half a revolution and its transfer, by either account.
    for start in [Start::Paper, Start::Arrival] {
        let one = Rotation::new(9, 15, 1, start);
        assert!((one.ordered(1) - (0.5 + 1.0 / 9.0)).abs() < 1e-15);
        assert_eq!((one.ordered(0), one.ordered(7)), (0.0, one.ordered(1)));
    }
    // All blocks of a cylinder: a revolution for each track, and the delay before the first block.
    let all = Rotation::new(9, 15, 135, Start::Arrival);
    assert!((all.ordered(135) - (15.0 + 1.0 / 18.0)).abs() < 1e-12);
}

#[test]
fn a_monte_carlo_agrees_within_its_error() {
    // RZ55 with blocks of 2 KiB and of 512 B, and two other geometries.
    for (s, t, k) in [(9, 15, 4), (9, 15, 40), (36, 15, 20), (64, 4, 12), (13, 8, 60)] {
        for start in [Start::Paper, Start::Arrival] {
            let seed = 1990 + u64::from(k);
            let (mean, error) = drawn(s, t, k, start, 40_000, seed);
            let ours = Rotation::new(s, t, k, start).ordered(k);
            assert!(
                (mean - ours).abs() < 4.0 * error,
                "{s} x {t}, {k}: {mean} ± {error}, {ours}; seed {seed}"
            );
            assert!(error < 0.01, "{error}");
        }
    }
}

/// Mean and its standard error over draws.
fn drawn(s: u32, t: u32, k: u32, start: Start, draws: u32, seed: u64) -> (f64, f64) {
    let mut dice = Dice::new(seed);
    let mut blocks: Vec<u32> = (0..s * t).collect();
    let (mut sum, mut squares) = (0.0, 0.0);
    for _ in 0..draws {
        let mut counts = vec![0; s as usize];
        for i in 0..k {
            let j = i + dice.below(u64::from(s * t - i)) as u32;
            blocks.swap(i as usize, j as usize);
            counts[(blocks[i as usize] % s) as usize] += 1;
        }
        let (n, d) = watched(&counts, start, dice.below(u64::from(s)) as usize);
        let cost = n as f64 / d as f64;
        sum += cost;
        squares += cost * cost;
    }
    let n = f64::from(draws);
    let mean = sum / n;
    (mean, ((squares / n - mean * mean).max(0.0) / n).sqrt())
}

#[test]
fn a_large_cylinder_is_counted_too() {
    let r = Rotation::new(250, 4, 300, Start::Arrival);
    let costs: Vec<f64> = (1..=300).map(|k| r.ordered(k)).collect();
    assert!(costs.windows(2).all(|w| w[1] > w[0]) && costs[299] < 4.5, "{costs:?}");
    assert!(r.arriving(300) > 100.0);
}
