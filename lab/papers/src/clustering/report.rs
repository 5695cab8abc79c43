//! The clustering paper's Figures 3 to 12 from our analysis, and its claims beside ours, as tables,
//! figures, a report and a document. Everything is modelled.

use std::fmt::Write as _;

use seekless_report::{
    Axis, Basis, Cell, Column, Figure, Lines, Points, Provenance, Report, Section, Table, Tile,
    Unit,
};
use serde_json::json;

use super::{ClusteringClaim, ClusteringFigure, Effort, claims, figures};
use crate::{Progress, Reproduction};

/// The paper's figures and claims, with this effort. `command` is the command line, for the report.
#[must_use]
pub fn reproduce(effort: Effort, command: &str, progress: &Progress<'_>) -> Reproduction {
    let figures = figures(effort, &mut |number| {
        progress(&format!("Figure {number}"), u64::from(number), 12);
    });
    let claims = claims(effort);
    let table = claims_table(&claims);
    let shown: Vec<_> = claims
        .iter()
        .map(|c| {
            json!({ "place": c.place, "paper": c.paper, "printed": c.printed, "ours": c.ours,
                    "bounds": c.bounds, "unit": c.unit, "holds": c.holds() })
        })
        .collect();
    let document = json!({
        "schema": "seekless.reproduce/1",
        "what": "clustering",
        "runs": effort.runs,
        "seed": effort.seed,
        "account": format!("{:?}", effort.start).to_lowercase(),
        "figures": figures,
        "claims": shown,
    });
    Reproduction {
        opening: String::new(),
        tables: figures.iter().map(data).chain([table.clone()]).collect(),
        closing: finding(&claims),
        document,
        report: report(&figures, &claims, table, effort, command),
    }
}

fn finding(claims: &[ClusteringClaim]) -> String {
    let held = claims.iter().filter(|c| c.holds()).count();
    format!(
        "{held} of {} claims of the paper hold within their tolerance. All numbers of ours are modelled.",
        claims.len()
    )
}

fn show(value: f64, unit: &str) -> String {
    match unit {
        "ms" => format!("{value:.2} ms"),
        "share" => format!("{:.0} %", value * 100.0),
        _ => format!("{value:.2}"),
    }
}

fn claims_table(claims: &[ClusteringClaim]) -> Table {
    let columns = vec![
        Column::text("where"),
        Column::text("the paper"),
        Column::text("paper").right(),
        Column::text("ours").right(),
        Column::text("accepted").right(),
        Column::text(""),
    ];
    claims.iter().fold(
        Table::new("The paper's claims, and whether ours agree", columns),
        |table, c| {
            table.row([
                Cell::from(c.place),
                Cell::from(c.paper),
                Cell::from(show(c.printed, c.unit)),
                Cell::from(show(c.ours, c.unit)),
                Cell::from(format!("{} to {}", show(c.bounds.0, c.unit), show(c.bounds.1, c.unit))),
                Cell::from(if c.holds() { "holds" } else { "differs" }),
            ])
        },
    )
}

/// Units of a figure's axes.
fn axes(figure: &ClusteringFigure) -> [Axis; 2] {
    let [across, up] = figure.axes;
    let (x, y) = match figure.number {
        3 => (Unit::Share, Unit::Share),
        4 => (Unit::Share, Unit::Seconds),
        5 => (Unit::Share, Unit::Share),
        6 => (Unit::Count, Unit::Number),
        12 => (Unit::Bytes, Unit::Number),
        _ => (Unit::Count, Unit::Share),
    };
    let x = Axis::new(across, x);
    [if figure.number == 12 { x.log() } else { x }, Axis::new(up, y)]
}

fn plot(figure: &ClusteringFigure) -> Figure {
    let [x, y] = axes(figure);
    let series = figure.lines.iter().map(|l| Points::new(l.name.clone(), l.points.clone()));
    let lines = Lines { x, y, series: series.collect() };
    let mut caption = format!("The paper's Figure {}. ", figure.number);
    caption += match figure.number {
        3..=5 => "An imaginary disk of 1000 cylinders, blocks of 2 KiB.",
        6 => "Expected values, counted over all configurations of the blocks, with transfer.",
        12 => {
            "RZ55: a perfect layout with requests in order of position, against a random one in order of arrival."
        }
        _ => {
            "RZ55, blocks of 2 KiB, a queue of constant length. Requests in order of position, unless a line names another order."
        }
    };
    Figure::new(format!("Figure {}: {}", figure.number, figure.title), Basis::Modelled, lines)
        .caption(caption)
}

/// A figure's data, at some of its points.
fn data(figure: &ClusteringFigure) -> Table {
    const ROWS: usize = 12;
    let [x, y] = axes(figure);
    let mut columns = vec![Column::number(x.label, x.unit)];
    columns.extend(figure.lines.iter().map(|l| Column::number(&l.name, y.unit.clone()).digits(3)));
    let rows = figure.lines.first().map_or(0, |l| l.points.len());
    let shown: Vec<usize> = match rows {
        0..=ROWS => (0..rows).collect(),
        _ => (0..ROWS).map(|i| i * (rows - 1) / (ROWS - 1)).collect(),
    };
    let title = format!("Figure {}: {}: {}", figure.number, figure.title, y.label);
    shown.into_iter().fold(Table::new(title, columns), |table, i| {
        let across = figure.lines.first().map_or(f64::NAN, |l| l.points[i].0);
        let cells =
            figure.lines.iter().map(|l| Cell::from(l.points.get(i).map_or(f64::NAN, |p| p.1)));
        table.row([Cell::from(across)].into_iter().chain(cells))
    })
}

fn report(
    figures: &[ClusteringFigure],
    claims: &[ClusteringClaim],
    table: Table,
    effort: Effort,
    command: &str,
) -> Report {
    let mut report = Report::new("Clustering active disk data", finding(claims));
    let tile = |label: &str, place: &str, at: usize| {
        let of: Vec<&ClusteringClaim> = claims.iter().filter(|c| c.place == place).collect();
        of.get(at).map(|c| {
            Tile::new(
                label,
                show(c.ours, c.unit),
                format!("the paper: {}", show(c.printed, c.unit)),
            )
        })
    };
    for tile in [
        tile("Shorter seeks, perfect layout", "Figure 4", 0),
        tile("Throughput at queue 300, reordered", "Figure 7", 2),
        tile("Least speedup, blocks of 2 KiB", "Figure 12", 0),
    ] {
        report = tile.map_or(report.clone(), |t| report.clone().tile(t));
    }
    let mut words = String::new();
    let _ = write!(words, "{} runs a point from seed {}", effort.runs, effort.seed);
    let section = |title: &str, numbers: std::ops::RangeInclusive<u8>| {
        figures
            .iter()
            .filter(|f| numbers.contains(&f.number))
            .fold(Section::new(title), |s, f| s.figure(plot(f)))
    };
    report
        .section(Section::new("Claims").table(table))
        .section(section("One request at a time", 3..=5))
        .section(section("A loaded disk", 6..=12))
        .provenance(Provenance {
            command: command.to_owned(),
            facts: vec![
                ("seekless".into(), env!("CARGO_PKG_VERSION").into()),
                ("draws".into(), words),
            ],
            measured: vec!["Nothing.".into()],
            modelled: vec!["Everything.".into()],
        })
}
