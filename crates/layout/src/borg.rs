//! BORG's planner (FAST'09, 4.3): a greedy chain through the access graph. The most connected vertex comes
//! first; then, again and again, the vertex most connected to those placed, after them if the group leads
//! to it, before them if it leads to the group. Disconnected components become groups of their own.
//!
//! The paper finds each next vertex by a scan, O(n^2); here a heap with stale entries left in it gives the
//! same choice in O(m log m) for m edges.

use std::collections::{BinaryHeap, VecDeque};

use seekless_block::{Lba, Sectors};

use crate::graph::ACCESS;
use crate::{AccessGraph, Copy, Edge, Plan, Vertex};

/// What the planner may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BorgConfig {
    /// Size of the optimized area.
    pub area: Sectors,
    /// A vertex joins a group only over edges that weigh this many accesses together: BORG's threshold.
    /// 0 takes every vertex that is not forgotten.
    pub min_weight: u32,
}

/// A candidate for the group at hand. Ordered by weight; among equals `after` and the lower address win.
type Candidate = (u32, bool, std::cmp::Reverse<u32>);

/// Plans copies of what `graph` saw read together. Vertices written at least as often as they are read get
/// none: their copies would be stale before they paid.
#[must_use]
pub fn plan_borg(graph: &AccessGraph, config: &BorgConfig) -> Plan {
    let (vertices, edges) = graph.snapshot();
    plan(&vertices, &edges, config)
}

fn plan(vertices: &[Vertex], edges: &[Edge], config: &BorgConfig) -> Plan {
    let links = Links::new(vertices.len(), edges);
    let threshold = config.min_weight.saturating_mul(ACCESS).max(1);
    let mut seeds: Vec<(std::cmp::Reverse<u64>, u32)> = (0..vertices.len() as u32)
        .map(|v| (std::cmp::Reverse(links.degree(v)), v))
        .filter(|&(degree, _)| degree.0 >= u64::from(threshold))
        .collect();
    seeds.sort_unstable();

    let mut placed = vec![false; vertices.len()];
    for (v, vertex) in vertices.iter().enumerate() {
        placed[v] = vertex.writes >= vertex.reads; // never a candidate
    }
    // Weight of the edges from the group to a vertex, and from a vertex to the group.
    let (mut out_of, mut in_to) = (vec![0u32; vertices.len()], vec![0u32; vertices.len()]);
    let mut room = config.area.0;
    let mut plan = Plan::default();
    let mut place = Lba(0);
    for (_, seed) in seeds {
        if placed[seed as usize] || vertices[seed as usize].extent.len.0 > room {
            continue;
        }
        let mut group = VecDeque::new();
        let mut heap: BinaryHeap<Candidate> = BinaryHeap::new();
        let mut touched = Vec::new();
        let mut next = Some((seed, true));
        while let Some((v, after)) = next {
            placed[v as usize] = true;
            room -= vertices[v as usize].extent.len.0;
            if after {
                group.push_back(v);
            } else {
                group.push_front(v);
            }
            for &(to, weight) in links.outgoing(v) {
                let sum = &mut out_of[to as usize];
                *sum = sum.saturating_add(weight);
                touched.push(to);
                heap.push((*sum, true, std::cmp::Reverse(to)));
            }
            for &(from, weight) in links.incoming(v) {
                let sum = &mut in_to[from as usize];
                *sum = sum.saturating_add(weight);
                touched.push(from);
                heap.push((*sum, false, std::cmp::Reverse(from)));
            }
            next = None;
            while let Some((weight, after, std::cmp::Reverse(v))) = heap.pop() {
                if weight < threshold {
                    break;
                }
                let current = if after { out_of[v as usize] } else { in_to[v as usize] };
                if weight == current
                    && !placed[v as usize]
                    && vertices[v as usize].extent.len.0 <= room
                {
                    next = Some((v, after));
                    break;
                }
            }
        }
        for v in touched {
            out_of[v as usize] = 0;
            in_to[v as usize] = 0;
        }
        for v in group {
            let home = vertices[v as usize].extent;
            plan.copies.push(Copy { home, place });
            place = place + home.len;
        }
    }
    plan
}

/// Adjacency in both directions, flat.
struct Links {
    out: Vec<(u32, u32)>,
    out_start: Vec<u32>,
    into: Vec<(u32, u32)>,
    into_start: Vec<u32>,
}

impl Links {
    fn new(vertices: usize, edges: &[Edge]) -> Self {
        let flat = |key: fn(&Edge) -> u32, value: fn(&Edge) -> u32| {
            let mut start = vec![0u32; vertices + 1];
            for e in edges {
                start[key(e) as usize + 1] += 1;
            }
            for i in 0..vertices {
                start[i + 1] += start[i];
            }
            let mut fill = start.clone();
            let mut links = vec![(0, 0); edges.len()];
            for e in edges {
                let at = &mut fill[key(e) as usize];
                links[*at as usize] = (value(e), e.weight);
                *at += 1;
            }
            (links, start)
        };
        let (out, out_start) = flat(|e| e.from, |e| e.to);
        let (into, into_start) = flat(|e| e.to, |e| e.from);
        Self { out, out_start, into, into_start }
    }

    fn outgoing(&self, v: u32) -> &[(u32, u32)] {
        &self.out[self.out_start[v as usize] as usize..self.out_start[v as usize + 1] as usize]
    }

    fn incoming(&self, v: u32) -> &[(u32, u32)] {
        &self.into[self.into_start[v as usize] as usize..self.into_start[v as usize + 1] as usize]
    }

    fn degree(&self, v: u32) -> u64 {
        self.outgoing(v).iter().chain(self.incoming(v)).map(|&(_, w)| u64::from(w)).sum()
    }
}

#[cfg(test)]
mod tests;
