//! Changes a plan only as far as the savings exceed the cost of the move. A plan from the start has
//! another order every time. To move all data each time costs more than the better order saves.
//!
//! **Cost of a layout.** The access graph counts how often each extent was read after each other
//! extent. Under a layout, each such passage costs one access. A passage costs nothing if the
//! previous read already transferred the data: at home by read-ahead, in the area by the cluster.
//! An access to the area is also shorter than an access to home. This cost leaves this difference
//! out, because the difference depends on the disk and its data.
//!
//! **Cost of a move.** One access for each stretch of home that is read, in order of address, and
//! two transfers of the moved data.
//!
//! **The rule.** Four plans are compared with the old plan, which costs no move:
//!
//! 1. the old plan, followed by all extents without a copy, in the strategy's order;
//! 2. the old plan, followed only by extents without a copy that pay alone: their reads save more
//!    than their move costs;
//! 3. all extents from the start, in the strategy's order;
//! 4. plan 3, only with extents that pay alone.
//!
//! The savings of a plan are the saved costs of all remembered accesses, minus the cost of its
//! move. The plan with the largest savings wins. If no plan saves anything, the old plan wins. So
//! data move when the loss without the move has reached the price of the move. A skier who does not
//! know the length of the season uses the same rule: buy skis when the paid rents reach the price
//! (Karlin, Manasse, Rudolph and Sleator, Algorithmica 3, 1988). This rule needs no share,
//! threshold or period.
//!
//! **The end.** The comparison is repeated until the old plan wins. Each round lowers the cost of
//! the layout by more than its move costs, so the rounds end. A further revision of the last plan
//! over the same graph moves nothing.

use std::borrow::Cow;

use seekless_block::{Lba, Sectors};

use crate::graph::ACCESS;
use crate::strategy::{Links, order};
use crate::{AccessGraph, Copy, Plan, PlanConfig, Vertex};

/// No copy.
const HOME: u64 = u64::MAX;

/// The plan that replaces `old`, from the accesses in `graph`. It is `old` if nothing is worth a
/// move. Copies of forgotten extents, and of extents with at least as many writes as reads, go:
/// dropping them costs nothing.
pub fn revise(old: &Plan, graph: &AccessGraph, config: &PlanConfig) -> Plan {
    let (vertices, edges) = graph.snapshot();
    let links = Links::new(vertices.len(), &edges);
    drop(edges); // as large as the links
    let weighing = Weighing { vertices: &vertices, links: &links, config };
    let places = weighing.settle(places(old, &vertices));
    let mut copies: Vec<Copy> = vertices
        .iter()
        .zip(places)
        .filter(|&(_, place)| place != HOME)
        .map(|(vertex, place)| Copy { home: vertex.extent, place: Lba(place) })
        .collect();
    copies.sort_unstable_by_key(|c| c.place);
    Plan { copies }
}

/// The place of each vertex under a plan; [`HOME`] if no copy holds all of it.
fn places(plan: &Plan, vertices: &[Vertex]) -> Vec<u64> {
    let mut copies = plan.copies.clone();
    copies.sort_unstable_by_key(|c| c.home.start);
    let mut runs: Vec<Copy> = Vec::with_capacity(copies.len());
    for copy in copies {
        match runs.last_mut() {
            Some(run) if run.home.end() == copy.home.start && run.placed().end() == copy.place => {
                run.home.len += copy.home.len;
            }
            _ => runs.push(copy),
        }
    }
    let place = |vertex: &Vertex| {
        let at = runs.partition_point(|r| r.home.start <= vertex.extent.start).checked_sub(1)?;
        let run = runs[at];
        let place = run.place + (vertex.extent.start - run.home.start);
        run.home.contains(vertex.extent).then_some(place.0)
    };
    vertices.iter().map(|v| place(v).unwrap_or(HOME)).collect()
}

/// A comparison of layouts of the same vertices. Costs are in sectors times [`ACCESS`]: the
/// transfer that would take the same time.
#[derive(Clone, Copy, Debug)]
struct Weighing<'a> {
    vertices: &'a [Vertex],
    links: &'a Links,
    config: &'a PlanConfig,
}

impl Weighing<'_> {
    /// Takes the best plan, again and again, until the plan at hand is the best.
    fn settle(&self, mut now: Vec<u64>) -> Vec<u64> {
        for (place, vertex) in now.iter_mut().zip(self.vertices) {
            let fits = place.saturating_add(vertex.extent.len.0) <= self.config.area.0;
            if !fits || vertex.writes >= vertex.reads {
                *place = HOME;
            }
        }
        let pays: Vec<bool> = self.vertices.iter().map(|v| self.pays_alone(v)).collect();
        let nothing = vec![HOME; self.vertices.len()];
        let fresh = [self.extended(&nothing, |_| true), self.extended(&nothing, |v| pays[v])];
        loop {
            let cost = self.cost(&now);
            let mut best = (0, None);
            let mut weigh = |new: Cow<'_, [u64]>| {
                let saved = cost.saturating_sub(self.cost(&new));
                let gain = saved.saturating_sub(self.price(&now, &new));
                // Of equals the first: an extended plan before a new one.
                if gain > best.0 {
                    best = (gain, Some(new.into_owned()));
                }
            };
            if now != nothing {
                weigh(self.extended(&now, |_| true).into());
                weigh(self.extended(&now, |v| pays[v]).into());
            }
            fresh.iter().for_each(|new| weigh(new.into()));
            match best.1 {
                Some(new) => now = new,
                None => return now,
            }
        }
    }

    /// The layout, and behind its last copy all `wanted` vertices without a copy, as far as they
    /// fit.
    fn extended(&self, places: &[u64], wanted: impl Fn(usize) -> bool) -> Vec<u64> {
        let ends = self.vertices.iter().zip(places).filter(|(_, place)| **place != HOME);
        let mut at = ends.map(|(v, place)| place + v.extent.len.0).max().unwrap_or(0);
        let new = |v: usize| places[v] == HOME && wanted(v);
        let candidates: Vec<Vertex> = (0..self.vertices.len())
            .map(|v| Vertex {
                reads: if new(v) { self.vertices[v].reads } else { 0 },
                ..self.vertices[v]
            })
            .collect();
        let area = Sectors(self.config.area.0 - at);
        let mut extended = places.to_vec();
        for v in order(&candidates, self.links, &PlanConfig { area, ..*self.config }) {
            extended[v as usize] = at;
            at += self.vertices[v as usize].extent.len.0;
        }
        extended
    }

    /// Whether one access saved per read outweighs the move of the vertex.
    fn pays_alone(&self, vertex: &Vertex) -> bool {
        let access = self.config.reach.transfer.0;
        let price = (access + 2 * vertex.extent.len.0) * u64::from(ACCESS);
        u64::from(vertex.reads) * access >= price
    }

    /// The price of moving from one layout to the other.
    fn price(&self, old: &[u64], new: &[u64]) -> u64 {
        let (mut sectors, mut end) = (0, Lba(0));
        for (v, vertex) in self.vertices.iter().enumerate() {
            if new[v] != HOME && new[v] != old[v] {
                if sectors == 0 || vertex.extent.start != end {
                    sectors += self.config.reach.transfer.0;
                }
                sectors += 2 * vertex.extent.len.0;
                end = vertex.extent.end();
            }
        }
        sectors * u64::from(ACCESS)
    }

    /// The cost of all remembered passages under a layout.
    fn cost(&self, places: &[u64]) -> u64 {
        let mut passages = 0;
        for v in 0..self.vertices.len() as u32 {
            for &(from, weight) in self.links.incoming(v) {
                if !self.brings(places, from, v) {
                    passages += u64::from(weight);
                }
            }
        }
        passages * self.config.reach.transfer.0
    }

    /// Whether reading `from` brings the start of `to` along, or ends there.
    fn brings(&self, places: &[u64], from: u32, to: u32) -> bool {
        let (read, wanted) =
            (&self.vertices[from as usize].extent, &self.vertices[to as usize].extent);
        match (places[from as usize], places[to as usize]) {
            (HOME, HOME) => {
                let end = read.end().max(read.start + self.config.reach.read_ahead);
                (read.start..=end).contains(&wanted.start)
            }
            (HOME, _) | (_, HOME) => false,
            (read_at, wanted_at) => {
                let cluster = self.config.reach.cluster.0;
                let start = read_at / cluster * cluster;
                (start..=(read_at + read.len.0).next_multiple_of(cluster)).contains(&wanted_at)
            }
        }
    }
}

#[cfg(test)]
mod tests;
