//! The results of a study: tables for the terminal, JSON, and a report with the counterparts of the
//! paper's figures.

use std::path::Path;

use seekless_report::{Provenance, Report, Section, Table, Tile, Unit};
use serde_json::json;

use super::stored::Stored;
use super::tables::{BestSystems, OptionRow, Results, advice_sentence};
use crate::power;

/// The results of a study.
#[derive(Debug)]
pub struct StudyReport<'a> {
    pub(super) stored: &'a Stored,
    pub(super) results: Results,
    rows: Vec<OptionRow>,
    best: Vec<BestSystems>,
    workloads: Vec<String>,
    devices: Vec<String>,
}

fn times(range: Option<(f64, f64)>) -> String {
    range.map_or_else(|| "–".to_owned(), |(a, b)| format!("{a:.2}–{b:.2} ×"))
}

impl<'a> StudyReport<'a> {
    /// The results that a folder holds.
    pub fn new(stored: &'a Stored) -> Self {
        let results = Results::new(&stored.spec.cells, &stored.records);
        let (devices, workloads) = results.axes();
        let (rows, best) = (results.table_2(), results.table_3());
        Self { stored, rows, best, workloads, devices, results }
    }

    /// The results, as schema `seekless.study/1`.
    pub fn json(&self) -> serde_json::Value {
        let advice = self.advice();
        let linear: Vec<_> = self
            .pairs()
            .filter_map(|(d, w)| {
                Some(
                    json!({"device": d, "workload": w, "linearity": self.results.linearity(d, w)?}),
                )
            })
            .collect();
        json!({
            "schema": "seekless.study/1",
            "version": env!("CARGO_PKG_VERSION"),
            "name": self.stored.spec.name,
            "host": self.stored.facts,
            "runs": self.stored.records.len(),
            "measured": self.results.measured,
            "failed": self.results.failed,
            "workloads": self.workloads,
            "table_2": self.rows,
            "table_3": self.best,
            "linearity": linear,
            "advice": advice,
        })
    }

    /// Each device with each workload.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&String, &String)> {
        self.devices.iter().flat_map(|d| self.workloads.iter().map(move |w| (d, w)))
    }

    /// The tables for the terminal.
    pub fn tables(&self) -> [Table; 3] {
        [self.measured(), self.table_2(), self.table_3()]
    }

    /// The cells whose runs failed, and why.
    pub fn failed(&self) -> &[(String, String)] {
        &self.results.failed
    }

    /// Advice, a sentence for each device and workload.
    pub fn advice(&self) -> Vec<String> {
        self.best.iter().map(advice_sentence).collect()
    }

    fn measured(&self) -> Table {
        let share =
            |v: f64| if v.is_finite() { Unit::Share.format(v, 2) } else { "–".to_owned() };
        let variation = |v: f64| share(v) + if v > 0.4 { " †" } else { "" };
        let table = Table::of("Measurements", &self.results.measured)
            .text("cell", |m| m.id.as_str())
            .number("runs", Unit::Count, |m| m.ops_per_s.values.len() as u64)
            .right("operations/s", |m| Unit::Count.format(m.ops_per_s.mean, 4))
            .right("± 95 %", |m| share(m.ops_per_s.relative_half_width()))
            .right("variation", |m| variation(m.ops_per_s.variation()))
            .right("operations/J", |m| m.ops_per_joule.as_ref().map(|e| format!("{:.4}", e.mean)))
            .right("power", |m| m.watts.as_ref().map(|w| Unit::Watts.format(w.mean, 4)))
            .text("outliers", |m| {
                let outliers = m.ops_per_s.outliers.iter().map(|o| Unit::Count.format(*o, 3));
                outliers.collect::<Vec<_>>().join(", ")
            })
            .done();
        table.note("Means over all runs, with outliers (Tukey). † varies by more than 40 %.")
    }

    fn table_2(&self) -> Table {
        let title = "Table 2: options, against the same file system with default options";
        let mut table = Table::of(title, &self.rows)
            .text("device", |r| r.device.as_str())
            .text("file system", |r| r.filesystem.as_str())
            .text("format or mount", |r| r.kind.as_str())
            .text("option", |r| r.option.as_str());
        for (i, w) in self.workloads.iter().enumerate() {
            table = table
                .right(&format!("{w}, performance"), |r| {
                    Some(r.cells[i].as_ref()?.performance.shown())
                })
                .right("per joule", |r| Some(r.cells[i].as_ref()?.efficiency?.shown()));
        }
        table.done().note("– no significant difference (Welch, 5 %). † varies by more than 40 %.")
    }

    fn table_3(&self) -> Table {
        let title =
            "Table 3: the fastest, against the best and the worst file system with default options";
        let table = Table::of(title, &self.best)
            .text("device", |b| b.device.as_str())
            .text("workload", |b| b.workload.as_str())
            .text("recommended", |b| b.system.as_str())
            .text("operations/s", |b| times(b.ops_per_s))
            .text("operations/J", |b| times(b.ops_per_joule))
            .text("as good", |b| b.as_good.join(", "))
            .text("linearity", |b| {
                let linear = self.results.linearity(&b.device, &b.workload);
                linear.map(|l| format!("r = {:.2}, exponent {:.2}", l.correlation, l.exponent))
            });
        table.done().note(
            "Linearity of operations for each joule over operations a second, all systems of the workload; exponent 1 is \
             proportional.",
        )
    }

    /// The results with figures. `dir` is the folder of the study.
    pub fn document(&self, dir: &Path) -> Report {
        let advice = self.advice();
        let lead = advice.first().cloned().unwrap_or_else(|| "Nothing was measured.".to_owned());
        let mut report =
            Report::new(format!("File systems under servers: {}", self.stored.spec.name), lead)
                .tile(Tile::new(
                    "Runs",
                    self.stored.records.len().to_string(),
                    format!("{} cells", self.results.measured.len()),
                ));
        let mut section = Section::new("Advice").table(self.table_3());
        for sentence in &advice {
            section = section.text(sentence.clone());
        }
        report = report.section(section).section(Section::new("Options").table(self.table_2()));
        let mut section = Section::new("The figures");
        for figure in self.figures() {
            section = section.figure(figure);
        }
        report = report
            .section(section)
            .section(Section::new("All measurements").table(self.measured()));
        if !self.results.failed.is_empty() {
            let table = Table::of("Failed cells", &self.results.failed)
                .text("cell", |f| f.0.as_str())
                .text("why", |f| f.1.as_str())
                .done();
            report = report.section(Section::new("Failed cells").table(table));
        }
        report.provenance(self.provenance(dir))
    }

    fn provenance(&self, dir: &Path) -> Provenance {
        let (spec, host) = (&self.stored.spec, &self.stored.facts);
        let time = format!("{} s, after {} s of warm-up", spec.seconds, spec.warm_up_s);
        let mut origin = Provenance::of(format!("seekless-lab study report {}", dir.display()))
            .fact("kernel", &host.kernel)
            .fact("processors", &host.processors)
            .fact("RAM", Unit::bytes(host.memory_bytes))
            .fact("seed", spec.seed)
            .fact("time measured", time)
            .measured("operations, latencies and the use of the processors");
        for (program, version) in &host.programs {
            origin = origin.fact(program, version);
        }
        let mut drivers: Vec<String> = Vec::new();
        for r in self.stored.records.iter().filter(|r| !r.driver.is_empty()) {
            let system =
                r.cell.split('/').nth(1).and_then(|s| s.split('-').next()).unwrap_or_default();
            let line = format!("{system} by {}", r.driver);
            if !drivers.contains(&line) {
                drivers.push(line);
            }
        }
        origin = origin.fact("drivers", drivers.join(", "));
        for w in &spec.workloads {
            let words = format!("{}, scale {}, threads x {}", w.personality, w.scale, w.threads);
            origin = origin.fact(format!("workload {}", w.name), words);
        }
        for d in &spec.devices {
            let words = format!("{:?}, {}", d.kind, Unit::bytes(d.bytes));
            origin = origin.fact(format!("device {}", d.name), words);
        }
        for e in self.stored.records.iter().flat_map(|r| &r.energy) {
            let line = format!("power of {}: {}", e.source.name, e.source.by);
            let list = match e.source.basis {
                power::Basis::Measured => &mut origin.measured,
                power::Basis::Modelled => &mut origin.modelled,
            };
            if !list.contains(&line) {
                list.push(line);
            }
        }
        origin
    }
}
