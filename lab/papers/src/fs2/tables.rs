//! Tables 2 to 5, and Figure 11: each load on each system.

use seekless_report::{Better, Cell, Column, Table, Unit};

use super::claims::{access, gain, percent, user};
use super::experiments::Load;
use super::printed::{PRINTED, PrintedLoad, PrintedRow};
use super::replay::Fs2Run;

/// A time, in milliseconds.
fn ms(value: f64) -> Cell {
    Cell::from(format!("{value:.2}"))
}

fn is_timed(l: &Load) -> bool {
    !l.real && PRINTED[l.printed].load.is_timed()
}

/// Ours, and the paper's in brackets if the paper has one.
fn beside(ours: String, paper: String) -> String {
    if paper.is_empty() { ours } else { format!("{ours} ({paper})") }
}

fn printed(l: &Load, system: &str) -> (&'static PrintedLoad, Option<PrintedRow>) {
    let p = &PRINTED[l.printed];
    let row = match system {
        "fs2" => Some(p.fs2),
        "fs2-static" => p.fs2_static,
        _ => None,
    };
    (p, row)
}

/// Tables 2 to 5.
pub(super) fn table(l: &Load) -> Table {
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
        // The decrease, ours and the paper's; for Ext2 the values themselves.
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
        "Means of a disk I/O for clients; less: compared with Ext2; in brackets: the paper. T_A = T_s + T_r + T_t; an answer from the drive's buffer is all T_t (4.2). Read-ahead \
         makes fewer and longer I/Os: compare the busy time below. The paper's response time is that of a user's \
         transaction, computing included; ours is that of a request to the disk.",
    )
}

/// The cost of replication, and the gain.
pub(super) fn costs(l: &Load) -> Table {
    let (p, timed) = (&PRINTED[l.printed], is_timed(l));
    let busy = |name| Column::number(name, Unit::Seconds).better(Better::Lower);
    let same = |name: &str| if name.ends_with("read-ahead") { "ext2 + read-ahead" } else { "ext2" };
    let sums = |(name, runs): &(&'static str, Vec<Fs2Run>)| {
        let base = Fs2Run::sum(l.of(same(name)).unwrap_or_default());
        (*name, base.busy_s(), Fs2Run::sum(runs))
    };
    let moving = |all: &Fs2Run| all.replicating_s + all.after_s;
    let pages = |all: &Fs2Run| (all.replica_bytes as f64 / 4096.0).max(1.0);
    let table = Table::of(format!("{}: cost and gain", l.name), l.systems.iter().map(sums))
        .text("system", |(name, ..)| name)
        .column(busy("busy, last run"), |(name, ..)| l.last(name).busy_s())
        .column(busy("busy, all runs"), |(.., all)| all.busy_s())
        .number("replicating", Unit::Seconds, |(.., all)| moving(&all))
        .number("with replicating", Unit::Seconds, |(.., all)| all.busy_s() + moving(&all))
        .right("change", |(_, base, all)| {
            let value = all.busy_s() + moving(&all);
            Cell::Change { value, base, better: Better::Lower }
        })
        .number("replicas written", Unit::Bytes, |(.., all)| all.replica_bytes)
        .right("saved per replica", |(_, base, all)| {
            let [saved, cost] = [base - all.busy_s(), moving(&all)].map(|s| s * 1e3 / pages(&all));
            (all.replica_bytes > 0).then(|| format!("{saved:.2} of {cost:.2} ms"))
        })
        .right("first run slower", |(name, _, all)| {
            let first = user(&l.first(name), timed) / user(&l.first(same(name)), timed) - 1.0;
            (all.replica_bytes > 0).then(|| percent(first))
        })
        .right("energy less", |(name, ..)| {
            let paper = if name == "fs2" { percent(p.saved) } else { String::new() };
            beside(percent(gain(l.last("ext2").joules, l.last(name).joules)), paper)
        });
    table.done().note(format!(
        "Change: of the busy time of all runs with replicating, against Ext2 with the same RAM and read-ahead. Saved per replica: busy time that each page of \
         replicas saved in all runs, and its cost. Replicas are written after 250 ms without requests, and after each run. The paper's first run of TPC-W was \
         1.7 % slower.{}",
        p.joules.filter(|_| !l.real).map_or(String::new(), |j| format!(" The paper's joules: {:.0} and {:.0}.", j[0], j[1]))
    ))
}

/// Figure 11: run after run.
pub(super) fn by_run(l: &Load) -> Table {
    let mut table = Table::of(format!("{}: from run to run", l.name), 0..l.runs())
        .right("T_A in ms, run", |i| (i + 1).to_string());
    for (name, runs) in &l.systems {
        table = table.right(name, |i| runs.get(i).map(|r| ms(access(r)[0])));
    }
    table.done()
}
