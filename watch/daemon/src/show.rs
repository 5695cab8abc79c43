//! The tables of `status` and `report`.

use seekless_jobs::{JobReport, Tally};
use seekless_report::Table;

use crate::report::{FilesystemReport, WatchReport};

/// The counts since the start, by file system.
pub fn status(report: &WatchReport, width: usize, colour: bool) -> String {
    let table = Table::of("File systems", &report.filesystems)
        .text("file system", |f| f.mount.as_str())
        .right("jobs", |f| f.jobs.len().to_string())
        .right("recognized runs", |f| f.totals.recognized.to_string())
        .right("waits for the disk", |f| f.totals.misses.to_string())
        .right("pages read ahead", |f| f.totals.fetched.to_string())
        .right("used", |f| f.totals.used.to_string())
        .right("in vain", |f| f.totals.vain.to_string())
        .right("disk's time in vain, last hour", |f| seconds(f.totals.vain_last_hour))
        .done();
    let mut text = table.terminal(width, colour);
    text += &format!("Since {} s.", report.seconds);
    if report.dry_run {
        text += " Dry run: nothing is read ahead.";
    }
    if report.pages_ahead == 0 {
        text += " Memory is short: nothing is read ahead now.";
    }
    if report.lost_events > 0 {
        text += &format!(" The kernel lost {} events.", report.lost_events);
    }
    text
}

/// The jobs, and what is saved for each.
pub fn jobs(report: &WatchReport, width: usize, colour: bool) -> String {
    let text = report
        .filesystems
        .iter()
        .map(|f| jobs_of(f, report.dry_run).terminal(width, colour))
        .collect::<Vec<_>>();
    text.join("\n")
}

fn jobs_of(filesystem: &FilesystemReport, dry_run: bool) -> Table {
    let mut all: Vec<&JobReport> = filesystem.jobs.iter().collect();
    all.sort_by_key(|j| std::cmp::Reverse(u64::from(j.plain.millis) * u64::from(j.runs)));
    let name = |j: &JobReport| {
        let name = if j.name.is_empty() { j.id.to_string() } else { j.name.clone() };
        name + if j.rests { " (paused)" } else { "" }
    };
    let runs = |t: Tally| match t.runs {
        0 => String::new(),
        n => format!("{}, {} waits, {n} runs", seconds(t.millis.into()), t.misses),
    };
    let faster = |alone: Tally, helped: Tally| match (alone.runs, helped.runs) {
        (0, _) | (_, 0) => String::new(),
        _ => format!("{:.1}", f64::from(alone.millis) / f64::from(helped.millis.max(1))),
    };
    let vain = |j: &JobReport| match j.fetched {
        0 => String::new(),
        n => format!("{:.0} %", 100.0 * j.vain as f64 / n as f64),
    };
    let table = Table::of(format!("Jobs on {}", filesystem.mount), all)
        .text("job", name)
        .right("pages", |j| j.pages.to_string())
        .right("runs", |j| j.runs.to_string())
        .right("alone", |j| runs(j.plain))
        .right("helped", |j| runs(j.helped))
        .right("times faster", |j| faster(j.plain, j.helped));
    let table = if dry_run {
        table.right("waits saved, estimated", |j| format!("{} to {}", j.would.0, j.would.1))
    } else {
        table.right("in vain", vain)
    };
    table.done()
}

fn seconds(millis: u64) -> String {
    format!("{:.1} s", millis as f64 / 1000.0)
}
