//! Figures 9 and 10: the time of each reconfiguration, and the difference between two plans.

use seekless_report::{Axis, Basis, Figure, StackedBars, Table, Unit, Values};

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
    let all = reconfigurations(p);
    let table = Table::of("Figure 9: time of a reconfiguration, web server", &all)
        .text("reconfiguration", |(name, _)| name.as_str())
        .number("analyzer", Unit::Seconds, |(_, r)| r.analyzer_s)
        .number("planner", Unit::Seconds, |(_, r)| r.planner_s)
        .number("reconfigurer", Unit::Seconds, |(_, r)| r.reconfigurer_s)
        .number("vertices", Unit::Count, |(_, r)| r.vertices)
        .number("edges", Unit::Count, |(_, r)| r.edges)
        .right("paper", |_| "–");
    table.done().note(
        "C cumulative, P partial; paper: by the paper's rule. Analyzer and planner: time on this computer, measured while other replays run; the analyzer reads \
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
    let all = reconfigurations(p);
    let table = Table::of("Figure 10: differences in the plans, web server", &all)
        .text("reconfiguration", |(name, _)| name.as_str())
        .number("new", Unit::Bytes, |(_, r)| r.change.new_bytes)
        .number("relocated", Unit::Bytes, |(_, r)| r.change.relocated_bytes)
        .number("kept", Unit::Bytes, |(_, r)| r.change.kept_bytes)
        .number("removed", Unit::Bytes, |(_, r)| r.change.removed_bytes)
        .right("paper", |_| "–")
        .done();
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
