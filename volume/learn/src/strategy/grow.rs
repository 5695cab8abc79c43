//! The growth of a group (BORG, FAST'09, 4.3). The vertex with most weight of edges to the group
//! joins the group. The vertex joins at the end if the edges lead from the group to the vertex, and
//! at the front if they lead from the vertex to the group.
//!
//! The paper finds each next vertex by a scan, O(n^2). A heap that keeps stale entries makes the
//! same choice in O(m log m) for m edges.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use seekless_block::Sectors;

use super::Links;
use crate::Vertex;

/// A candidate for the current group. Ordered by weight; among equals `after` and the lower address
/// win.
type Candidate = (u32, bool, Reverse<u32>);

/// Stale entries of the heap are removed when it holds this many, and again whenever it has doubled
/// since.
const STALE: usize = 1 << 16;

/// The placed vertices, and the rest of the room.
#[derive(Debug)]
pub(super) struct Board<'a> {
    pub(super) vertices: &'a [Vertex],
    pub(super) links: &'a Links,
    /// Lighter edges do not count.
    pub(super) threshold: u32,
    room: u64,
    /// Placed, or never to be.
    placed: Vec<bool>,
    /// Weights of the edges from the current group to a vertex, and from a vertex to the group.
    out_of: Vec<u32>,
    in_to: Vec<u32>,
    /// The placed vertices, in order of place.
    pub(super) order: Vec<u32>,
}

impl<'a> Board<'a> {
    pub(super) fn new(
        vertices: &'a [Vertex],
        links: &'a Links,
        area: Sectors,
        threshold: u32,
    ) -> Self {
        Self {
            vertices,
            links,
            threshold,
            room: area.0,
            placed: vertices.iter().map(|v| v.writes >= v.reads).collect(),
            out_of: vec![0; vertices.len()],
            in_to: vec![0; vertices.len()],
            order: Vec::new(),
        }
    }

    /// The edges from these vertices to vertices that may be placed, the heaviest first.
    pub(super) fn edges(&self, from: &[u32]) -> Vec<(Reverse<u32>, u32, u32)> {
        let outgoing = |&from: &u32| {
            let links = self.links.outgoing(from).iter();
            links.map(move |&(to, weight)| (Reverse(weight), from, to))
        };
        let edges = from.iter().flat_map(outgoing);
        let mut edges: Vec<_> = edges
            .filter(|&(weight, _, to)| weight.0 >= self.threshold && self.is_free(to))
            .collect();
        edges.sort_unstable();
        edges
    }

    /// Whether `v` may be placed now.
    pub(super) fn is_free(&self, v: u32) -> bool {
        !self.placed[v as usize] && self.vertices[v as usize].extent.len.0 <= self.room
    }

    /// Whether two free vertices fit together.
    pub(super) fn both_fit(&self, a: u32, b: u32) -> bool {
        let len = |v: u32| self.vertices[v as usize].extent.len.0;
        len(a) + len(b) <= self.room
    }

    /// The vertices that may be placed and whose edges weigh enough, most connected first, then by
    /// address.
    pub(super) fn by_degree(&self) -> Vec<u32> {
        let mut seeds: Vec<(Reverse<u64>, u32)> = (0..self.vertices.len() as u32)
            .filter(|&v| self.is_free(v))
            .map(|v| (Reverse(self.links.degree(v)), v))
            .filter(|&(degree, _)| degree.0 >= u64::from(self.threshold))
            .collect();
        seeds.sort_unstable();
        seeds.into_iter().map(|(_, v)| v).collect()
    }

    /// Places `v` behind all placed vertices.
    pub(super) fn put(&mut self, v: u32) {
        self.take(v);
        self.order.push(v);
    }

    /// Places a group that starts with these vertices, in this order, and lets it grow. They must
    /// be free, and fit together.
    pub(super) fn grow(&mut self, first: &[u32]) {
        let mut group = VecDeque::new();
        let mut heap: BinaryHeap<Candidate> = BinaryHeap::new();
        let mut touched = Vec::new();
        let mut full = STALE;
        for &v in first {
            group.push_back(v);
            self.join(v, &mut heap, &mut touched);
        }
        while let Some((weight, after, Reverse(v))) = heap.pop() {
            if weight < self.threshold {
                break;
            }
            if !self.is_current(weight, after, v) {
                continue;
            }
            if after {
                group.push_back(v);
            } else {
                group.push_front(v);
            }
            self.join(v, &mut heap, &mut touched);
            if heap.len() >= full {
                heap.retain(|&(weight, after, Reverse(v))| self.is_current(weight, after, v));
                full = STALE.max(heap.len() * 2);
            }
        }
        for v in touched {
            self.out_of[v as usize] = 0;
            self.in_to[v as usize] = 0;
        }
        self.order.extend(group);
    }

    fn take(&mut self, v: u32) {
        self.placed[v as usize] = true;
        self.room -= self.vertices[v as usize].extent.len.0;
    }

    /// `v` joins the group: its neighbours are more connected to the group.
    fn join(&mut self, v: u32, heap: &mut BinaryHeap<Candidate>, touched: &mut Vec<u32>) {
        self.take(v);
        let links = self.links;
        let ways = [
            (links.outgoing(v), &mut self.out_of, true),
            (links.incoming(v), &mut self.in_to, false),
        ];
        for (edges, sums, after) in ways {
            for &(other, weight) in edges {
                if self.placed[other as usize] {
                    continue;
                }
                let sum = &mut sums[other as usize];
                if *sum == 0 {
                    touched.push(other);
                }
                *sum = sum.saturating_add(weight);
                heap.push((*sum, after, Reverse(other)));
            }
        }
    }

    fn is_current(&self, weight: u32, after: bool, v: u32) -> bool {
        let sums = if after { &self.out_of } else { &self.in_to };
        weight == sums[v as usize] && self.is_free(v)
    }
}
