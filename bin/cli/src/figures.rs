//! Figures that both programs draw.

use seekless_disk::fit::Fit;
use seekless_report::{Axis, Basis, Figure, HeadKind, HeadMove, Plot, Points, Scatter, Unit};
use seekless_sim::{HeadPath, Kind};

/// Most drawn points; more would not be visible.
const DRAWN: usize = 6_000;

/// Access time over logical seek distance, with the lower envelope.
pub fn access_figure(fit: &Fit, basis: Basis, from: &str) -> Figure {
    let every = fit.points.len().div_ceil(DRAWN).max(1);
    let seconds = |p: &(f64, f64)| (p.0, p.1 / 1e3);
    let curve = curve(fit);
    let scatter = Scatter {
        x: Axis::new("Logical seek distance", Unit::Other("sectors".into())),
        y: Axis::new("Access time", Unit::Seconds),
        series: vec![
            Points::new(
                "accesses",
                fit.points.iter().step_by(every).map(seconds).collect::<Vec<_>>(),
            ),
            Points::new("lower envelope", curve),
        ],
    };
    let title = format!("{}: access time over seek distance", fit.spec.name);
    Figure::new(title, basis, Plot::from(scatter)).caption(format!(
        "{from}. The band is one revolution high, {:.2} ms; its lower envelope is the seek curve.",
        fit.revolution_ms
    ))
}

/// The head's path as points of a figure.
pub fn head_moves(path: &HeadPath) -> Vec<HeadMove> {
    let kind = |k| match k {
        Kind::Read => HeadKind::Read,
        Kind::Write => HeadKind::Write,
        Kind::Background => HeadKind::Background,
    };
    let points = path.points().iter();
    points.map(|p| HeadMove { at: p.at, lba: p.lba, kind: kind(p.kind) }).collect()
}

/// The envelope at even distances, for drawing.
fn curve(fit: &Fit) -> Vec<(f64, f64)> {
    let last = fit.envelope.last().map_or(0.0, |p| p.0);
    let at = |x: f64| {
        let after = fit.envelope.partition_point(|k| k.0 < x);
        let (a, b) = (fit.envelope.get(after.wrapping_sub(1))?, fit.envelope.get(after)?);
        Some((x, (a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0)) / 1e3))
    };
    (1..400).filter_map(|i| at(last * f64::from(i) / 400.0)).collect()
}
