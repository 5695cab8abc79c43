//! Tables of advice, for one disk and for a fleet.

use seekless_compare::{Advice, Change, Fleet, Gain, RankedBy, Verdict};
use seekless_report::{Better, Cell, Column, Table, Unit};

/// Every tried system, and its savings.
pub fn advice(advice: &Advice) -> Table {
    let share = |name: &str| Column::number(name, Unit::Share);
    let mut table = Table::new(
        format!("{} on {}, modelled", advice.trace.path, advice.disk),
        vec![
            Column::text("system"),
            Column::number("busy", Unit::Seconds).better(Better::Lower),
            Column::number("background", Unit::Seconds),
            share("saves"),
            Column::text("90% range (%)").right(),
            share("left out"),
            share("joules"),
            Column::number("response", Unit::Seconds).better(Better::Lower),
        ],
    );
    for t in &advice.tried {
        let gain = advice.ranked_by.saves(t);
        table = table.row([
            Cell::from(t.system.as_str()),
            Cell::from(t.total.busy_s),
            Cell::from(t.total.background_busy_s),
            gain.map_or(Cell::Empty, |gain| Cell::from(gain.share)),
            gain.filter(|_| t.change != Change::None).map_or(Cell::Empty, range),
            gain.map_or(Cell::Empty, |_| Cell::from(advice.ranked_by.held_out(t))),
            Cell::from(t.saves_energy.share),
            Cell::from(t.total.response_ms / 1e3),
        ]);
    }
    table.baseline(0).note(format!(
        "saves, joules: {} and energy saved over the folds that choose, background work counted; the range is for the folds \
         left out, left out what was saved there. clairvoyant knows the next 1,000 requests.",
        match advice.ranked_by {
            RankedBy::Time => "disk time",
            by @ RankedBy::Money => by.words(),
        }
    ))
}

/// The range of a system's savings, in per cent.
fn range(Gain { low, high, .. }: Gain) -> Cell {
    if !low.is_finite() || !high.is_finite() {
        return Cell::Empty;
    }
    let points = |share: f64| format!("{:.1}", share * 100.0).replace('-', "\u{2212}");
    Cell::from(format!("{} to {}", points(low), points(high)))
}

/// One row for each disk.
pub fn fleet(fleet: &Fleet) -> Table {
    let share = |name: &str| Column::number(name, Unit::Share);
    let billed = fleet.disks.iter().any(|disk| disk.saves_usd.is_some());
    let mut columns = vec![
        Column::text("trace"),
        Column::text("verdict"),
        Column::text("choice"),
        Column::number("busy", Unit::Seconds),
        share("saves"),
        share("left out"),
        share("joules"),
        Column::text("instead"),
        share("saves there"),
    ];
    if billed {
        columns.insert(6, share("dollars"));
    }
    let title = format!("{} disks on {}, modelled", fleet.disks.len(), fleet.disk);
    let mut table = Table::new(title, columns);
    for disk in &fleet.disks {
        let verdict = match disk.verdict {
            Some(Verdict::Worth) => "worth it",
            Some(Verdict::Unsure) => "unsure",
            Some(Verdict::NoGain) => "no gain",
            None => disk.error.as_deref().unwrap_or("no answer"),
        };
        let text = |text: &Option<String>| text.as_deref().map_or(Cell::Empty, Cell::from);
        let number = |number: Option<f64>| number.map_or(Cell::Empty, Cell::from);
        let mut cells = vec![
            Cell::from(disk.trace.as_str()),
            Cell::from(verdict),
            text(&disk.choice),
            number(disk.busy_s),
            number(disk.saves_busy),
            number(disk.held_out_saves_busy),
            number(disk.saves_energy),
            text(&disk.instead),
            number(disk.instead_saves_busy),
        ];
        if billed {
            cells.insert(6, number(disk.saves_usd));
        }
        table = table.row(cells);
    }
    table.note(format!(
        "{} worth it, {} unsure, {} without a gain, {} without an answer",
        fleet.worth, fleet.unsure, fleet.no_gain, fleet.failed
    ))
}
