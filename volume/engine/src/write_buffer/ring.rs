//! The circle of the log's segments.

/// Positions in the circle of the log's segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ring {
    pub(crate) segments: u32,
    /// The segment that is being written.
    pub(crate) head: u32,
    /// All segments before it are at home.
    pub(crate) tail: u32,
    /// The tail that recovery would find.
    pub(crate) tail_durable: u32,
    /// The segment where recovery would begin.
    pub(crate) replay: u32,
}

impl Ring {
    pub(super) const fn new(segments: u32) -> Self {
        Self { segments, head: 0, tail: 0, tail_durable: 0, replay: 0 }
    }

    /// Segments from `from` on to `to`.
    pub(crate) const fn distance(&self, from: u32, to: u32) -> u32 {
        (to + self.segments - from) % self.segments
    }

    pub(crate) const fn ahead(&self, by: u32) -> u32 {
        (self.head + by) % self.segments
    }

    pub(crate) const fn is_live(&self, segment: u32) -> bool {
        self.distance(self.tail_durable, segment) <= self.distance(self.tail_durable, self.head)
    }

    /// Stable storage now names this tail. It may have named a later one before.
    pub(crate) const fn tail_is_durable(&mut self, tail: u32) {
        if self.distance(self.tail_durable, tail) <= self.distance(self.tail_durable, self.tail) {
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
        let ring =
            |tail, tail_durable, replay| Ring { segments: 8, head: 2, tail, tail_durable, replay };
        assert_eq!(ring(2, 2, 2).free(), 7);
        assert_eq!(ring(2, 6, 2).free(), 3, "the tail has passed, and the area does not know");
        assert_eq!(ring(2, 2, 7).free(), 4, "the checkpoint begins there");
        assert_eq!(ring(7, 6, 0).free(), 3);
        let mut told = ring(1, 6, 2);
        told.tail_is_durable(0);
        assert_eq!((told.tail_durable, told.free()), (0, 5));
        told.tail_is_durable(7);
        assert_eq!(told.tail_durable, 0, "it does not go back");
        assert!(told.is_live(1) && !told.is_live(7));
    }
}
