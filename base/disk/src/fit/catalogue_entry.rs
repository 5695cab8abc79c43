//! Builds a catalogue entry from the results of a fit, with the source of each value.

use super::seek_band::{Fitted, at};
use super::zones::Tracks;
use super::{Distance, FittedZone};
use crate::device::Kind;
use crate::spec::{
    DiskSpec, GeometrySpec, Mapping, MechanicsSpec, PowerSpec, SeekSpec, Source, SourceKind,
    ZeroLatency, ZoneSpec,
};

/// Maximum number of cylinders in an entry. If the disk has more tracks, a cylinder has several.
const CYLINDERS: f64 = 2_000_000.0;
/// Part of a skew beyond the switch time that the skew hides.
const MARGIN_MS: f64 = 0.01;
/// Maximum time of a formula's shortest move beyond a track switch, in revolutions.
const STEP_MOST: f64 = 0.1;
/// The errors of shorter seeks count as if the seek had this duration.
const LEAST_MS: f64 = 0.5;

pub(super) fn describe(
    name: &str,
    capacity: u64,
    revolution_ms: f64,
    tracks: &Tracks,
    fitted: &Fitted,
    from: &str,
) -> (DiskSpec, Vec<FittedZone>) {
    let heads = (tracks.count() / CYLINDERS).ceil().clamp(1.0, 256.0);
    // A drive that streams hides its shortest move in the skew.
    let hidden = tracks.zones.iter().filter_map(|t| t.zone.switch_ms).fold(f64::INFINITY, f64::min);
    // A formula's shortest move is its constant. If streaming shows a much shorter move (tracks of
    // a cylinder without a switch between them), only a table can represent both.
    let streams = |f: &SeekSpec| step_ms(f) - hidden < STEP_MOST * revolution_ms;
    let formula = match fitted.distance {
        Distance::Tracks => None,
        Distance::Sectors => cubic_linear(&fitted.by_sectors).filter(streams),
    };
    let mut seek = formula.unwrap_or_else(|| table(&fitted.by_tracks, heads));
    if let SeekSpec::Table { points } = &mut seek
        && let Some(first) = points.first_mut()
    {
        first.1 = first.1.min(round(hidden - MARGIN_MS, 4)).max(0.0);
    }
    let step_ms = step_ms(&seek);
    let (zones, found) = zones(revolution_ms, step_ms, heads, tracks);
    let spec = DiskSpec {
        kind: Kind::Disk,
        shingled: None,
        name: name.to_owned(),
        title: format!("{name}, fitted"),
        capacity_sectors: capacity,
        mechanics: MechanicsSpec {
            rpm: round(60_000.0 / revolution_ms, 2),
            head_switch_ms: round(step_ms, 4),
            write_settle_ms: 0.0,
            zero_latency: ZeroLatency::None,
        },
        seek,
        geometry: GeometrySpec {
            heads: heads as u32,
            mapping: Mapping::Ascending,
            zones,
            tree: None,
        },
        power: PowerSpec::default(),
        controller: None,
        sources: Vec::new(),
    };
    let spec = DiskSpec { sources: sources(&spec.seek, from), ..spec };
    (spec, found)
}

/// The zones of the entry, and the zones found, with the shortest move `step_ms` and `heads` heads.
fn zones(
    revolution_ms: f64,
    step_ms: f64,
    heads: f64,
    tracks: &Tracks,
) -> (Vec<ZoneSpec>, Vec<FittedZone>) {
    let mut zones = Vec::new();
    let mut found = Vec::new();
    let mut next = 0u32;
    for t in &tracks.zones {
        let z = t.zone;
        // If requests do not separate switches from transfer, the time per sector includes both.
        let whole = z.sector_ms * t.per_track;
        let spt = match z.switch_ms {
            Some(_) => t.per_track,
            None => ((revolution_ms + step_ms + MARGIN_MS) / z.sector_ms).round(),
        };
        let sector_ms = revolution_ms / spt;
        let switch_ms = z.switch_ms.unwrap_or(0.0).max(step_ms + MARGIN_MS);
        let skew = (switch_ms / sector_ms).min(spt);
        let sectors = z.end - z.first;
        let cylinders = (sectors as f64 / (spt * heads)).ceil() as u32;
        let rate = z.switch_ms.map_or(1e3 / z.sector_ms, |s| t.per_track / (whole + s) * 1e3);
        found.push(FittedZone {
            first: z.first,
            end: z.end,
            sectors_per_second: rate,
            sectors_per_track: spt as u32,
            switch_ms,
        });
        let space = u64::from(cylinders) * (spt * heads) as u64;
        zones.push(ZoneSpec {
            first_cylinder: next,
            cylinders,
            sectors_per_track: spt as u32,
            track_skew: round(skew, 3),
            cylinder_skew: round(skew, 3),
            // The extra sectors of the last cylinder, so that the next zone begins at its address.
            spares: space.saturating_sub(sectors),
            ..ZoneSpec::default()
        });
        next = next.saturating_add(cylinders);
    }
    (zones, found)
}

fn step_ms(seek: &SeekSpec) -> f64 {
    match seek {
        SeekSpec::Table { points } => points.first().map_or(0.0, |p| p.1),
        SeekSpec::CubicLinear { cubic, .. } => cubic[3],
        _ => 0.0,
    }
}

fn sources(seek: &SeekSpec, from: &str) -> Vec<Source> {
    let source = |fields: &[&str], kind, from: String| Source {
        fields: fields.iter().map(|&f| f.to_owned()).collect(),
        kind,
        from,
    };
    let over = match seek {
        SeekSpec::CubicLinear { .. } => "sectors",
        _ => "tracks",
    };
    vec![
        source(&["capacity_sectors", "mechanics.rpm"], SourceKind::Measured, from.to_owned()),
        source(
            &["seek"],
            SourceKind::Measured,
            format!(
                "lower envelope of access time over distance in {over}; it includes the controller's own time; {from}"
            ),
        ),
        source(
            &["geometry", "mechanics.head_switch_ms"],
            SourceKind::Derived,
            format!(
                "zones from the bandwidth of sequential reads, a track holds the sectors that pass in one revolution; a switch is the shortest seek; the number of surfaces is not known; {from}"
            ),
        ),
        source(
            &["power"],
            SourceKind::Derived,
            "durations do not give the power; zero means not known".to_owned(),
        ),
    ]
}

fn round(x: f64, places: i32) -> f64 {
    let scale = 10f64.powi(places);
    (x * scale).round() / scale
}

/// The curve at whole cylinders.
fn table(knots: &[(f64, f64)], heads: f64) -> SeekSpec {
    let mut points: Vec<(u32, f64)> = Vec::new();
    for &(x, _) in knots {
        let d = (x / heads).round().max(1.0);
        if points.last().is_some_and(|p| f64::from(p.0) >= d) {
            continue;
        }
        points.push((d as u32, round(at(knots, d * heads), 4)));
    }
    if points.first().is_none_or(|p| p.0 > 1) {
        points.insert(0, (1, round(at(knots, heads), 4)));
    }
    SeekSpec::Table { points }
}

/// FS2's form: a cubic up to a threshold and a line after it, with the least squares of the
/// relative error. The threshold is the one with the least error.
fn cubic_linear(knots: &[(f64, f64)]) -> Option<SeekSpec> {
    let value = |c: &[f64], x: f64| c.iter().rev().fold(0.0, |v, c| v * x + c);
    let mut best: Option<(f64, [f64; 4], [f64; 2], f64)> = None;
    for split in 5..knots.len().saturating_sub(2) {
        let (low, high) = knots.split_at(split);
        let (Some(c), Some(l)) = (polynomial::<4>(low), polynomial::<2>(high)) else { continue };
        let off = |c: &[f64], k: &(f64, f64)| ((value(c, k.0) - k.1) / k.1.max(LEAST_MS)).powi(2);
        let error = low.iter().map(|k| off(&c, k)).sum::<f64>()
            + high.iter().map(|k| off(&l, k)).sum::<f64>();
        let sound = c[0] >= 0.0 && l.iter().all(|v| *v >= 0.0);
        if sound && best.as_ref().is_none_or(|b| error < b.0) {
            // The best intersection between the knots on either side.
            let (a, b) = (low[split - 1].0, high[0].0);
            let gap = |x: &f64| (value(&c, *x) - value(&l, *x)).abs();
            let between = (0..=32).map(|i| a + (b - a) * f64::from(i) / 32.0);
            let threshold = between.min_by(|x, y| gap(x).total_cmp(&gap(y))).unwrap_or(b);
            best = Some((error, c, l, threshold));
        }
    }
    let (_, c, l, threshold) = best?;
    let digits = |v: f64| format!("{v:.6e}").parse().unwrap_or(v);
    Some(SeekSpec::CubicLinear {
        cubic: [digits(c[3]), digits(c[2]), digits(c[1]), round(c[0], 4)],
        linear: [digits(l[1]), round(l[0], 4)],
        threshold_sectors: threshold.round(),
    })
}

/// Coefficients (constant first) of the polynomial with the least squared relative error.
fn polynomial<const N: usize>(points: &[(f64, f64)]) -> Option<[f64; N]> {
    // Scaling the numbers to at most 1 keeps the sums accurate.
    let scale = points.last().map_or(1.0, |p| p.0).max(1.0);
    let mut m = vec![[0.0; 8]; N];
    for &(x, y) in points {
        let weight = 1.0 / y.max(LEAST_MS).powi(2);
        let powers: [f64; N] = std::array::from_fn(|i| (x / scale).powi(i as i32));
        for (row, p) in m.iter_mut().zip(powers) {
            for (cell, q) in row.iter_mut().zip(powers) {
                *cell += weight * p * q;
            }
            row[N] += weight * p * y;
        }
    }
    // Gaussian elimination with the largest pivot.
    for i in 0..N {
        let pivot = (i..N).max_by(|&a, &b| m[a][i].abs().total_cmp(&m[b][i].abs()))?;
        m.swap(i, pivot);
        let top = m[i];
        if top[i].abs() < 1e-300 {
            return None;
        }
        for row in m.iter_mut().skip(i + 1) {
            let factor = row[i] / top[i];
            for (cell, t) in row.iter_mut().zip(top) {
                *cell -= factor * t;
            }
        }
    }
    let mut out = [0.0; N];
    for i in (0..N).rev() {
        let known: f64 = (i + 1..N).map(|j| m[i][j] * out[j]).sum();
        out[i] = (m[i][N] - known) / m[i][i];
    }
    for (i, v) in out.iter_mut().enumerate() {
        *v /= scale.powi(i as i32);
    }
    out.iter().all(|v| v.is_finite()).then_some(out)
}
