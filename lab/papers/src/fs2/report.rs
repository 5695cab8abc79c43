//! The results as tables, figures, a report and a document, the paper's numbers beside ours.

use seekless_report::{Provenance, Report, Section, Tile};
use serde_json::{Value, json};

use super::claims::{access, gain, judged, percent};
use super::distances;
use super::experiments::{DISK, Load, Results};
use super::figures::{accesses, energy, parts, progress};
use super::printed::{PRINTED, PrintedRow};
use super::replay::Fs2Run;
use super::tables::{by_run, costs, table};
use crate::claims::Judged;
use crate::reproduction::SCHEMA;
use crate::{HeadMoves, PaperError, Reproduction};

/// How to read all numbers: the first text of every output.
const HONEST: &str = "All loads are synthetic, except a recorded load with --real. The synthetic loads use an aged file system that is 60 % full, with files \
in groups of 128 MiB and other files between them. We chose the repetitions within a run, and the gains depend on them. The disk is the modelled \
disk of FS2's testbed with a buffer of 8 MB that reads ahead, the same for all systems; the scheduler is anticipatory. Requests are those below a \
cold page cache. Each load runs seven times; tables show the last run. fs2-static replicates all files before the first run. fs2 follows the paper, with \
regions of one block group (the paper names no size; the tables also show 2, 5, 10 and 20 groups). fs2-whole, ours, replicates all data that is read in short runs, at any address. fs2-proven, ours, \
replicates only data whose earlier repetitions pay for the replica. With read-ahead: 64 KiB from home and from replicas, 16 MiB of RAM, for both.";

/// The results, ready to be shown.
pub(super) struct Shown<'a> {
    results: &'a Results,
    claims: Judged,
    head_moves: HeadMoves,
}

impl<'a> Shown<'a> {
    pub(super) fn new(results: &'a Results, head_moves: HeadMoves) -> Result<Self, PaperError> {
        Ok(Self { results, claims: judged(results)?, head_moves })
    }

    /// All forms of the results. `command` is the command line, for the report.
    pub(super) fn reproduction(&self, command: &str) -> Reproduction {
        let of_load = |l| [table(l), costs(l), by_run(l), distances::table(l, &self.results.seek)];
        let tables = self.results.loads.iter().flat_map(of_load);
        let further = self.results.further.tables(&self.results.loads);
        let tables = tables.chain(further).chain(self.claims.tables());
        Reproduction {
            opening: format!("FS2 (SOSP 2005), reproduced. {HONEST}{}\n", self.scaled()),
            tables: tables.collect(),
            closing: self.lead(),
            document: self.document(),
            report: self.report(command),
        }
    }

    fn scaled(&self) -> String {
        if self.results.scale == 1.0 {
            return String::new();
        }
        format!(" Loads are {} times their full size.", self.results.scale)
    }

    fn lead(&self) -> String {
        let of = |system: &str| -> Vec<String> {
            let loads = self.results.loads.iter().filter(|l| !l.real);
            let gain =
                |l: &Load| percent(gain(access(&l.last("ext2"))[0], access(&l.last(system))[0]));
            loads.map(gain).collect()
        };
        format!(
            "T_A of the seventh run is shorter than Ext2's by {} with the paper's rule and by {} \
             with whole sequences (TPC-W, CVS, X, SURGE, all synthetic, on a modelled disk; the paper: 50, 41, 44, 69 %).\n{}",
            of("fs2").join(", "),
            of("fs2-whole").join(", "),
            self.claims.lead()
        )
    }

    fn report(&self, command: &str) -> Report {
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
        let section = Section::new("Claims").text(format!("{HONEST}{}", self.scaled()));
        report = report.section(self.claims.tables().into_iter().fold(section, Section::table));
        for l in &self.results.loads {
            let p = &PRINTED[l.printed];
            let title = format!("{}, {}: {}", p.table, p.figures, l.name);
            let section = Section::new(title).figure(accesses(l, self.head_moves));
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
        let further = Section::new("Beyond the tables: Figure 3, 3.3 and 4.6");
        let tables = self.results.further.tables(&self.results.loads);
        report = report.section(tables.into_iter().fold(further, Section::table));
        let mut origin = Provenance::of(command)
            .fact("disk", DISK)
            .fact("seed", self.results.seed)
            .fact("scale", self.results.scale)
            .measured("The paper's numbers, on its authors' machine.")
            .modelled("All our times and joules.");
        if self.results.loads.iter().any(|l| l.real) {
            origin = origin.measured("The sectors and the free space of the recorded update.");
        }
        report.provenance(origin)
    }

    fn document(&self) -> Value {
        let row = |r: &PrintedRow| json!({ "disk_busy": r.busy, "access": r.access, "seek": r.seek, "rotation": r.rotation, "energy": r.energy });
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
        let mut document = json!({
            "schema": SCHEMA,
            "what": "fs2",
            "disk": DISK,
            "scale": self.results.scale,
            "seed": self.results.seed,
            "loads": self.results.loads.iter().map(load).collect::<Vec<_>>(),
            "beside": self.results.further.document(),
        });
        self.claims.document(&mut document);
        document
    }
}

fn means(run: Fs2Run) -> Value {
    let [t_a, t_s, t_r, mj] = access(&run);
    json!({ "access_ms": t_a, "seek_ms": t_s, "rotation_ms": t_r, "access_mj": mj,
            "disk_busy": run.busy_s() / run.span_s.max(f64::MIN_POSITIVE) })
}
