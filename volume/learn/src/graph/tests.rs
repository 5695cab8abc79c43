//! The graph against a twin that splits first and counts afterwards.

use std::collections::BTreeSet;

use proptest::prelude::*;
use seekless_block::{Extent, Op, Request, SimTime, StreamId};

use super::*;

/// An empty graph of a large device, without RAM.
fn graph(max_edges: usize) -> AccessGraph {
    AccessGraph::new(Pages::new(Sectors(0), Sectors(1 << 40)), Bytes(0), max_edges)
}

/// A run of pages, in pages.
fn pages(start: u64, len: u64) -> Extent {
    Extent::new(start * 8, len * 8)
}

fn read(stream: u32, start: u64, len: u64) -> Request {
    Request { stream: StreamId(stream), ..Request::new(SimTime(0), Op::Read, pages(start, len)) }
}

/// Vertices as `(start, end, reads)`, edges as `(start, start)` to weight.
type Flat = (Vec<(u64, u64, u32)>, BTreeMap<(u64, u64), u32>);

/// Splits every range at every border any request has, then walks the requests stream by stream, as
/// the paper describes: per-process graphs, merged over atomic ranges.
fn twin(requests: &[Request]) -> Flat {
    let mut borders = BTreeSet::new();
    for r in requests {
        borders.extend([r.extent.start.0, r.extent.end().0]);
    }
    let atoms = |e: Extent| -> Vec<(u64, u64)> {
        let inner: Vec<u64> = borders.range(e.start.0..=e.end().0).copied().collect();
        inner.windows(2).map(|w| (w[0], w[1])).collect()
    };
    let mut vertices: BTreeMap<(u64, u64), u32> = BTreeMap::new();
    let mut edges: BTreeMap<(u64, u64), u32> = BTreeMap::new();
    let mut last: BTreeMap<StreamId, u64> = BTreeMap::new();
    for r in requests {
        for (start, end) in atoms(r.extent) {
            *vertices.entry((start, end)).or_default() += 1;
            if let Some(before) = last.insert(r.stream, start).filter(|&b| b != start) {
                *edges.entry((before, start)).or_default() += 1;
            }
        }
    }
    (vertices.into_iter().map(|((s, e), n)| (s, e, n)).collect(), edges)
}

fn flatten(graph: &AccessGraph) -> Flat {
    let (vertices, edges) = graph.snapshot();
    let start = |i: u32| vertices[i as usize].extent.start.0;
    let sectors = |v: &Vertex| (v.extent.start.0, v.extent.end().0, v.reads / ACCESS);
    (
        vertices.iter().map(sectors).collect(),
        edges.iter().map(|e| ((start(e.from), start(e.to)), e.weight / ACCESS)).collect(),
    )
}

proptest! {
    #[test]
    fn splitting_as_requests_come_equals_splitting_first(
        raw in prop::collection::vec((0u32..3, 0u64..60, 1u64..12), 0..60)
    ) {
        let requests: Vec<Request> = raw.iter().map(|&(p, s, l)| read(p, s, l)).collect();
        let mut graph = graph(1 << 20);
        requests.iter().for_each(|r| graph.observe(r));
        prop_assert_eq!(flatten(&graph), twin(&requests));
    }

    #[test]
    fn a_full_graph_stays_whole_and_small(
        raw in prop::collection::vec((0u32..3, 0u64..600, 1u64..12), 0..300)
    ) {
        let mut graph = graph(40);
        for &(p, s, l) in &raw {
            graph.observe(&read(p, s, l));
            prop_assert!(graph.edge_count() <= 40 + 24, "{}", graph.edge_count());
        }
        let (vertices, edges) = graph.snapshot();
        for pair in vertices.windows(2) {
            prop_assert!(pair[0].extent.end() <= pair[1].extent.start);
        }
        for e in edges {
            prop_assert!((e.from as usize) < vertices.len() && (e.to as usize) < vertices.len());
            prop_assert!(e.weight > 0);
        }
    }
}

#[test]
fn figure_4_overlapping_vertices_are_split() {
    // BORG, Figure 4, a page for each of its blocks: r1 covers 0..3, s1 covers 1..3; r1 becomes
    // 0..1 and 1..3.
    let mut graph = graph(100);
    for r in [read(1, 0, 3), read(1, 10, 2), read(2, 1, 2), read(2, 20, 2)] {
        graph.observe(&r);
    }
    let (vertices, edges) = flatten(&graph);
    assert_eq!(vertices, vec![(0, 8, 1), (8, 24, 2), (80, 96, 1), (160, 176, 1)]);
    let expected = BTreeMap::from([((0, 8), 1), ((8, 80), 1), ((8, 160), 1)]);
    assert_eq!(edges, expected);
}

#[test]
fn a_full_graph_forgets_the_light_and_of_these_the_old() {
    let mut graph = graph(16);
    for _ in 0..3 {
        for at in [0, 100, 200] {
            graph.observe(&read(1, at, 8)); // heavy: 0 -> 100 -> 200 -> 0
        }
    }
    for at in 1..40 {
        graph.observe(&read(2, at * 1000, 8)); // each once
    }
    let (vertices, edges) = graph.snapshot();
    assert!(edges.len() <= 16);
    let starts: Vec<u64> = vertices.iter().map(|v| v.extent.start.0 / 8).collect();
    assert!([0, 100, 200].iter().all(|s| starts.contains(s)), "the heavy stay: {starts:?}");
    assert!(starts.contains(&39_000) && !starts.contains(&1000), "the old go first: {starts:?}");
}

/// A quarter of few edges is none: then one goes.
#[test]
fn a_graph_can_be_limited_to_few_edges() {
    for most in 0..4 {
        let mut full = graph(100);
        (0..5).for_each(|at| full.observe(&read(0, at * 10, 1)));
        assert_eq!(full.snapshot().1.len(), 4);
        let mut few = graph(0);
        few.max_edges = most;
        assert!(full.limited_as(&few).snapshot().1.len() <= most);
    }
}

#[test]
fn an_access_fades_and_is_forgotten() {
    let mut graph = graph(100);
    for r in [read(1, 0, 8), read(1, 100, 8)] {
        graph.observe(&r);
    }
    for left in [8, 4, 2, 1] {
        graph.age();
        assert_eq!(graph.snapshot().1[0].weight, left);
    }
    graph.observe(&read(1, 200, 8));
    graph.age();
    let (vertices, edges) = graph.snapshot();
    let starts: Vec<u64> = vertices.iter().map(|v| v.extent.start.0 / 8).collect();
    assert_eq!(starts, vec![100, 200], "100 hangs on a young edge, 0 is forgotten");
    assert_eq!(edges, vec![Edge { from: 0, to: 1, weight: 8 }]);
}

#[test]
fn the_median_is_where_the_head_is() {
    let mut graph = graph(100);
    assert_eq!(graph.median_read(), None);
    for at in [0, 500, 500, 500, 900] {
        graph.observe(&read(1, at, 8));
    }
    assert_eq!(graph.median_read(), Some(Lba(500 * 8)));
}

/// 4.2: "frequency of accesses (reads or writes)".
#[test]
fn with_writes_a_write_counts_as_a_read_and_against_nothing() {
    let write = |start, len| Request::new(SimTime(0), Op::Write, pages(start, len));
    let (mut reads, mut both) = (graph(100), graph(100).with_writes());
    for (start, len) in [(0, 4), (100, 2), (0, 4), (102, 8), (101, 3)] {
        reads.observe(&read(0, start, len));
        both.observe(&if start > 100 { write(start, len) } else { read(0, start, len) });
    }
    assert_eq!(reads.snapshot(), both.snapshot());
    assert!(both.snapshot().0.iter().all(|v| v.writes == 0));
    // A page that RAM holds is read from RAM, and written to the disk.
    let pages_of = Pages::new(Sectors(0), Sectors(1 << 40));
    let mut cached = AccessGraph::new(pages_of, Bytes(1 << 20), 100).with_writes();
    for request in [read(0, 7, 1), read(0, 7, 1), write(7, 1), read(0, 7, 1)] {
        cached.observe(&request);
    }
    assert_eq!(cached.snapshot().0[0].reads, 2 * ACCESS);
}

#[test]
fn writes_make_no_vertex_but_count_against_one() {
    let mut graph = graph(100);
    graph.observe(&read(1, 100, 10));
    for (start, len) in [(0, 50), (109, 5), (95, 6), (110, 4)] {
        graph.observe(&Request::new(SimTime(0), Op::Write, pages(start, len)));
    }
    graph.observe(&Request::new(SimTime(0), Op::Flush, Extent::default()));
    let (vertices, edges) = graph.snapshot();
    let extent = pages(100, 10);
    assert_eq!(vertices, vec![Vertex { extent, reads: ACCESS, writes: 2 * ACCESS }]);
    assert!(edges.is_empty());
}

#[test]
fn requests_count_as_the_pages_of_the_grid_that_they_touch() {
    let pages = Pages::new(Sectors(7), Sectors(100));
    let mut graph = AccessGraph::new(pages, Bytes(0), 100);
    // Pages: 7..15, 15..23, ..., 87..95; 0..7 and 95..100 are none.
    for (start, len) in [(0, 7), (14, 2), (96, 4), (90, 10)] {
        graph.observe(&Request::new(SimTime(0), Op::Read, Extent::new(start, len)));
    }
    let extents: Vec<Extent> = graph.snapshot().0.iter().map(|v| v.extent).collect();
    assert_eq!(extents, vec![Extent::new(7, 16), Extent::new(87, 8)]);
}

#[test]
fn what_ram_answers_is_not_counted() {
    // RAM of ten pages.
    let pages = Pages::new(Sectors(0), Sectors(1 << 40));
    let mut graph = AccessGraph::new(pages, Bytes(10 * 4096), 100);
    graph.observe(&read(1, 0, 4)); // from the disk
    graph.observe(&read(1, 0, 4)); // 4 pages later: in RAM
    graph.observe(&read(1, 100, 9)); // from the disk
    graph.observe(&read(1, 0, 4)); // 9 pages since it was asked for last: in RAM still
    graph.observe(&read(1, 200, 10)); // from the disk
    graph.observe(&read(1, 0, 4)); // 10 pages later: from the disk
    let (vertices, edges) = flatten(&graph);
    assert_eq!(vertices, vec![(0, 32, 2), (800, 872, 1), (1600, 1680, 1)]);
    let expected = BTreeMap::from([((0, 800), 1), ((800, 1600), 1), ((1600, 0), 1)]);
    assert_eq!(edges, expected);
}
