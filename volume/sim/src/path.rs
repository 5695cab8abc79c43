//! The head's positions over time: a thinned record for plots, in constant memory.

use seekless_block::{Duration, Lba, SimTime};

/// When this many points are kept, every second one is dropped.
const KEPT: usize = 1 << 17;

/// The purpose of a device I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A client's read.
    Read,
    /// A client's write.
    Write,
    /// Reconfiguration.
    Background,
}

/// One device I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// When it ended.
    pub at: SimTime,
    /// Its first sector, on the disk.
    pub lba: Lba,
    /// Its purpose.
    pub kind: Kind,
    /// Distance from the end of the I/O before, in sectors.
    pub distance: u64,
    /// Its busy time.
    pub took: Duration,
}

/// The head's path: every `stride`-th device I/O.
#[derive(Clone, Debug)]
pub struct HeadPath {
    points: Vec<Point>,
    stride: u64,
    seen: u64,
}

impl Default for HeadPath {
    fn default() -> Self {
        Self { points: Vec::new(), stride: 1, seen: 0 }
    }
}

impl HeadPath {
    pub(crate) fn push(&mut self, point: Point) {
        if self.seen.is_multiple_of(self.stride) {
            if self.points.len() == KEPT {
                let mut keep = false;
                self.points.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.stride *= 2;
            }
            if self.seen.is_multiple_of(self.stride) {
                self.points.push(point);
            }
        }
        self.seen += 1;
    }

    /// The kept points, in order of time.
    pub fn points(&self) -> &[Point] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_is_thinned_evenly() {
        let mut path = HeadPath::default();
        for i in 0..5 * KEPT as u64 + 3 {
            let (at, lba, took) = (SimTime(i), Lba(i), Duration(1));
            path.push(Point { at, lba, kind: Kind::Read, distance: 0, took });
        }
        assert!(path.points().len() <= KEPT);
        assert_eq!(path.stride, 8);
        for (i, p) in path.points().iter().enumerate() {
            assert_eq!(p.at.0, i as u64 * 8);
        }
    }
}
