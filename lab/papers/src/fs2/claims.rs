//! What the paper claims, and whether ours bears it out within a stated tolerance.

use seekless_report::{Column, Table};
use serde::Serialize;

use super::experiments::{Load, Results};
use super::printed::{FIRST_RUN, PRINTED};
use super::replay::Fs2Run;

/// By how much an improvement may fall short of the paper's, as a share of an access.
const SHORT: f64 = 0.05;

/// A claim and its test.
#[derive(Serialize)]
pub(super) struct Claim {
    pub(super) place: String,
    pub(super) paper: String,
    pub(super) ours: String,
    /// What ours may be, in words.
    pub(super) tolerance: String,
    pub(super) holds: bool,
    /// Why ours may differ.
    pub(super) why: &'static str,
}

/// An improvement.
pub(super) fn gain(before: f64, after: f64) -> f64 {
    if before > 0.0 { 1.0 - after / before } else { 0.0 }
}

/// T_A, T_s and T_r in milliseconds and millijoules, all of an I/O of the disk.
pub(super) fn access(run: &Fs2Run) -> [f64; 4] {
    [run.busy_s(), run.seek_s, run.rotation_s, run.access_j].map(|s| run.mean_ms(s))
}

/// What a user waits for: the mean response where times are fixed, else the whole run.
pub(super) fn user(run: &Fs2Run, timed: bool) -> f64 {
    if timed { run.response_ms } else { run.span_s }
}

pub(super) fn percent(share: f64) -> String {
    format!("{}{:.1} %", if share < 0.0 { "−" } else { "" }, share.abs() * 100.0)
}

const RULE: &str = "the paper's rule leaves alone what lies within the hot region, whose length it does not say, and every switch between there and the replicas waits for the platter";
const MADE: &str = "the load is made up: how much recurs, and in which order, is ours";

/// All claims.
pub(super) fn claims(results: &Results) -> Vec<Claim> {
    let mut all = Vec::new();
    for load in results.loads.iter().filter(|l| !l.real) {
        of_load(load, &mut all);
    }
    results.further.claims(&results.loads, &mut all);
    all
}

fn of_load(load: &Load, all: &mut Vec<Claim>) {
    let p = &PRINTED[load.printed];
    let timed = p.load.is_timed();
    let ext2 = load.last("ext2");
    let base = access(&ext2);
    let mut add = |place: &str, paper: String, ours: String, tolerance: &str, holds, why| {
        let place = format!("{}, {place}", p.load.name());
        all.push(Claim { place, paper, ours, tolerance: tolerance.to_owned(), holds, why });
    };
    for (system, why) in [("fs2", RULE), ("fs2-whole", MADE)] {
        let run = load.last(system);
        let ours = gain(base[0], access(&run)[0]);
        let words = format!("T_A {} shorter with {system}", percent(p.fs2.access));
        let holds = ours >= p.fs2.access - SHORT;
        add(p.table, words, percent(ours), "at most 5 points less", holds, why);
    }
    for system in ["fs2", "fs2-whole"] {
        let after = access(&load.last(system));
        for (what, i, paper) in [("T_s", 1, p.fs2.seek), ("T_r", 2, p.fs2.rotation)] {
            let ours = gain(base[i], after[i]);
            let words = format!("{what} {} shorter with {system}", percent(paper));
            add(p.table, words, percent(ours), "shorter", ours > 0.0, RULE);
        }
    }
    if p.fs2_static.is_some() {
        let run = access(&load.last("fs2-static"));
        let rotation = gain(base[2], run[2]);
        let holds = rotation.abs() < 0.15;
        let words = "FS2-static leaves T_r as it is (−1.6 %)".to_owned();
        add(p.table, words, percent(rotation), "by at most 15 %", holds, MADE);
        let dynamic = access(&load.last("fs2-whole"))[0];
        let ours = format!("{dynamic:.2} ms, {:.2} ms", run[0]);
        let words = "T_A of FS2-dynamic is less than FS2-static's".to_owned();
        add(p.table, words, ours, "less", dynamic < run[0], MADE);
    }
    let first = user(&load.first("fs2"), timed) / user(&load.first("ext2"), timed) - 1.0;
    let words = if timed && p.fs2_static.is_some() {
        format!("the first run is {} slower", percent(FIRST_RUN))
    } else {
        "the first run is hardly slower".to_owned()
    };
    add("4.3.3", words, percent(first), "at most 2 % slower", first <= 0.02, MADE);
    let whole = load.last("fs2-whole");
    let energy = gain(base[3], access(&whole)[3]);
    let words = format!("{} less energy an access", percent(p.fs2.energy));
    let holds = energy >= p.fs2.energy - SHORT;
    add(p.table, words, percent(energy), "at most 5 points less", holds, MADE);
    let saved = gain(ext2.joules, whole.joules);
    let words = format!("{} less energy in all", percent(p.saved));
    add("text", words, percent(saved), "less than Ext2", saved > 0.0, MADE);
}

/// The claims as a table.
pub(super) fn table(claims: &[Claim]) -> Table {
    let columns = ["load, where", "the paper", "ours", "may be", "", "if not, perhaps because"];
    let mut table = Table::new(
        "What the paper says, and whether ours bears it out",
        columns.map(Column::text).to_vec(),
    );
    for c in claims {
        let (mark, why) = if c.holds { ("holds", "") } else { ("differs", c.why) };
        table = table.row([
            c.place.as_str().into(),
            c.paper.as_str().into(),
            c.ours.as_str().into(),
            c.tolerance.as_str().into(),
            mark.into(),
            why.into(),
        ]);
    }
    table
}
