//! The clustering paper's Figures 3 to 12 from our analysis, and its claims beside ours, as tables,
//! figures, a report and a document. Everything is modelled.

use seekless_report::{
    Axis, Basis, Figure, Lines, Points, Provenance, Report, Section, Table, Unit,
};
use serde_json::json;

use super::claims::judged;
use super::new_files::{daily, table};
use super::{ClusteringFigure, Effort, figures};
use crate::claims::Judged;
use crate::reproduction::SCHEMA;
use crate::{PaperError, Progress, Reproduction};

/// The paper's figures and claims, with this effort. `command` is the command line, for the report.
///
/// # Errors
/// If the file of claims and our answers do not fit together.
pub fn reproduce(
    effort: Effort,
    command: &str,
    progress: &Progress<'_>,
) -> Result<Reproduction, PaperError> {
    let figures = figures(effort, &mut |number| {
        progress(&format!("Figure {number}"), u64::from(number), 12);
    });
    let claims = judged(effort)?;
    let daily = daily(effort.seed);
    let mut document = json!({
        "schema": SCHEMA,
        "what": "clustering",
        "runs": effort.runs,
        "seed": effort.seed,
        "account": format!("{:?}", effort.start).to_lowercase(),
        "figures": figures,
        "new_files": daily,
    });
    claims.document(&mut document);
    Ok(Reproduction {
        opening: String::new(),
        tables: figures.iter().map(data).chain([table(&daily)]).chain(claims.tables()).collect(),
        closing: finding(&claims),
        document,
        report: report(&figures, &claims, effort, command),
    })
}

fn finding(claims: &Judged) -> String {
    format!("{} All our numbers are modelled.", claims.lead())
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
    let rows = figure.lines.first().map_or(0, |l| l.points.len());
    let shown: Vec<usize> = match rows {
        0..=ROWS => (0..rows).collect(),
        _ => (0..ROWS).map(|i| i * (rows - 1) / (ROWS - 1)).collect(),
    };
    let title = format!("Figure {}: {}: {}", figure.number, figure.title, y.label);
    let mut table = Table::of(title, shown)
        .number(&x.label, x.unit, |i| figure.lines.first().map_or(f64::NAN, |l| l.points[i].0));
    for l in &figure.lines {
        let value = |i: usize| l.points.get(i).map_or(f64::NAN, |p| p.1);
        table = table.number(&l.name, y.unit.clone(), value);
    }
    table.done()
}

fn report(figures: &[ClusteringFigure], claims: &Judged, effort: Effort, command: &str) -> Report {
    let mut report = Report::new("Clustering active disk data", finding(claims));
    for (label, id) in [
        ("Shorter seeks, perfect layout", "seek.perfect"),
        ("Throughput at queue 300, reordered", "ordered.300"),
        ("Least speedup, blocks of 2 KiB", "speedup.about"),
    ] {
        report = claims.tile(label, id).into_iter().fold(report, Report::tile);
    }
    let section = |title: &str, numbers: std::ops::RangeInclusive<u8>| {
        figures
            .iter()
            .filter(|f| numbers.contains(&f.number))
            .fold(Section::new(title), |s, f| s.figure(plot(f)))
    };
    report
        .section(claims.tables().into_iter().fold(Section::new("Claims"), Section::table))
        .section(section("One request at a time", 3..=5))
        .section(section("A loaded disk", 6..=12))
        .provenance(
            Provenance::of(command)
                .fact(
                    "draws",
                    format_args!("{} runs a point from seed {}", effort.runs, effort.seed),
                )
                .measured("Nothing.")
                .modelled("Everything."),
        )
}
