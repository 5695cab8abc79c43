//! Maps bytes of a volume or area to bytes of a file or device: one run or several in order. While
//! a guard is up, some runs are in its region.

/// The file of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The disk's own file.
    Own,
    /// The file with the guard region.
    Region,
}

/// A piece of a request: its bytes `from .. from + len` are at `at ..` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestPiece {
    pub(crate) side: Side,
    pub(crate) at: u64,
    pub(crate) from: u64,
    pub(crate) len: u64,
}

/// `len` bytes `from ..` of the volume are at `at ..` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BackingRun {
    side: Side,
    from: u64,
    at: u64,
    len: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Runs(Vec<BackingRun>);

impl Runs {
    /// A whole file of any length.
    pub(crate) fn all() -> Self {
        Self::new(&[(0, u64::MAX)])
    }

    /// Runs of a file, each by start and length in bytes, in the order of the volume.
    pub(crate) fn new(parts: &[(u64, u64)]) -> Self {
        Self::of(parts.iter().map(|&(at, len)| (Side::Own, at, len)))
    }

    /// A file of `len` bytes whose first and last `edge` bytes are at `region ..` of another file.
    pub(crate) fn guarded(len: u64, edge: u64, region: u64) -> Self {
        Self::of([
            (Side::Region, region, edge),
            (Side::Own, edge, len - 2 * edge),
            (Side::Region, region + edge, edge),
        ])
    }

    fn of(parts: impl IntoIterator<Item = (Side, u64, u64)>) -> Self {
        let mut from = 0;
        let runs = parts.into_iter().filter(|(.., len)| *len > 0).map(|(side, at, len)| {
            let run = BackingRun { side, from, at, len };
            from += len;
            run
        });
        Self(runs.collect())
    }

    /// Total length.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|r| r.len).sum()
    }

    /// The place of bytes in one piece.
    #[inline]
    pub(crate) fn one(&self, at: u64, len: u64) -> Option<(Side, u64)> {
        let run = self.0.iter().find(|r| at >= r.from && at - r.from < r.len)?;
        (at - run.from + len <= run.len).then(|| (run.side, run.at + (at - run.from)))
    }

    /// The pieces of a byte range; bytes past the end have none.
    pub(crate) fn pieces(&self, at: u64, len: u64) -> impl Iterator<Item = RequestPiece> + '_ {
        let end = at.saturating_add(len);
        self.0.iter().filter_map(move |run| {
            let (first, past) = (at.max(run.from), end.min(run.from.saturating_add(run.len)));
            (first < past).then(|| RequestPiece {
                side: run.side,
                at: run.at + (first - run.from),
                from: first - at,
                len: past - first,
            })
        })
    }

    /// True if all of these bytes have a place.
    pub(crate) fn hold(&self, at: u64, len: u64) -> bool {
        self.0.last().is_some_and(|r| at.saturating_add(len) <= r.from.saturating_add(r.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(runs: &Runs, at: u64, len: u64) -> Vec<(Side, u64, u64, u64)> {
        runs.pieces(at, len).map(|p| (p.side, p.at, p.from, p.len)).collect()
    }

    #[test]
    fn bytes_are_found_where_they_stand() {
        // 100 bytes at 10, then 50 at 200.
        let runs = Runs::new(&[(10, 100), (7, 0), (200, 50)]);
        assert_eq!(runs.bytes(), 150);
        assert_eq!(runs.one(0, 100), Some((Side::Own, 10)));
        assert_eq!(runs.one(99, 1), Some((Side::Own, 109)));
        assert_eq!(runs.one(99, 2), None);
        assert_eq!(runs.one(100, 50), Some((Side::Own, 200)));
        assert_eq!(runs.one(150, 1), None);
        assert_eq!(pieces(&runs, 90, 20), [(Side::Own, 100, 0, 10), (Side::Own, 200, 10, 10)]);
        assert_eq!(pieces(&runs, 120, 20), [(Side::Own, 220, 0, 20)]);
        assert_eq!(pieces(&runs, 0, 5), [(Side::Own, 10, 0, 5)]);
        assert_eq!(pieces(&runs, 140, 20), [(Side::Own, 240, 0, 10)]);
        assert!(runs.hold(0, 150) && !runs.hold(140, 20));
        assert_eq!(pieces(&runs, 5, 0), []);
        assert_eq!(Runs::all().one(7, 1 << 40), Some((Side::Own, 7)));
    }

    #[test]
    fn a_guarded_disk_has_its_ends_elsewhere() {
        let (own, region) = (Side::Own, Side::Region);
        let runs = Runs::guarded(1000, 100, 5000);
        assert_eq!(runs.bytes(), 1000);
        assert_eq!(runs.one(0, 100), Some((region, 5000)));
        assert_eq!(runs.one(100, 800), Some((own, 100)));
        assert_eq!(runs.one(999, 1), Some((region, 5199)));
        assert_eq!(runs.one(99, 2), None);
        assert_eq!(pieces(&runs, 90, 20), [(region, 5090, 0, 10), (own, 100, 10, 10)]);
        let all = [(region, 5000, 0, 100), (own, 100, 100, 800), (region, 5100, 900, 100)];
        assert_eq!(pieces(&runs, 0, 1000), all);
        assert!(!runs.hold(990, 11));
        // Nothing between its ends.
        let runs = Runs::guarded(200, 100, 0);
        assert_eq!(pieces(&runs, 99, 2), [(region, 99, 0, 1), (region, 100, 1, 1)]);
    }
}
