//! How much of the past counts for a plan (BORG, FAST'09, 6.2).

use seekless_block::named;

use crate::AccessGraph;

/// The forgetting of an access graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Training {
    /// Nothing: every access since the beginning has the same weight (BORG-C). A revised plan moves
    /// once its losses add up to the price of a move; forgotten losses would never add up.
    #[default]
    Cumulative,
    /// Gradually everything: each day halves the weight of an access; after five days it is
    /// forgotten.
    Decaying,
    /// Everything before the plan in force: only accesses since then count (BORG-P).
    Partial,
}

impl Training {
    pub(crate) fn day_ended(self, graph: &mut AccessGraph) {
        if self == Self::Decaying {
            graph.age();
        }
    }

    /// A plan has been made.
    pub fn planned(self, graph: &mut AccessGraph) {
        if self == Self::Partial {
            graph.forget();
        }
    }
}

named!(Training: Cumulative = "cumulative", Decaying = "decaying", Partial = "partial");

#[cfg(test)]
mod tests {
    use seekless_block::{Bytes, Extent, Op, Request, Sectors, SimTime};

    use super::*;
    use crate::{ACCESS, Pages};

    #[test]
    fn what_a_day_and_a_plan_leave() {
        let left = Training::ALL.map(|training| {
            let pages = Pages::new(Sectors(0), Sectors(1 << 20));
            let mut graph = AccessGraph::new(pages, Bytes(0), 100);
            graph.observe(&Request::new(SimTime(0), Op::Read, Extent::new(0, 8)));
            training.day_ended(&mut graph);
            let day = graph.snapshot().0[0].reads;
            training.planned(&mut graph);
            (day, graph.vertex_count())
        });
        assert_eq!(left, [(ACCESS, 1), (ACCESS / 2, 1), (ACCESS, 0)]);
    }
}
