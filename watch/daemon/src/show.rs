//! The tables of `status` and `report`.

use seekless_jobs::{JobReport, Tally};
use seekless_report::{Cell, Column, Table};

use crate::report::{FilesystemReport, WatchReport};

/// The counts since the start, by file system.
pub fn status(report: &WatchReport, width: usize, colour: bool) -> String {
    let names = [
        "file system",
        "jobs",
        "recognized runs",
        "waits for the disk",
        "pages read ahead",
        "used",
        "in vain",
        "disk's time in vain, last hour",
    ];
    let mut table = Table::new("File systems", columns(&names));
    for f in &report.filesystems {
        let t = &f.totals;
        table = table.row([
            Cell::from(f.mount.as_str()),
            number(f.jobs.len()),
            number(t.recognized),
            number(t.misses),
            number(t.fetched),
            number(t.used),
            number(t.vain),
            Cell::from(format!("{:.1} s", t.vain_last_hour as f64 / 1000.0).as_str()),
        ]);
    }
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
    let saved = if dry_run { "waits saved, estimated" } else { "in vain" };
    let names = ["job", "pages", "runs", "alone", "helped", "times faster", saved];
    let mut table = Table::new(format!("Jobs on {}", filesystem.mount), columns(&names));
    let mut all: Vec<&JobReport> = filesystem.jobs.iter().collect();
    all.sort_by_key(|j| std::cmp::Reverse(u64::from(j.plain.millis) * u64::from(j.runs)));
    for job in all {
        let name = if job.name.is_empty() { job.id.to_string() } else { job.name.clone() };
        let rests = if job.rests { " (paused)" } else { "" };
        let (alone, helped) = (job.plain, job.helped);
        let run = |t: Tally| match t.runs {
            0 => String::new(),
            n => format!("{:.1} s, {} waits, {n} runs", f64::from(t.millis) / 1000.0, t.misses),
        };
        let faster = if alone.runs > 0 && helped.runs > 0 {
            format!("{:.1}", f64::from(alone.millis) / f64::from(helped.millis.max(1)))
        } else {
            String::new()
        };
        let last = match job.fetched {
            _ if dry_run => format!("{} to {}", job.would.0, job.would.1),
            0 => String::new(),
            n => format!("{:.0} %", 100.0 * job.vain as f64 / n as f64),
        };
        table = table.row([
            Cell::from(format!("{name}{rests}").as_str()),
            number(job.pages),
            number(job.runs),
            Cell::from(run(alone).as_str()),
            Cell::from(run(helped).as_str()),
            Cell::from(faster.as_str()),
            Cell::from(last.as_str()),
        ]);
    }
    table
}

fn columns(names: &[&str]) -> Vec<Column> {
    let column = |(i, n): (usize, &&str)| {
        if i == 0 { Column::text(*n) } else { Column::text(*n).right() }
    };
    names.iter().enumerate().map(column).collect()
}

fn number(n: impl ToString) -> Cell {
    Cell::from(n.to_string().as_str())
}
