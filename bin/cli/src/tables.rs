//! Tables of advice, for one disk and for a fleet.

use seekless_compare::{Advice, Change, Fleet, Gain, RankedBy, Verdict};
use seekless_report::{Better, Cell, Column, Table, Unit};

/// Every tried system, and its savings.
pub fn advice(advice: &Advice) -> Table {
    let by = advice.ranked_by;
    let seconds = |name: &str| Column::number(name, Unit::Seconds).better(Better::Lower);
    let title = format!("{} on {}, modelled", advice.trace.path, advice.disk);
    let table = Table::of(title, &advice.tried)
        .text("system", |t| t.system.as_str())
        .column(seconds("busy"), |t| t.total.busy_s)
        .number("background", Unit::Seconds, |t| t.total.background_busy_s)
        .number("saves", Unit::Share, |t| by.saves(t).map(|gain| gain.share))
        .right("90% range (%)", |t| by.saves(t).filter(|_| t.change != Change::None).map(range))
        .number("left out", Unit::Share, |t| by.saves(t).map(|_| by.held_out(t)))
        .number("joules", Unit::Share, |t| t.saves_energy.map(|gain| gain.share))
        .column(seconds("response"), |t| t.total.response_ms / 1e3)
        .done();
    table.baseline(0).note(format!(
        "saves, joules: {} and energy saved over the folds that decide, background work counted. The range and the column \
         'left out' are for the folds left out. clairvoyant knows the next 1,000 requests, and its \
         trail all of them.",
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
    let title = format!("{} disks on {}, modelled", fleet.disks.len(), fleet.disk);
    let mut table = Table::of(title, &fleet.disks)
        .text("trace", |disk| disk.trace.as_str())
        .text("verdict", |disk| match disk.verdict {
            Some(Verdict::Worth) => "worth it",
            Some(Verdict::Unsure) => "unsure",
            Some(Verdict::NoGain) => "no gain",
            None => disk.error.as_deref().unwrap_or("no answer"),
        })
        .text("choice", |disk| disk.choice.as_deref())
        .number("busy", Unit::Seconds, |disk| disk.busy_s)
        .number("saves", Unit::Share, |disk| disk.saves_busy)
        .number("left out", Unit::Share, |disk| disk.held_out_saves_busy);
    if fleet.disks.iter().any(|disk| disk.saves_usd.is_some()) {
        table = table.number("dollars", Unit::Share, |disk| disk.saves_usd);
    }
    let table = table
        .number("joules", Unit::Share, |disk| disk.saves_energy)
        .text("instead", |disk| disk.instead.as_deref())
        .number("saves there", Unit::Share, |disk| disk.instead_saves_busy)
        .done();
    table.note(format!(
        "{} worth it, {} unsure, {} without a gain, {} without an answer",
        fleet.worth, fleet.unsure, fleet.no_gain, fleet.failed
    ))
}
