//! The access graph as bytes, so that it outlives the program. Other modules decide where the bytes
//! are kept.
//!
//! docs/changing/learned-state-format.md documents the layout: little-endian, version 1.
//!
//! The bytes omit the last access of each stream, because process numbers mean nothing after a
//! restart. They also omit the contents of RAM.

use seekless_block::{Bytes, Duration, Extent, Sectors};

use super::{AccessGraph, Node};
use crate::Pages;

const MAGIC: [u8; 8] = *b"SKLGRAPH";
const VERSION: u32 = 1;
const HEADER: usize = 48;
const CHECKED: usize = 16;
const VERTEX: usize = 32;
const EDGE: usize = 12;

/// The result of [`AccessGraph::decode`].
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The graph.
    pub graph: AccessGraph,
    /// Time served since [`AccessGraph::age`].
    pub since_aged: Duration,
}

/// Why bytes are no access graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum StateError {
    #[error("it does not begin as an access graph does")]
    NotOurs,
    #[error("it has version {found}, and this program knows version {VERSION}")]
    Version { found: u32 },
    #[error("it should be {expected} bytes long and is {found}")]
    Length { expected: u64, found: u64 },
    #[error("its checksum does not match: it is damaged")]
    Checksum,
    #[error("it holds {0}")]
    Broken(&'static str),
}

impl AccessGraph {
    /// The graph as bytes: 48, 32 for each vertex and 12 for each edge. `since_aged` goes with it.
    pub fn encode(&self, since_aged: Duration) -> Vec<u8> {
        let (vertices, edges) = (self.nodes.len(), self.edges.len());
        let mut out = Vec::with_capacity(HEADER + vertices * VERTEX + edges * EDGE);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 4]);
        for n in [self.pages.grid, self.pages.end, since_aged.0] {
            out.extend(n.to_le_bytes());
        }
        // Each vertex has two ports, and ports are counted in 32 bits.
        out.extend((vertices as u32).to_le_bytes());
        out.extend((edges as u32).to_le_bytes());
        for (start, node) in &self.nodes {
            out.extend(start.to_le_bytes());
            out.extend(node.len.to_le_bytes());
            for n in [node.reads, node.writes, node.enter, node.leave] {
                out.extend(n.to_le_bytes());
            }
        }
        let mut edges: Vec<_> = self.edges.iter().map(|(&(l, e), &w)| [l, e, w]).collect();
        edges.sort_unstable();
        for n in edges.iter().flatten() {
            out.extend(n.to_le_bytes());
        }
        let checksum = crc_fast::crc32_iscsi(&out[CHECKED..]);
        out[CHECKED - 4..CHECKED].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Makes the graph that [`Self::encode`] wrote as these bytes. The graph continues with new
    /// streams and an empty RAM of size `ram`, and keeps about `max_edges` edges.
    ///
    /// # Errors
    /// If the bytes are of another program, of another version, damaged, or not a graph.
    pub fn decode(bytes: &[u8], ram: Bytes, max_edges: usize) -> Result<Decoded, StateError> {
        let mut from = UnreadBytes(bytes);
        if from.take::<8>() != Some(MAGIC) {
            return Err(StateError::NotOurs);
        }
        let found = from.u32().ok_or(StateError::NotOurs)?;
        if found != VERSION {
            return Err(StateError::Version { found });
        }
        let short = StateError::Length { expected: HEADER as u64, found: bytes.len() as u64 };
        let checksum = from.u32().ok_or(short)?;
        let checked = from.0;
        let mut next = || from.u64().ok_or(short);
        let (grid, end, since_aged) = (Sectors(next()?), Sectors(next()?), Duration(next()?));
        let (vertices, edges) = (from.u32().ok_or(short)?, from.u32().ok_or(short)?);
        let expected =
            HEADER as u64 + u64::from(vertices) * VERTEX as u64 + u64::from(edges) * EDGE as u64;
        if bytes.len() as u64 != expected {
            return Err(StateError::Length { expected, found: bytes.len() as u64 });
        }
        if crc_fast::crc32_iscsi(checked) != checksum {
            return Err(StateError::Checksum);
        }
        let pages = Pages::new(grid, end);
        if (pages.grid, pages.end) != (grid.0, end.0) {
            return Err(StateError::Broken("pages that are none"));
        }
        // The last accesses are as long ago as RAM is large: RAM holds none of them.
        let graph = Self::new(pages, ram, max_edges);
        let mut graph = Self { clock: graph.ram.0, ..graph };
        graph.read(from, (vertices, edges)).map_err(StateError::Broken)?;
        Ok(Decoded { graph, since_aged })
    }

    /// Reads vertices and edges, or says what is wrong with them.
    fn read(
        &mut self,
        mut from: UnreadBytes<'_>,
        (vertices, edges): (u32, u32),
    ) -> Result<(), &'static str> {
        const SHORT: &str = "fewer numbers than it counts";
        self.ports = vertices.checked_mul(2).ok_or("more vertices than can be")?;
        // Which ports are taken, and whether edges come in there.
        let mut ports = vec![None; self.ports as usize];
        let mut end = 0;
        for _ in 0..vertices {
            let (start, len) = (from.u64().ok_or(SHORT)?, from.u64().ok_or(SHORT)?);
            let mut next = || from.u32().ok_or(SHORT);
            let (reads, writes, enter, leave) = (next()?, next()?, next()?, next()?);
            let extent = Extent::new(start, len);
            if !self.pages.is_whole(extent) {
                return Err("a vertex that is not whole pages of its volume");
            }
            if start < end {
                return Err("vertices that overlap or are out of order");
            }
            end = extent.end().0;
            for (port, enters) in [(enter, true), (leave, false)] {
                match ports.get_mut(port as usize) {
                    Some(free @ None) => *free = Some(enters),
                    _ => return Err("a port that is taken or does not exist"),
                }
            }
            self.nodes.insert(start, Node { len, reads, writes, enter, leave, seen: 0 });
        }
        let mut last = None;
        for _ in 0..edges {
            let mut next = || from.u32().ok_or(SHORT);
            let (edge, weight) = ((next()?, next()?), next()?);
            let at = |port: u32| ports.get(port as usize).copied().flatten();
            if at(edge.0) != Some(false) || at(edge.1) != Some(true) {
                return Err("an edge that ends nowhere");
            }
            if weight == 0 || last >= Some(edge) {
                return Err("edges without weight, twice, or out of order");
            }
            last = Some(edge);
            self.edges.insert(edge, weight);
        }
        Ok(())
    }
}

/// The unread bytes, little endian; `None` where there are too few.
#[derive(Clone, Copy)]
pub(crate) struct UnreadBytes<'a>(pub(crate) &'a [u8]);

impl UnreadBytes<'_> {
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

/// The body of the fuzz target. It is here so that a test can replay the target's inputs. If bytes
/// decode to a graph, the graph encodes to the same bytes.
///
/// # Panics
/// If the encoded bytes differ.
#[doc(hidden)]
pub fn check(bytes: &[u8]) {
    if let Ok(Decoded { mut graph, since_aged }) = AccessGraph::decode(bytes, Bytes(0), 64) {
        assert_eq!(graph.encode(since_aged), bytes);
        // The graph must also be usable.
        let (vertices, edges) = graph.snapshot();
        assert!(edges.iter().all(|e| (e.from.max(e.to) as usize) < vertices.len()));
        graph.age();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seekless_block::{Op, Request, SimTime, StreamId};

    use super::*;

    const RAM: Bytes = Bytes(20 * 512);

    fn pages() -> Pages {
        Pages::new(Sectors(3), Sectors(700))
    }

    type Raw = (u32, bool, u64, u64);

    fn raw(most: usize) -> impl Strategy<Value = Vec<Raw>> {
        prop::collection::vec((0u32..3, any::<bool>(), 0u64..600, 1u64..12), 0..most)
    }

    fn observe(graph: &mut AccessGraph, raw: &[Raw]) {
        for &(stream, read, start, len) in raw {
            let op = if read { Op::Read } else { Op::Write };
            let request = Request::new(SimTime(0), op, Extent::new(start, len));
            graph.observe(&Request { stream: StreamId(stream), ..request });
        }
    }

    fn example() -> Vec<u8> {
        let mut graph = AccessGraph::new(pages(), RAM, 100);
        let raw: Vec<Raw> =
            (0..20).map(|i| (i % 2, i % 7 > 0, u64::from(i) * 37 % 400, 9)).collect();
        observe(&mut graph, &raw);
        graph.encode(Duration(5))
    }

    /// The same bytes with a checksum that fits.
    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        if bytes.len() >= CHECKED {
            let checksum = crc_fast::crc32_iscsi(&bytes[CHECKED..]);
            bytes[CHECKED - 4..CHECKED].copy_from_slice(&checksum.to_le_bytes());
        }
        bytes
    }

    proptest! {
        /// Small enough that edges are dropped, which needs the ages of ports.
        #[test]
        fn a_graph_goes_on_as_if_it_had_never_been_bytes(
            before in raw(200), after in raw(200), max in 16usize..200, ages in any::<bool>(),
        ) {
            let mut graph = AccessGraph::new(pages(), RAM, max);
            observe(&mut graph, &before);
            if ages {
                graph.age();
            }
            let bytes = graph.encode(Duration(77));
            prop_assert_eq!(
                bytes.len(), HEADER + graph.vertex_count() * VERTEX + graph.edge_count() * EDGE
            );
            let decoded = AccessGraph::decode(&bytes, RAM, max).unwrap();
            prop_assert_eq!((decoded.graph.pages(), decoded.since_aged), (pages(), Duration(77)));
            let mut again = decoded.graph;
            prop_assert_eq!(again.snapshot(), graph.snapshot());
            prop_assert_eq!(&again.encode(Duration(77)), &bytes);
            // As after a restart.
            graph.last.clear();
            graph.nodes.values_mut().for_each(|n| n.seen = 0);
            graph.clock = graph.ram.0;
            observe(&mut graph, &after);
            observe(&mut again, &after);
            prop_assert_eq!(again.snapshot(), graph.snapshot());
        }

        #[test]
        fn no_bytes_do_harm(
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            noise in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut bytes = example();
            for (at, byte) in edits {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            for bytes in [bytes.clone(), sealed(bytes), noise.clone(), sealed(noise)] {
                check(&bytes);
            }
        }
    }

    /// Another value means another format: then files of today need a new version.
    #[test]
    fn bytes_of_version_1_stay_as_they_are() {
        let bytes = example();
        assert_eq!((VERSION, bytes.len(), crc_fast::crc32_iscsi(&bytes)), (1, 1108, 0x0857_5B3A));
    }

    #[test]
    fn what_is_no_graph_is_told_apart() {
        let good = example();
        let refused = |bytes: &[u8]| AccessGraph::decode(bytes, RAM, 100).unwrap_err();
        for cut in 0..good.len() {
            let expected = match cut {
                0..12 => StateError::NotOurs,
                12..HEADER => StateError::Length { expected: HEADER as u64, found: cut as u64 },
                _ => StateError::Length { expected: good.len() as u64, found: cut as u64 },
            };
            assert_eq!(refused(&good[..cut]), expected, "{cut}");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            let expected = match at {
                0..8 => StateError::NotOurs,
                8..12 => StateError::Version { found: VERSION ^ 1 << (8 * (at - 8)) },
                40..HEADER => {
                    assert!(matches!(refused(&bad), StateError::Length { .. }), "{at}");
                    continue;
                }
                _ => StateError::Checksum,
            };
            assert_eq!(refused(&bad), expected, "{at}");
        }
        // Undamaged, but no graph: pages off their grid, an empty vertex, one past the end, one
        // twice, a port twice, an edge that leaves where edges come in.
        let edges = good.len() - EDGE;
        let put = |at: usize, bytes: &[u8]| {
            let mut bad = good.clone();
            bad[at..at + bytes.len()].copy_from_slice(bytes);
            refused(&sealed(bad))
        };
        for (at, bytes, word) in [
            (16, &[9; 8][..], "pages that are none"),
            (24, &[9; 8], "pages that are none"),
            (HEADER + 8, &[0; 8], "not whole pages"),
            (HEADER + 8, &[0xFF; 8], "not whole pages"),
            (HEADER + VERTEX, &good[HEADER..HEADER + 8], "overlap"),
            (HEADER + 24, &good[HEADER + 28..HEADER + 32], "taken"),
            (HEADER + 24, &[0xFF; 4], "does not exist"),
            (edges, &good[HEADER + 24..HEADER + 28], "nowhere"),
            (edges, &good[edges - EDGE..edges - 4], "twice"),
            (edges + 8, &[0; 4], "weight"),
        ] {
            let found = put(at, bytes);
            assert!(found.to_string().contains(word), "{word}: {found}");
        }
    }
}
