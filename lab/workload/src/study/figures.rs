//! The figures of a study: counterparts of the paper's Figures 1 to 6.

use seekless_report::{
    Axis, BarSeries, BarValue, Bars, Basis, Figure, Lines, Points, Scatter, StackedBars, Unit,
    Values,
};

use super::report::StudyReport;
use super::sample::Sample;
use super::tables::{Measured, Quantity};
use crate::power;

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

/// Figure 2: the processors' time under file systems with default options.
fn processors(device: &str, workload: &str, list: &[&Measured]) -> Option<Figure> {
    let bars: Vec<_> = list
        .iter()
        .filter(|m| m.cell.is_default())
        .map(|m| Values::new(m.cell.system(), m.cpu))
        .collect();
    if bars.is_empty() {
        return None;
    }
    let plot = StackedBars {
        axis: Axis::new("Share of the processors' time", Unit::Share),
        parts: ["busy", "waiting for I/O", "idle"].map(str::to_owned).to_vec(),
        bars,
    };
    let title = format!("{workload} on {device}: the processors' time (Figure 2)");
    let caption = "File systems with default options, under a closed load.";
    Some(Figure::new(title, Basis::Measured, plot).caption(caption))
}

impl StudyReport<'_> {
    /// Whether joules were measured, modelled, or both.
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
    pub(super) fn figures(&self) -> Vec<Figure> {
        let mut all = Vec::new();
        for (device, workload) in self.pairs() {
            let list: Vec<&Measured> = self.results.of(device, workload).collect();
            if list.is_empty() {
                continue;
            }
            all.extend(self.power_over_load(device, workload));
            all.extend(processors(device, workload, &list));
            for quantity in [Quantity::Performance, Quantity::Efficiency] {
                all.extend(self.bars(device, workload, &list, quantity));
            }
            all.extend(self.efficiency_over_performance(device, workload, &list));
        }
        all
    }

    /// Figures 3 to 6: a bar for each system.
    fn bars(
        &self,
        device: &str,
        workload: &str,
        list: &[&Measured],
        quantity: Quantity,
    ) -> Option<Figure> {
        let (label, unit, what, basis) = match quantity {
            Quantity::Performance => {
                ("Operations a second", ops(), "operations a second", Basis::Measured)
            }
            Quantity::Efficiency => (
                "Operations for each joule",
                per_joule(),
                "operations for each joule",
                self.joint(),
            ),
        };
        let values: Vec<_> =
            list.iter().filter_map(|m| Some((m.cell.system(), m.sample(quantity)?))).collect();
        if values.is_empty() {
            return None;
        }
        let bar = |v: &(String, &Sample)| BarValue { value: v.1.mean, spread: interval(v.1) };
        let plot = Bars {
            axis: Axis::new(label, unit),
            categories: values.iter().map(|v| v.0.clone()).collect(),
            series: vec![BarSeries {
                name: workload.to_owned(),
                values: values.iter().map(bar).collect(),
            }],
        };
        let title = format!("{workload} on {device}: {what}{}", counterpart(workload, quantity));
        let caption = "Means with 95 % intervals (Student's t).";
        Some(Figure::new(title, basis, plot).caption(caption))
    }

    fn efficiency_over_performance(
        &self,
        device: &str,
        workload: &str,
        list: &[&Measured],
    ) -> Option<Figure> {
        let points: Vec<_> = list
            .iter()
            .filter_map(|m| Some((m.ops_per_s.mean, m.ops_per_joule.as_ref()?.mean)))
            .collect();
        if points.len() <= 2 {
            return None;
        }
        let plot = Scatter {
            x: Axis::new("Operations a second", ops()),
            y: Axis::new("Operations for each joule", per_joule()),
            series: vec![Points::new("systems", points)],
        };
        let title = format!("{workload} on {device}: efficiency over performance");
        let caption = "Each point is a file system with its options.";
        Some(Figure::new(title, self.joint(), plot).caption(caption))
    }

    /// The basis of operations and joules together.
    fn joint(&self) -> Basis {
        if self.basis() == Basis::Measured { Basis::Measured } else { Basis::Mixed }
    }

    /// Figure 1: power over load, a line for each file system with default options.
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
                .caption("The last point of each line is a closed load."),
        )
    }
}
