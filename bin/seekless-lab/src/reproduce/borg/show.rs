//! What was found, as tables, figures, a report and JSON; the paper's numbers beside ours. Knows how to say it, not how it
//! came about.

use seekless_papers::{BorgPhase, BorgRun, Reconfiguration};
use seekless_report::{
    Axis, BarSeries, Bars, Basis, Better, Cell, Column, Figure, Lines, Points, Provenance, Report,
    Section, StackedBars, Table, Tile, Unit, Values,
};
use serde_json::{Value, json};

use super::claims::{self, Claim, all_s, claims, requests_s};
use super::paper::{self, DEVELOPER_SEEKS, STARTS, SVN_SEEKS};
use super::run::{O3, Phases, Point, Results, cylinder};
use super::started::Archived;
use seekless_cli::output;

/// What everything here is: said first in all that is shown.
const HONEST: &str = "Every trace here is made up: it matches what Table 1 prints of the paper's (the virtual machines' matches \
nothing printed), and all times are of modelled disks with the mechanics of Table 3's. The paper measured real disks. Requests come at \
the trace's own times, in order, to a disk without RAM before it (the traces were taken below a page cache), the same for vanilla and \
BORG; the paper replayed them 168 times as fast. R is moving alone: no request comes meanwhile. N is busy time for requests; what the \
write buffer writes home in idle time stands beside it as background (the paper's is emptied in R), and the last row of each figure counts \
all, what it holds at the end too. It gathers writes in RAM for a second (the paper's disks had write caches). Five normal phases of a week are 1.4 days each; the paper says 1.75.";

/// Everything that is shown.
pub(super) struct Shown<'a> {
    results: &'a Results,
    archived: &'a [Archived],
    claims: Vec<Claim>,
    /// Sectors of a cylinder of O3's disk.
    cylinder: f64,
}

impl<'a> Shown<'a> {
    pub(super) fn new(results: &'a Results, archived: &'a [Archived]) -> anyhow::Result<Self> {
        let cylinder = cylinder(O3.disk)?;
        Ok(Self { results, archived, claims: claims(results), cylinder })
    }

    /// On the terminal.
    pub(super) fn print(&self) -> anyhow::Result<()> {
        output::print(&format!("BORG (FAST 2009), reproduced. {HONEST}{}\n", self.scaled()))?;
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
        tables.push(claims::table(&self.claims));
        for table in tables {
            output::print(&table.terminal(output::width(), output::colour()))?;
        }
        output::print(&self.lead())
    }

    fn scaled(&self) -> String {
        if self.results.scale == 1.0 {
            return String::new();
        }
        format!(
            " Traces, file systems and areas are {} times the paper's, so times are about as much smaller.",
            self.results.scale
        )
    }

    fn lead(&self) -> String {
        let held = self.claims.iter().filter(|c| c.holds).count();
        let (mut requests, mut all, mut replays) = (0, 0, 0);
        for p in &self.results.phases {
            let Some(((_, vanilla), learned)) = p.systems.split_first() else { continue };
            for (_, run) in learned {
                replays += 1;
                requests += usize::from(requests_s(run) < requests_s(vanilla));
                all += usize::from(all_s(run) < all_s(vanilla));
            }
        }
        format!(
            "{held} of {} things the paper says hold here as well. With BORG the disk is busy less for requests in {requests} of \
             {replays} replays, and less in {all} with all counted that it moves and writes home. Every trace of ours is made up, \
             every disk modelled.",
            self.claims.len()
        )
    }

    fn table1(&self) -> Table {
        let mut columns = vec![Column::text("")];
        for (name, _) in &self.results.table1 {
            let name = name.trim_start_matches("borg-");
            columns.push(Column::text(format!("{name}: paper")).right());
            columns.push(Column::text("ours").right());
        }
        let mut table = Table::new("Table 1: the traces", columns);
        let rows = self.results.table1.first().map_or(0, |t| t.1.len());
        for row in 0..rows {
            let mut cells = vec![Cell::from(self.results.table1[0].1[row].0)];
            for (_, all) in &self.results.table1 {
                let (_, unit, printed, ours) = &all[row];
                cells.extend([*printed, *ours].map(|v| Cell::from(unit.format(v, 3))));
            }
            table = table.row(cells);
        }
        table.note(
            "Matched, not measured: the traces are made up so. Counted as `seekless stat` counts.",
        )
    }

    fn table4(&self) -> Table {
        let right = |name: &str| Column::text(name).right();
        let columns = vec![
            Column::text("program"),
            right("start, V"),
            right("B paper"),
            right("B ours"),
            right("random %, V"),
            right("ours"),
            right("B paper"),
            right("ours"),
            right("seek cyl, V"),
            right("ours"),
            right("B paper"),
            right("ours"),
        ];
        let mut table = Table::new("Table 4: application start-up on O3", columns);
        for (s, ours) in STARTS.iter().zip(&self.results.starts) {
            let cell = |v: f64| Cell::from(format!("{v:.2}"));
            let random =
                |p: &BorgPhase| Cell::from(format!("{:.1}", p.nonsequential_share() * 100.0));
            let seek =
                |p: &BorgPhase| Cell::from(format!("{:.0}", p.seek_mean_sectors() / self.cylinder));
            let one = |v: f64| Cell::from(format!("{v:.1}"));
            let none = |v: f64| Cell::from(format!("{v:.0}"));
            let name =
                if s.trained { s.name.to_owned() } else { format!("{} (untrained)", s.name) };
            table = table.row([
                Cell::from(name),
                cell(s.seconds[0]),
                cell(s.seconds[1]),
                cell(ours.borg.busy_s),
                one(s.random[0]),
                random(&ours.vanilla),
                one(s.random[1]),
                random(&ours.borg),
                none(s.seek[0]),
                seek(&ours.vanilla),
                none(s.seek[1]),
                seek(&ours.borg),
            ]);
        }
        table.note(format!(
            "Seconds. V vanilla, B BORG. Reads made up so that our vanilla start takes the paper's seconds of disk time, with its \
             random share and seek; what a program computes takes no time here, so B shows what the disk alone would gain. Moving \
             kept the disk busy {:.1} s.{}",
            self.results.starts_moving_s,
            if self.archived.is_empty() {
                " Real programs are measured by benches/startup; --started shows its archives here."
            } else {
                ""
            }
        ))
    }

    fn sensitivity(&self) -> Table {
        let columns = vec![
            Column::text("varied"),
            Column::text("trace"),
            Column::text("improvement in disk busy time throughput (moving and destaging counted)"),
        ];
        let mut table = Table::new("Figure 12: sensitivity, on O1", columns);
        for c in &self.results.curves {
            let points: Vec<String> = c
                .points
                .iter()
                .map(|(n, g, all)| format!("{n}: {:+.0} % ({:+.0} %)", g * 100.0, all * 100.0))
                .collect();
            table = table.row([c.varied.into(), c.trace.into(), points.join("  ").into()]);
        }
        table.note(
            "Vanilla's busy time for requests over BORG's, less one, of all normal phases after a base reconfiguration at six hours, each \
             plan from what came since the last. The area's sizes are those of the full scale. The paper prints the curves without \
             numbers.",
        )
    }

    pub(super) fn report(&self) -> Report {
        let mut report = Report::new("BORG, reproduced", self.lead());
        for (figure, label) in [("6", "SVN server"), ("7", "developer"), ("8", "web server")] {
            if let Some(p) = self.results.figure(figure)
                && let [(_, vanilla), .., (name, borg)] = &p.systems[..]
            {
                let signed = |change: f64| format!("{:+.0} %", change * 100.0).replace('-', "−");
                let all = signed(all_s(borg) / all_s(vanilla) - 1.0);
                report = report.tile(Tile::new(
                    format!("{label}: busy for requests"),
                    signed(requests_s(borg) / requests_s(vanilla) - 1.0),
                    format!("{name}, modelled; {all} with moving and destaging"),
                ));
            }
        }
        report = report.section(
            Section::new("What holds")
                .text(format!("{HONEST}{}", self.scaled()))
                .table(claims::table(&self.claims))
                .table(self.table1()),
        );
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
        report.section(section.table(self.sensitivity())).provenance(Provenance {
            command: std::env::args().collect::<Vec<_>>().join(" "),
            facts: vec![
                ("seekless".into(), env!("CARGO_PKG_VERSION").into()),
                ("seed".into(), self.results.seed.to_string()),
                ("scale".into(), self.results.scale.to_string()),
            ],
            measured: vec![
                "The paper's numbers, on its authors' machines.".into(),
                "Times of analyzer and planner, on this computer, replays side by side.".into(),
            ],
            modelled: vec!["Every time of a disk of ours; every trace is made up.".into()],
        })
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
                    let points = |gain: fn(&Point) -> f64| -> Vec<_> {
                        c.points.iter().map(|p| (value(&p.0), gain(p))).collect()
                    };
                    let counted = format!("{}, all counted", c.trace);
                    [Points::new(c.trace, points(|p| p.1)), Points::new(counted, points(|p| p.2))]
                })
                .collect(),
        };
        Figure::new(format!("Sensitivity to the {varied}"), Basis::Modelled, lines).caption(
            "Made-up traces on O1's modelled disk, after a base reconfiguration at six hours. The paper counts requests alone; all \
             counted: moving, and what the write buffer sends home, too.",
        )
    }

    pub(super) fn document(&self) -> Value {
        let r = self.results;
        json!({
            "schema": "seekless.reproduce/1",
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
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "table4": STARTS.iter().zip(&r.starts).map(|(s, ours)| json!({
                "program": s.name, "trained": s.trained,
                "paper": { "seconds": s.seconds, "random_percent": s.random, "seek_cylinders": s.seek },
                "ours": { "vanilla": ours.vanilla, "borg": ours.borg },
            })).collect::<Vec<_>>(),
            "started": self.archived.iter().map(|a| json!({
                "file": a.path,
                "means": a.means.iter().map(|(name, system, starts, seconds)| json!({
                    "name": name, "system": system, "starts": starts, "wall_s": seconds,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "figure12": r.curves.iter().map(|c| json!({
                "varied": c.varied, "trace": c.trace,
                "points": c.points.iter().map(|(setting, gain, all)| json!({
                    "setting": setting, "improvement": gain, "improvement_all_counted": all,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "claims": self.claims,
        })
    }
}

/// The phases in order of time: name, and its index; true for a normal one.
fn order(phases: &Phases) -> Vec<(String, usize, bool)> {
    let normal = phases.systems.first().map_or(0, |s| s.1.phases.len());
    let mut names = Vec::new();
    for i in 0..normal {
        names.push((format!("N{}", i + 1), i, true));
        if i + 1 < normal {
            names.push((format!("R{}", i + 1), i, false));
        }
    }
    names
}

/// Busy time of a phase; none of a system without such.
fn of(run: &BorgRun, index: usize, normal: bool) -> Option<f64> {
    if normal {
        run.phases.get(index).map(|p| p.busy_s)
    } else {
        run.reconfigurations.get(index).map(|r| r.reconfigurer_s)
    }
}

fn phase_table(p: &Phases) -> anyhow::Result<Table> {
    let mut columns = vec![Column::text("phase"), Column::text("vanilla").right()];
    for (name, _) in &p.systems[1..] {
        columns.push(Column::text(*name).right());
        columns.push(Column::text("change").right());
        columns.push(Column::text("background").right());
        columns.push(Column::text("paper").right());
    }
    let Some((_, vanilla)) = p.systems.first() else { anyhow::bail!("no system was replayed") };
    let title = format!(
        "Figure {}: disk busy time, {} on {} ({}), area {} GB, write buffer {} %",
        p.figure, p.trace, p.host.name, p.host.disk, p.host.area_gb, p.write_buffer_percent
    );
    let mut table = Table::new(title, columns);
    let seconds = |v: f64| Cell::from(format!("{v:.1} s"));
    let change = |v: f64, base: f64| Cell::Change { value: v, base, better: Better::Lower };
    let said = |figure: &str, system: &str, phase: &str| {
        Cell::from(paper::bar(figure, system, phase).unwrap_or("–"))
    };
    for (name, index, normal) in order(p) {
        let base = of(vanilla, index, normal);
        let mut cells = vec![Cell::from(name.as_str()), base.map_or(Cell::from("–"), seconds)];
        for (system, run) in &p.systems[1..] {
            let ours = of(run, index, normal);
            cells.push(ours.map_or(Cell::from("–"), seconds));
            cells.push(ours.zip(base).map_or(Cell::Empty, |(v, b)| change(v, b)));
            let background = run.phases.get(index).filter(|_| normal).map(|p| p.background_s);
            cells.push(background.map_or(Cell::Empty, seconds));
            cells.push(said(p.figure, system, &name));
        }
        table = table.row(cells);
    }
    let mut sum = |label: &str, phase: &str, of: fn(&BorgRun) -> f64| {
        let base = of(vanilla);
        let mut cells = vec![Cell::from(label), seconds(base)];
        for (system, run) in &p.systems[1..] {
            let paper = said(p.figure, system, phase);
            cells.extend([seconds(of(run)), change(of(run), base), Cell::Empty, paper]);
        }
        table = std::mem::take(&mut table).row(cells);
    };
    sum("all N", "N", requests_s);
    sum("all counted", "all", all_s);
    let cylinder = cylinder(p.host.disk)?;
    let printed = match p.figure {
        "6" => Some(SVN_SEEKS),
        "7" => Some(DEVELOPER_SEEKS),
        _ => None,
    };
    let mut note = String::new();
    for (i, (system, run)) in p.systems.iter().enumerate() {
        let all = BorgPhase::sum(&run.phases);
        let paper = printed.filter(|_| i < 2).map_or(String::new(), |s| {
            format!(" (paper: {:.2} %, {:.0})", s[0][i] * 100.0, s[1][i])
        });
        note += &format!(
            "{system}: {:.2} % of blocks non-sequential, mean seek {:.0} cylinders of the modelled disk{paper}. ",
            all.nonsequential_share() * 100.0,
            all.seek_mean_sectors() / cylinder
        );
    }
    Ok(table.note(note + "–: not in the paper's text."))
}

fn phase_figure(p: &Phases) -> Figure {
    let order = order(p);
    let series = |(name, run): &(&str, BorgRun)| BarSeries {
        name: (*name).to_owned(),
        values: order
            .iter()
            .map(|(_, i, normal)| of(run, *i, *normal).unwrap_or(f64::NAN).into())
            .collect(),
    };
    let background = p.systems[1..].iter().map(|(name, run)| BarSeries {
        name: format!("{name}, in idle time"),
        values: order
            .iter()
            .map(|(_, i, normal)| {
                let phase = run.phases.get(*i).filter(|_| *normal);
                phase.map_or(f64::NAN, |p| p.background_s).into()
            })
            .collect(),
    });
    let bars = Bars {
        axis: Axis::new("Disk busy time", Unit::Seconds),
        categories: order.iter().map(|(name, ..)| name.clone()).collect(),
        series: p.systems.iter().map(series).chain(background).collect(),
    };
    let title = format!("{} on {}, phase by phase", p.trace, p.host.name);
    Figure::new(title, Basis::Modelled, bars).caption(
        "N: normal phases. R: reconfigurations, moving alone. A made-up trace on a modelled disk.",
    )
}

/// The learning systems of Figure 8 and their reconfigurations, in the order of Figures 9 and 10.
fn reconfigurations(p: &Phases) -> Vec<(String, &Reconfiguration)> {
    let mut all = Vec::new();
    for i in 0.. {
        let before = all.len();
        for (name, run) in &p.systems[1..] {
            if let Some(r) = run.reconfigurations.get(i) {
                let kind = name.trim_start_matches("borg-");
                all.push((format!("R{} {kind}", i + 1), r));
            }
        }
        if all.len() == before {
            break;
        }
    }
    all
}

fn overhead(p: &Phases) -> Table {
    let seconds = |name: &str| Column::number(name, Unit::Seconds);
    let columns = vec![
        Column::text("reconfiguration"),
        seconds("analyzer"),
        seconds("planner"),
        seconds("reconfigurer"),
        Column::number("vertices", Unit::Count),
        Column::number("edges", Unit::Count),
        Column::text("paper").right(),
    ];
    let mut table = Table::new("Figure 9: time of a reconfiguration, web server", columns);
    for (name, r) in reconfigurations(p) {
        table = table.row([
            name.into(),
            r.analyzer_s.into(),
            r.planner_s.into(),
            r.reconfigurer_s.into(),
            r.vertices.into(),
            r.edges.into(),
            "–".into(),
        ]);
    }
    table.note(
        "C cumulative, P partial. Analyzer and planner: this computer's time, measured, other replays beside it; the analyzer reads \
         only what is new since the last one. Reconfigurer: the modelled disk's busy time. The paper's text has no numbers: with \
         cumulative traces analyzer and planner rise linearly, with partial ones they fall after the second and stay.",
    )
}

fn overhead_figure(p: &Phases) -> Figure {
    let bars = StackedBars {
        axis: Axis::new("Time", Unit::Seconds),
        parts: ["analyzer", "planner", "reconfigurer"].map(String::from).to_vec(),
        bars: reconfigurations(p)
            .into_iter()
            .map(|(name, r)| Values::new(name, [r.analyzer_s, r.planner_s, r.reconfigurer_s]))
            .collect(),
    };
    Figure::new("What a reconfiguration takes", Basis::Mixed, bars).caption(
        "Figure 9. Analyzer and planner are measured on this computer; the reconfigurer is busy time of the modelled disk.",
    )
}

fn changes(p: &Phases) -> Table {
    let bytes = |name: &str| Column::number(name, Unit::Bytes);
    let columns = vec![
        Column::text("reconfiguration"),
        bytes("new"),
        bytes("relocated"),
        bytes("kept"),
        bytes("removed"),
        Column::text("paper").right(),
    ];
    let mut table = Table::new("Figure 10: differences in the plans, web server", columns);
    for (name, r) in reconfigurations(p) {
        let c = &r.change;
        table = table.row([
            name.into(),
            c.new_bytes.into(),
            c.relocated_bytes.into(),
            c.kept_bytes.into(),
            c.removed_bytes.into(),
            "–".into(),
        ]);
    }
    table.note("Against the plan before. The paper's text has no numbers.")
}

fn changes_figure(p: &Phases) -> Figure {
    let bars = StackedBars {
        axis: Axis::new("Data", Unit::Bytes),
        parts: ["new", "relocated", "kept", "removed"].map(String::from).to_vec(),
        bars: reconfigurations(p)
            .into_iter()
            .map(|(name, r)| {
                let c = &r.change;
                let parts = [c.new_bytes, c.relocated_bytes, c.kept_bytes, c.removed_bytes];
                Values::new(name, parts.map(|b| b as f64))
            })
            .collect(),
    };
    Figure::new("What a plan changes", Basis::Modelled, bars)
        .caption("Figure 10. C cumulative, P partial training; against the plan before.")
}

/// Real starts.
fn archive(a: &Archived) -> Table {
    let columns = vec![
        Column::text("program"),
        Column::text("system"),
        Column::number("starts", Unit::Count),
        Column::number("mean", Unit::Seconds),
    ];
    let title = format!("Real starts on an emulated disk, measured: {}", a.path.display());
    let mut table = Table::new(title, columns);
    for (name, system, starts, seconds) in &a.means {
        table = table.row([
            name.as_str().into(),
            system.as_str().into(),
            (*starts as u64).into(),
            (*seconds).into(),
        ]);
    }
    table.note("How these were measured: benches/startup.")
}
