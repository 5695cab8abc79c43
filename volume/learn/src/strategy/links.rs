//! Edges by vertex, in both directions.

use crate::Edge;

/// Adjacency, flat: 8 bytes an edge and direction.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    out: Vec<(u32, u32)>,
    out_start: Vec<u32>,
    into: Vec<(u32, u32)>,
    into_start: Vec<u32>,
}

impl Links {
    pub(crate) fn new(vertices: usize, edges: &[Edge]) -> Self {
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

    /// `(to, weight)` of the edges that leave `v`.
    pub(crate) fn outgoing(&self, v: u32) -> &[(u32, u32)] {
        &self.out[self.out_start[v as usize] as usize..self.out_start[v as usize + 1] as usize]
    }

    /// `(from, weight)` of the edges that come in to `v`.
    pub(crate) fn incoming(&self, v: u32) -> &[(u32, u32)] {
        &self.into[self.into_start[v as usize] as usize..self.into_start[v as usize + 1] as usize]
    }

    /// The weight of all edges at `v`.
    pub(crate) fn degree(&self, v: u32) -> u64 {
        self.outgoing(v).iter().chain(self.incoming(v)).map(|&(_, w)| u64::from(w)).sum()
    }
}
