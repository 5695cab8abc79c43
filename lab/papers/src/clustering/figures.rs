//! The figures of the clustering paper (Staelin and Garcia-Molina, CS-TR-283-90) from our analysis.
//! Everything is modelled: no trace is read.

use seekless_disk::clustering::{Access, Arm, Bell, Light, Mixture, PERFECT};
use serde::Serialize;

use super::{Layout, Load, Order, Point, Rotation, Start};

/// Cylinders of the disk of Figures 3 to 5.
const IMAGINARY: u32 = 1000;
/// Sectors of the paper's block: 2 KiB.
pub(super) const BLOCK: u32 = 4;
/// Queue lengths of Figures 7 to 11.
pub(super) const QUEUES: [u32; 12] = [1, 2, 5, 10, 20, 35, 50, 75, 100, 150, 200, 300];
/// Queue lengths of Figure 12, and its blocks in sectors.
const SPEED_QUEUES: [u32; 5] = [1, 10, 50, 100, 300];
pub(super) const BLOCKS: [u32; 6] = [1, 2, 4, 6, 9, 18];

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ClusteringFigure {
    pub number: u8,
    pub title: &'static str,
    /// Labels of the horizontal and the vertical axis.
    pub axes: [&'static str; 2],
    pub lines: Vec<Line>,
}

/// The number of draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Runs of the loaded disk for each point; the paper has at least ten.
    pub runs: u32,
    /// Seed of all draws.
    pub seed: u64,
    /// How rotational delay is counted.
    pub start: Start,
}

/// The loaded disk of section 5.2, with layouts by name.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) arm: Arm,
    rotation: Rotation,
    effort: Effort,
}

impl Loaded {
    /// A disk with requests for blocks of `block_sectors` sectors, up to `queue` at a time.
    pub(super) fn new(arm: &Arm, block_sectors: u32, queue: u32, effort: Effort) -> Self {
        let (positions, tracks) = (arm.blocks_per_track(block_sectors), arm.tracks());
        let rotation = Rotation::new(positions, tracks, queue, effort.start);
        Self { arm: arm.clone(), rotation, effort }
    }

    /// The results for a queue length under a distribution.
    pub(super) fn point(&self, access: &Access, queue: u32, order: Order) -> Point {
        let Effort { runs, seed, .. } = self.effort;
        Load::new(&self.arm, access, &self.rotation).point(queue, order, runs, seed)
    }
}

/// The disk of Figures 3 to 5.
pub(super) fn imaginary() -> Arm {
    Arm::paper(IMAGINARY, 15, 36, 3600.0)
}

/// The disk of Figures 6 to 12, DEC's RZ55.
pub(super) fn rz55() -> Arm {
    Arm::paper(1224, 15, 36, 3600.0)
}

/// Figures 3 to 12. `progress` is called with each number.
pub(super) fn figures(effort: Effort, progress: &mut dyn FnMut(u8)) -> Vec<ClusteringFigure> {
    let mut all = vec![figure3()];
    all.extend(figures4_and_5());
    let disk = Loaded::new(&rz55(), BLOCK, 300, effort);
    for number in 6..=12 {
        progress(number);
        all.push(match number {
            6 => figure6(),
            12 => figure12(effort),
            _ => loaded(number, &disk),
        });
    }
    all
}

fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Line {
    Line { name: name.into(), points: points.into_iter().collect() }
}

fn figure3() -> ClusteringFigure {
    let curve = |mixture: &Mixture| -> Vec<(f64, f64)> {
        // More points where the curve is steep.
        (0..=100).map(|i| (f64::from(i) / 100.0).powi(3)).map(|d| (d, mixture.hottest(d))).collect()
    };
    let normal = |sigma: f64| {
        line(format!("normal, sigma {sigma}"), curve(&Mixture(vec![Bell { weight: 1.0, sigma }])))
    };
    let mut lines: Vec<Line> = [0.02, 0.05, 0.1, 0.15, 0.2].map(normal).to_vec();
    lines.push(line("perfect", curve(&Mixture(PERFECT.to_vec()))));
    ClusteringFigure {
        number: 3,
        title: "Accesses that go to the hottest part of the disk",
        axes: ["part of the disk, hottest first", "accesses"],
        lines,
    }
}

fn figures4_and_5() -> [ClusteringFigure; 2] {
    let arm = imaginary();
    let light = |a: &Access| arm.light(a, BLOCK);
    let perfect = Access::perfect(IMAGINARY);
    let shares: Vec<f64> = (0..=40).map(|i| f64::from(i) / 200.0).collect();
    let curve = |of: &dyn Fn(f64) -> Access| -> Vec<(f64, Light)> {
        shares.iter().map(|&x| (x, light(&of(x)))).collect()
    };
    let curves = [
        ("random", curve(&|_| Access::random(IMAGINARY))),
        ("normal, by sigma", curve(&|x| Access::normal(IMAGINARY, x))),
        ("perfect, by drift", curve(&|x| perfect.drifted(x))),
        ("lazy, by part organized", curve(&|x| perfect.lazily(x))),
    ];
    let figure = |number, title, up, of: fn(&Light) -> f64| {
        let lines = curves.iter().map(|(n, c)| line(*n, c.iter().map(|(x, l)| (*x, of(l)))));
        ClusteringFigure { number, title, axes: ["parameter", up], lines: lines.collect() }
    };
    [
        figure(4, "Expected seek time, one request at a time", "seek time", |l| l.seek_ms / 1e3),
        figure(5, "Expected utilization, one request at a time", "utilization", |l| l.utilization),
    ]
}

fn figure6() -> ClusteringFigure {
    let (arm, most) = (rz55(), 135);
    let new = |start| Rotation::new(arm.blocks_per_track(BLOCK), arm.tracks(), most, start);
    let (paper, arrival) = (new(Start::Paper), new(Start::Arrival));
    let curve = |of: &dyn Fn(u32) -> f64| -> Vec<(f64, f64)> {
        (1..=most).map(|k| (f64::from(k), of(k))).collect()
    };
    ClusteringFigure {
        number: 6,
        title: "Expected cost of requests in one cylinder, RZ55",
        axes: ["requests in the cylinder", "revolutions"],
        lines: vec![
            line("in order of arrival", curve(&|k| paper.arriving(k))),
            line("in order of position", curve(&|k| paper.ordered(k))),
            line(
                "in order of position, from where the head arrives",
                curve(&|k| arrival.ordered(k)),
            ),
        ],
    }
}

/// The end of a line's name if its requests are in order of arrival; all others are in order of
/// position.
const ARRIVAL: &str = ", in order of arrival";
const RANDOM: &str = "random, in order of arrival";

/// The title and the lines of Figures 7 to 11.
fn loaded_lines(number: u8) -> (&'static str, &'static [&'static str]) {
    match number {
        7 => (
            "Utilization of a loaded disk",
            &[RANDOM, "random", "perfect, in order of arrival", "perfect"],
        ),
        8 => (
            "The same, with part of the disk in use",
            &[RANDOM, "perfect", "concentrated:50%", "concentrated:10%"],
        ),
        9 => (
            "The same, with the hottest part organized",
            &[RANDOM, "random", "lazy:0.5%", "lazy:1%", "lazy:2%", "lazy:8%", "perfect"],
        ),
        10 => (
            "The same, in buckets",
            &[RANDOM, "random", "buckets:1", "buckets:3", "buckets:6", "buckets:8", "perfect"],
        ),
        _ => (
            "The same, with drifting temperatures; the last two lines combine drift with other layouts",
            &[
                RANDOM,
                "random",
                "perfect",
                "perfect+drift:10%",
                "perfect+drift:20%",
                "perfect+drift:30%",
                "perfect+drift:50%",
                "buckets:6+drift:20%",
                "lazy:8%+drift:20%",
            ],
        ),
    }
}

/// Figures 7 to 11: utilization over the length of the queue.
fn loaded(number: u8, disk: &Loaded) -> ClusteringFigure {
    let (title, names) = loaded_lines(number);
    let lines = names.iter().filter_map(|&name| {
        let (layout, order) = match name.strip_suffix(ARRIVAL) {
            Some(layout) => (layout, Order::Arrival),
            None => (name, Order::Position),
        };
        let access = layout.parse::<Layout>().ok()?.access(disk.arm.cylinders());
        let points = QUEUES.map(|q| (f64::from(q), disk.point(&access, q, order).utilization));
        Some(line(name, points))
    });
    let axes = ["requests in the queue", "utilization"];
    ClusteringFigure { number, title, axes, lines: lines.collect() }
}

fn figure12(effort: Effort) -> ClusteringFigure {
    let arm = rz55();
    let n = arm.cylinders();
    let (random, perfect) = (Access::random(n), Access::perfect(n));
    let disks = BLOCKS.map(|b| (f64::from(b) * 512.0, Loaded::new(&arm, b, 300, effort)));
    let lines = SPEED_QUEUES.map(|q| {
        let speedup = |d: &Loaded| {
            d.point(&perfect, q, Order::Position).utilization
                / d.point(&random, q, Order::Arrival).utilization
        };
        line(format!("queue {q}"), disks.iter().map(|(bytes, d)| (*bytes, speedup(d))))
    });
    ClusteringFigure {
        number: 12,
        title: "Speedup by clustering and ordering together",
        axes: ["block", "speedup"],
        lines: lines.to_vec(),
    }
}
