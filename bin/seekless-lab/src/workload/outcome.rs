//! The results of a run on the terminal.

use seekless_cli::output;
use seekless_report::{Table, Unit};
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
    let turns =
        o.turns.iter().map(|t| OpCount { name: format!("turn of {}", t.name), ..t.clone() });
    let steps: Vec<OpCount> = o.steps.iter().cloned().chain(turns).collect();
    let time = |s: f64| Unit::Seconds.format(s, 3);
    let table = Table::of(title, &steps)
        .text("step", |s| s.name.as_str())
        .number("count", Unit::Count, |s| s.count)
        .number("per second", Unit::Count, |s| s.count as f64 / o.seconds)
        .number("moved", Unit::Bytes, |s| s.bytes)
        .right("mean", |s| time(s.latency.mean_s))
        .right("p50", |s| time(s.latency.p50_s))
        .right("p95", |s| time(s.latency.p95_s))
        .right("p99", |s| time(s.latency.p99_s))
        .right("max", |s| time(s.latency.max_s))
        .done();
    let share = |x: f64| Unit::Share.format(x, 3);
    let table = table.note(format!(
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
