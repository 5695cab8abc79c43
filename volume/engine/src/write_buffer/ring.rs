//! The circle of the log's segments.

/// A segment of the log, counted from the log's first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment(pub(crate) u32);

/// Positions in the circle of the log's segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ring {
    pub(crate) segments: u32,
    /// The segment that is being written.
    pub(crate) head: Segment,
    /// All segments before it are at home.
    pub(crate) tail: Segment,
    /// The tail that recovery would find.
    pub(crate) tail_durable: Segment,
    /// The segment where recovery would begin.
    pub(crate) replay: Segment,
}

impl Ring {
    /// Segments from `from` on to `to`.
    pub(crate) const fn distance(&self, from: Segment, to: Segment) -> u32 {
        (to.0 + self.segments - from.0) % self.segments
    }

    pub(crate) const fn after(&self, segment: Segment, by: u32) -> Segment {
        Segment((segment.0 + by) % self.segments)
    }

    pub(crate) const fn ahead(&self, by: u32) -> Segment {
        self.after(self.head, by)
    }

    /// The segments from the tail to the head.
    pub(crate) fn in_use(self) -> impl Iterator<Item = Segment> {
        (0..self.used()).map(move |i| self.after(self.tail, i))
    }

    /// Whether a segment stands between two others, or is one of them.
    pub(crate) const fn is_between(&self, from: Segment, segment: Segment, to: Segment) -> bool {
        self.distance(from, segment) <= self.distance(from, to)
    }

    pub(crate) const fn is_live(&self, segment: Segment) -> bool {
        self.is_between(self.tail_durable, segment, self.head)
    }

    /// Stable storage now names this tail. It may have named a later one before.
    pub(crate) const fn tail_is_durable(&mut self, tail: Segment) {
        if self.is_between(self.tail_durable, tail, self.tail) {
            self.tail_durable = tail;
        }
    }

    /// Segments that may be written next.
    pub(crate) fn free(&self) -> u32 {
        let used =
            self.distance(self.tail_durable, self.head).max(self.distance(self.replay, self.head));
        self.segments - 1 - used
    }

    /// Segments that may hold data that home lacks.
    pub(crate) const fn used(&self) -> u32 {
        self.distance(self.tail, self.head) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment is free once recovery neither begins there nor brings anything back from it.
    #[test]
    fn a_segment_is_free_when_that_is_durably_known() {
        let ring = |tail, tail_durable, replay| {
            let [head, tail, tail_durable, replay] = [2, tail, tail_durable, replay].map(Segment);
            Ring { segments: 8, head, tail, tail_durable, replay }
        };
        assert_eq!(ring(2, 2, 2).free(), 7);
        assert_eq!(ring(2, 6, 2).free(), 3, "the tail has passed, and the area does not know");
        assert_eq!(ring(2, 2, 7).free(), 4, "the checkpoint begins there");
        assert_eq!(ring(7, 6, 0).free(), 3);
        let mut told = ring(1, 6, 2);
        told.tail_is_durable(Segment(0));
        assert_eq!((told.tail_durable, told.free()), (Segment(0), 5));
        told.tail_is_durable(Segment(7));
        assert_eq!(told.tail_durable, Segment(0), "it does not go back");
        assert!(told.is_live(Segment(1)) && !told.is_live(Segment(7)));
    }
}
