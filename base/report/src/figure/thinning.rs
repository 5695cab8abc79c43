//! Thins points without changing the picture. A line keeps its first, lowest, highest and last
//! point in every pixel column. A point cloud keeps one point per dot-sized cell, and the extremes
//! of every column exactly. There is no randomness: the same points give the same page.

/// For each of `bins` equal slices of `lo..=hi`: the first, lowest, highest and last point, in
/// their own order. Points must be finite and sorted by their first member. The extremes of every
/// slice are exact.
pub(crate) fn thin_line(points: &[(f64, f64)], lo: f64, hi: f64, bins: usize) -> Vec<(f64, f64)> {
    if points.len() <= bins * 4 {
        return points.to_vec();
    }
    let mut out = Vec::with_capacity(bins * 4);
    let bin = |p: &(f64, f64)| slice(p.0, lo, hi, bins);
    for here in points.chunk_by(|a, b| bin(a) == bin(b)) {
        let (mut least, mut most) = (0, 0);
        for (i, p) in here.iter().enumerate() {
            if p.1 < here[least].1 {
                least = i;
            }
            if p.1 > here[most].1 {
                most = i;
            }
        }
        let mut keep = vec![0, least, most, here.len() - 1];
        keep.sort_unstable();
        keep.dedup();
        out.extend(keep.iter().map(|k| here[*k]));
    }
    out
}

/// The points to draw: the first in each occupied cell of a grid of `columns` by `rows` over the
/// box, and each column's lowest and highest. With points of several kinds, the kinds of the drawn
/// points have about the same proportions as all points. The result is in order of column, then of
/// height. Points outside the box are left out.
pub(crate) fn thin_points(
    points: &[(f64, f64)],
    (x0, x1): (f64, f64),
    (y0, y1): (f64, f64),
    columns: usize,
    rows: usize,
) -> Vec<usize> {
    let mut cells: Vec<Option<usize>> = vec![None; columns * rows];
    let mut ends: Vec<Option<(usize, usize)>> = vec![None; columns];
    for (i, p) in points.iter().enumerate() {
        if !(x0..=x1).contains(&p.0) || !(y0..=y1).contains(&p.1) {
            continue;
        }
        let (c, r) = (slice(p.0, x0, x1, columns), slice(p.1, y0, y1, rows));
        cells[c * rows + r].get_or_insert(i);
        let end = ends[c].get_or_insert((i, i));
        if p.1 < points[end.0].1 {
            end.0 = i;
        }
        if p.1 > points[end.1].1 {
            end.1 = i;
        }
    }
    let mut out = Vec::new();
    for (c, end) in ends.iter().enumerate() {
        let Some((low, high)) = *end else { continue };
        let column = &mut cells[c * rows..(c + 1) * rows];
        let (bottom, top) =
            (slice(points[low].1, y0, y1, rows), slice(points[high].1, y0, y1, rows));
        column[bottom] = Some(low);
        if top != bottom {
            column[top] = Some(high);
        }
        out.extend(column.iter().flatten());
        // Both ends are in one cell: the highest point follows separately.
        if top == bottom && points[high].1 > points[low].1 {
            out.push(high);
        }
    }
    out
}

/// The index of the slice, of `n` equal slices of `lo..=hi`, that contains a value.
fn slice(v: f64, lo: f64, hi: f64, n: usize) -> usize {
    let t = (v - lo) / (hi - lo) * n as f64;
    // The conversion maps NaN to 0.
    (t as usize).min(n.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_slice_keeps_its_extremes_and_its_order(
            mut raw in prop::collection::vec((0u32..1000, -500i32..500), 1..800), bins in 1usize..40
        ) {
            raw.sort_by_key(|p| p.0);
            let points: Vec<(f64, f64)> = raw.iter().map(|p| (f64::from(p.0), f64::from(p.1))).collect();
            let thin = thin_line(&points, 0.0, 1000.0, bins);
            prop_assert_eq!(&thin, &thin_line(&points, 0.0, 1000.0, bins));
            prop_assert!(thin.len() <= (bins * 4).max(1));
            prop_assert!(thin.windows(2).all(|w| w[0].0 <= w[1].0));
            let kept = thin_points(&points, (0.0, 1000.0), (-500.0, 500.0), bins, 7);
            prop_assert_eq!(&kept, &thin_points(&points, (0.0, 1000.0), (-500.0, 500.0), bins, 7));
            let cloud: Vec<(f64, f64)> = kept.iter().map(|i| points[*i]).collect();
            prop_assert!(cloud.len() <= bins * 8);
            for bin in 0..bins {
                let of = |v: &[(f64, f64)]| {
                    let ys = v.iter().filter(|p| slice(p.0, 0.0, 1000.0, bins) == bin).map(|p| p.1);
                    ys.fold(None, |m: Option<(f64, f64)>, y| Some(m.map_or((y, y), |(a, b)| (a.min(y), b.max(y)))))
                };
                prop_assert_eq!(of(&points), of(&thin));
                prop_assert_eq!(of(&points), of(&cloud));
            }
        }
    }

    #[test]
    fn a_line_made_by_hand_keeps_its_visible_points() {
        let points: Vec<(f64, f64)> = [5.0, 1.0, 9.0, 4.0, 6.0, 2.0, 3.0, 2.5, 2.5, 8.0]
            .iter()
            .enumerate()
            .map(|(i, y)| (i as f64, *y))
            .collect();
        let thin = thin_line(&points, 0.0, 10.0, 2);
        assert_eq!(thin, [(0.0, 5.0), (1.0, 1.0), (2.0, 9.0), (4.0, 6.0), (5.0, 2.0), (9.0, 8.0)]);
    }
}
