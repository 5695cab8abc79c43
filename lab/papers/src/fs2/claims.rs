//! The paper's claims, and whether our results agree within a stated tolerance.

use seekless_report::{Column, Table};
use serde::Serialize;

use super::experiments::{Load, Results};
use super::printed::{FIRST_RUN, PRINTED, PrintedLoad};
use super::replay::Fs2Run;

/// The difference by which an improvement may fall short of the paper's, as a share of an access.
const SHORT: f64 = 0.05;

#[derive(Serialize)]
pub(super) struct Claim {
    pub(super) place: String,
    pub(super) paper: String,
    pub(super) ours: String,
    /// The accepted range of ours, in words.
    pub(super) tolerance: String,
    pub(super) holds: bool,
    /// Why ours may differ.
    pub(super) why: &'static str,
}

/// An improvement, as a share of `before`.
pub(super) fn gain(before: f64, after: f64) -> f64 {
    if before > 0.0 { 1.0 - after / before } else { 0.0 }
}

/// T_A, T_s and T_r of one I/O of the disk in milliseconds, and its energy in millijoules.
pub(super) fn access(run: &Fs2Run) -> [f64; 4] {
    [run.busy_s(), run.seek_s, run.rotation_s, run.access_j].map(|s| run.mean_ms(s))
}

/// The time that a user waits: the mean response time in milliseconds if requests come at fixed
/// times, otherwise the time of the whole run in seconds.
pub(super) fn user(run: &Fs2Run, timed: bool) -> f64 {
    if timed { run.response_ms } else { run.span_s }
}

pub(super) fn percent(share: f64) -> String {
    format!("{}{:.1} %", if share < 0.0 { "−" } else { "" }, share.abs() * 100.0)
}

const RULE: &str = "the paper's rule makes no replica within the hot region, whose length the paper does not say, and every switch between the hot region and the replicas waits for the platter";
const MADE: &str = "the load is made up: the repetitions and their order are ours";

/// All claims.
pub(super) fn claims(results: &Results) -> Vec<Claim> {
    let mut all = Vec::new();
    for load in results.loads.iter().filter(|l| !l.real) {
        let mut claims = LoadClaims { load, printed: &PRINTED[load.printed], all: &mut all };
        claims.access_times();
        claims.static_replicas();
        claims.first_run();
        claims.energy();
    }
    results.further.claims(&results.loads, &mut all);
    all
}

/// The claims about one load.
struct LoadClaims<'a> {
    load: &'a Load,
    printed: &'a PrintedLoad,
    all: &'a mut Vec<Claim>,
}

impl LoadClaims<'_> {
    fn add(
        &mut self,
        place: &str,
        paper: String,
        ours: String,
        tolerance: &str,
        holds: bool,
        why: &'static str,
    ) {
        let place = format!("{}, {place}", self.printed.load.name());
        self.all.push(Claim { place, paper, ours, tolerance: tolerance.to_owned(), holds, why });
    }

    fn access_times(&mut self) {
        let p = self.printed;
        let base = access(&self.load.last("ext2"));
        for (system, why) in [("fs2", RULE), ("fs2-whole", MADE)] {
            let ours = gain(base[0], access(&self.load.last(system))[0]);
            let words = format!("T_A {} shorter with {system}", percent(p.fs2.access));
            let holds = ours >= p.fs2.access - SHORT;
            self.add(p.table, words, percent(ours), "at most 5 points less", holds, why);
        }
        for system in ["fs2", "fs2-whole"] {
            let after = access(&self.load.last(system));
            for (what, i, paper) in [("T_s", 1, p.fs2.seek), ("T_r", 2, p.fs2.rotation)] {
                let ours = gain(base[i], after[i]);
                let words = format!("{what} {} shorter with {system}", percent(paper));
                self.add(p.table, words, percent(ours), "shorter", ours > 0.0, RULE);
            }
        }
    }

    fn static_replicas(&mut self) {
        let p = self.printed;
        if p.fs2_static.is_none() {
            return;
        }
        let run = access(&self.load.last("fs2-static"));
        let rotation = gain(access(&self.load.last("ext2"))[2], run[2]);
        let holds = rotation.abs() < 0.15;
        let words = "FS2-static leaves T_r unchanged (−1.6 %)".to_owned();
        self.add(p.table, words, percent(rotation), "by at most 15 %", holds, MADE);
        let dynamic = access(&self.load.last("fs2-whole"))[0];
        let ours = format!("{dynamic:.2} ms, {:.2} ms", run[0]);
        let words = "T_A of FS2-dynamic is less than FS2-static's".to_owned();
        self.add(p.table, words, ours, "less", dynamic < run[0], MADE);
    }

    fn first_run(&mut self) {
        let timed = self.printed.load.is_timed();
        let time = |system| user(&self.load.first(system), timed);
        let first = time("fs2") / time("ext2") - 1.0;
        let words = if timed && self.printed.fs2_static.is_some() {
            format!("the first run is {} slower", percent(FIRST_RUN))
        } else {
            "the first run is hardly slower".to_owned()
        };
        self.add("4.3.3", words, percent(first), "at most 2 % slower", first <= 0.02, MADE);
    }

    fn energy(&mut self) {
        let p = self.printed;
        let (ext2, whole) = (self.load.last("ext2"), self.load.last("fs2-whole"));
        let energy = gain(access(&ext2)[3], access(&whole)[3]);
        let words = format!("{} less energy an access", percent(p.fs2.energy));
        let holds = energy >= p.fs2.energy - SHORT;
        self.add(p.table, words, percent(energy), "at most 5 points less", holds, MADE);
        let saved = gain(ext2.joules, whole.joules);
        let words = format!("{} less energy in all", percent(p.saved));
        self.add("text", words, percent(saved), "less than Ext2", saved > 0.0, MADE);
    }
}

/// The claims as a table.
pub(super) fn table(claims: &[Claim]) -> Table {
    let columns = ["load, where", "the paper", "ours", "accepted", "", "possible reason"];
    let mut table = Table::new(
        "The paper's claims, and whether ours agree",
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
