//! Figures 9 and 10: the time of each reconfiguration, and the difference between two plans.

use seekless_report::{Axis, Basis, Column, Figure, StackedBars, Table, Unit, Values};

use super::experiments::Phases;
use super::replay::Reconfiguration;

/// The learning systems of Figure 8 and their reconfigurations, in the order of Figures 9 and 10.
fn reconfigurations(p: &Phases) -> Vec<(String, &Reconfiguration)> {
    let mut all = Vec::new();
    for i in 0.. {
        let before = all.len();
        for (name, run) in &p.systems[1..] {
            if let Some(r) = run.reconfigurations.get(i) {
                let kind = name.trim_start_matches("borg-");
                all.push((format!("R{} {kind}", i + 1), r));
            }
        }
        if all.len() == before {
            break;
        }
    }
    all
}

/// Figure 9.
pub(super) fn overhead(p: &Phases) -> Table {
    let seconds = |name: &str| Column::number(name, Unit::Seconds);
    let columns = vec![
        Column::text("reconfiguration"),
        seconds("analyzer"),
        seconds("planner"),
        seconds("reconfigurer"),
        Column::number("vertices", Unit::Count),
        Column::number("edges", Unit::Count),
        Column::text("paper").right(),
    ];
    let mut table = Table::new("Figure 9: time of a reconfiguration, web server", columns);
    for (name, r) in reconfigurations(p) {
        table = table.row([
            name.into(),
            r.analyzer_s.into(),
            r.planner_s.into(),
            r.reconfigurer_s.into(),
            r.vertices.into(),
            r.edges.into(),
            "–".into(),
        ]);
    }
    table.note(
        "C cumulative, P partial; paper: by the paper's rule. Analyzer and planner: this computer's time, measured while other replays run; the analyzer reads \
         only the requests since the last reconfiguration. Reconfigurer: the modelled disk's busy time. The paper's text has no numbers: with \
         cumulative traces, analyzer and planner times rise linearly; with partial traces, they fall after the second reconfiguration and then stay.",
    )
}

/// Figure 9 as bars.
pub(super) fn overhead_figure(p: &Phases) -> Figure {
    let bars = StackedBars {
        axis: Axis::new("Time", Unit::Seconds),
        parts: ["analyzer", "planner", "reconfigurer"].map(String::from).to_vec(),
        bars: reconfigurations(p)
            .into_iter()
            .map(|(name, r)| Values::new(name, [r.analyzer_s, r.planner_s, r.reconfigurer_s]))
            .collect(),
    };
    Figure::new("Time of a reconfiguration", Basis::Mixed, bars).caption(
        "Figure 9. Analyzer and planner are measured on this computer; the reconfigurer is busy time of the modelled disk.",
    )
}

/// Figure 10.
pub(super) fn changes(p: &Phases) -> Table {
    let bytes = |name: &str| Column::number(name, Unit::Bytes);
    let columns = vec![
        Column::text("reconfiguration"),
        bytes("new"),
        bytes("relocated"),
        bytes("kept"),
        bytes("removed"),
        Column::text("paper").right(),
    ];
    let mut table = Table::new("Figure 10: differences in the plans, web server", columns);
    for (name, r) in reconfigurations(p) {
        let c = &r.change;
        table = table.row([
            name.into(),
            c.new_bytes.into(),
            c.relocated_bytes.into(),
            c.kept_bytes.into(),
            c.removed_bytes.into(),
            "–".into(),
        ]);
    }
    table.note("Against the plan before. C, P: ours, cumulative and partial; paper-C, paper-P: the paper's rule. The paper's text has no numbers.")
}

/// Figure 10 as bars.
pub(super) fn changes_figure(p: &Phases) -> Figure {
    let bars = StackedBars {
        axis: Axis::new("Data", Unit::Bytes),
        parts: ["new", "relocated", "kept", "removed"].map(String::from).to_vec(),
        bars: reconfigurations(p)
            .into_iter()
            .map(|(name, r)| {
                let c = &r.change;
                let parts = [c.new_bytes, c.relocated_bytes, c.kept_bytes, c.removed_bytes];
                Values::new(name, parts.map(|b| b as f64))
            })
            .collect(),
    };
    Figure::new("Changes of a plan", Basis::Modelled, bars)
        .caption("Figure 10. C cumulative, P partial training; paper: by the paper's rule; against the plan before.")
}
