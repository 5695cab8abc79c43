//! Our answers to the paper's claims (`claims/clustering.toml`): with the paper's account of
//! rotation, and with ours.

use seekless_disk::clustering::{Access, Mixture, PERFECT};

use super::figures::{BLOCK, BLOCKS, Effort, Loaded, QUEUES, imaginary, rz55};
use super::{Order, Point, Start};
use crate::PaperError;
use crate::claims::{Answerer, Answers, BOTH, Beyond, Judged, Paper, least, most};

/// The longest queue of the figures.
const LONG: u32 = 300;
/// "Short queue lengths (less than 50 requests)".
const SHORT: u32 = 50;

/// The claims, judged. Both accounts of rotation answer, whichever the figures have.
pub(super) fn judged(effort: Effort) -> Result<Judged, PaperError> {
    let mut answers = Answers::default();
    one_request(&mut answers);
    for who in BOTH {
        let start = match who {
            Paper => Start::Paper,
            Beyond => Start::Arrival,
        };
        loaded(&mut answers, who, Effort { start, ..effort });
    }
    Judged::new(include_str!("../../claims/clustering.toml"), &answers)
}

/// A disk with one request at a time.
fn one_request(answers: &mut Answers) {
    let arm = imaginary();
    let n = arm.cylinders();
    let (even, perfect) = (Access::random(n), Access::perfect(n));
    let seek = |a: &Access| arm.light(a, BLOCK).seek_ms;
    let shorter = |a: &Access| 1.0 - seek(a) / seek(&even);
    let utilization = |a: &Access| arm.light(a, BLOCK).utilization;
    for (id, ours) in [
        ("hottest.tenth", Mixture(PERFECT.to_vec()).hottest(0.1)),
        ("seek.perfect", shorter(&perfect)),
        ("seek.perfect.ms", seek(&perfect)),
        ("seek.normal.ms", seek(&Access::normal(n, 0.03))),
        ("seek.drift", shorter(&perfect.drifted(0.2))),
        ("seek.lazy5", shorter(&perfect.lazily(0.05))),
        ("seek.lazy20", shorter(&perfect.lazily(0.2)) / shorter(&perfect)),
        ("light.utilization", utilization(&perfect) / utilization(&even) - 1.0),
        ("buckets.most", f64::from(most_buckets(rz55().cylinders()))),
    ] {
        answers.add(Paper, id, ours);
    }
}

/// The most buckets of 2, 4, 8 and more cylinders that lie on a disk side by side.
fn most_buckets(cylinders: u32) -> u32 {
    (1..31).take_while(|b| (2u32 << b) - 2 <= cylinders).last().unwrap_or_default()
}

/// A loaded disk.
fn loaded(answers: &mut Answers, who: Answerer, effort: Effort) {
    let disk = Loaded::new(&rz55(), BLOCK, LONG, effort);
    let n = disk.arm.cylinders();
    let (random, perfect) = (Access::random(n), Access::perfect(n));
    let at = |a: &Access, q, order| disk.point(a, q, order).utilization;
    let times = |q, order| at(&perfect, q, order) / at(&random, q, Order::Arrival);
    if who == Paper {
        let alone = QUEUES.map(|q| times(q, Order::Arrival) - 1.0);
        answers.add(who, "alone.least", least(&alone));
        answers.add(who, "alone.most", most(&alone));
    }
    let double = times(LONG, Order::Position);
    answers.add(who, "ordered.300", double);
    answers.add(who, "ordered.300.bound", double);
    let short = QUEUES.into_iter().filter(|q| *q < SHORT);
    let short: Vec<f64> = short.map(|q| times(q, Order::Position)).collect();
    answers.add(who, "short.least", least(&short));
    answers.add(who, "short.most", most(&short));

    let long = |a: &Access| at(a, LONG, Order::Position);
    let concentrated = [
        ("random", at(&random, LONG, Order::Arrival)),
        ("perfect", long(&perfect)),
        ("half in use", long(&Access::concentrated(n, 0.5))),
        ("tenth in use", long(&Access::concentrated(n, 0.1))),
    ];
    answers.add(who, "concentrated", concentrated);
    let base = at(&random, LONG, Order::Arrival);
    let gained = |a: &Access| (long(a) - base) / (long(&perfect) - base);
    answers.add(who, "lazy.1", gained(&perfect.lazily(0.01)));
    answers.add(who, "lazy.8", gained(&perfect.lazily(0.08)));
    answers.add(who, "buckets.3", gained(&perfect.in_buckets(3)));
    answers.add(who, "buckets.6", gained(&perfect.in_buckets(6)));
    answers.add(who, "drift.gain", gained(&perfect.drifted(0.3)));
    let mut drifts = vec![("random".to_owned(), long(&random))];
    let drifted = [50u32, 30, 20, 10].map(|percent| {
        (format!("{percent} %"), long(&perfect.drifted(f64::from(percent) / 100.0)))
    });
    drifts.extend(drifted);
    drifts.push(("perfect".to_owned(), long(&perfect)));
    answers.add(who, "drift.order", drifts);
    speedups(answers, who, effort);
    answers.add(who, "spread", spread(&disk, &random, &perfect));
}

/// Figure 12.
fn speedups(answers: &mut Answers, who: Answerer, effort: Effort) {
    let speedup = |disk: &Loaded, q| {
        let n = disk.arm.cylinders();
        disk.point(&Access::perfect(n), q, Order::Position).utilization
            / disk.point(&Access::random(n), q, Order::Arrival).utilization
    };
    let disk = Loaded::new(&rz55(), BLOCK, LONG, effort);
    let least = least(&QUEUES.map(|q| speedup(&disk, q)));
    answers.add(who, "speedup.bound", least);
    answers.add(who, "speedup.about", least);
    let by_block = BLOCKS.map(|sectors| {
        let disk = Loaded::new(&rz55(), sectors, LONG, effort);
        ((sectors * 512).to_string(), speedup(&disk, LONG))
    });
    answers.add(who, "speedup.blocks", by_block);
}

/// The median over Figure 7's points of the relative standard deviation from run to run.
fn spread(disk: &Loaded, random: &Access, perfect: &Access) -> f64 {
    let curves = [(random, Order::Arrival), (perfect, Order::Arrival), (perfect, Order::Position)];
    let points = curves.iter().flat_map(|(a, order)| QUEUES.map(|q| disk.point(a, q, *order)));
    let mut spreads: Vec<f64> = points.map(|p: Point| p.spread / p.utilization).collect();
    spreads.sort_by(f64::total_cmp);
    spreads.get(spreads.len() / 2).copied().unwrap_or(f64::NAN)
}
