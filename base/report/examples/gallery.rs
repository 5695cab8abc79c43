//! Writes a report with every figure, from synthetic numbers, for checking the look of figures:
//! `cargo run -p seekless-report --example gallery -- gallery.html`. It measures nothing.

use seekless_block::{Extent, Lba, Sectors, SimTime};
use seekless_report::{
    Axis, BarSeries, BarValue, Bars, Basis, Better, Column, Figure, HeadKind, HeadMove, HeadPath,
    HeadRun, HeatMap, Histogram, Lines, Points, Provenance, Report, Scatter, Section, StackedBars,
    Table, Tile, Unit, Values,
};

const CAPACITY: u64 = 156_301_488;
const AREA: Extent = Extent::new(2_000_000, 4_000_000);

/// A small random generator: the figures are the same on every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

fn run(name: &str, count: usize, near: f64, seed: u64) -> HeadRun {
    let mut dice = Dice(seed);
    let mut now = 0.0;
    let moves = (0..count).map(|i| {
        let learned = dice.next() < near;
        now += if learned { 0.004 } else { 0.011 } * (0.5 + dice.next());
        let at = (i as f64 / count as f64 * 9.0).floor();
        let sector = if learned {
            AREA.start.0 as f64 + (i % 400) as f64 / 400.0 * AREA.len.0 as f64
        } else {
            (0.05 + 0.09 * at + 0.25 * dice.next() * dice.next()) * CAPACITY as f64
        };
        let kind = match dice.next() {
            d if d < 0.68 => HeadKind::Read,
            d if d < 0.93 || near == 0.0 => HeadKind::Write,
            _ => HeadKind::Background,
        };
        HeadMove {
            at: SimTime((now * 1e9) as u64),
            lba: Lba(sector.min(CAPACITY as f64 - 1.0) as u64),
            kind,
        }
    });
    HeadRun { name: name.into(), moves: moves.collect(), area: (near > 0.0).then_some(AREA) }
}

fn path(count: usize) -> HeadPath {
    let runs = vec![run("vanilla", count, 0.0, 1), run("borg", count, 0.8, 2)];
    HeadPath { capacity: Sectors(CAPACITY), runs }
}

fn busy() -> StackedBars {
    StackedBars {
        axis: Axis::new("Disk busy time", Unit::Seconds),
        parts: ["seek", "rotation", "transfer", "background"].map(String::from).to_vec(),
        bars: vec![
            Values::new("vanilla", [212.0, 168.0, 61.0, 0.0]),
            Values::new("borg", [74.0, 96.0, 58.0, 31.0]),
            Values::new("oracle", [51.0, 83.0, 58.0, 31.0]),
        ],
    }
}

fn bars() -> Bars {
    let mut dice = Dice(5);
    let mut series = |name: &str, near: f64| BarSeries {
        name: name.into(),
        values: (0..4)
            .map(|_| {
                let v = near * (0.8 + 0.4 * dice.next());
                BarValue { value: v, spread: Some((v * 0.93, v * 1.07)) }
            })
            .collect(),
    };
    let series = vec![series("vanilla", 0.0121), series("borg", 0.0078), series("fs2", 0.0092)];
    let categories = ["mail server", "web server", "developer's desktop", "build farm <x86 & arm>"];
    Bars {
        axis: Axis::new("Mean response time", Unit::Seconds),
        categories: categories.map(String::from).to_vec(),
        series,
    }
}

fn samples(seed: u64, scale: f64) -> Vec<f64> {
    let mut dice = Dice(seed);
    (0..5000)
        .map(|_| scale * (dice.normal() * 0.9).exp() + if dice.next() < 0.3 { 9e-5 } else { 2e-3 })
        .collect()
}

fn distances(seed: u64, count: usize) -> Vec<(f64, f64)> {
    let mut dice = Dice(seed);
    (0..count)
        .map(|_| {
            let d = dice.next().powi(3);
            (d * CAPACITY as f64, 0.001 + 0.012 * d.sqrt() + 0.0083 * dice.next())
        })
        .collect()
}

fn heat() -> HeatMap {
    let mut dice = Dice(9);
    let (columns, rows) = (48, 20);
    let values = (0..columns * rows).map(|i| {
        let (c, r) = (i % columns, i / columns);
        let hot = (-((r as f64 - 4.0).powi(2)) / 6.0).exp()
            + (-((r as f64 - 14.0).powi(2)) / 2.0).exp() * 0.5;
        (hot * 900.0 * (0.4 + 0.6 * (c as f64 / 7.0).sin().abs()) * (0.5 + dice.next())).floor()
    });
    HeatMap {
        x: Axis::new("Time", Unit::Seconds),
        y: Axis::new("Position on disk", Unit::Bytes),
        value: Axis::new("Requests in a cell", Unit::Count),
        x_range: (0.0, 960.0),
        y_range: (0.0, CAPACITY as f64 * 512.0),
        columns,
        values: values.collect(),
    }
}

fn table() -> Table {
    let number = |name: &str, unit| Column::number(name, unit);
    Table::new(
        "Every policy over the same requests",
        vec![
            Column::text("policy"),
            number("busy time", Unit::Seconds).better(Better::Lower),
            number("mean response", Unit::Seconds).better(Better::Lower),
            number("energy", Unit::Joules).better(Better::Lower),
            number("cache hits", Unit::Count).better(Better::Higher),
        ],
    )
    .row(["vanilla".into(), 441.0.into(), 0.012_13.into(), 5_310.0.into(), 12_411u64.into()])
    .row(["borg".into(), 259.0.into(), 0.007_81.into(), 4_120.0.into(), 15_973u64.into()])
    .row(["fs2".into(), 318.0.into(), 0.009_24.into(), 4_480.0.into(), 12_011u64.into()])
    .baseline(0)
    .note("Synthetic numbers.")
}

fn figure(title: &str, plot: impl Into<seekless_report::Plot>, caption: &str) -> Figure {
    Figure::new(title, Basis::Synthetic, plot)
        .caption(format!("Synthetic numbers, to show this kind of figure. {caption}"))
}

fn cdf() -> Lines {
    Lines::cdf(
        "Response time",
        Unit::Seconds,
        [("vanilla", 0.006), ("borg", 0.0018), ("oracle", 0.0014)]
            .into_iter()
            .enumerate()
            .map(|(i, (name, scale))| (name.to_owned(), samples(i as u64, scale))),
    )
}

fn scatter() -> Scatter {
    Scatter {
        x: Axis::new("Logical seek distance", Unit::Other("sectors".into())),
        y: Axis::new("Access time", Unit::Seconds),
        series: vec![
            Points::new("reads", distances(3, 1500)),
            Points::new("writes", distances(4, 500)),
        ],
    }
}

fn histogram() -> Histogram {
    Histogram::of(
        Axis::new("Access time", Unit::Seconds),
        30,
        &[Values::new(
            "vanilla",
            samples(6, 0.006).into_iter().filter(|v| *v < 0.03).collect::<Vec<_>>(),
        )],
    )
}

fn both() -> Histogram {
    Histogram::of(
        Axis::new("Response time", Unit::Seconds).log(),
        24,
        &[Values::new("vanilla", samples(6, 0.006)), Values::new("borg", samples(7, 0.002))],
    )
}

fn empty() -> Lines {
    Lines { x: Axis::new("x", Unit::Number), y: Axis::new("y", Unit::Number), series: vec![] }
}

/// The report, with `count` movements in the head's path.
fn report(count: usize) -> Report {
    Report::new(
        "Gallery of every figure, from synthetic data",
        "The learned layout keeps the disk busy 41 % less than the vanilla one for the same requests. \
         Nothing here was measured: these numbers are synthetic and show the form of a report.",
    )
    .tile(Tile::new("Busy time", "−41 %", "441 s → 259 s"))
    .tile(Tile::new("Seek time", "−65 %", "212 s → 74 s"))
    .tile(Tile::new("Mean response", "7.81 ms", "was 12.1 ms"))
    .tile(Tile::new("Energy", "4.12 kJ", "was 5.31 kJ"))
    .section(
        Section::new("Where the time went")
            .figure(figure("Seeks shrink most", busy(), "Background work is included."))
            .table(table()),
    )
    .section(
        Section::new("Where the head went")
            .figure(figure("The head stays in the optimized area", path(count), "FS2's figure 1 is the model.")),
    )
    .section(
        Section::new("How long requests took")
            .figure(figure("Nine in ten requests end sooner", cdf(), ""))
            .figure(figure("Mean response time per trace", bars(), "Whiskers are 95 % confidence intervals."))
            .figure(figure("Access times of the vanilla layout", histogram(), ""))
            .figure(figure("Response times of both", both(), "Bars of one range stand side by side.")),
    )
    .section(
        Section::new("What the disk is like")
            .figure(figure("Far seeks cost more, rotation blurs it", scatter(), "FS2's figure 8 is the model."))
            .figure(figure("Two hot bands", heat(), ""))
            .figure(figure("A figure without data", empty(), "")),
    )
    .provenance(Provenance {
        command: "cargo run -p seekless-report --example gallery -- gallery.html".into(),
        facts: [("seekless", "0.1.0"), ("disk", "none"), ("trace", "none: a small generator, fixed seeds")]
            .map(|(a, b)| (a.into(), b.into()))
            .to_vec(),
        measured: vec![],
        modelled: vec!["Nothing: every number is synthetic.".into()],
    })
}

fn main() -> std::io::Result<()> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "gallery.html".into());
    let count = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(900);
    let report = report(count);
    for (i, section) in report.sections.iter().enumerate() {
        for (j, block) in section.blocks.iter().enumerate() {
            if let seekless_report::Block::Figure(figure) = block {
                std::fs::write(file.replace(".html", &format!("-{i}{j}.svg")), figure.svg())?;
            }
        }
    }
    std::fs::write(file, report.html())
}
