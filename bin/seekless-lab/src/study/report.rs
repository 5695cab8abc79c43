//! A study's results told: on the terminal, as JSON, as a report with the counterparts of the paper's figures.

use std::path::Path;

use seekless_report::{
    Axis, BarSeries, BarValue, Bars, Basis, Cell as Field, Column, Figure, Lines, Points,
    Provenance, Report, Scatter, Section, StackedBars, Table, Tile, Unit, Values,
};
use seekless_workload::power;
use seekless_workload::study::{
    Best, Effect, Finding, Measured, Quantity, Results, Row, Sample, advice_sentence, effects,
};
use serde_json::json;

use super::run::Stored;
use seekless_cli::output;

/// What a study says.
pub(super) struct Told<'a> {
    stored: &'a Stored,
    results: Results,
    rows: Vec<Row>,
    best: Vec<Best>,
    effects: Vec<Effect>,
    workloads: Vec<String>,
    devices: Vec<String>,
}

fn ops() -> Unit {
    Unit::Other("op/s".to_owned())
}

fn per_joule() -> Unit {
    Unit::Other("op/J".to_owned())
}

/// The paper's figure of the same, for its own workloads.
fn counterpart(workload: &str, quantity: Quantity) -> String {
    let part = if quantity == Quantity::Performance { 'a' } else { 'b' };
    let all = [("webserver", 3), ("fileserver", 4), ("varmail", 5), ("oltp", 6)];
    let base = workload.split(':').next().unwrap_or(workload);
    all.iter()
        .find(|f| f.0 == base)
        .map_or_else(String::new, |f| format!(" (Figure {}{part})", f.1))
}

fn interval(s: &Sample) -> Option<(f64, f64)> {
    s.half_width.is_finite().then_some((s.mean - s.half_width, s.mean + s.half_width))
}

fn times(range: Option<(f64, f64)>) -> String {
    range.map_or_else(|| "–".to_owned(), |(a, b)| format!("{a:.2}–{b:.2} ×"))
}

impl<'a> Told<'a> {
    pub(super) fn new(stored: &'a Stored) -> Self {
        let results = Results::new(&stored.spec.cells, &stored.records);
        let (devices, workloads) = results.axes();
        let (rows, best, effects) = (results.table_2(), results.table_3(), effects(&results));
        Self { stored, rows, best, effects, workloads, devices, results }
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let advice: Vec<_> = self.best.iter().map(advice_sentence).collect();
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
            "effects": self.effects,
            "advice": advice,
        })
    }

    fn pairs(&self) -> impl Iterator<Item = (&String, &String)> {
        self.devices.iter().flat_map(|d| self.workloads.iter().map(move |w| (d, w)))
    }

    /// On the terminal.
    pub(super) fn tell(&self) -> anyhow::Result<()> {
        let (width, colour) = (output::width(), output::colour());
        for table in [self.measured(), self.table_2(), self.table_3(), self.effects()] {
            output::print(&table.terminal(width, colour))?;
        }
        for (cell, why) in &self.results.failed {
            output::print(&format!("failed: {cell}: {why}"))?;
        }
        self.best.iter().try_for_each(|b| output::print(&advice_sentence(b)))
    }

    fn measured(&self) -> Table {
        let columns = vec![
            Column::text("cell"),
            Column::number("runs", Unit::Count),
            Column::text("operations/s").right(),
            Column::text("± 95 %").right(),
            Column::text("variation").right(),
            Column::text("operations/J").right(),
            Column::text("power").right(),
            Column::text("outliers"),
        ];
        let mut table = Table::new("What was measured", columns);
        for m in &self.results.measured {
            let s = &m.ops_per_s;
            let share =
                |v: f64| if v.is_finite() { Unit::Share.format(v, 2) } else { "–".to_owned() };
            let dagger = if s.variation() > 0.4 { " †" } else { "" };
            let outliers: Vec<_> = s.outliers.iter().map(|o| Unit::Count.format(*o, 3)).collect();
            table = table.row([
                m.id.as_str().into(),
                (s.values.len() as u64).into(),
                Unit::Count.format(s.mean, 4).into(),
                share(s.relative_half_width()).into(),
                format!("{}{dagger}", share(s.variation())).into(),
                m.ops_per_joule.as_ref().map_or(Field::Empty, |e| format!("{:.4}", e.mean).into()),
                m.watts.as_ref().map_or(Field::Empty, |w| Unit::Watts.format(w.mean, 4).into()),
                outliers.join(", ").into(),
            ]);
        }
        table.note("Means over all runs; outliers (Tukey) are in them. † varies by more than 40 %.")
    }

    fn table_2(&self) -> Table {
        let mut columns = vec![
            Column::text("device"),
            Column::text("file system"),
            Column::text("made or mounted"),
            Column::text("option"),
        ];
        for w in &self.workloads {
            columns.push(Column::text(format!("{w}, performance")).right());
            columns.push(Column::text("per joule").right());
        }
        let mut table =
            Table::new("Table 2: options, against the same file system as it comes", columns);
        for r in &self.rows {
            let mut cells: Vec<Field> =
                [&r.device, &r.filesystem, &r.kind, &r.option].map(|t| t.as_str().into()).to_vec();
            for c in &r.cells {
                let shown = |r: Option<String>| r.map_or(Field::Empty, Field::from);
                cells.push(shown(c.as_ref().map(|c| c.performance.shown())));
                cells.push(shown(c.as_ref().and_then(|c| Some(c.efficiency?.shown()))));
            }
            table = table.row(cells);
        }
        table.note("– cannot be told apart (Welch, 5 %). † varies by more than 40 %.")
    }

    fn table_3(&self) -> Table {
        let names = [
            "device",
            "workload",
            "recommended",
            "operations/s",
            "operations/J",
            "as good",
            "linearity",
        ];
        let mut table = Table::new(
            "Table 3: the fastest, against the best and the worst file system as they come",
            names.map(Column::text).to_vec(),
        );
        for b in &self.best {
            let linear = self.results.linearity(&b.device, &b.workload);
            table = table.row([
                b.device.as_str().into(),
                b.workload.as_str().into(),
                b.system.as_str().into(),
                times(b.ops_per_s).into(),
                times(b.ops_per_joule).into(),
                b.as_good.join(", ").into(),
                linear.map_or(Field::Empty, |l| {
                    format!("r = {:.2}, exponent {:.2}", l.correlation, l.exponent).into()
                }),
            ]);
        }
        table.note(
            "Linearity: of operations for each joule over operations a second, all systems of the workload; exponent 1 is in \
             proportion.",
        )
    }

    fn effects(&self) -> Table {
        let names = ["what the paper found", "section", "here", "evidence"];
        let mut table = Table::new("Effects that are known", names.map(Column::text).to_vec());
        for e in &self.effects {
            let evidence: Vec<_> =
                e.evidence.iter().map(|v| format!("{}: {}", v.what, v.relative.shown())).collect();
            table = table.row([
                e.claim.as_str().into(),
                e.section.as_str().into(),
                e.finding.word().into(),
                evidence.join("; ").into(),
            ]);
        }
        table
    }

    /// As a report.
    pub(super) fn document(&self, dir: &Path) -> Report {
        let advice: Vec<_> = self.best.iter().map(advice_sentence).collect();
        let lead = advice.first().cloned().unwrap_or_else(|| "Nothing was measured.".to_owned());
        let again = self.effects.iter().filter(|e| e.finding == Finding::FoundAgain).count();
        let ran = self.effects.iter().filter(|e| e.finding != Finding::NotRun).count();
        let mut report =
            Report::new(format!("File systems under servers: {}", self.stored.spec.name), lead)
                .tile(Tile::new(
                    "Runs",
                    self.stored.records.len().to_string(),
                    format!("{} cells", self.results.measured.len()),
                ))
                .tile(Tile::new(
                    "Known effects found again",
                    format!("{again} of {ran}"),
                    "that were run",
                ));
        let mut section = Section::new("What to do").table(self.table_3());
        for sentence in &advice {
            section = section.text(sentence.clone());
        }
        report = report
            .section(section)
            .section(Section::new("What options do").table(self.table_2()).table(self.effects()));
        let mut section = Section::new("The figures");
        for figure in self.figures() {
            section = section.figure(figure);
        }
        report = report.section(section).section(Section::new("All of it").table(self.measured()));
        if !self.results.failed.is_empty() {
            let mut table =
                Table::new("What failed", vec![Column::text("cell"), Column::text("why")]);
            for (cell, why) in &self.results.failed {
                table = table.row([cell.as_str().into(), why.as_str().into()]);
            }
            report = report.section(Section::new("What failed").table(table));
        }
        report.provenance(self.provenance(dir))
    }

    fn provenance(&self, dir: &Path) -> Provenance {
        let (spec, host) = (&self.stored.spec, &self.stored.facts);
        let mut facts = vec![
            ("seekless".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("kernel".to_owned(), host.kernel.clone()),
            ("processors".to_owned(), host.processors.clone()),
            ("RAM".to_owned(), Unit::Bytes.format(host.memory_bytes as f64, 3)),
            ("seed".to_owned(), spec.seed.to_string()),
            (
                "time measured".to_owned(),
                format!("{} s, after {} s of warm-up", spec.seconds, spec.warm_up_s),
            ),
        ];
        facts.extend(host.programs.iter().map(|(p, v)| (p.clone(), v.clone())));
        let mut drivers: Vec<String> = Vec::new();
        for r in self.stored.records.iter().filter(|r| !r.driver.is_empty()) {
            let system =
                r.cell.split('/').nth(1).and_then(|s| s.split('-').next()).unwrap_or_default();
            let line = format!("{system} by {}", r.driver);
            if !drivers.contains(&line) {
                drivers.push(line);
            }
        }
        facts.push(("drivers".to_owned(), drivers.join(", ")));
        for w in &spec.workloads {
            facts.push((
                format!("workload {}", w.name),
                format!("{}, scale {}, threads x {}", w.personality, w.scale, w.threads),
            ));
        }
        for d in &spec.devices {
            facts.push((
                format!("device {}", d.name),
                format!("{:?}, {}", d.kind, Unit::Bytes.format(d.bytes as f64, 3)),
            ));
        }
        let (mut measured, mut modelled) =
            (vec!["operations, latencies and the use of the processors".to_owned()], Vec::new());
        for e in self.stored.records.iter().flat_map(|r| &r.energy) {
            let line = format!("power of {}: {}", e.source.name, e.source.by);
            let list = if e.source.basis == power::Basis::Measured {
                &mut measured
            } else {
                &mut modelled
            };
            if !list.contains(&line) {
                list.push(line);
            }
        }
        Provenance {
            command: format!("seekless-lab study report {}", dir.display()),
            facts,
            measured,
            modelled,
        }
    }

    /// Whether joules were measured, modelled, or some of each.
    fn basis(&self) -> Basis {
        let all: Vec<_> =
            self.stored.records.iter().flat_map(|r| &r.energy).map(|e| e.source.basis).collect();
        let measured = all.iter().filter(|b| **b == power::Basis::Measured).count();
        match measured {
            0 => Basis::Modelled,
            n if n == all.len() => Basis::Measured,
            _ => Basis::Mixed,
        }
    }

    /// The counterparts of the paper's figures 1 to 6.
    fn figures(&self) -> Vec<Figure> {
        let mut all = Vec::new();
        for (device, workload) in self.pairs() {
            let list: Vec<&Measured> = self.results.of(device, workload).collect();
            if list.is_empty() {
                continue;
            }
            all.extend(self.power_over_load(device, workload));
            let bars = list
                .iter()
                .filter(|m| m.cell.is_default())
                .map(|m| Values::new(m.cell.system(), m.cpu))
                .collect::<Vec<_>>();
            if !bars.is_empty() {
                let parts = ["busy", "waiting for I/O", "idle"].map(str::to_owned).to_vec();
                let plot = StackedBars {
                    axis: Axis::new("Share of the processors' time", Unit::Share),
                    parts,
                    bars,
                };
                let title = format!("{workload} on {device}: what the processors did (Figure 2)");
                all.push(
                    Figure::new(title, Basis::Measured, plot)
                        .caption("File systems as they come, at their fastest."),
                );
            }
            for (quantity, axis, what, basis) in [
                (
                    Quantity::Performance,
                    Axis::new("Operations a second", ops()),
                    "operations a second",
                    Basis::Measured,
                ),
                (
                    Quantity::Efficiency,
                    Axis::new("Operations for each joule", per_joule()),
                    "operations for each joule",
                    self.joint(),
                ),
            ] {
                let values: Vec<_> = list
                    .iter()
                    .filter_map(|m| Some((m.cell.system(), m.sample(quantity)?)))
                    .collect();
                if values.is_empty() {
                    continue;
                }
                let plot = Bars {
                    axis,
                    categories: values.iter().map(|v| v.0.clone()).collect(),
                    series: vec![BarSeries {
                        name: workload.clone(),
                        values: values
                            .iter()
                            .map(|v| BarValue { value: v.1.mean, spread: interval(v.1) })
                            .collect(),
                    }],
                };
                let title =
                    format!("{workload} on {device}: {what}{}", counterpart(workload, quantity));
                all.push(
                    Figure::new(title, basis, plot)
                        .caption("Means with 95 % intervals (Student's t)."),
                );
            }
            let points: Vec<_> = list
                .iter()
                .filter_map(|m| Some((m.ops_per_s.mean, m.ops_per_joule.as_ref()?.mean)))
                .collect();
            if points.len() > 2 {
                let plot = Scatter {
                    x: Axis::new("Operations a second", ops()),
                    y: Axis::new("Operations for each joule", per_joule()),
                    series: vec![Points::new("systems", points)],
                };
                let title = format!("{workload} on {device}: efficiency over performance");
                all.push(
                    Figure::new(title, self.joint(), plot)
                        .caption("Each point is a file system with its options."),
                );
            }
        }
        all
    }

    /// Of operations, measured, and joules.
    fn joint(&self) -> Basis {
        if self.basis() == Basis::Measured { Basis::Measured } else { Basis::Mixed }
    }

    /// Figure 1: power over load, a line for each file system as it comes.
    fn power_over_load(&self, device: &str, workload: &str) -> Option<Figure> {
        let mut series: Vec<Points> = Vec::new();
        let loaded = self
            .results
            .measured
            .iter()
            .filter(|m| m.cell.device == device && m.cell.workload == workload);
        let loads: Vec<_> = loaded.filter(|m| m.cell.is_default()).collect();
        loads.iter().find(|m| m.cell.rate.is_some())?;
        for m in loads {
            let name = m.cell.short.clone();
            let Some(watts) = &m.watts else { continue };
            let point = (m.ops_per_s.mean, watts.mean);
            match series.iter_mut().find(|s| s.name == name) {
                Some(line) => line.points.push(point),
                None => series.push(Points::new(name, vec![point])),
            }
        }
        let plot = Lines {
            x: Axis::new("Operations a second", ops()),
            y: Axis::new("Power", Unit::Watts),
            series,
        };
        let title = format!("{workload} on {device}: power over load (Figure 1)");
        Some(
            Figure::new(title, self.basis(), plot)
                .caption("The last point of each line is as fast as it goes."),
        )
    }
}
