//! The results as tables, a report and a document.

use seekless_report::{
    Axis, Basis, Figure, Provenance, Report, Section, StackedBars, Table, Unit, Values,
};
use serde_json::{Value, json};

use super::EefsOptions;
use super::experiments::{Compared, SENSITIVE, SYSTEMS, Sensitivity};
use super::replay::FilesOptions;
use super::sensitivity::{depends_figure, depends_table};
use super::tables::{causes, energy, fit, groups, requests, table1, times};
use crate::Reproduction;
use crate::claims::Judged;
use crate::reproduction::SCHEMA;
use crate::synth::FILE_DAYS;

/// The results, ready to be shown.
pub(super) struct Shown<'a> {
    pub(super) asked: &'a EefsOptions,
    pub(super) options: &'a FilesOptions,
    pub(super) compared: &'a [Compared],
    pub(super) depends: &'a [Sensitivity],
    /// None of a real trace, or if the interval between shuffles is given.
    pub(super) claims: Option<Judged>,
}

impl Shown<'_> {
    /// All forms of the results. `command` is the command line, for the report.
    pub(super) fn reproduction(&self, command: &str) -> Reproduction {
        let (asked, compared) = (self.asked, self.compared);
        let mut tables = vec![
            requests(compared),
            causes(compared, 0.0),
            causes(compared, 1e3),
            energy(compared),
            times(compared),
            groups(compared),
        ];
        if asked.trace.is_none() {
            tables.insert(0, table1(asked.scale, asked.seed));
            tables.insert(1, fit(compared, asked.scale));
        }
        if asked.sensitivity {
            tables.push(depends_table(self.depends));
        }
        tables.extend(self.claims.iter().flat_map(Judged::tables));
        Reproduction {
            opening: String::new(),
            closing: self.claims.as_ref().map_or_else(String::new, Judged::lead),
            document: self.document(),
            report: self.report(&tables, command),
            tables,
        }
    }

    fn report(&self, tables: &[Table], command: &str) -> Report {
        let asked = self.asked;
        let mut report = Report::new(
            "Files in groups",
            "EEFS compared with a fast file system, with and without read-ahead, with the same memory. All our numbers are modelled.",
        );
        for c in self.compared {
            report = report.section(Section::new(c.name.clone()).figure(figure(c)));
        }
        for day in &FILE_DAYS[..SENSITIVE] {
            if asked.sensitivity {
                let heading = format!("What the gain depends on: {}", day.name);
                let figure = depends_figure(day, self.depends);
                report = report.section(Section::new(heading).figure(figure));
            }
        }
        for table in tables {
            report = report.section(Section::new("Beside the paper").table(table.clone()));
        }
        let origin = Provenance::of(command)
            .fact("disk", &asked.disk)
            .fact("memory", self.options.cache)
            .measured("The paper's numbers, simulated by its authors.")
            .modelled("All our numbers; the days are made up.");
        report.provenance(origin)
    }

    fn document(&self) -> Value {
        let mut document = json!({
            "schema": SCHEMA,
            "what": "eefs",
            "scale": self.asked.scale,
            "seed": self.asked.seed,
            "traces": self.compared.iter().map(|c| json!({
                "name": c.name,
                "outcomes": c.outcomes,
                "paper_disk_requests": c.paper.map(|p| p.requests),
                "paper_energy_percent": c.paper.map(|p| p.energy),
            })).collect::<Vec<_>>(),
            "sensitivity": self.depends,
        });
        if let Some(claims) = &self.claims {
            claims.document(&mut document);
        }
        document
    }
}

fn figure(c: &Compared) -> Figure {
    let bars = StackedBars {
        axis: Axis::new("Energy", Unit::Joules),
        parts: ["seek", "rotation", "read", "write"].map(String::from).to_vec(),
        bars: c
            .outcomes
            .iter()
            .zip(SYSTEMS)
            .map(|(o, (_, name))| {
                let e = o.energy;
                Values::new(name, [e.seek, e.rotation, e.read, e.write])
            })
            .collect(),
    };
    Figure::new(format!("Energy of the disk at work: {}", c.name), Basis::Modelled, bars)
        .caption("Without idling, which is nearly the same for all.")
}
