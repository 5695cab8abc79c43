//! A comparison as a table for the terminal, a finding in words, and an HTML report.

use seekless_block::{Extent, Sectors};
use seekless_cli::figures::head_moves;
use seekless_compare::{CostUsd, Day, Outcome, Run};
use seekless_disk::DeviceSpec;
use seekless_report::{
    Axis, Basis, Better, Column, Figure, HeadPath, HeadRun, Lines, Points, Provenance, Report,
    Section, StackedBars, Table, Tile, Unit, Values,
};
use seekless_sim::Measured;

/// The numbers of every run side by side; a terminal shows the columns that fit.
pub(crate) fn table(outcome: &Outcome, terminal: bool) -> Table {
    let lower = |name: &str, unit| Column::number(name, unit).better(Better::Lower);
    let seconds = |name: &str| lower(name, Unit::Seconds);
    // A device without an arm has operations and a price in place of seeks and rotation.
    let armless = outcome.runs.iter().any(|r| r.operations.is_some());
    let [second, third] = if armless {
        [lower("operations", Unit::Count), lower("$ a million requests", Unit::Number)]
    } else {
        [seconds("seek"), seconds("rotation")]
    };
    // In a closed loop the faster system ends earlier, but its volume is held for as long as before.
    let cost = |r: &Run| {
        let usd = |c: &CostUsd| if outcome.replay == "open" { c.total } else { c.operations };
        let usd = r.cost_usd.as_ref().map_or(f64::NAN, usd);
        usd / r.requests.max(1) as f64 * 1e6
    };
    let share = |hits: f64, r: &Run| hits / r.requests.max(1) as f64;
    let title = format!("{} on {}, modelled", outcome.trace.path, outcome.disk);
    let mut table = Table::of(title, &outcome.runs)
        .text("policy", |r| r.policy.as_str())
        .column(seconds("busy"), |r| r.busy_s)
        .column(second, |r| r.operations.as_ref().map_or(r.seek_s, |o| (o.reads + o.writes) as f64))
        .column(third, |r| r.operations.as_ref().map_or(r.rotation_s, |_| cost(r)))
        .column(seconds("transfer"), |r| r.transfer_s)
        .column(seconds("background"), |r| r.background_busy_s)
        .column(lower("energy", Unit::Joules), |r| r.energy_j.total)
        .column(seconds("response"), |r| r.response_ms.mean / 1e3)
        .column(seconds("p99"), |r| r.response_ms.p99 / 1e3)
        .number("in RAM", Unit::Share, |r| share(r.cache_hits as f64, r))
        .number("copies", Unit::Share, |r| share(r.copy_hits as f64, r))
        .done();
    if terminal {
        table.columns.truncate(8);
    }
    let baseline = outcome.runs.iter().position(|r| r.policy == "vanilla");
    match baseline {
        Some(row) if outcome.runs.len() > 1 => table.baseline(row),
        _ => table,
    }
}

/// The joules of every run by state; states without time are left out. `None` if the power is not
/// known.
pub(crate) fn energy_table(outcome: &Outcome) -> Option<Table> {
    if outcome.runs.iter().all(|r| r.energy_j.total.is_none()) {
        return None;
    }
    let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
    let share = |r: &Run| {
        let e = &r.energy_j.states;
        [
            ("seek", e.seek),
            ("rotation, transfer", e.rotation_transfer),
            ("idle", e.idle),
            ("low idle", e.low_idle),
            ("standby", e.standby),
            ("spinning down, up", sum(e.spin_down, e.spin_up)),
            ("background", r.energy_j.background),
        ]
    };
    let rows: Vec<_> = outcome.runs.iter().map(share).collect();
    let seen = |column: usize| column < 3 || rows.iter().any(|r| r[column].1 > Some(0.0));
    let joules = |name: &str| Column::number(name, Unit::Joules).better(Better::Lower);
    let title = format!("Energy, modelled; spin-down: {}", outcome.spin_down);
    let mut table = Table::of(title, outcome.runs.iter().zip(&rows))
        .text("policy", |(run, _)| run.policy.as_str())
        .column(joules("a request"), |(run, _)| run.j_per_op);
    let names = rows.first().into_iter().flatten().enumerate();
    for (i, (name, _)) in names.filter(|(i, _)| seen(*i)) {
        table = table.column(joules(name), |(_, row)| row[i].1);
    }
    Some(table.done())
}

/// What each adaptive policy did; `None` without such a policy.
pub(crate) fn adaptive_table(outcome: &Outcome) -> Option<Table> {
    let runs = outcome.runs.iter().filter_map(|run| Some((run, run.adaptive.as_ref()?)));
    let table = Table::of("Read-ahead, trail and guard, modelled", runs)
        .text("policy", |(run, _)| run.policy.as_str())
        .number("prefetched", Unit::Bytes, |(_, a)| a.prefetched_bytes as f64)
        .number("of it used", Unit::Share, |(_, a)| a.prefetch_used_share)
        .number("trail reads", Unit::Count, |(_, a)| a.trail_reads as f64)
        .number("trail writes", Unit::Bytes, |(_, a)| a.trail_written_bytes as f64)
        .number("stood aside", Unit::Seconds, |(_, a)| a.guard_bypassed_s)
        .number("behind, at most", Unit::Seconds, |(_, a)| a.worst_excess_s)
        .done();
    (!table.rows.is_empty()).then(|| {
        table.note(
            "stood aside: disk time while the guard stopped the policy; behind, at most: disk time above vanilla \
             within a day",
        )
    })
}

/// The days of the first system with a guard, against vanilla; `None` with fewer than two days.
pub(crate) fn days_table(outcome: &Outcome) -> Option<Table> {
    let run = outcome.runs.iter().find(|r| r.days.len() > 1)?;
    let table = Table::of("Disk busy time day by day, modelled", &run.days)
        .number("day", Unit::Number, |d| d.day as f64)
        .number("vanilla", Unit::Seconds, |d| d.vanilla_s)
        .number(&run.policy, Unit::Seconds, |d| d.busy_s)
        .number("background", Unit::Seconds, |d| d.background_busy_s)
        .number("saves", Unit::Share, Day::saves);
    Some(table.done())
}

/// The tables below the first: energy, adaptive policies, days.
pub(crate) fn more_tables(outcome: &Outcome) -> impl Iterator<Item = Table> {
    [energy_table(outcome), adaptive_table(outcome), days_table(outcome)].into_iter().flatten()
}

fn named<'a>(outcome: &'a Outcome, policy: &str) -> Option<&'a Run> {
    let is_named = |r: &&Run| r.policy.split(':').next() == Some(policy);
    outcome.runs.iter().find(is_named)
}

/// The policy that the finding is about: adaptive, or the first that learns.
fn learner(outcome: &Outcome) -> Option<&Run> {
    let known = |r: &&Run| !r.policy.starts_with("vanilla") && !r.policy.starts_with("clairvoyant");
    named(outcome, "adaptive").or_else(|| outcome.runs.iter().find(known))
}

/// Smaller gains count as none: a small change for half the disk's data has the same effect.
const NOTHING: f64 = 0.005;

fn all_busy(run: &Run) -> f64 {
    run.busy_s + run.background_busy_s
}

/// The finding in some sentences, with losses and the cost of background work.
pub(crate) fn finding(outcome: &Outcome) -> String {
    let Some(vanilla) = named(outcome, "vanilla") else {
        return "No vanilla run to compare with.".to_owned();
    };
    if vanilla.busy_s <= 0.0 {
        return "The trace keeps no disk busy.".to_owned();
    }
    let percent = |x: f64| Unit::Share.format(x.abs(), 3);
    let word = |x: f64| if x >= 0.0 { "less" } else { "more" };
    let net = |run: &Run| 1.0 - all_busy(run) / vanilla.busy_s;
    let learner = learner(outcome);
    let mut text = match learner {
        None => format!("Vanilla: {} busy.", Unit::Seconds.format(vanilla.busy_s, 3)),
        Some(run) => {
            let gain = 1.0 - run.busy_s / vanilla.busy_s;
            format!(
                "Over {} measured requests {} keeps the disk busy {} {} than vanilla; with background work counted \
                 ({} written), {} {}.",
                Unit::count(run.requests),
                run.policy,
                percent(gain),
                word(gain),
                Unit::bytes(run.moved_bytes),
                percent(net(run)),
                word(net(run)),
            )
        }
    };
    if learner.is_some_and(|run| net(run) < NOTHING) {
        text += " It found nothing to gain here.";
    }
    match named(outcome, "clairvoyant").map(net) {
        None => {}
        Some(there) if there < NOTHING => {
            text += " Even a policy that knows the next 1,000 requests gains next to nothing here.";
        }
        Some(there) => {
            text +=
                &format!(" A policy that knows the next 1,000 requests saves {}", percent(there));
            text += &learner.map_or(".".to_owned(), |run| {
                let share = (net(run) / there).max(0.0);
                format!(": {} finds {} of that.", run.policy, Unit::Share.format(share, 2))
            });
        }
    }
    text
}

/// The change of a number, in percent.
pub(crate) fn change(new: f64, old: f64) -> String {
    let x = new / old - 1.0;
    let sign = if x < 0.0 { "\u{2212}" } else { "+" };
    let sign = if x.is_finite() { sign } else { "" };
    format!("{sign}{}", Unit::Share.format(x.abs(), 3))
}

/// A number before and after.
pub(crate) fn both(unit: &Unit, old: f64, new: f64) -> String {
    format!("{} \u{2192} {}", unit.format(old, 3), unit.format(new, 3))
}

fn tiles(v: &Run, b: &Run) -> impl Iterator<Item = Tile> {
    let energy = v.energy_j.total.zip(b.energy_j.total).zip(v.j_per_op.zip(b.j_per_op));
    let energy = energy.map(|((all_v, all_b), (each_v, each_b))| {
        let each = both(&Unit::Joules, each_v, each_b);
        Tile::new(
            "Energy per request",
            change(all_b, all_v),
            format!("{each}, background work counted"),
        )
    });
    let first = [
        Tile::new(
            "Disk busy time",
            change(b.busy_s, v.busy_s),
            both(&Unit::Seconds, v.busy_s, b.busy_s) + ", background work not counted",
        ),
        Tile::new(
            "With background work",
            change(all_busy(b), v.busy_s),
            format!("{} written", Unit::bytes(b.moved_bytes)),
        ),
    ];
    let response = Tile::new(
        "Mean response time",
        change(b.response_ms.mean, v.response_ms.mean),
        both(&Unit::Seconds, v.response_ms.mean / 1e3, b.response_ms.mean / 1e3),
    );
    first.into_iter().chain(energy).chain([response])
}

pub(crate) fn report(outcome: &Outcome, spec: &DeviceSpec, command: &str) -> Report {
    let title = format!("{} on {}", outcome.trace.path, spec.title());
    let mut report = Report::new(title, finding(outcome));
    if let (Some(v), Some(b)) = (named(outcome, "vanilla"), learner(outcome)) {
        report = tiles(v, b).fold(report, Report::tile);
    }
    let parts = StackedBars {
        axis: Axis::new("busy time", Unit::Seconds),
        parts: ["seek", "rotation", "transfer", "background"].map(str::to_owned).to_vec(),
        bars: outcome
            .runs
            .iter()
            .map(|r| {
                Values::new(
                    r.policy.as_str(),
                    [r.seek_s, r.rotation_s, r.transfer_s, r.background_busy_s],
                )
            })
            .collect(),
    };
    let response = Lines {
        x: Axis::new("response time", Unit::Seconds).log(),
        y: Axis::new("requests answered", Unit::Share),
        series: outcome
            .runs
            .iter()
            .zip(&outcome.measured)
            .map(|(r, m)| Points::new(r.policy.as_str(), cdf(m)))
            .collect(),
    };
    let costs = Section::new("What it costs").table(table(outcome, false));
    let costs = more_tables(outcome).fold(costs, Section::table);
    report
        .section(
            costs
                .figure(
                    Figure::new("Where the disk's time goes", Basis::Modelled, parts)
                        .caption("Busy time over the measured requests, and of background work."),
                )
                .figure(
                    Figure::new("How long requests take", Basis::Modelled, response).caption(
                        "Share of requests answered within a time; answers from RAM take no time: they are at the left edge.",
                    ),
                ),
        )
        .section(Section::new("Where the head goes").figure(head_figure(outcome, spec)))
        .provenance(provenance(outcome, spec, command))
}

/// The head's path under each policy.
pub(crate) fn head_figure(outcome: &Outcome, spec: &DeviceSpec) -> Figure {
    Figure::new("Head position over time", Basis::Modelled, head(outcome, spec)).caption(
        "Every disk I/O of each run at its first sector; the shaded band is the optimized area. Time 0 is the start of the data moves.",
    )
}

fn cdf(m: &Measured) -> Vec<(f64, f64)> {
    // A logarithmic axis has no zero: answers from RAM are shown at a microsecond.
    let all: Vec<(f64, f64)> = m.response.cdf().map(|(ms, q)| ((ms / 1e3).max(1e-6), q)).collect();
    let step = all.len().div_ceil(600).max(1);
    let last = all.len().saturating_sub(1);
    all.into_iter()
        .enumerate()
        .filter(|(i, _)| i % step == 0 || *i == last)
        .map(|(_, p)| p)
        .collect()
}

fn head(outcome: &Outcome, spec: &DeviceSpec) -> HeadPath {
    let area =
        |r: &Run| r.optimized_start_sector.map(|at| Extent::new(at, r.optimized_bytes / 512));
    let runs: Vec<HeadRun> = outcome
        .runs
        .iter()
        .zip(&outcome.measured)
        .map(|(r, m)| HeadRun { name: r.policy.clone(), moves: head_moves(&m.path), area: area(r) })
        .collect();
    // The used part of the disk: the rest would make the picture narrower.
    let highest = runs.iter().flat_map(|r| &r.moves).map(|m| m.lba.0 + 1).max().unwrap_or(1);
    let used = Sectors(highest.next_multiple_of(2048).min(spec.capacity().0));
    HeadPath { capacity: used, runs }
}

fn provenance(outcome: &Outcome, spec: &DeviceSpec, command: &str) -> Provenance {
    let (t, split) = (&outcome.trace, &outcome.split);
    let [requests, reads, writes] = [t.requests, t.reads, t.writes].map(Unit::count);
    let touched = Unit::bytes(t.footprint_bytes);
    let trace = format!(
        "{}: {requests} requests, {reads} reads, {writes} writes, {touched} touched",
        t.format
    );
    let learned = Unit::count(split.train_requests);
    let learned = format!("{learned} requests before those measured (split by {})", split.by);
    let replay = match (outcome.queue_depth, outcome.think_s) {
        (Some(_), Some(s)) => {
            format!(
                "closed loop, {} from an answer to the next request",
                Unit::Seconds.format(s, 3)
            )
        }
        (Some(depth), None) => format!("closed loop, {depth} in flight"),
        (None, _) => "open loop, at arrival times".to_owned(),
    };
    Provenance::of(command)
        .fact("trace", trace)
        .fact("learned from", learned)
        .fact("disk", spec.title())
        .fact("scheduler", &outcome.scheduler)
        .fact("spin-down", &outcome.spin_down)
        .fact("replay", replay)
        .fact("RAM", Unit::bytes(outcome.cache_bytes))
        .fact("read-ahead", Unit::bytes(outcome.read_ahead_bytes))
        .fact("cluster", Unit::bytes(outcome.cluster_bytes))
        .fact("optimized area", Unit::bytes(outcome.optimized_bytes))
        .measured("the requests of the trace")
        .modelled("every time, and every joule: seek, rotation and transfer of the disk named above; RAM starts empty for every policy")
}
