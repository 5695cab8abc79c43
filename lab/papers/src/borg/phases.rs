//! Figures 6 to 8 and 11: the disk's busy time, phase by phase.

use seekless_report::{Axis, BarSeries, Bars, Basis, Better, Cell, Column, Figure, Table, Unit};

use super::claims::{all_s, normal_s};
use super::experiments::{Phases, cylinder};
use super::printed::{self, DEVELOPER_SEEKS, SVN_SEEKS};
use super::replay::{BorgPhase, BorgRun};
use crate::PaperError;

/// The phases in order of time: name, index, and true for a normal phase.
fn order(phases: &Phases) -> Vec<(String, usize, bool)> {
    let normal = phases.systems.first().map_or(0, |s| s.1.phases.len());
    let mut names = Vec::new();
    for i in 0..normal {
        names.push((format!("N{}", i + 1), i, true));
        if i + 1 < normal {
            names.push((format!("R{}", i + 1), i, false));
        }
    }
    names
}

/// Busy time of a phase in seconds; `None` for a system without this phase.
fn of(run: &BorgRun, index: usize, normal: bool) -> Option<f64> {
    if normal {
        run.phases.get(index).map(BorgPhase::disk_s)
    } else {
        run.reconfigurations.get(index).map(|r| r.reconfigurer_s)
    }
}

/// Busy time of each phase, beside the paper's.
pub(super) fn phase_table(p: &Phases) -> Result<Table, PaperError> {
    let mut columns = vec![Column::text("phase"), Column::text("vanilla").right()];
    for (name, _) in &p.systems[1..] {
        columns.push(Column::text(*name).right());
        columns.push(Column::text("change").right());
        columns.push(Column::text("of it background").right());
        columns.push(Column::text("paper").right());
    }
    let Some((_, vanilla)) = p.systems.first() else {
        return Err(PaperError::Invalid("no system was replayed".to_owned()));
    };
    let title = format!(
        "Figure {}: disk busy time, {} on {} ({}), area {} GB, write buffer {} %",
        p.figure, p.trace, p.host.name, p.host.disk, p.host.area_gb, p.write_buffer_percent
    );
    let mut table = Table::new(title, columns);
    let seconds = |v: f64| Cell::from(format!("{v:.1} s"));
    let change = |v: f64, base: f64| Cell::Change { value: v, base, better: Better::Lower };
    let said = |figure: &str, system: &str, phase: &str| {
        Cell::from(printed::bar(figure, system, phase).unwrap_or("–"))
    };
    for (name, index, normal) in order(p) {
        let base = of(vanilla, index, normal);
        let mut cells = vec![Cell::from(name.as_str()), base.map_or(Cell::from("–"), seconds)];
        for (system, run) in &p.systems[1..] {
            let ours = of(run, index, normal);
            cells.push(ours.map_or(Cell::from("–"), seconds));
            cells.push(ours.zip(base).map_or(Cell::Empty, |(v, b)| change(v, b)));
            let background = run.phases.get(index).filter(|_| normal).map(|p| p.background_s);
            cells.push(background.map_or(Cell::Empty, seconds));
            cells.push(said(p.figure, system, &name));
        }
        table = table.row(cells);
    }
    let mut sum = |label: &str, phase: &str, of: fn(&BorgRun) -> f64| {
        let base = of(vanilla);
        let mut cells = vec![Cell::from(label), seconds(base)];
        for (system, run) in &p.systems[1..] {
            let paper = said(p.figure, system, phase);
            cells.extend([seconds(of(run)), change(of(run), base), Cell::Empty, paper]);
        }
        table = std::mem::take(&mut table).row(cells);
    };
    sum("all N", "N", normal_s);
    sum("with moving", "all", all_s);
    Ok(table.note(seeks(p)? + "–: not in the paper's text."))
}

/// Non-sequential share and mean seek of each system, beside the paper's.
fn seeks(p: &Phases) -> Result<String, PaperError> {
    let cylinder = cylinder(p.host.disk)?;
    let printed = match p.figure {
        "6" => Some(SVN_SEEKS),
        "7" => Some(DEVELOPER_SEEKS),
        _ => None,
    };
    let mut note = String::new();
    for (i, (system, run)) in p.systems.iter().enumerate() {
        let all = BorgPhase::sum(&run.phases);
        let paper = printed.filter(|_| i < 2).map_or(String::new(), |s| {
            format!(" (paper: {:.2} %, {:.0})", s[0][i] * 100.0, s[1][i])
        });
        note += &format!(
            "{system}: {:.2} % of blocks non-sequential, mean seek {:.0} cylinders of the modelled disk{paper}. ",
            all.nonsequential_share() * 100.0,
            all.seek_mean_sectors() / cylinder
        );
    }
    Ok(note)
}

/// Busy time of each phase as bars.
pub(super) fn phase_figure(p: &Phases) -> Figure {
    let order = order(p);
    let series = |(name, run): &(&str, BorgRun)| BarSeries {
        name: (*name).to_owned(),
        values: order
            .iter()
            .map(|(_, i, normal)| of(run, *i, *normal).unwrap_or(f64::NAN).into())
            .collect(),
    };
    let background = p.systems[1..].iter().map(|(name, run)| BarSeries {
        name: format!("{name}, of it in idle time"),
        values: order
            .iter()
            .map(|(_, i, normal)| {
                let phase = run.phases.get(*i).filter(|_| *normal);
                phase.map_or(f64::NAN, |p| p.background_s).into()
            })
            .collect(),
    });
    let bars = Bars {
        axis: Axis::new("Disk busy time", Unit::Seconds),
        categories: order.iter().map(|(name, ..)| name.clone()).collect(),
        series: p.systems.iter().map(series).chain(background).collect(),
    };
    let title = format!("{} on {}, phase by phase", p.trace, p.host.name);
    Figure::new(title, Basis::Modelled, bars).caption(
        "N: normal phases. R: reconfigurations, moving alone. A made-up trace on a modelled disk.",
    )
}
