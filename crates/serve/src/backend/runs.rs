//! Where the bytes of a volume, or of an area, stand within a file or device: in one run, or in a few, one behind
//! the other. Plain arithmetic: it refuses to know what the bytes are.

/// Bytes `from ..` of the volume stand at `at ..` of the file, `len` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    from: u64,
    at: u64,
    len: u64,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Runs(Vec<Run>);

impl Runs {
    /// A whole file, however long it is.
    pub(crate) fn all() -> Self {
        Self::new(&[(0, u64::MAX)])
    }

    /// Runs of a file, each by where it begins and its length in bytes, in the order of the volume.
    pub(crate) fn new(parts: &[(u64, u64)]) -> Self {
        let mut from = 0;
        let runs = parts.iter().filter(|(_, len)| *len > 0).map(|&(at, len)| {
            let run = Run { from, at, len };
            from += len;
            run
        });
        Self(runs.collect())
    }

    /// Length of all.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|r| r.len).sum()
    }

    /// Where bytes stand, if they stand in one piece.
    #[inline]
    pub(crate) fn one(&self, at: u64, len: u64) -> Option<u64> {
        let run = self.0.iter().find(|r| at >= r.from && at - r.from < r.len)?;
        (at - run.from + len <= run.len).then(|| run.at + (at - run.from))
    }

    /// The pieces that bytes stand in: where in the file, how far into the bytes asked for, how long. Bytes past
    /// the end stand nowhere.
    pub(crate) fn pieces(&self, at: u64, len: u64) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let end = at.saturating_add(len);
        self.0.iter().filter_map(move |run| {
            let (first, past) = (at.max(run.from), end.min(run.from.saturating_add(run.len)));
            (first < past).then(|| (run.at + (first - run.from), first - at, past - first))
        })
    }

    /// Whether all of these bytes stand somewhere.
    pub(crate) fn hold(&self, at: u64, len: u64) -> bool {
        self.0.last().is_some_and(|r| at.saturating_add(len) <= r.from.saturating_add(r.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_where_they_stand() {
        // 100 bytes at 10, then 50 at 200.
        let runs = Runs::new(&[(10, 100), (7, 0), (200, 50)]);
        assert_eq!(runs.bytes(), 150);
        assert_eq!(runs.one(0, 100), Some(10));
        assert_eq!(runs.one(99, 1), Some(109));
        assert_eq!(runs.one(99, 2), None);
        assert_eq!(runs.one(100, 50), Some(200));
        assert_eq!(runs.one(150, 1), None);
        let pieces = |at, len| runs.pieces(at, len).collect::<Vec<_>>();
        assert_eq!(pieces(90, 20), [(100, 0, 10), (200, 10, 10)]);
        assert_eq!(pieces(120, 20), [(220, 0, 20)]);
        assert_eq!(pieces(0, 5), [(10, 0, 5)]);
        assert_eq!(pieces(140, 20), [(240, 0, 10)]);
        assert!(runs.hold(0, 150) && !runs.hold(140, 20));
        assert_eq!(pieces(5, 0), []);
        assert_eq!(Runs::all().one(7, 1 << 40), Some(7));
    }
}
