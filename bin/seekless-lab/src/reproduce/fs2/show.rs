//! What was found, as tables, figures, a report and JSON; the paper's numbers beside ours. Knows how to say it, not how it
//! came about.

use seekless_block::{Sectors, SimTime};
use seekless_papers::Fs2Run;
use seekless_report::{
    Axis, BarSeries, Bars, Basis, Better, Cell, Column, Figure, HeadPath, HeadRun, Lines, Points,
    Provenance, Report, Section, StackedBars, Table, Tile, Unit, Values,
};
use serde_json::{Value, json};

use super::claims::{self, Claim, access, claims, gain, percent, user};
use super::distances;
use super::paper::{PRINTED, Printed, Row};
use super::run::{DISK, Load, Results};
use seekless_cli::output;

/// What everything here is: said first in all that is shown.
const HONEST: &str = "All loads are synthetic, but for one recorded with --real: made up on an aged file system of 60 % data, whose files \
lie in groups of 128 MiB with others' in between; how much of a run recurs is ours, and what the gains depend on. The disk is the modelled one \
of FS2's testbed with a buffer of 8 MB that reads on, the same for all; the scheduler is anticipatory. Requests are those below a cold page \
cache. Each load is run seven times; shown is the last. fs2-static replicates all files before the first run; fs2 follows the paper, with \
regions of one block group (wide: five; the paper does not say); fs2-whole, ours, replicates whatever is read in short runs, wherever it lies; fs2-proven, ours, of that \
only what came again so often before that its replica pays. With read-ahead: 64 KiB at home and of replicas, 16 MiB of RAM, for both.";

/// Everything that is shown.
pub(super) struct Shown<'a> {
    results: &'a Results,
    claims: Vec<Claim>,
}

/// A time, in milliseconds.
fn ms(value: f64) -> Cell {
    Cell::from(format!("{value:.2}"))
}

impl<'a> Shown<'a> {
    pub(super) fn new(results: &'a Results) -> Self {
        Self { results, claims: claims(results) }
    }

    /// On the terminal.
    pub(super) fn print(&self) -> anyhow::Result<()> {
        output::print(&format!("FS2 (SOSP 2005), reproduced. {HONEST}{}\n", self.scaled()))?;
        let tables =
            self.results.loads.iter().flat_map(|l| {
                [table(l), costs(l), by_run(l), distances::table(l, &self.results.seek)]
            });
        let beside = self.results.beside.tables(&self.results.loads);
        for table in tables.chain(beside).chain([claims::table(&self.claims)]) {
            output::print(&table.terminal(output::width(), output::colour()))?;
        }
        output::print(&self.lead())
    }

    fn scaled(&self) -> String {
        if self.results.scale == 1.0 {
            return String::new();
        }
        format!(" Loads are {} times their full size.", self.results.scale)
    }

    fn lead(&self) -> String {
        let held = self.claims.iter().filter(|c| c.holds).count();
        let of = |system: &str| -> Vec<String> {
            let loads = self.results.loads.iter().filter(|l| !l.real);
            let gain =
                |l: &Load| percent(gain(access(&l.last("ext2"))[0], access(&l.last(system))[0]));
            loads.map(gain).collect()
        };
        format!(
            "{held} of {} things the paper says hold here as well. T_A of the seventh run is shorter than Ext2's by {} with the paper's rule and by {} \
             with whole sequences (TPC-W, CVS, X, SURGE, all synthetic, on a modelled disk; the paper: 50, 41, 44, 69 %).",
            self.claims.len(),
            of("fs2").join(", "),
            of("fs2-whole").join(", ")
        )
    }

    pub(super) fn report(&self, command: &str) -> Report {
        let mut report = Report::new("FS2, reproduced", self.lead());
        for l in &self.results.loads {
            let p = &PRINTED[l.printed];
            let base = access(&l.last("ext2"))[0];
            let ours = gain(base, access(&l.last("fs2-whole"))[0]);
            let rule = gain(base, access(&l.last("fs2"))[0]);
            report = report.tile(Tile::new(
                format!("{}: T_A shorter", l.name),
                percent(ours),
                format!(
                    "fs2-whole; the paper's rule {}; the paper {}",
                    percent(rule),
                    percent(p.fs2.access)
                ),
            ));
        }
        report = report.section(
            Section::new("What holds")
                .text(format!("{HONEST}{}", self.scaled()))
                .table(claims::table(&self.claims)),
        );
        for l in &self.results.loads {
            let p = &PRINTED[l.printed];
            let title = format!("{}, {}: {}", p.table, p.figures, l.name);
            let section = Section::new(title).figure(accesses(l));
            let clouds = distances::figures(l).into_iter().fold(section, Section::figure);
            report = report.section(
                clouds
                    .table(distances::table(l, &self.results.seek))
                    .figure(parts(l))
                    .figure(energy(l))
                    .table(table(l))
                    .figure(progress(l))
                    .table(by_run(l))
                    .table(costs(l)),
            );
        }
        let beside = Section::new("Beside the tables: Figure 3, 3.3 and 4.6");
        let tables = self.results.beside.tables(&self.results.loads);
        report = report.section(tables.into_iter().fold(beside, Section::table));
        let real = self.results.loads.iter().any(|l| l.real);
        let mut measured = vec!["The paper's numbers, on its authors' machine.".to_owned()];
        if real {
            measured.push("Which sectors the recorded update asked for, and what was free.".into());
        }
        report.provenance(Provenance {
            command: command.to_owned(),
            facts: vec![
                ("seekless".into(), env!("CARGO_PKG_VERSION").into()),
                ("disk".into(), DISK.into()),
                ("seed".into(), self.results.seed.to_string()),
                ("scale".into(), self.results.scale.to_string()),
            ],
            measured,
            modelled: vec!["Every time and joule of ours.".into()],
        })
    }

    pub(super) fn document(&self) -> Value {
        let row = |r: &Row| json!({ "disk_busy": r.busy, "access": r.access, "seek": r.seek, "rotation": r.rotation, "energy": r.energy });
        let load = |l: &Load| {
            let p = &PRINTED[l.printed];
            json!({
                "load": l.name, "synthetic": !l.real, "table": p.table, "figures": p.figures,
                "paper": {
                    "ext2_busy": p.busy, "fs2": row(&p.fs2), "fs2_static": p.fs2_static.as_ref().map(row),
                    "ext2_ms_and_mj": p.ext2, "runtime_s": p.runtime, "user": p.user,
                    "user_static": p.user_static, "joules": p.joules, "saved": p.saved,
                },
                "systems": l.systems.iter().map(|(name, runs)| json!({
                    "name": name, "runs": runs,
                    "last": means(runs.last().copied().unwrap_or_default()),
                    "after_a_crash": l.proofs.iter().find(|p| p.0 == *name).map(|p| p.1),
                })).collect::<Vec<_>>(),
                "by_distance": distances::document(l, &self.results.seek),
            })
        };
        json!({
            "schema": "seekless.reproduce/1",
            "what": "fs2",
            "disk": DISK,
            "scale": self.results.scale,
            "seed": self.results.seed,
            "loads": self.results.loads.iter().map(load).collect::<Vec<_>>(),
            "beside": self.results.beside.document(),
            "claims": self.claims,
        })
    }
}

fn means(run: Fs2Run) -> Value {
    let [t_a, t_s, t_r, mj] = access(&run);
    json!({ "access_ms": t_a, "seek_ms": t_s, "rotation_ms": t_r, "access_mj": mj,
            "disk_busy": run.busy_s() / run.span_s.max(f64::MIN_POSITIVE) })
}

fn is_timed(l: &Load) -> bool {
    !l.real && PRINTED[l.printed].load.is_timed()
}

/// Ours, and the paper's in brackets where it has any.
fn beside(ours: String, paper: String) -> String {
    if paper.is_empty() { ours } else { format!("{ours} ({paper})") }
}

/// What the paper prints of a system.
fn printed(l: &Load, system: &str) -> (&'static Printed, Option<Row>) {
    let p = &PRINTED[l.printed];
    let row = match system {
        "fs2" => Some(p.fs2),
        "fs2-static" => p.fs2_static,
        _ => None,
    };
    (p, row)
}

/// Tables 2 to 5.
fn table(l: &Load) -> Table {
    let waits = if is_timed(l) { "response" } else { "runtime" };
    let columns = ["system", "busy", "T_A ms", "T_s ms", "T_r ms", "mJ an access", waits];
    let columns = columns.map(Column::text).to_vec();
    let (p, _) = printed(l, "ext2");
    let kind = if l.real { "recorded; the paper's of its CVS update" } else { "synthetic" };
    let mut table =
        Table::new(format!("{}: {} ({kind}), run {}", p.table, l.name, l.runs()), columns);
    let vanilla = l.last("ext2");
    let base = access(&vanilla);
    let timed = is_timed(l);
    for (name, runs) in &l.systems {
        let run = runs.last().copied().unwrap_or_default();
        let (ours, ext2) = (access(&run), *name == "ext2");
        let (p, row) = printed(l, name);
        let own = |text: String| if ext2 { text } else { String::new() };
        let busy = if ext2 { Some(p.busy) } else { row.map(|r| r.busy) };
        let share = run.busy_s() / run.span_s.max(f64::MIN_POSITIVE);
        let mut cells = vec![
            Cell::from(*name),
            Cell::from(beside(percent(share), busy.map(percent).unwrap_or_default())),
        ];
        // What is less, ours and the paper's; of Ext2 the values themselves.
        let cell = |value: String, ours: f64, row: Option<f64>, ext2_is: String| {
            let less = if ext2 { String::new() } else { format!(", {} less", percent(ours)) };
            Cell::from(beside(value + &less, row.map_or(own(ext2_is), percent)))
        };
        let improved = row.map(|r| [r.access, r.seek, r.rotation, r.energy]);
        for i in 0..4 {
            let printed = p.ext2.map(|e| format!("{:.2}", e[i])).unwrap_or_default();
            let less = gain(base[i], ours[i]);
            cells.push(cell(format!("{:.2}", ours[i]), less, improved.map(|r| r[i]), printed));
        }
        let paper = match *name {
            "fs2" => Some(p.user),
            "fs2-static" => p.user_static,
            _ => None,
        };
        let printed = p.runtime.map(|r| format!("{:.1} s", r[0])).unwrap_or_default();
        let waited = user(&run, timed);
        let value = if timed { format!("{waited:.2} ms") } else { format!("{waited:.1} s") };
        cells.push(cell(value, gain(user(&vanilla, timed), waited), paper, printed));
        table = table.row(cells);
    }
    table.note(
        "Of an I/O of the disk for clients, on the mean; less: than Ext2's; in brackets the paper's. T_A = T_s + T_r + T_t; an answer out of the drive's buffer is all T_t (4.2). With read-ahead \
         there are fewer I/Os, and longer ones: compare the busy time below. The paper's response is that of a user's \
         transaction, computing included; ours of a request of the disk.",
    )
}

/// What replicating costs, and what is gained by then.
fn costs(l: &Load) -> Table {
    let number = |name: &str, unit: Unit| Column::number(name, unit);
    let columns = vec![
        Column::text("system"),
        number("busy, last run", Unit::Seconds).better(Better::Lower),
        number("busy, all runs", Unit::Seconds).better(Better::Lower),
        number("replicating", Unit::Seconds),
        number("all counted", Unit::Seconds),
        Column::text("change").right(),
        number("replicas written", Unit::Bytes),
        Column::text("saved a replica").right(),
        Column::text("first run slower").right(),
        Column::text("energy less").right(),
    ];
    let (p, timed) = (&PRINTED[l.printed], is_timed(l));
    let mut table = Table::new(format!("{}: cost and gain", l.name), columns);
    let vanilla = l.last("ext2");
    for (name, runs) in &l.systems {
        let same = if name.ends_with("read-ahead") { "ext2 + read-ahead" } else { "ext2" };
        let base = Fs2Run::sum(l.of(same).unwrap_or_default());
        let (all, last) = (Fs2Run::sum(runs), runs.last().copied().unwrap_or_default());
        let moving = all.replicating_s + all.after_s;
        let pages = all.replica_bytes as f64 / 4096.0;
        let saved = (base.busy_s() - all.busy_s()) * 1e3 / pages.max(1.0);
        let first = user(&l.first(name), timed) / user(&l.first(same), timed) - 1.0;
        let paper = match *name {
            "fs2" => percent(p.saved),
            _ => String::new(),
        };
        let replicates = all.replica_bytes > 0;
        let text = |text: String| if replicates { Cell::from(text) } else { Cell::Empty };
        table = table.row([
            Cell::from(*name),
            last.busy_s().into(),
            all.busy_s().into(),
            moving.into(),
            (all.busy_s() + moving).into(),
            Cell::Change {
                value: all.busy_s() + moving,
                base: base.busy_s(),
                better: Better::Lower,
            },
            all.replica_bytes.into(),
            text(format!("{saved:.2} of {:.2} ms", moving * 1e3 / pages.max(1.0))),
            text(percent(first)),
            Cell::from(beside(percent(gain(vanilla.joules, last.joules)), paper)),
        ]);
    }
    table.note(format!(
        "Change: of the busy time of all runs with replicating, against Ext2 with the same RAM and read-ahead. Saved a replica: busy time that each page of \
         replicas saved in all runs, of what it cost. Replicas are written where nothing was asked for 250 ms, and after each run. The paper's first run of TPC-W was \
         1.7 % slower.{}",
        p.joules.filter(|_| !l.real).map_or(String::new(), |j| format!(" The paper's joules: {:.0} and {:.0}.", j[0], j[1]))
    ))
}

/// Figure 11: run after run.
fn by_run(l: &Load) -> Table {
    let mut columns = vec![Column::text("T_A in ms, run").right()];
    columns.extend(l.systems.iter().map(|s| Column::text(s.0).right()));
    let runs = l.systems.first().map_or(0, |s| s.1.len());
    (0..runs).fold(Table::new(format!("{}: from run to run", l.name), columns), |table, i| {
        let cells = l.systems.iter().map(|s| s.1.get(i).map_or(Cell::Empty, |r| ms(access(r)[0])));
        table.row([Cell::from((i + 1).to_string())].into_iter().chain(cells))
    })
}

pub(super) fn basis(l: &Load) -> (Basis, &'static str) {
    if l.real {
        (Basis::Mixed, "A recorded update on the modelled disk.")
    } else {
        (Basis::Modelled, "A synthetic load on the modelled disk.")
    }
}

/// Figure 9 (a1) to (c1): the sectors that were accessed in the last run.
fn accesses(l: &Load) -> Figure {
    let track = |(name, paths): &(&'static str, Vec<(usize, seekless_sim::HeadPath)>)| {
        let path = &paths.last()?.1;
        let mut moves = seekless_cli::figures::head_moves(path);
        let first = moves.first().map_or(SimTime::ZERO, |m| m.at);
        moves.iter_mut().for_each(|m| m.at = SimTime(m.at.0 - first.0));
        Some(HeadRun { name: (*name).to_owned(), moves, area: None })
    };
    let runs: Vec<HeadRun> = l.paths.iter().filter_map(track).collect();
    let highest = runs.iter().flat_map(|r| &r.moves).map(|m| m.lba.0 + 1).max().unwrap_or(1);
    let capacity = Sectors(highest.next_multiple_of(1 << 11));
    let (basis, words) = basis(l);
    Figure::new("Sectors accessed in the last run", basis, HeadPath { capacity, runs })
        .caption(words)
}

fn parts(l: &Load) -> Figure {
    let bar = |(name, runs): &(&str, Vec<Fs2Run>)| {
        let run = runs.last().copied().unwrap_or_default();
        let parts = [run.seek_s, run.rotation_s, run.transfer_s];
        Values::new(*name, parts.map(|s| run.mean_ms(s) / 1e3))
    };
    let bars = StackedBars {
        axis: Axis::new("Access time", Unit::Seconds),
        parts: ["seek", "rotation", "transfer"].map(String::from).to_vec(),
        bars: l.systems.iter().map(bar).collect(),
    };
    let (basis, words) = basis(l);
    Figure::new("Mean access time and what it is made of", basis, bars).caption(words)
}

fn energy(l: &Load) -> Figure {
    let bars = Bars {
        axis: Axis::new("Energy of an access", Unit::Joules),
        categories: l.systems.iter().map(|s| s.0.to_owned()).collect(),
        series: vec![BarSeries {
            name: "last run".to_owned(),
            values: l.systems.iter().map(|s| (access(&l.last(s.0))[3] / 1e3).into()).collect(),
        }],
    };
    let (basis, words) = basis(l);
    Figure::new("Mean energy of an access", basis, bars).caption(words)
}

fn progress(l: &Load) -> Figure {
    let series = |(name, runs): &(&str, Vec<Fs2Run>)| {
        let points = runs.iter().enumerate().map(|(i, r)| (i as f64 + 1.0, access(r)[0] / 1e3));
        Points::new(*name, points.collect::<Vec<_>>())
    };
    let lines = Lines {
        x: Axis::new("Run", Unit::Count),
        y: Axis::new("Access time", Unit::Seconds),
        series: l.systems.iter().map(series).collect(),
    };
    let (basis, words) = basis(l);
    Figure::new("Access time from run to run", basis, lines).caption(words)
}
