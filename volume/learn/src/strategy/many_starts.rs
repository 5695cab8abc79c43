//! "A distributed layout algorithm can be designed which uses many starting points for building the
//! layout" (BORG, FAST'09, 7). Every vertex starts as a separate chain. The planner takes edges in
//! the order of their weight, heaviest first. If an edge leaves the last vertex of a chain and
//! enters the first vertex of another chain, the two chains become one. Pettis and Hansen lay out
//! code in this way (PLDI'90, 4.1). The chains with most reads for their size come first.

use std::cmp::Reverse;

use super::Board;

const NONE: u32 = u32::MAX;

pub(super) fn order(mut board: Board<'_>) -> Vec<u32> {
    let seeds = board.by_degree();
    let mut chains = Chains::new(board.vertices.len());
    for (_, from, to) in board.edges(&seeds) {
        chains.join(from, to);
    }
    let mut ranked: Vec<(Reverse<u128>, u32)> = seeds
        .iter()
        .filter(|&&v| chains.before[v as usize] == NONE)
        .map(|&head| {
            let (mut reads, mut sectors) = (0, 0);
            for v in chains.from(head) {
                let vertex = &board.vertices[v as usize];
                reads += u128::from(vertex.reads);
                sectors += u128::from(vertex.extent.len.0);
            }
            // Reads a sector, with 16 binary places.
            (Reverse((reads << 16) / sectors), head)
        })
        .collect();
    ranked.sort_unstable();
    for (_, head) in ranked {
        for v in chains.from(head) {
            if board.is_free(v) {
                board.put(v);
            }
        }
    }
    board.order
}

/// Disjoint chains of vertices.
#[derive(Debug)]
struct Chains {
    after: Vec<u32>,
    before: Vec<u32>,
    /// Any vertex of the same chain, closer to its representative; the representative has itself.
    root: Vec<u32>,
}

impl Chains {
    fn new(vertices: usize) -> Self {
        let none = vec![NONE; vertices];
        Self { after: none.clone(), before: none, root: (0..vertices as u32).collect() }
    }

    /// Joins two chains where `from` is the last of one and `to` the first of the other.
    fn join(&mut self, from: u32, to: u32) {
        if self.after[from as usize] != NONE || self.before[to as usize] != NONE {
            return;
        }
        let (a, b) = (self.find(from), self.find(to));
        if a != b {
            self.root[b as usize] = a;
            self.after[from as usize] = to;
            self.before[to as usize] = from;
        }
    }

    fn find(&mut self, mut v: u32) -> u32 {
        while self.root[v as usize] != v {
            let above = self.root[self.root[v as usize] as usize];
            self.root[v as usize] = above;
            v = above;
        }
        v
    }

    fn from(&self, head: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(head), |&v| Some(self.after[v as usize]).filter(|&n| n != NONE))
    }
}
