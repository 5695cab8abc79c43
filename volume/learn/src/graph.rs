//! The master access graph of BORG (FAST'09, 4.2): which range of sectors is requested after which,
//! by the same stream. The graph is built in one pass. A vertex is split when a request overlaps a
//! part of it, so that every sector belongs to at most one vertex; no merging pass is needed.
//! Requests count as the whole pages that they touch, because copies have whole pages.
//!
//! The graph knows nothing of time, of disks, or of places.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use seekless_block::{Bytes, Extent, Lba, Op, Request, SECTOR_BYTES, Sectors, StreamId};

use crate::Pages;

/// The weight or count of one access. Each [`AccessGraph::age`] halves it: an access is forgotten
/// after five.
pub const ACCESS: u32 = 16;

/// A run of pages that, as far as is known, is requested as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vertex {
    /// Its sectors.
    pub extent: Extent,
    /// Its reads from the disk, in units of [`ACCESS`]; with its writes, in a graph
    /// [`AccessGraph::with_writes`].
    pub reads: u32,
    /// Writes and discards of a part of it, in units of [`ACCESS`].
    pub writes: u32,
}

/// An edge from one vertex to another, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Read first.
    pub from: u32,
    /// Read next by the same stream.
    pub to: u32,
    /// The number of times, in units of [`ACCESS`].
    pub weight: u32,
}

/// A vertex that may still be split. Edges end at ports, not at vertices. After a split the left
/// part has the port where edges come in, and the right part the port where they leave. So a split
/// changes no edge.
#[derive(Clone, Copy, Debug)]
struct Node {
    len: u64,
    reads: u32,
    writes: u32,
    enter: u32,
    leave: u32,
    /// Sectors read from the disk before its last request.
    seen: u64,
}

impl Node {
    /// Counts an access at time `now`, unless RAM answers it; returns the sectors that the disk
    /// transfers.
    fn access(&mut self, now: u64, ram: Sectors, path: &mut Vec<(u32, u32)>) -> u64 {
        let in_ram = now - self.seen < ram.0;
        self.seen = now;
        if in_ram {
            return 0;
        }
        self.reads = self.reads.saturating_add(ACCESS);
        path.push((self.enter, self.leave));
        self.len
    }
}

/// The access graph of all observations so far.
#[derive(Clone, Debug)]
pub struct AccessGraph {
    pages: Pages,
    ram: Sectors,
    /// Sectors read from the disk so far.
    clock: u64,
    /// By first sector.
    nodes: BTreeMap<u64, Node>,
    /// `(leave, enter)` to weight.
    edges: FxHashMap<(u32, u32), u32>,
    /// The port that each stream left last.
    last: FxHashMap<StreamId, u32>,
    ports: u32,
    max_edges: usize,
    /// Writes count as reads do.
    with_writes: bool,
    /// Scratch space: the nodes of the current request.
    path: Vec<(u32, u32)>,
}

impl AccessGraph {
    /// An empty graph of a device with these pages. It keeps about `max_edges` edges, of 16 bytes
    /// each and as much again in the table; beyond, the lightest and oldest are forgotten.
    ///
    /// Reads that RAM of size `ram` would answer are not counted: BORG traces below the page cache
    /// (4.1). A page counts as in RAM until that much has been read from the disk since its last
    /// request. 0 counts everything.
    pub fn new(pages: Pages, ram: Bytes, max_edges: usize) -> Self {
        Self {
            pages,
            ram: Sectors(ram.0 / SECTOR_BYTES),
            clock: 0,
            nodes: BTreeMap::new(),
            edges: FxHashMap::default(),
            last: FxHashMap::default(),
            ports: 0,
            max_edges: max_edges.max(16),
            with_writes: false,
            path: Vec::new(),
        }
    }

    /// The same, where a write makes vertices and edges as a read does, and counts against nothing:
    /// "accesses (reads or writes)" (4.2). This pays where writes go to the copies (4.5).
    #[must_use]
    pub fn with_writes(self) -> Self {
        Self { with_writes: true, ..self }
    }

    /// Keeps at most about `max_edges` edges from now on.
    pub(crate) fn limit(&mut self, max_edges: usize) {
        self.max_edges = max_edges.max(16);
    }

    /// The same observations, with the RAM and the limit of another graph. That RAM holds none of
    /// the vertices: the last request of each is as long ago as the RAM is large.
    pub(crate) fn limited_as(self, other: &Self) -> Self {
        let Self { ram, max_edges, with_writes, .. } = *other;
        let clock = self.clock.saturating_add(ram.0);
        let mut limited = Self { ram, clock, max_edges, with_writes, ..self };
        while limited.edges.len() > limited.max_edges {
            limited.shed();
        }
        limited
    }

    /// Takes in one request. Reads make vertices and edges. Writes and discards only lower the
    /// worth of copies of the vertices they touch, unless the graph is one [`Self::with_writes`].
    /// Flushes are ignored.
    pub fn observe(&mut self, request: &Request) {
        let extent = self.pages.touched(request.extent);
        if extent.is_empty() || request.op == Op::Flush {
            return;
        }
        let write = self.with_writes && request.op == Op::Write;
        if request.op != Op::Read && !write {
            self.wrote(extent);
            return;
        }
        // RAM answers no write.
        self.visit(extent, if write { Sectors(0) } else { self.ram });
        let mut before = self.last.get(&request.stream).copied();
        for i in 0..self.path.len() {
            let (enter, leave) = self.path[i];
            if let Some(before) = before {
                let weight = self.edges.entry((before, enter)).or_insert(0);
                *weight = weight.saturating_add(ACCESS);
            }
            before = Some(leave);
        }
        if let Some(port) = before {
            self.last.insert(request.stream, port);
        }
        if self.edges.len() > self.max_edges {
            self.shed();
        }
    }

    /// Halves every weight and count, and forgets those that fall to zero: recent requests count
    /// more. The caller does this once a day; BORG found short training better than long (FAST'09,
    /// 6.2).
    pub fn age(&mut self) {
        self.edges.retain(|_, w| {
            *w /= 2;
            *w > 0
        });
        for node in self.nodes.values_mut() {
            node.reads /= 2;
            node.writes /= 2;
        }
        self.compact(|node, linked| linked || node.reads > 0);
    }

    /// Forgets everything.
    pub fn forget(&mut self) {
        let empty = Self::new(self.pages, self.ram.bytes(), self.max_edges);
        *self = Self { with_writes: self.with_writes, ..empty };
    }

    /// Forgets the lightest quarter of the edges, the oldest of equals, and then the vertices
    /// without edges.
    fn shed(&mut self) {
        // A port's number tells its age: a higher one was made later.
        let mut ranked: Vec<(u32, u32, (u32, u32))> =
            self.edges.iter().map(|(&key, &weight)| (weight, key.0.max(key.1), key)).collect();
        let lightest = (ranked.len() / 4).max(1);
        ranked.select_nth_unstable(lightest - 1);
        for (_, _, key) in &ranked[..lightest] {
            self.edges.remove(key);
        }
        self.compact(|_, linked| linked);
    }

    /// Keeps only the vertices for which `keep(vertex, whether an edge ends there)` is true.
    /// Renumbers the ports without a gap, older ones first.
    fn compact(&mut self, keep: impl Fn(&Node, bool) -> bool) {
        const GONE: u32 = u32::MAX;
        let mut linked = vec![false; self.ports as usize];
        for &(leave, enter) in self.edges.keys() {
            linked[leave as usize] = true;
            linked[enter as usize] = true;
        }
        self.nodes.retain(|_, n| keep(n, linked[n.enter as usize] || linked[n.leave as usize]));
        let mut renumbered = vec![GONE; self.ports as usize];
        for node in self.nodes.values() {
            renumbered[node.enter as usize] = 0;
            renumbered[node.leave as usize] = 0;
        }
        self.ports = 0;
        for port in renumbered.iter_mut().filter(|p| **p != GONE) {
            *port = self.ports;
            self.ports += 1;
        }
        for node in self.nodes.values_mut() {
            node.enter = renumbered[node.enter as usize];
            node.leave = renumbered[node.leave as usize];
        }
        self.edges = std::mem::take(&mut self.edges)
            .into_iter()
            .map(|((l, e), w)| ((renumbered[l as usize], renumbered[e as usize]), w))
            .collect();
        self.last.retain(|_, port| {
            *port = renumbered[*port as usize];
            *port != GONE
        });
    }

    /// The pages that it counts in.
    pub const fn pages(&self) -> Pages {
        self.pages
    }

    /// Number of vertices.
    pub fn vertex_count(&self) -> usize {
        self.nodes.len()
    }

    /// Number of edges.
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// The graph as plain data: vertices in order of address, and edges between their indices,
    /// sorted. Edges from a vertex to itself are left out: they have no effect on placement.
    pub fn snapshot(&self) -> (Vec<Vertex>, Vec<Edge>) {
        let mut owner_of_enter = vec![0u32; self.ports as usize];
        let mut owner_of_leave = vec![0u32; self.ports as usize];
        let mut vertices = Vec::with_capacity(self.nodes.len());
        for (index, (&start, node)) in self.nodes.iter().enumerate() {
            owner_of_enter[node.enter as usize] = index as u32;
            owner_of_leave[node.leave as usize] = index as u32;
            let extent = Extent::new(start, node.len);
            vertices.push(Vertex { extent, reads: node.reads, writes: node.writes });
        }
        let mut edges: Vec<Edge> = self
            .edges
            .iter()
            .map(|(&(leave, enter), &weight)| Edge {
                from: owner_of_leave[leave as usize],
                to: owner_of_enter[enter as usize],
                weight,
            })
            .filter(|e| e.from != e.to)
            .collect();
        edges.sort_unstable();
        (vertices, edges)
    }

    /// The address below which half of all reads lie, where the head mostly is. `None` without
    /// reads.
    pub fn median_read(&self) -> Option<Lba> {
        let total: u64 = self.nodes.values().map(|n| u64::from(n.reads)).sum();
        let mut below = 0;
        self.nodes.iter().find_map(|(&start, n)| {
            below += u64::from(n.reads);
            (n.reads > 0 && below * 2 >= total).then_some(Lba(start))
        })
    }

    /// Splits the vertex around `at`, if there is one.
    fn split(&mut self, at: u64) {
        let Some((&start, node)) = self.nodes.range_mut(..at).next_back() else { return };
        if start + node.len <= at {
            return;
        }
        let (reads, writes) = (node.reads, node.writes);
        let (leave, len) = (node.leave, start + node.len - at);
        let (left, right) = (self.ports, self.ports + 1);
        node.len = at - start;
        node.leave = left;
        self.ports += 2;
        let seen = node.seen;
        self.nodes.insert(at, Node { len, reads, writes, enter: right, leave, seen });
        // Every access of the whole went from the left part to the right one.
        if reads > 0 {
            self.edges.insert((left, right), reads);
        }
    }

    /// Counts an access to every vertex in the extent that RAM of this size does not answer. Makes missing vertices, and splits those that
    /// reach beyond the extent. `path` gets the ports of the vertices that RAM does not hold, in
    /// order of address.
    fn visit(&mut self, extent: Extent, ram: Sectors) {
        self.path.clear();
        let (start, end) = (extent.start.0, extent.end().0);
        let now = self.clock;
        // Repeated reads mostly have the same extent as before.
        if let Some(node) = self.nodes.get_mut(&start).filter(|n| n.len == extent.len.0) {
            self.clock += node.access(now, ram, &mut self.path);
            return;
        }
        // New reads mostly touch no known vertex.
        let below = self.nodes.range(..end).next_back();
        if below.is_none_or(|(&at, node)| at + node.len <= start) {
            self.add(start, end, now);
            return;
        }
        self.split(start);
        self.split(end);
        let mut at = start;
        while at < end {
            let next = self.nodes.range_mut(at..end).next();
            let gap_end = match next {
                Some((&found, node)) if found == at => {
                    self.clock += node.access(now, ram, &mut self.path);
                    at += node.len;
                    continue;
                }
                Some((&found, _)) => found,
                None => end,
            };
            self.add(at, gap_end, now);
            at = gap_end;
        }
    }

    /// Adds a new vertex, read once.
    fn add(&mut self, start: u64, end: u64, now: u64) {
        let (enter, leave) = (self.ports, self.ports + 1);
        self.ports += 2;
        let len = end - start;
        self.path.push((enter, leave));
        self.clock += len;
        self.nodes.insert(start, Node { len, reads: ACCESS, writes: 0, enter, leave, seen: now });
    }

    fn wrote(&mut self, extent: Extent) {
        let (start, end) = (extent.start.0, extent.end().0);
        let touched = self.nodes.range_mut(..end).rev();
        for (_, node) in touched.take_while(|(at, node)| **at + node.len > start) {
            node.writes = node.writes.saturating_add(ACCESS);
        }
    }
}

pub(crate) mod state;
#[cfg(test)]
mod tests;
