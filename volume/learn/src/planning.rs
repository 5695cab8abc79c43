//! How one plan follows another.

use seekless_block::named;

use crate::{AccessGraph, Plan, PlanConfig, plan, revise};

/// The treatment of the plan in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Planning {
    /// It stays, except for changes that are worth their move: [`revise()`].
    #[default]
    Revise,
    /// A new plan from the start, whatever it moves: BORG (FAST'09, 4.3).
    Anew,
}

named!(Planning: Revise = "revise", Anew = "anew");

/// The plan that follows `old`, from what `graph` remembers.
pub fn next_plan(old: &Plan, graph: &AccessGraph, config: &PlanConfig) -> Plan {
    match config.planning {
        Planning::Revise => revise(old, graph, config),
        Planning::Anew => plan(graph, config),
    }
}

#[cfg(test)]
mod tests {
    use seekless_block::{Bytes, Extent, Op, Request, Sectors, SimTime};

    use super::*;
    use crate::{Pages, Reach, Strategy};

    #[test]
    fn anew_moves_at_once_and_revise_when_it_pays() {
        let pages = Pages::new(Sectors(0), Sectors(1 << 20));
        let mut graph = AccessGraph::new(pages, Bytes(0), 100);
        for start in [0, 8000, 16_000] {
            graph.observe(&Request::new(SimTime(0), Op::Read, Extent::new(start, 8)));
        }
        let copies = Planning::ALL.map(|planning| {
            let config = PlanConfig {
                area: Sectors(1000),
                min_weight: 0,
                strategy: Strategy::ManyStarts,
                planning,
                reach: Reach::new(Bytes(0), Bytes(0)),
            };
            next_plan(&Plan::default(), &graph, &config).copies.len()
        });
        assert_eq!(copies, [0, 3]);
    }
}
