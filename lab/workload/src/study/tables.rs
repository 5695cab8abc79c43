//! The paper's Tables 2 and 3 from the runs of a study, and a sentence of advice for an
//! administrator.

use serde::Serialize;

use super::record::RunRecord;
use super::sample::{Sample, welch};
use super::spec::Cell;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Quantity {
    /// Operations a second.
    Performance,
    /// Operations for each joule.
    Efficiency,
}

/// A cell and its measurements.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measured {
    /// `device/system/workload`.
    pub id: String,
    #[serde(skip)]
    pub cell: Cell,
    /// Operations a second.
    pub ops_per_s: Sample,
    /// Operations for each joule; `None` without a power meter.
    pub ops_per_joule: Option<Sample>,
    /// Mean power in W.
    pub watts: Option<Sample>,
    /// Processors in use, waiting for I/O, and idle: means of shares.
    pub cpu: [f64; 3],
}

impl Measured {
    /// The sample of this quantity; `None` if it was not measured.
    pub(super) fn sample(&self, quantity: Quantity) -> Option<&Sample> {
        match quantity {
            Quantity::Performance => Some(&self.ops_per_s),
            Quantity::Efficiency => self.ops_per_joule.as_ref(),
        }
    }
}

/// One system against another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Relative {
    /// Its mean over the other system's, less one.
    pub change: f64,
    /// Probability of this difference between equal systems; `None` with too few runs.
    pub p: Option<f64>,
    /// Half the width of the 95% interval of `change`.
    pub reach: Option<f64>,
    /// Whether the difference is significant at 5%.
    pub differs: bool,
    /// Whether a coefficient of variation exceeds 40%.
    pub varies: bool,
}

impl Relative {
    /// The comparison of two samples.
    pub(super) fn of(one: &Sample, base: &Sample) -> Self {
        let test = welch(one, base);
        Self {
            change: one.mean / base.mean - 1.0,
            p: test.map(|t| t.p),
            reach: test.map(|t| t.reach / base.mean.abs()),
            differs: test.is_some_and(|t| t.differs()),
            varies: one.variation() > 0.4 || base.variation() > 0.4,
        }
    }

    /// In the paper's notation: per cent, a dash for no significant difference, a dagger for
    /// strongly varying runs.
    pub(super) fn shown(&self) -> String {
        let dagger = if self.varies { " †" } else { "" };
        if !self.differs {
            return format!("–{dagger}");
        }
        let percent = (self.change * 100.0).round();
        let sign = if percent < 0.0 { "−" } else { "+" };
        format!("{sign}{} %{dagger}", percent.abs())
    }
}

/// A file system with an option against the same with default options.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Compared {
    pub device: String,
    pub workload: String,
    /// Operations a second.
    pub performance: Relative,
    /// Operations for each joule.
    pub efficiency: Option<Relative>,
}

/// A row of Table 2.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OptionRow {
    pub device: String,
    /// File system.
    pub filesystem: String,
    /// `format`, `mount` or both.
    pub kind: String,
    pub option: String,
    /// One for each workload, in order; `None` if it was not run.
    pub cells: Vec<Option<Compared>>,
}

/// A row of Table 3.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BestSystems {
    pub device: String,
    pub workload: String,
    /// The file system and options with the most operations a second.
    pub system: String,
    /// The system with the most operations for each joule, if it is another one with a significant
    /// difference.
    pub most_efficient: Option<String>,
    /// Operations a second as a multiple of the best and of the worst file system with default
    /// options.
    pub ops_per_s: Option<(f64, f64)>,
    /// The same for operations for each joule.
    pub ops_per_joule: Option<(f64, f64)>,
    /// The best and the worst with default options.
    pub defaults: Option<(String, String)>,
    /// Whether these two differ significantly.
    pub defaults_differ: bool,
    /// Systems without a significant difference from the best.
    pub as_good: Vec<String>,
}

/// Linear relation of operations for each joule to operations a second, over all systems of a
/// workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Linearity {
    /// Pearson's coefficient of correlation.
    pub correlation: f64,
    /// Slope of a line through logarithms; 1 if efficiency is proportional to performance.
    pub exponent: f64,
    /// Number of systems.
    pub systems: usize,
}

/// All measurements of a study.
#[derive(Clone, Debug)]
pub(super) struct Results {
    /// Cells in the order of the matrix; cells without a successful run are left out.
    pub measured: Vec<Measured>,
    /// Failed cells, with reasons.
    pub failed: Vec<(String, String)>,
}

impl Results {
    /// From a matrix and the records of its runs.
    pub(super) fn new(cells: &[Cell], records: &[RunRecord]) -> Self {
        let (mut measured, mut failed) = (Vec::new(), Vec::new());
        for cell in cells {
            let id = cell.id();
            let runs: Vec<_> = records.iter().filter(|r| r.cell == id).collect();
            let good: Vec<_> = runs.iter().filter(|r| r.outcome.is_some()).collect();
            let of = |f: &dyn Fn(&RunRecord) -> Option<f64>| {
                let values: Vec<f64> = good.iter().filter_map(|r| f(r)).collect();
                Sample::of(&values).filter(|_| values.len() == good.len())
            };
            let Some(ops_per_s) = of(&RunRecord::ops_per_s) else {
                failed.extend(runs.iter().rev().find_map(|r| Some((id.clone(), r.error.clone()?))));
                continue;
            };
            let cpu = |f: &dyn Fn(&crate::CpuUse) -> f64| {
                good.iter().filter_map(|r| r.outcome.as_ref()).map(|o| f(&o.cpu)).sum::<f64>()
                    / good.len() as f64
            };
            measured.push(Measured {
                ops_per_joule: of(&RunRecord::ops_per_joule),
                watts: of(&RunRecord::watts),
                cpu: [cpu(&|c| c.busy()), cpu(&|c| c.iowait), cpu(&|c| c.idle + c.steal)],
                cell: cell.clone(),
                ops_per_s,
                id,
            });
        }
        Self { measured, failed }
    }

    /// The cells of one device and workload with a closed load.
    pub(super) fn of<'a>(
        &'a self,
        device: &'a str,
        workload: &'a str,
    ) -> impl Iterator<Item = &'a Measured> {
        self.measured.iter().filter(move |m| {
            m.cell.rate.is_none() && m.cell.device == device && m.cell.workload == workload
        })
    }

    /// Devices and workloads, in order.
    pub(super) fn axes(&self) -> (Vec<String>, Vec<String>) {
        let (mut devices, mut workloads) = (Vec::new(), Vec::new());
        for m in &self.measured {
            for (list, name) in [(&mut devices, &m.cell.device), (&mut workloads, &m.cell.workload)]
            {
                if !list.contains(name) {
                    list.push(name.clone());
                }
            }
        }
        (devices, workloads)
    }

    fn default_of<'a>(&'a self, cell: &'a Cell) -> Option<&'a Measured> {
        self.of(&cell.device, &cell.workload)
            .find(|m| m.cell.is_default() && m.cell.filesystem == cell.filesystem)
    }

    /// Table 2: each option against the file system with default options.
    pub(super) fn table_2(&self) -> Vec<OptionRow> {
        let (_, workloads) = self.axes();
        let mut rows: Vec<OptionRow> = Vec::new();
        for m in self.measured.iter().filter(|m| m.cell.rate.is_none() && !m.cell.is_default()) {
            let c = &m.cell;
            let option =
                [c.format.join("+"), c.mount.join("+")].into_iter().filter(|o| !o.is_empty());
            let option = option.collect::<Vec<_>>().join(", ");
            let same = |r: &OptionRow| {
                r.device == c.device && r.filesystem == c.filesystem && r.option == option
            };
            let found = rows.iter().position(same);
            let at = found.unwrap_or_else(|| {
                let kind = match (c.format.is_empty(), c.mount.is_empty()) {
                    (true, _) => "mount",
                    (false, true) => "format",
                    (false, false) => "both",
                };
                rows.push(OptionRow {
                    device: c.device.clone(),
                    filesystem: c.filesystem.clone(),
                    kind: kind.to_owned(),
                    option: option.clone(),
                    cells: vec![None; workloads.len()],
                });
                rows.len() - 1
            });
            let column = workloads.iter().position(|w| *w == c.workload);
            let compared = self.default_of(c).map(|base| Compared {
                device: c.device.clone(),
                workload: c.workload.clone(),
                performance: Relative::of(&m.ops_per_s, &base.ops_per_s),
                efficiency: m
                    .ops_per_joule
                    .as_ref()
                    .zip(base.ops_per_joule.as_ref())
                    .map(|(a, b)| Relative::of(a, b)),
            });
            if let Some(column) = column {
                rows[at].cells[column] = compared;
            }
        }
        rows
    }

    /// Table 3: the best of each workload, against the best and the worst with default options.
    pub(super) fn table_3(&self) -> Vec<BestSystems> {
        let (devices, workloads) = self.axes();
        let mut all = Vec::new();
        for (device, workload) in devices.iter().flat_map(|d| workloads.iter().map(move |w| (d, w)))
        {
            let by = |q: Quantity, defaults: bool| {
                let mut list: Vec<&Measured> = self
                    .of(device, workload)
                    .filter(|m| (!defaults || m.cell.is_default()) && m.sample(q).is_some())
                    .collect();
                let mean = |m: &Measured| m.sample(q).map_or(0.0, |s| s.mean);
                list.sort_by(|a, b| mean(b).total_cmp(&mean(a)));
                list
            };
            let fastest = by(Quantity::Performance, false);
            let Some(best) = fastest.first() else { continue };
            let times = |q: Quantity| {
                let (top, defaults) = (by(q, false), by(q, true));
                let mean = |m: &&Measured| m.sample(q).map(|s| s.mean);
                let top = mean(top.first()?)?;
                Some((top / mean(defaults.first()?)?, top / mean(defaults.last()?)?))
            };
            let efficient = by(Quantity::Efficiency, false);
            let other = efficient.first().filter(|e| e.id != best.id).filter(|e| {
                let pair = e.ops_per_joule.as_ref().zip(best.ops_per_joule.as_ref());
                pair.and_then(|(a, b)| welch(a, b)).is_some_and(|w| w.differs())
            });
            let defaults = by(Quantity::Performance, true);
            let ends = defaults
                .first()
                .zip(defaults.last())
                .map(|(a, b)| (a.cell.system(), b.cell.system()));
            let pair = defaults.first().zip(defaults.last());
            let defaults_differ = pair
                .and_then(|(a, b)| welch(&a.ops_per_s, &b.ops_per_s))
                .is_some_and(|w| w.differs());
            let same =
                |m: &&&Measured| !welch(&m.ops_per_s, &best.ops_per_s).is_some_and(|w| w.differs());
            all.push(BestSystems {
                device: device.clone(),
                workload: workload.clone(),
                system: best.cell.system(),
                most_efficient: other.map(|m| m.cell.system()),
                ops_per_s: times(Quantity::Performance),
                ops_per_joule: times(Quantity::Efficiency),
                defaults: ends,
                defaults_differ,
                as_good: fastest.iter().skip(1).filter(same).map(|m| m.cell.system()).collect(),
            });
        }
        all
    }

    /// The relation of performance and efficiency over the systems of one device and workload;
    /// `None` for fewer than three.
    pub(super) fn linearity(&self, device: &str, workload: &str) -> Option<Linearity> {
        let pair = |m: &Measured| Some((m.ops_per_s.mean, m.ops_per_joule.as_ref()?.mean));
        let points: Vec<(f64, f64)> =
            self.of(device, workload).filter_map(pair).filter(|p| p.0 > 0.0 && p.1 > 0.0).collect();
        if points.len() < 3 {
            return None;
        }
        let logs: Vec<_> = points.iter().map(|p| (p.0.ln(), p.1.ln())).collect();
        let ((_, correlation), (exponent, _)) = (line(&points)?, line(&logs)?);
        Some(Linearity { correlation, exponent, systems: points.len() })
    }
}

/// Slope and correlation of a line; `None` if all points coincide.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = points.len() as f64;
    let (mx, my) =
        (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in points {
        xx += (x - mx).powi(2);
        yy += (y - my).powi(2);
        xy += (x - mx) * (y - my);
    }
    (xx > 0.0 && yy > 0.0).then(|| (xy / xx, xy / (xx * yy).sqrt()))
}

pub(super) fn advice_sentence(best: &BestSystems) -> String {
    let BestSystems { workload, device, system, .. } = best;
    let Some((first, last)) = best.ops_per_s else {
        return format!(
            "{workload} on {device}: {system} was fastest; no file system ran with default options, so the gain is unknown."
        );
    };
    let (best_default, worst_default) = best.defaults.clone().unwrap_or_default();
    let ties = |list: &[String]| match list {
        [] => String::new(),
        list if list.len() > 3 => format!(" ({} others do not differ significantly)", list.len()),
        list => format!(" ({} do not differ significantly)", list.join(", ")),
    };
    let gain = (first - 1.0) * 100.0;
    let spread = (last / first - 1.0) * 100.0;
    let mut text = if best.as_good.contains(&best_default) || *system == best_default {
        let choice = if *system == best_default { system } else { &best_default };
        let others = if worst_default == best_default {
            String::new()
        } else if best.defaults_differ {
            format!(
                " It does {spread:.0} % more than {worst_default}, the slowest with default options."
            )
        } else {
            format!(" {worst_default} with default options does not differ significantly.")
        };
        format!(
            "{workload} on {device}: use {choice} with default options; no measured option is significantly better.{others}"
        )
    } else {
        let joules = best.ops_per_joule.map_or_else(String::new, |(a, b)| {
            format!(" For each joule: {a:.2} and {b:.2} times as many operations.")
        });
        format!(
            "{workload} on {device}: use {system}{}; it does {gain:.0} % more operations a second than the best with default options ({best_default}), and {last:.1} times as many as the worst ({worst_default}).{joules}",
            ties(&best.as_good)
        )
    };
    if let Some(other) = &best.most_efficient {
        text.push_str(&format!(
            " If energy matters more than speed, {other} uses significantly less."
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;
    use crate::power::{Basis, Energy, Source};

    fn cell(fs: &str, format: &[&str]) -> Cell {
        Cell {
            device: "d".to_owned(),
            filesystem: fs.to_owned(),
            short: fs[..1].to_owned(),
            format: format.iter().map(|f| (*f).to_owned()).collect(),
            mount: Vec::new(),
            workload: "web".to_owned(),
            rate: None,
        }
    }

    fn runs(cell: &Cell, ops: &[f64], watts: f64) -> Vec<RunRecord> {
        let source = Source { name: "m".to_owned(), basis: Basis::Modelled, by: String::new() };
        ops.iter()
            .zip(0..)
            .map(|(ops, run)| RunRecord {
                schema: "seekless.study-run/1".to_owned(),
                cell: cell.id(),
                run,
                seed: 1,
                outcome: Some(Outcome {
                    seconds: 1.0,
                    operations: *ops as u64,
                    ops_per_s: *ops,
                    ..Outcome::default()
                }),
                energy: vec![Energy::new(source.clone(), watts, 1.0, None)],
                ..RunRecord::default()
            })
            .collect()
    }

    fn results() -> Results {
        let cells = [
            cell("ext4", &[]),
            cell("ext4", &["blk1k"]),
            cell("xfs", &[]),
            cell("xfs", &["isz1k"]),
            cell("xfs", &["agcnt8"]),
        ];
        let ops: [&[f64]; 5] = [
            &[100.0, 101.0, 99.0, 100.0, 100.0],
            &[50.0, 51.0, 49.0, 50.0, 50.0],
            &[200.0, 201.0, 199.0, 202.0, 198.0],
            &[300.0, 303.0, 297.0, 300.0, 300.0],
            &[10.0, 200.0, 400.0, 190.0, 201.0],
        ];
        let records: Vec<_> =
            cells.iter().zip(ops).flat_map(|(c, o)| runs(c, o, 200.0 + o[0] / 10.0)).collect();
        Results::new(&cells, &records)
    }

    #[test]
    fn table_2_has_percents_dashes_and_daggers() {
        let shown: Vec<_> = results()
            .table_2()
            .iter()
            .map(|r| (r.option.clone(), r.cells[0].as_ref().unwrap().performance.shown()))
            .collect();
        assert_eq!(
            shown,
            [("blk1k", "−50 %"), ("isz1k", "+50 %"), ("agcnt8", "– †")]
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
    }

    #[test]
    fn table_3_compares_the_best_with_default_options() {
        let best = &results().table_3()[0];
        assert_eq!(
            (best.system.as_str(), best.defaults.clone().unwrap()),
            ("x-isz1k", ("x-def".to_owned(), "e-def".to_owned()))
        );
        let (low, high) = best.ops_per_s.unwrap();
        assert!((low - 1.5).abs() < 1e-9 && (high - 3.0).abs() < 1e-9);
        // 300/230 against 200/220 and 100/210 for each joule.
        let (low, high) = best.ops_per_joule.unwrap();
        assert!(
            (low - 300.0 / 230.0 / (200.0 / 220.0)).abs() < 0.01 && (high - 2.739).abs() < 0.01,
            "{low} {high}"
        );
        let text = advice_sentence(best);
        assert!(
            text.contains("use x-isz1k")
                && text.contains("50 % more")
                && text.contains("3.0 times"),
            "{text}"
        );
        let l = results().linearity("d", "web").unwrap();
        assert!(l.correlation > 0.99 && l.exponent < 1.0 && l.systems == 5, "{l:?}");
    }

    #[test]
    fn default_options_stay_unless_an_option_is_significantly_better() {
        let cells = [cell("ext4", &[]), cell("ext4", &["blk1k"])];
        let records: Vec<_> = [
            runs(&cells[0], &[100.0, 90.0, 110.0], 1.0),
            runs(&cells[1], &[101.0, 95.0, 112.0], 1.0),
        ]
        .concat();
        let results = Results::new(&cells, &records);
        let text = advice_sentence(&results.table_3()[0]);
        assert!(text.contains("use e-def with default options"), "{text}");
        let mut failed = runs(&cells[1], &[1.0], 1.0);
        failed[0].outcome = None;
        failed[0].error = Some("no".to_owned());
        let results = Results::new(&cells, &failed);
        assert_eq!(
            (results.measured.len(), results.failed.clone()),
            (0, vec![("d/e-blk1k/web".to_owned(), "no".to_owned())])
        );
    }
}
