//! The band of access times over distance: its lower envelope is the seek curve, its height one
//! revolution.

use seekless_block::Op;

use super::zones::{Map, Tracks, median};
use super::{Distance, Sample};

/// Minimum number of accesses for a fit.
pub(super) const PAIRS_MIN: usize = 200;
/// Shortest distance in a fit. Within a few tracks the skew determines the wait, so the wait is not
/// spread over a revolution.
pub(super) const TRACKS_MIN: f64 = 8.0;
/// Knots of the curve per doubling of the distance.
const KNOTS_PER_OCTAVE: f64 = 2.0;
/// Minimum number of backward steps in a series.
const STEPS_MIN: usize = 6;
/// Minimum number of accesses per knot.
const KNOT_MIN: usize = 64;
/// Number of rounds that subtract the curve and move it to the edge of the rest.
const ROUNDS: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) from: u64,
    pub(super) to: u64,
    /// Access time in milliseconds.
    pub(super) ms: f64,
    /// The same time without the transfer.
    bare: f64,
}

impl Pair {
    pub(super) fn sectors(&self) -> f64 {
        self.from.abs_diff(self.to) as f64
    }
}

/// Short reads that do not start at the end of the access before them.
pub(super) fn pairs(samples: &[Sample], map: &Map) -> Vec<Pair> {
    let pair = |w: &[Sample]| {
        let (from, to) = (w[0].extent.end().0, w[1].extent.start.0);
        let len = w[1].extent.len.0;
        if w[1].op != Op::Read || from == to || len == 0 || len > 64 {
            return None;
        }
        let ms = w[1].service.as_millis_f64();
        Some(Pair { from, to, ms, bare: ms - len as f64 * map.sector_ms(to) })
    };
    samples.windows(2).filter_map(pair).collect()
}

fn sorted(mut x: Vec<f64>) -> Vec<f64> {
    x.sort_by(f64::total_cmp);
    x
}

/// The distance between two quantiles of an even distribution, scaled to the whole distribution.
fn height(sorted: &[f64], cut: f64) -> f64 {
    let n = sorted.len();
    if n < 2 {
        return 0.0;
    }
    let at = |share: f64| {
        let x = share * (n - 1) as f64;
        let i = (x.floor() as usize).min(n - 2);
        sorted[i] + (sorted[i + 1] - sorted[i]) * (x - i as f64)
    };
    (at(1.0 - cut) - at(cut)) / (1.0 - 2.0 * cut)
}

/// The band's height within a few percent. If the distance varies little, the spread comes from the
/// rotational wait.
pub(super) fn rough_band(pairs: &[Pair]) -> f64 {
    let mut by: Vec<(f64, f64)> = pairs.iter().map(|p| (p.sectors(), p.bare)).collect();
    by.sort_by(|a, b| a.0.total_cmp(&b.0));
    let heights =
        by.chunks_exact(64).map(|c| height(&sorted(c.iter().map(|p| p.1).collect()), 0.05));
    median(heights.collect())
}

/// One revolution from reads that step back a little on their track, first by one stride and then
/// by another. A step of `k` sectors waits one revolution minus the time of `k` sectors. `None` if
/// there are too few.
pub(super) fn backward_steps(samples: &[Sample]) -> Option<f64> {
    let stride = |a: &Sample, b: &Sample| {
        let back = a.extent.start.0.checked_sub(b.extent.start.0);
        let same = b.op == Op::Read && a.extent.len == b.extent.len;
        back.filter(|k| same && (1..=64).contains(k))
    };
    // Stride and typical time of each series.
    let mut series: Vec<(f64, f64)> = Vec::new();
    let mut at = 0;
    while at + 1 < samples.len() {
        let first = stride(&samples[at], &samples[at + 1]);
        let same = |w: &&[Sample]| stride(&w[0], &w[1]) == first;
        let n = samples[at..].windows(2).take_while(same).count().max(1);
        if let Some(k) = first.filter(|_| n >= STEPS_MIN) {
            let times = samples[at + 1..=at + n].iter().map(|s| s.service.as_millis_f64());
            series.push((k as f64, median(times.collect())));
        }
        at += n;
    }
    let turn = |w: &[(f64, f64)]| {
        let ((k, a), (l, b)) = (w[0], w[1]);
        (k < l).then(|| (l * a - k * b) / (l - k))
    };
    let found: Vec<f64> = series.windows(2).filter_map(turn).collect();
    (found.len() >= 4).then(|| median(found)).filter(|ms| *ms > 0.0)
}

#[derive(Clone, Debug)]
pub(super) struct Fitted {
    /// The distance with the flatter band.
    pub(super) distance: Distance,
    /// Distance in sectors, and milliseconds.
    pub(super) by_sectors: Vec<(f64, f64)>,
    /// Distance in tracks, and milliseconds.
    pub(super) by_tracks: Vec<(f64, f64)>,
    /// Height of the band after the curve is subtracted.
    pub(super) band_ms: f64,
}

/// The curve over sectors or over tracks: the one with the flatter band.
pub(super) fn best(pairs: &[Pair], tracks: &Tracks, revolution_ms: f64) -> Fitted {
    let of = |x: &dyn Fn(&Pair) -> f64| {
        let points = pairs.iter().map(|p| (x(p), p.bare)).collect();
        let (knots, left) = envelope(points, revolution_ms);
        (knots, height(&left, 0.005), height(&left, 0.02))
    };
    let (by_sectors, sector_band, sector_spread) = of(&Pair::sectors);
    let (by_tracks, track_band, track_spread) = of(&|p| tracks.distance(p));
    let (distance, band_ms) = if sector_spread <= track_spread {
        (Distance::Sectors, sector_band)
    } else {
        (Distance::Tracks, track_band)
    };
    Fitted { distance, by_sectors, by_tracks, band_ms }
}

/// Knots of the lower envelope of points (distance, milliseconds), and the sorted distances above
/// it.
fn envelope(mut points: Vec<(f64, f64)>, revolution_ms: f64) -> (Vec<(f64, f64)>, Vec<f64>) {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let places = knots(&points);
    let mut curve: Vec<(f64, f64)> = places.iter().map(|&x| (x, 0.0)).collect();
    for _ in 0..ROUNDS {
        let left: Vec<f64> = points.iter().map(|p| p.1 - at(&curve, p.0)).collect();
        let edges: Vec<f64> = (0..curve.len())
            .map(|k| {
                // The middle to the knots on either side, on a logarithmic scale.
                let low = if k == 0 { 0.0 } else { (places[k - 1] * places[k]).sqrt() };
                let high = places.get(k + 1).map_or(f64::INFINITY, |x| (x * places[k]).sqrt());
                let i = points.partition_point(|p| p.0 < low);
                let j = points.partition_point(|p| p.0 <= high);
                edge(sorted(left[i..j].to_vec()), revolution_ms)
            })
            .collect();
        for (knot, edge) in curve.iter_mut().zip(edges) {
            knot.1 = (knot.1 + edge).max(0.0);
        }
    }
    rise(&mut curve);
    let left = sorted(points.iter().map(|p| p.1 - at(&curve, p.0)).collect());
    (curve, left)
}

/// Makes a curve that never falls: neighbours that fall get their mean.
fn rise(curve: &mut [(f64, f64)]) {
    let mut blocks: Vec<(f64, usize)> = Vec::with_capacity(curve.len());
    for knot in curve.iter() {
        let mut block = (knot.1, 1);
        while let Some(last) = blocks.pop() {
            if last.0 <= block.0 {
                blocks.push(last);
                break;
            }
            let n = last.1 + block.1;
            block = ((last.0 * last.1 as f64 + block.0 * block.1 as f64) / n as f64, n);
        }
        blocks.push(block);
    }
    let values = blocks.into_iter().flat_map(|(v, n)| std::iter::repeat_n(v, n));
    curve.iter_mut().zip(values).for_each(|(knot, v)| knot.1 = v);
}

/// Distances of the knots: even on a logarithmic scale, with enough points between each knot and
/// the next.
fn knots(points: &[(f64, f64)]) -> Vec<f64> {
    let step = 2f64.powf(1.0 / KNOTS_PER_OCTAVE);
    let (Some(first), Some(last)) = (points.get(KNOT_MIN / 2).or(points.first()), points.last())
    else {
        return Vec::new();
    };
    let mut out = vec![first.0.max(1.0)];
    let mut from = 0;
    let mut x = out[0];
    while x * step < last.0 {
        x *= step;
        let to = points.partition_point(|p| p.0 < x);
        if to - from >= KNOT_MIN && points.len() - to >= KNOT_MIN {
            out.push(x);
            from = to;
        }
    }
    out.push(last.0.max(out[0] + 1.0));
    out
}

/// The curve's value at a distance: straight lines between knots.
pub(super) fn at(curve: &[(f64, f64)], x: f64) -> f64 {
    let after = curve.partition_point(|k| k.0 < x);
    match (after.checked_sub(1).map(|i| curve[i]), curve.get(after)) {
        (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (x - a.0) / (b.0 - a.0),
        (Some(a), None) => a.1,
        (None, Some(b)) => b.1,
        (None, None) => 0.0,
    }
}

/// The start of times that are spread evenly over one revolution. Reads answered from a cache are
/// below it, and disturbed reads are above the band. The window of one revolution with the most
/// points decides. An even distribution leaves an average gap of `revolution / (n + 1)` at each
/// end.
fn edge(sorted: Vec<f64>, revolution_ms: f64) -> f64 {
    let (mut best, mut j) = ((0, 0), 0);
    for i in 0..sorted.len() {
        while j + 1 < sorted.len() && sorted[j + 1] <= sorted[i] + revolution_ms {
            j += 1;
        }
        if j - i > best.1 - best.0 {
            best = (i, j);
        }
    }
    let (Some(low), Some(high)) = (sorted.get(best.0), sorted.get(best.1)) else { return 0.0 };
    let gap = revolution_ms / (best.1 - best.0 + 2) as f64;
    (low - gap + (high + gap - revolution_ms)) / 2.0
}
