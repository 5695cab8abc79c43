//! The results as tables, figures, a report and a document, the paper's numbers beside ours.

use seekless_report::{
    Axis, BarSeries, Bars, Basis, Figure, Lines, Points, Provenance, Report, Section, Table, Tile,
    Unit,
};
use serde_json::{Value, json};

use super::archive::Archived;
use super::claims::{all_s, judged, normal_s};
use super::experiments::{Curve, CurvePoint, O3, Results, cylinder};
use super::phases::{phase_figure, phase_table};
use super::plans::{changes, changes_figure, overhead, overhead_figure};
use super::printed::STARTS;
use super::replay::BorgPhase;
use crate::claims::{Beyond, Judged, Paper};
use crate::reproduction::SCHEMA;
use crate::{PaperError, Reproduction};

/// How to read all numbers: the first text of every output.
const HONEST: &str = "All traces here are made up. They match Table 1 of the paper (the trace of the virtual machines matches no \
printed number). All times are of modelled disks with the mechanics of Table 3. The paper measures real disks. For vanilla and for \
BORG, requests arrive 168 times as fast as in the trace (Subversion server and developer, as in the paper), or at the trace's own times. An \
elevator above the disk merges neighbours and orders waiting requests (C-LOOK). No RAM answers requests before the disk (the traces were recorded below a \
page cache). borg-paper writes by the paper's rule: copies in place, other pages to \
a write buffer that is emptied in R. borg writes all pages to this buffer, and destages in idle time too: this is background, and counts in N. During R \
there are no requests. The last row of each figure counts R too, and the destaging after the last phase. \
The write buffer gathers writes in RAM for a second; vanilla and writes in place do not. (Drives like the paper's have write caches for all systems.) \
The five normal phases of a week are 1.4 days each; the paper says 1.75.";

/// The results, ready to be shown.
pub(super) struct Shown<'a> {
    results: &'a Results,
    archived: &'a [Archived],
    claims: Judged,
    /// Sectors of a cylinder of O3's disk.
    cylinder: f64,
}

impl<'a> Shown<'a> {
    pub(super) fn new(results: &'a Results, archived: &'a [Archived]) -> Result<Self, PaperError> {
        let cylinder = cylinder(O3.disk)?;
        Ok(Self { results, archived, claims: judged(results)?, cylinder })
    }

    /// All forms of the results. `command` is the command line, for the report.
    pub(super) fn reproduction(&self, command: &str) -> Result<Reproduction, PaperError> {
        let mut tables = vec![self.table1()];
        for phases in &self.results.phases {
            tables.push(phase_table(phases)?);
            if phases.figure == "8" {
                tables.extend([overhead(phases), changes(phases)]);
            }
        }
        tables.push(self.table4());
        tables.extend(self.archived.iter().map(archive));
        tables.push(self.sensitivity());
        tables.extend(self.claims.tables());
        Ok(Reproduction {
            opening: format!("BORG (FAST 2009), reproduced. {HONEST}{}\n", self.scaled()),
            tables,
            closing: self.lead(),
            document: self.document(),
            report: self.report(command),
        })
    }

    fn scaled(&self) -> String {
        if self.results.scale == 1.0 {
            return String::new();
        }
        format!(
            " Traces, file systems and areas are {} times the paper's, and times change by about the same factor.",
            self.results.scale
        )
    }

    fn lead(&self) -> String {
        let (mut normal, mut all, mut replays) = (0, 0, 0);
        for p in &self.results.phases {
            let Some(((_, vanilla), learned)) = p.systems.split_first() else { continue };
            for (_, run) in learned {
                replays += 1;
                normal += usize::from(normal_s(run) < normal_s(vanilla));
                all += usize::from(all_s(run) < all_s(vanilla));
            }
        }
        format!(
            "With BORG the disk is less busy in normal phases in {normal} of \
             {replays} replays, and in all phases in {all} replays. All our traces are made up, \
             and all disks are modelled.\n{}",
            self.claims.lead()
        )
    }

    fn table1(&self) -> Table {
        let traces = &self.results.table1;
        let rows = traces.first().map_or(0, |t| t.1.len());
        let mut table =
            Table::of("Table 1: the traces", 0..rows).text("", |row| traces[0].1[row].0);
        for (name, all) in traces {
            let shown = |row: usize, value: f64| all[row].1.format(value, 3);
            let name = name.trim_start_matches("borg-");
            table = table
                .right(&format!("{name}: paper"), |row| shown(row, all[row].2))
                .right("ours", |row| shown(row, all[row].3));
        }
        table.done().note(
            "Matched, not measured: the traces are made to match. Counted as `seekless stat` counts.",
        )
    }

    fn table4(&self) -> Table {
        let two = |v: f64| format!("{v:.2}");
        let one = |v: f64| format!("{v:.1}");
        let none = |v: f64| format!("{v:.0}");
        let random = |p: &BorgPhase| one(p.nonsequential_share() * 100.0);
        let seek = |p: &BorgPhase| none(p.seek_mean_sectors() / self.cylinder);
        let untrained = |trained: bool| if trained { "" } else { " (untrained)" };
        let title = "Table 4: application start-up on O3";
        let table = Table::of(title, STARTS.iter().zip(&self.results.starts))
            .text("program", |(s, _)| format!("{}{}", s.name, untrained(s.trained)))
            .right("start, V", |(s, _)| two(s.seconds[0]))
            .right("B paper", |(s, _)| two(s.seconds[1]))
            .right("B ours", |(_, ours)| two(ours.borg.busy_s))
            .right("random %, V", |(s, _)| one(s.random[0]))
            .right("ours", |(_, ours)| random(&ours.vanilla))
            .right("B paper", |(s, _)| one(s.random[1]))
            .right("ours", |(_, ours)| random(&ours.borg))
            .right("seek cyl, V", |(s, _)| none(s.seek[0]))
            .right("ours", |(_, ours)| seek(&ours.vanilla))
            .right("B paper", |(s, _)| none(s.seek[1]))
            .right("ours", |(_, ours)| seek(&ours.borg))
            .done();
        table.note(format!(
            "Seconds. V vanilla, B BORG. The reads are made up: our vanilla start takes the paper's seconds of disk time, with the paper's \
             random share and seek. Computing takes no time here, so B shows the gain of the disk alone. Moving \
             kept the disk busy {:.1} s.{}",
            self.results.starts_moving_s,
            if self.archived.is_empty() {
                " benches/startup measures real programs; --started shows its archives here."
            } else {
                ""
            }
        ))
    }

    fn sensitivity(&self) -> Table {
        let name =
            "improvement in disk busy time throughput (moving and the last destaging counted)";
        let table = Table::of("Figure 12: sensitivity, on O1", &self.results.curves)
            .text("varied", |c| c.varied)
            .text("trace", |c| c.trace)
            .text("system", system)
            .text(name, |c| {
                let points = c
                    .points
                    .iter()
                    .map(|(n, g, all)| format!("{n}: {:+.0} % ({:+.0} %)", g * 100.0, all * 100.0));
                points.collect::<Vec<_>>().join("  ")
            });
        table.done().note(
            "Vanilla's busy time over BORG's, less one, of all normal phases after a base reconfiguration at six hours. Each \
             plan is learned from the requests since the last plan. The area's sizes are at full scale. The paper prints the curves without \
             numbers.",
        )
    }

    fn report(&self, command: &str) -> Report {
        let mut report = Report::new("BORG, reproduced", self.lead());
        for (figure, label) in [("6", "SVN server"), ("7", "developer"), ("8", "web server")] {
            let Some(p) = self.results.figure(figure) else { continue };
            let Some(((_, vanilla), learned)) = p.systems.split_first() else { continue };
            for (name, borg) in learned.iter().filter(|s| !s.0.ends_with("-C")) {
                let signed = |change: f64| format!("{:+.0} %", change * 100.0).replace('-', "−");
                let all = signed(all_s(borg) / all_s(vanilla) - 1.0);
                report = report.tile(Tile::new(
                    format!("{label}: busy in normal phases"),
                    signed(normal_s(borg) / normal_s(vanilla) - 1.0),
                    format!("{name}, modelled; {all} with moving"),
                ));
            }
        }
        let section = Section::new("Claims").text(format!("{HONEST}{}", self.scaled()));
        let section = self.claims.tables().into_iter().fold(section, Section::table);
        report = report.section(section.table(self.table1()));
        for phases in &self.results.phases {
            let mut section = Section::new(format!("Figure {}: {}", phases.figure, phases.trace))
                .figure(phase_figure(phases));
            if let Ok(table) = phase_table(phases) {
                section = section.table(table);
            }
            if phases.figure == "8" {
                section = section
                    .figure(overhead_figure(phases))
                    .table(overhead(phases))
                    .figure(changes_figure(phases))
                    .table(changes(phases));
            }
            report = report.section(section);
        }
        let mut section = Section::new("Table 4").figure(self.starts_figure()).table(self.table4());
        for a in self.archived {
            section = section.table(archive(a));
        }
        report = report.section(section);
        let mut section = Section::new("Figure 12");
        for varied in ["interval", "size of the area", "write buffer"] {
            section = section.figure(self.sensitivity_figure(varied));
        }
        let origin = Provenance::of(command)
            .fact("seed", self.results.seed)
            .fact("scale", self.results.scale)
            .measured("The paper's numbers, on its authors' machines.")
            .measured("Times of analyzer and planner, on this computer, while other replays run.")
            .modelled("All times of our disks; all traces are made up.");
        report.section(section.table(self.sensitivity())).provenance(origin)
    }

    fn starts_figure(&self) -> Figure {
        let series = |name: &str, of: &dyn Fn(usize) -> f64| BarSeries {
            name: name.to_owned(),
            values: (0..STARTS.len()).map(|i| of(i).into()).collect(),
        };
        let bars = Bars {
            axis: Axis::new("Start-up", Unit::Seconds),
            categories: STARTS.iter().map(|s| s.name.to_owned()).collect(),
            series: vec![
                series("vanilla, the paper's and ours", &|i| STARTS[i].seconds[0]),
                series("BORG, the paper's", &|i| STARTS[i].seconds[1]),
                series("BORG, ours: the disk alone", &|i| self.results.starts[i].borg.busy_s),
            ],
        };
        Figure::new("Starting programs", Basis::Mixed, bars)
            .caption("The paper's are measured; ours are made-up reads on a modelled disk. gimp and oaimpress were not in the training.")
    }

    fn sensitivity_figure(&self, varied: &str) -> Figure {
        let of: Vec<_> = self.results.curves.iter().filter(|c| c.varied == varied).collect();
        let value = |name: &str| -> f64 {
            name.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(f64::NAN)
        };
        let axis = match varied {
            "interval" => Axis::new("Hours between reconfigurations", Unit::Number),
            "write buffer" => {
                Axis::new("Per cent of the area that is the write buffer", Unit::Number)
            }
            _ => Axis::new("MiB of the area, at full scale", Unit::Number).log(),
        };
        let lines = Lines {
            x: axis,
            y: Axis::new("Throughput improvement", Unit::Share),
            series: of
                .iter()
                .flat_map(|c| {
                    let points = |gain: fn(&CurvePoint) -> f64| -> Vec<_> {
                        c.points.iter().map(|p| (value(&p.0), gain(p))).collect()
                    };
                    let name = format!("{}, {}", c.trace, system(c));
                    let counted = format!("{name}, with moving");
                    [Points::new(name, points(|p| p.1)), Points::new(counted, points(|p| p.2))]
                })
                .collect(),
        };
        Figure::new(format!("Sensitivity to the {varied}"), Basis::Modelled, lines).caption(
            "Made-up traces on O1's modelled disk, after a base reconfiguration at six hours. The paper counts normal phases alone; the other \
             lines count moving and the last destaging too.",
        )
    }

    fn document(&self) -> Value {
        let r = self.results;
        let mut document = json!({
            "schema": SCHEMA,
            "what": "borg",
            "scale": r.scale,
            "seed": r.seed,
            "table1": r.table1.iter().map(|(name, rows)| json!({
                "trace": name,
                "rows": rows.iter().map(|(what, unit, printed, ours)| json!({
                    "what": what, "unit": if *unit == Unit::Bytes { "bytes" } else { "share" },
                    "paper": printed, "ours": ours,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "phases": r.phases.iter().map(|p| json!({
                "figure": p.figure, "trace": p.trace, "host": p.host.name, "disk": p.host.disk,
                "area_gb": p.host.area_gb, "write_buffer_percent": p.write_buffer_percent,
                "systems": p.systems.iter().map(|(name, run)| json!({
                    "name": name, "phases": run.phases, "reconfigurations": run.reconfigurations,
                    "drained": run.drained,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "table4": STARTS.iter().zip(&r.starts).map(|(s, ours)| json!({
                "program": s.name, "trained": s.trained,
                "paper": { "seconds": s.seconds, "random_percent": s.random, "seek_cylinders": s.seek },
                "ours": { "vanilla": ours.vanilla, "borg": ours.borg },
            })).collect::<Vec<_>>(),
            "boots": r.boots.iter().map(|b| json!({ "vanilla": b.vanilla, "borg": b.borg }))
                .collect::<Vec<_>>(),
            "started": self.archived.iter().map(|a| json!({
                "file": a.path,
                "means": a.means.iter().map(|(name, system, starts, seconds)| json!({
                    "name": name, "system": system, "starts": starts, "wall_s": seconds,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "figure12": r.curves.iter().map(|c| json!({
                "varied": c.varied, "trace": c.trace, "system": system(c),
                "points": c.points.iter().map(|(setting, gain, all)| json!({
                    "setting": setting, "improvement": gain, "improvement_all_counted": all,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        });
        self.claims.document(&mut document);
        document
    }
}

/// The system of a curve.
const fn system(curve: &Curve) -> &'static str {
    match curve.who {
        Paper => "borg-paper",
        Beyond => "borg",
    }
}

/// Real starts.
fn archive(a: &Archived) -> Table {
    let title = format!("Real starts on an emulated disk, measured: {}", a.path.display());
    let table = Table::of(title, &a.means)
        .text("program", |m| m.0.as_str())
        .text("system", |m| m.1.as_str())
        .number("starts", Unit::Count, |m| m.2 as u64)
        .number("mean", Unit::Seconds, |m| m.3)
        .done();
    table.note("benches/startup says how these were measured.")
}
