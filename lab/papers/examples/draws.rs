//! Expected rotational costs against ten million draws each: `cargo run --release -p
//! seekless-papers --example draws`. A draw is a set of k blocks of a cylinder and a position of
//! arrival; the platter turns until all blocks have been read.
#![allow(clippy::print_stdout)]

use seekless_block::Dice;
use seekless_papers::clustering::{Rotation, Start};

const DRAWS: u32 = 10_000_000;

fn main() {
    // RZ55 with blocks of 2 KiB, and two other geometries.
    for (positions, tracks, k) in
        [(9u32, 15u32, 2u32), (9, 15, 8), (9, 15, 30), (64, 4, 12), (13, 8, 20)]
    {
        let mut dice = Dice::new(1990 + u64::from(k));
        let mut below = |n: u64| dice.below(n);
        let mut blocks: Vec<u32> = (0..positions * tracks).collect();
        let mut counts = vec![0u32; positions as usize];
        let (mut arrival, mut paper) = ((0.0, 0.0), (0.0, 0.0));
        for _ in 0..DRAWS {
            counts.fill(0);
            for i in 0..k {
                let j = i + below(u64::from(positions * tracks - i)) as u32;
                blocks.swap(i as usize, j as usize);
                counts[(blocks[i as usize] % positions) as usize] += 1;
            }
            let most = counts.iter().max().copied().unwrap_or(0);
            let first = counts.iter().position(|c| *c == most).unwrap_or(0);
            let last = counts.iter().rposition(|c| *c == most).unwrap_or(0);
            let s = f64::from(positions);
            let add = |sum: &mut (f64, f64), cost: f64| *sum = (sum.0 + cost, sum.1 + cost * cost);
            add(&mut paper, 0.5 + f64::from(most - 1) + (last - first + 1) as f64 / s);
            let from = below(u64::from(positions)) as usize;
            let mut slots = 0;
            let mut left = k;
            let mut at = from;
            while left > 0 {
                if counts[at] > 0 {
                    counts[at] -= 1;
                    left -= 1;
                }
                at = (at + 1) % positions as usize;
                slots += 1;
            }
            add(&mut arrival, (f64::from(slots) + 0.5) / s);
        }
        for (start, sum) in [(Start::Paper, paper), (Start::Arrival, arrival)] {
            let n = f64::from(DRAWS);
            let mean = sum.0 / n;
            let error = ((sum.1 / n - mean * mean) / n).sqrt();
            let exact = Rotation::new(positions, tracks, k, start).ordered(k);
            println!(
                "{positions} x {tracks}, {k} requests, {start:?}: drawn {mean:.6} ± {error:.6}, counted {exact:.6}, {:.1} errors off",
                (mean - exact).abs() / error
            );
        }
    }
}
