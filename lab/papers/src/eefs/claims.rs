//! Our answers to the paper's claims (`claims/eefs.toml`): EEFS against the fast file system.

use super::experiments::Compared;
use super::replay::{FileOutcome, Grouping};
use crate::PaperError;
use crate::claims::{Answers, Judged, Paper};

/// The days in the file of claims, and in a ranking; in the order of [`super::printed::PAPER`].
const DAYS: [(&str, &str); 4] =
    [("ins", "INS"), ("res", "RES"), ("light", "Light I/O"), ("heavy", "Heavy I/O")];
/// Of the days with groups: the grouping with the longer interval, five times Table 2's first.
pub(super) type LongIntervalGroupings = [Grouping; 2];

/// The claims about the made-up days, judged. `parts` are the parts of the days that were run.
pub(super) fn judged(
    compared: &[Compared],
    parts: [f64; 4],
    rare: &LongIntervalGroupings,
) -> Result<Judged, PaperError> {
    let mut answers = Answers::default();
    let mut saved = Vec::new();
    for ((c, (id, name)), part) in compared.iter().zip(DAYS).zip(parts) {
        if let [ffs, _, eefs] = &c.outcomes[..] {
            disk(&mut answers, id, ffs, eefs, part);
            saved.push((name.to_owned(), 1.0 - eefs.energy.total / ffs.energy.total));
        }
    }
    answers.add(Paper, "order.total", saved);
    for ((c, (id, _)), rare) in compared.iter().zip(DAYS).zip(rare) {
        if let [ffs, _, eefs] = &c.outcomes[..] {
            answers.add(Paper, format!("{id}.hits.ffs"), ffs.hits);
            let rise = (eefs.hits - ffs.hits) * 100.0;
            answers.add(Paper, format!("{id}.hits.rise"), rise);
            let often = eefs.grouping.unwrap_or_default();
            used(&mut answers, id, &often);
            table2(&mut answers, &format!("{id}.100k"), &often);
            table2(&mut answers, &format!("{id}.500k"), rare);
            let unaffected = grouped_files(rare) / grouped_files(&often);
            answers.add(Paper, format!("{id}.files.interval"), unaffected);
        }
    }
    times(&mut answers, compared);
    Judged::new(include_str!("../../claims/eefs.toml"), &answers)
}

/// Table 3.
fn disk(answers: &mut Answers, id: &str, ffs: &FileOutcome, eefs: &FileOutcome, part: f64) {
    let requests = |o: &FileOutcome| (o.disk_reads + o.disk_writes) as f64;
    answers.add(Paper, format!("{id}.requests"), requests(eefs) / requests(ffs));
    answers.add(Paper, format!("{id}.ffs"), requests(ffs) / part);
    let (before, after) = (ffs.energy, eefs.energy);
    for (state, before, after) in [
        ("read", before.read, after.read),
        ("write", before.write, after.write),
        ("rotation", before.rotation, after.rotation),
        ("seek", before.seek, after.seek),
        ("idle", before.idle, after.idle),
        ("total", before.total, after.total),
    ] {
        answers.add(Paper, format!("{id}.{state}"), after / before - 1.0);
    }
}

/// Figure 5, and the share of grouped opens.
fn used(answers: &mut Answers, id: &str, g: &Grouping) {
    // Printed: fewer files than within five minutes. So not "until the next shuffle".
    answers.add(Paper, format!("{id}.used"), g.at_once);
    answers.add(Paper, format!("{id}.minutes"), g.within_five_minutes);
    answers.add(Paper, format!("{id}.grouped"), g.grouped_opens);
}

/// Table 2.
fn table2(answers: &mut Answers, id: &str, g: &Grouping) {
    let names = ["before", "after", "stable", "size", "left", "joined"];
    for (name, ours) in names.into_iter().zip(g.changes) {
        answers.add(Paper, format!("{id}.{name}"), ours);
    }
    answers.add(Paper, format!("{id}.files"), grouped_files(g));
}

fn grouped_files(g: &Grouping) -> f64 {
    let [before, _, _, size, ..] = g.changes;
    before * size
}

/// Figure 6.
fn times(answers: &mut Answers, compared: &[Compared]) {
    // Reading and writing: EEFS's decrease of the mean.
    let shorter = |day: usize| match compared.get(day).map(|c| &c.outcomes[..]) {
        Some([ffs, _, eefs]) => {
            [1.0 - eefs.read_ms / ffs.read_ms, 1.0 - eefs.write_ms / ffs.write_ms]
        }
        _ => [f64::NAN; 2],
    };
    let mut best = f64::NEG_INFINITY;
    for (day, (id, _)) in DAYS.into_iter().enumerate().take(2) {
        let [read, write] = shorter(day);
        answers.add(Paper, format!("{id}.read.time"), read);
        answers.add(Paper, format!("{id}.write.time"), write);
        best = best.max(read).max(write);
    }
    answers.add(Paper, "best.time", best);
    let ([light_read, light_write], [heavy_read, _]) = (shorter(2), shorter(3));
    answers.add(Paper, "light.write.longer", -light_write);
    answers.add(Paper, "light.read.time", light_read);
    answers.add(Paper, "heavy.read.longer", -heavy_read);
}
