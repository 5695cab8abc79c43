//! The study of file systems (Sehgal, Tarasov and Zadok, FAST 2010): its Table 2 and its
//! comparisons of file systems beside the archived results of our study. Nothing runs here.

use std::collections::BTreeMap;

use seekless_report::{Provenance, Report, Section};
use serde_json::{Value, json};

use crate::claims::{Answers, Judged, Paper, least, most};
use crate::reproduction::SCHEMA;
use crate::{PaperError, Reproduction};

/// File systems: name in a claim, short name in a cell, options of Table 2.
const FILE_SYSTEMS: [(&str, &str, &[&str]); 3] = [
    ("ext2", "e2", &["noatime", "blk1k", "blk2k", "isz1k", "bg16k"]),
    ("ext3", "e3", &["noatime", "dtlg", "wrbck", "blk1k", "blk2k", "isz1k", "bg16k"]),
    (
        "xfs",
        "x",
        &["noatime", "blk1k", "blk2k", "isz1k", "agcnt8", "agcnt32", "agcnt64", "agcnt128"],
    ),
];
/// Loads: name in a claim, name in a cell.
const LOADS: [(&str, &str); 4] =
    [("web", "webserver"), ("file", "fileserver"), ("mail", "varmail"), ("db", "oltp")];

/// How to read all numbers: the first text of every output.
const HONEST: &str = "The study of file systems (FAST 2010), scaled. Its cells were measured on a modelled disk in real time, on the \
machine of the archive; other programs may have kept it busy. Joules are the modelled disk's alone, the paper's are a whole machine's. Rows of power do not count if the archive's joules leave out idling.";

/// Means of a cell: operations a second, operations for each joule, and W.
type Means = [f64; 3];

/// The means of all cells of a study, by system and load.
struct Cells(BTreeMap<(String, String), Means>);

impl Cells {
    /// The cells of documents `seekless.study/1`. A later document replaces cells of an earlier one.
    fn new(studies: &[Value]) -> Result<Self, PaperError> {
        let mut cells = BTreeMap::new();
        let measured = studies.iter().filter_map(|s| s["measured"].as_array());
        for m in measured.flatten() {
            let mut id = m["id"].as_str().unwrap_or_default().split('/').skip(1);
            if let (Some(system), Some(load)) = (id.next(), id.next()) {
                let mean = |what: &str| m[what]["mean"].as_f64().unwrap_or(f64::NAN);
                let means = [mean("ops_per_s"), mean("ops_per_joule"), mean("watts")];
                cells.insert((system.to_owned(), load.to_owned()), means);
            }
        }
        let cells = Self(cells);
        let default = cells.of("e2", "def", "webserver");
        if default[0].is_finite() {
            return Ok(cells);
        }
        let names = studies.iter().map(|s| s["name"].as_str().unwrap_or("without a name"));
        let names = names.collect::<Vec<_>>().join("', '");
        Err(PaperError::Invalid(format!(
            "the study '{names}' has no cell e2-def/webserver: give results of studies/fast10.toml"
        )))
    }

    fn of(&self, short: &str, option: &str, load: &str) -> Means {
        let key = (format!("{short}-{option}"), load.to_owned());
        self.0.get(&key).copied().unwrap_or([f64::NAN; 3])
    }
}

/// The paper's numbers beside those of studies, documents `seekless.study/1`. `command` is the
/// command line, for the report.
///
/// # Errors
/// If the studies have not the cells of `studies/fast10.toml`.
pub fn reproduce(studies: &[Value], command: &str) -> Result<Reproduction, PaperError> {
    let cells = Cells::new(studies)?;
    let mut answers = Answers::default();
    for (name, short, options) in FILE_SYSTEMS {
        for option in options {
            table2(&mut answers, &cells, name, short, option);
        }
    }
    between(&mut answers, &cells);
    recommended(&mut answers, &cells);
    micro_benchmarks(&mut answers, &cells);
    let names: Vec<_> = studies.iter().map(|s| s["name"].clone()).collect();
    let claims = Judged::new(include_str!("../../claims/fast10.toml"), &answers)?;
    let mut document = json!({ "schema": SCHEMA, "what": "fast10", "studies": names });
    claims.document(&mut document);
    let section = Section::new("Claims").text(HONEST);
    let section = claims.tables().into_iter().fold(section, Section::table);
    let report = Report::new("File systems under servers, reproduced", claims.lead());
    let origin = Provenance::of(command)
        .measured("Operations a second of ours, in real time; all of the paper's.")
        .modelled("The disk of ours, and its joules.");
    let report = report.section(section).provenance(origin);
    Ok(Reproduction {
        opening: format!("{HONEST}\n"),
        tables: claims.tables().into(),
        closing: claims.lead(),
        document,
        report,
    })
}

/// A row of Table 2. The paper's default writes access times at each read; today's default does
/// once a day.
fn table2(answers: &mut Answers, cells: &Cells, name: &str, short: &str, option: &str) {
    let default = if option == "noatime" { "strictatime" } else { "def" };
    for (load, cell) in LOADS {
        let (after, before) = (cells.of(short, option, cell), cells.of(short, default, cell));
        for (i, what) in ["perf", "power"].into_iter().enumerate() {
            let id = format!("{name}.{option}.{load}.{what}");
            answers.add(Paper, id, after[i] / before[i] - 1.0);
        }
    }
}

/// One file system against another, each with the paper's default (5.2 to 5.5).
fn between(answers: &mut Answers, cells: &Cells) {
    let of = |load: &str, what: usize| {
        FILE_SYSTEMS.map(|(_, short, _)| cells.of(short, "strictatime", load)[what])
    };
    let all = |load: &str| of(load, 0);
    for (load, cell) in &LOADS[..3] {
        let ranked = FILE_SYSTEMS.iter().zip(all(cell)).map(|(f, ops)| (f.0.to_owned(), ops));
        answers.add(Paper, format!("{load}.order"), ranked.collect::<Vec<_>>());
    }
    let [ext2, ext3, xfs] = all("webserver");
    answers.add(Paper, "web.xfs", xfs / ext2);
    answers.add(Paper, "web.ext3", 1.0 - ext3 / xfs);
    let [ext2, _, xfs] = of("webserver", 1);
    answers.add(Paper, "web.xfs.power", xfs / ext2);
    let [ext2, ext3, xfs] = all("fileserver");
    answers.add(Paper, "file.xfs", ext2 / xfs);
    answers.add(Paper, "file.ext3", ext2 / ext3);
    let groups = |count| cells.of("x", count, "fileserver");
    let [many, some, few] = [groups("agcnt128"), groups("agcnt64"), groups("agcnt8")];
    answers.add(Paper, "file.xfs.groups.perf", many[0] / few[0] - 1.0);
    answers.add(Paper, "file.xfs.groups.power", many[1] / some[1] - 1.0);
    let [ext2, ext3, xfs] = all("varmail");
    answers.add(Paper, "mail.ext2", ext3 / ext2);
    answers.add(Paper, "mail.xfs", ext3 / xfs);
    let [ext2, ext3, xfs] = all("oltp");
    answers.add(Paper, "db.ext2", 1.0 - ext2 / xfs);
    answers.add(Paper, "db.ext3", 1.0 - ext3 / xfs);
}

/// The database's row of Table 3, against today's defaults: they have the same mount options. Then
/// the disk's power over all cells (4).
fn recommended(answers: &mut Answers, cells: &Cells) {
    for (i, what) in ["perf", "power"].into_iter().enumerate() {
        let best = cells.of("x", "blk2k", "oltp")[i];
        let defaults = FILE_SYSTEMS.map(|(_, short, _)| cells.of(short, "def", "oltp")[i]);
        answers.add(Paper, format!("db.best.least.{what}"), best / most(&defaults));
        answers.add(Paper, format!("db.best.most.{what}"), best / least(&defaults));
    }
    let watts = cells.0.values().map(|means| means[2]).sum::<f64>();
    answers.add(Paper, "disk.power", watts / cells.0.len() as f64);
}

/// The micro-benchmarks of 5.2 to 5.4, with the paper's default.
fn micro_benchmarks(answers: &mut Answers, cells: &Cells) {
    let all = |load| FILE_SYSTEMS.map(|(_, short, _)| cells.of(short, "strictatime", load)[0]);
    let [ext2, ext3, xfs] = all("appends");
    answers.add(Paper, "micro.appends.ext3", 1.0 - ext3 / xfs);
    answers.add(Paper, "micro.appends.ext2", xfs / ext2);
    let [ext2, ext3, xfs] = all("page-reads");
    answers.add(Paper, "micro.reads.ext2", 1.0 - ext2 / ext3);
    answers.add(Paper, "micro.reads.xfs", 1.0 - xfs / ext3);
    let [_, ext3, xfs] = all("lookups");
    answers.add(Paper, "micro.lookups.xfs", 1.0 - xfs / ext3);
    for (id, load) in [("syncs", "mail-syncs"), ("unsynced", "mail-appends")] {
        let [ext2, ext3, _] = all(load);
        answers.add(Paper, format!("micro.{id}.ext2"), 1.0 - ext2 / ext3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(id: &str, ops: f64) -> Value {
        let [ops, per_joule, watts] = [ops, ops / 10.0, 10.0].map(|mean| json!({ "mean": mean }));
        json!({ "id": id, "ops_per_s": ops, "ops_per_joule": per_joule, "watts": watts })
    }

    #[test]
    fn changes_are_against_the_papers_default() {
        let study = json!({ "name": "s", "measured": [
            cell("disk/e2-def/webserver", 100.0),
            cell("disk/e2-strictatime/webserver", 80.0),
            cell("disk/e2-noatime/webserver", 120.0),
            cell("disk/e2-blk1k/webserver", 40.0),
            cell("disk/x-strictatime/webserver", 720.0),
            cell("disk/e2-strictatime/fileserver", 140.0),
            cell("disk/e3-strictatime/fileserver", 100.0),
            cell("disk/e3-strictatime/varmail", 374.0),
            cell("disk/x-strictatime/varmail", 100.0),
            cell("disk/e2-def/oltp", 100.0),
            cell("disk/e3-def/oltp", 120.0),
            cell("disk/x-def/oltp", 110.0),
            cell("disk/x-blk2k/oltp", 240.0),
        ]});
        let micro = json!({ "name": "m", "measured": [
            cell("disk/e3-strictatime/appends", 87.0),
            cell("disk/x-strictatime/appends", 100.0),
            cell("disk/e2-strictatime/mail-syncs", 71.0),
            cell("disk/e3-strictatime/mail-syncs", 100.0),
        ]});
        let document = reproduce(&[study, micro], "").unwrap().document;
        let results = document["results"].as_array().unwrap();
        let ours = |id: &str| results.iter().find(|r| r["id"] == id).unwrap()["ours"].clone();
        let near = |id: &str, expected: f64| {
            assert!((ours(id).as_f64().unwrap() - expected).abs() < 1e-9, "{id}");
        };
        near("ext2.noatime.web.perf", 0.5);
        near("ext2.blk1k.web.power", -0.6);
        for (id, expected) in [
            ("web.xfs", 9.0),
            ("web.xfs.power", 9.0),
            ("file.ext3", 1.4),
            ("mail.xfs", 3.74),
            ("db.best.least.perf", 2.0),
            ("db.best.most.perf", 2.4),
            ("db.best.most.power", 2.4),
            ("disk.power", 10.0),
        ] {
            near(id, expected);
        }
        near("micro.appends.ext3", 0.13);
        near("micro.syncs.ext2", 0.29);
        assert_eq!(ours("ext2.blk1k.db.perf"), Value::Null, "a cell that was not run");
        assert_eq!(document["counts"]["beyond"], json!({ "holds": 0, "of": 0 }));
        let why = reproduce(&[json!({ "name": "other" })], "").unwrap_err().to_string();
        assert!(why.contains("other") && why.contains("fast10.toml"), "{why}");
    }
}
