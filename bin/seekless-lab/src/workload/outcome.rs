//! The results of a run on the terminal.

use seekless_cli::output;
use seekless_report::{Column, Table, Unit};
use seekless_workload::power::Energy;
use seekless_workload::{Filled, OpCount, Outcome, Personality};

pub(super) fn print(
    p: &Personality,
    filled: Filled,
    o: &Outcome,
    energy: &[Energy],
) -> anyhow::Result<()> {
    let title = format!(
        "{}: {} operations/s over {:.1} s, {} threads",
        p.name,
        Unit::Count.format(o.ops_per_s, 4),
        o.seconds,
        p.threads()
    );
    let columns = vec![
        Column::text("step"),
        Column::number("count", Unit::Count),
        Column::number("per second", Unit::Count),
        Column::number("moved", Unit::Bytes),
        Column::text("mean").right(),
        Column::text("p50").right(),
        Column::text("p95").right(),
        Column::text("p99").right(),
        Column::text("max").right(),
    ];
    let mut table = Table::new(title, columns);
    let turns =
        o.turns.iter().map(|t| OpCount { name: format!("turn of {}", t.name), ..t.clone() });
    for s in o.steps.iter().cloned().chain(turns) {
        let t = |s: f64| Unit::Seconds.format(s, 3).into();
        let l = s.latency;
        let rate = s.count as f64 / o.seconds;
        table = table.row([
            s.name.into(),
            s.count.into(),
            rate.into(),
            s.bytes.into(),
            t(l.mean_s),
            t(l.p50_s),
            t(l.p95_s),
            t(l.p99_s),
            t(l.max_s),
        ]);
    }
    let share = |x: f64| Unit::Share.format(x, 3);
    table = table.note(format!(
        "{} files, {} written in {}; processors: {} user, {} system, {} waiting for I/O, {} idle",
        filled.files,
        Unit::bytes(filled.bytes),
        Unit::Seconds.format(filled.seconds, 3),
        share(o.cpu.user),
        share(o.cpu.system),
        share(o.cpu.iowait),
        share(o.cpu.idle)
    ));
    output::tables([&table])?;
    for e in energy {
        output::print(&format!("energy: {}", e.told(o.operations)))?;
    }
    Ok(())
}
