//! The skew of a trace's accesses by the clustering paper: the mixture of normal distributions that
//! is closest to its temperature curve, and the gain of a disk with this layout.

use seekless_disk::clustering::{Access, Arm, Mixture, MixtureFit, fit_mixture};
use seekless_report::{Points, Table, Unit};
use seekless_trace::stats::Summary;
use serde::Serialize;

/// Cylinders of the disk for the gain: the paper's of Figure 4.
const CYLINDERS: u32 = 1000;

/// A mixture, its error and its gain.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fit {
    /// Weights, and standard deviations as a share of the accessed space.
    #[serde(rename = "bells")]
    mixture: Mixture,
    /// Largest distance between the trace's curve and the mixture's, as a share of the accesses.
    off_most: f64,
    /// How much shorter seeks are on the paper's imaginary disk in order of temperature, hottest in
    /// the middle, than in random order. The accessed data fill the disk. Modelled.
    seek_shorter: f64,
}

/// The closest mixture; `None` if the trace accesses too little.
pub(crate) fn fit(s: &Summary) -> Option<Fit> {
    let points: Vec<(f64, f64)> =
        s.temperature.iter().map(|p| (p.space, p.accesses.value)).collect();
    let MixtureFit { mixture, off_most } = fit_mixture(&points)?;
    let arm = Arm::paper(CYLINDERS, 15, 36, 3600.0);
    let seek = |access: &Access| arm.light(access, 4).seek_ms;
    let laid = seek(&Access::mixture(CYLINDERS, &mixture));
    let seek_shorter = 1.0 - laid / seek(&Access::random(CYLINDERS));
    Some(Fit { mixture, off_most, seek_shorter })
}

pub(crate) fn table(fit: &Fit) -> Table {
    let title = "Temperature as a mixture of normal distributions, hottest in the middle";
    let table = Table::of(title, fit.mixture.0.iter().enumerate())
        .text("normal distribution", |(i, _)| (i + 1).to_string())
        .number("share of the accesses", Unit::Share, |(_, b)| b.weight)
        .number("standard deviation, of the space", Unit::Share, |(_, b)| b.sigma);
    table.done().note(format!(
        "The largest error is {:.1} % of the accesses. If these data filled a disk in this order, seeks would be {:.0} % shorter than in random order, modelled (docs/believing/clustering.md).",
        fit.off_most * 100.0,
        fit.seek_shorter * 100.0
    ))
}

/// The mixture's curve, beside the trace's.
pub(crate) fn line(fit: &Fit) -> Points {
    let at = (0..=200).map(|i| (f64::from(i) / 200.0).powi(3));
    Points::new("mixture of normals", at.map(|d| (d, fit.mixture.hottest(d))).collect::<Vec<_>>())
}
