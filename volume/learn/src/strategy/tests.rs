//! The planners against the paper's words carried out naively.

use proptest::prelude::*;
use seekless_block::Extent;

use super::{Strategy, *};
use crate::Edge;

fn vertex(i: u64, len: u64) -> Vertex {
    Vertex { extent: Extent::new(i * 100, len), reads: 1, writes: 0 }
}

fn edge(from: u32, to: u32, accesses: u32) -> Edge {
    Edge { from, to, weight: accesses * ACCESS }
}

/// Plans, and gives the vertices in order of place.
fn planned(vertices: &[Vertex], edges: &[Edge], config: &PlanConfig) -> Vec<u32> {
    let order = order(vertices, &Links::new(vertices.len(), edges), config);
    let plan = lay(order.iter().map(|&v| vertices[v as usize].extent));
    assert_eq!(plan.fits(Sectors(10_000), config.area), Ok(()));
    order
}

fn config(strategy: Strategy, area: u64, min_weight: u32) -> PlanConfig {
    let reach = Reach::new(Bytes(0), Bytes(0));
    PlanConfig { area: Sectors(area), min_weight, strategy, planning: Planning::Anew, reach }
}

#[test]
fn figure_5_the_group_grows_at_both_ends() {
    // BORG, Figure 5, with weights that give its steps: C first, B after it, G before these, ...
    let vertices: Vec<Vertex> = (0..10).map(|i| vertex(i, 8)).collect();
    let letter = |c: char| c as u32 - 'A' as u32;
    let edges: Vec<Edge> = ["CB", "GC", "AG", "BE", "JA", "HJ", "ED", "FH"]
        .iter()
        .zip([10, 8, 7, 6, 5, 4, 3, 2])
        .map(|(ends, weight)| {
            let mut ends = ends.chars().map(letter);
            edge(ends.next().unwrap(), ends.next().unwrap(), weight)
        })
        .collect();
    let order = planned(&vertices, &edges, &config(Strategy::MostConnected, 1000, 1));
    let letters: String = order.iter().map(|&v| (b'A' + v as u8) as char).collect();
    assert_eq!(letters, "FHJAGCBED");
}

#[test]
fn a_chain_worked_by_hand() {
    // Degrees: 0: 5, 1: 5+9 = 14, 2: 9+2+4 = 15, 3: 2, 4: 4. 2 comes first. Most connected to {2}:
    // 1, by 1->2 (9), so before. Then 0 by 0->1 (5), before. Then 4 by 2->4 (4), after. Then 3 by
    // 3->2 (2), before.
    let vertices: Vec<Vertex> = (0..5).map(|i| vertex(i, 8)).collect();
    let edges = [edge(0, 1, 5), edge(1, 2, 9), edge(2, 4, 4), edge(3, 2, 2)];
    assert_eq!(
        planned(&vertices, &edges, &config(Strategy::MostConnected, 1000, 1)),
        [3, 0, 1, 2, 4]
    );
}

#[test]
fn copies_stand_side_by_side() {
    let vertices = [vertex(0, 8), vertex(1, 24), vertex(2, 8)];
    let plan = lay([2, 1, 0].into_iter().map(|v: usize| vertices[v].extent));
    let places: Vec<(u64, u64)> = plan.copies.iter().map(|c| (c.home.start.0, c.place.0)).collect();
    assert_eq!(places, [(200, 0), (100, 8), (0, 32)]);
}

#[test]
fn weak_edges_full_areas_and_written_vertices_stay_out() {
    let mut vertices: Vec<Vertex> = (0..5).map(|i| vertex(i, 8)).collect();
    let edges = [edge(0, 1, 5), edge(1, 2, 9), edge(2, 4, 4), edge(3, 2, 2)];
    let of = |vertices: &[Vertex], area, min_weight| {
        planned(vertices, &edges, &config(Strategy::MostConnected, area, min_weight))
    };
    assert_eq!(of(&vertices, 1000, 3), [0, 1, 2, 4], "3 hangs on an edge of weight 2");
    assert_eq!(of(&vertices, 24, 1), [0, 1, 2], "the area is full");
    assert!(of(&vertices, 7, 1).is_empty());
    vertices[1].writes = 1;
    assert_eq!(of(&vertices, 1000, 1), [3, 2, 4, 0], "1 is written as often as read: 0 is alone");
}

#[test]
fn where_the_strategies_differ() {
    // 1 has the heaviest edges together, 3 -> 4 is the heaviest edge.
    let vertices: Vec<Vertex> = (0..5).map(|i| vertex(i, 8)).collect();
    let edges = [edge(0, 1, 6), edge(1, 2, 5), edge(1, 3, 1), edge(3, 4, 7), edge(4, 2, 2)];
    let of = |strategy| planned(&vertices, &edges, &config(strategy, 1000, 1));
    // {1}, 0 before it, 2 after it; 4 by 4 -> 2 before, 3 by 3 -> 4 before.
    assert_eq!(of(Strategy::MostConnected), [3, 4, 0, 1, 2]);
    // {3, 4}; 2 by 4 -> 2 after; 1 by 1 -> 2 (5), before; 0 before.
    assert_eq!(of(Strategy::HeaviestEdge), [0, 1, 3, 4, 2]);
    // 3-4, 0-1, 1-2; 4 -> 2 and 1 -> 3 find their ends taken. All vertices were read equally: by
    // address.
    assert_eq!(of(Strategy::ManyStarts), [0, 1, 2, 3, 4]);
}

/// The weight of the edges between two sets of vertices.
fn weight(edges: &[Edge], from: &[u32], to: &[u32]) -> u32 {
    edges.iter().filter(|e| from.contains(&e.from) && to.contains(&e.to)).map(|e| e.weight).sum()
}

/// Every step by a scan over all vertices, or over all edges.
fn naive(vertices: &[Vertex], edges: &[Edge], config: &PlanConfig) -> Vec<u32> {
    let all: Vec<u32> = (0..vertices.len() as u32).collect();
    let len = |v: u32| vertices[v as usize].extent.len.0;
    let threshold = config.min_weight * ACCESS;
    let degree = |v: u32| weight(edges, &[v], &all) + weight(edges, &all, &[v]);
    let mut left = all.clone();
    left.retain(|&v| vertices[v as usize].writes < vertices[v as usize].reads);
    let mut order = Vec::new();
    let mut room = config.area.0;
    loop {
        left.retain(|&v| len(v) <= room);
        let heaviest = edges
            .iter()
            .filter(|e| config.strategy == Strategy::HeaviestEdge && e.weight >= threshold)
            .filter(|e| {
                left.contains(&e.from) && left.contains(&e.to) && len(e.from) + len(e.to) <= room
            })
            .max_by_key(|e| (e.weight, std::cmp::Reverse((e.from, e.to))));
        let mut group = match heaviest {
            Some(e) => vec![e.from, e.to],
            None => {
                let seeds = left.iter().copied().filter(|&v| degree(v) >= threshold);
                match seeds.max_by_key(|&v| (degree(v), std::cmp::Reverse(v))) {
                    Some(seed) => vec![seed],
                    None => return order,
                }
            }
        };
        room -= group.iter().map(|&v| len(v)).sum::<u64>();
        left.retain(|v| !group.contains(v));
        loop {
            left.retain(|&v| len(v) <= room);
            let best = left
                .iter()
                .flat_map(|&v| {
                    [
                        (weight(edges, &group, &[v]), true, v),
                        (weight(edges, &[v], &group), false, v),
                    ]
                })
                .max_by_key(|&(w, after, v)| (w, after, std::cmp::Reverse(v)));
            let Some((_, after, v)) = best.filter(|b| b.0 >= threshold) else { break };
            left.retain(|&x| x != v);
            room -= len(v);
            group.insert(if after { group.len() } else { 0 }, v);
        }
        order.extend(group);
    }
}

/// Chains as lists of lists, joined edge by edge.
fn naive_chains(vertices: &[Vertex], edges: &[Edge], config: &PlanConfig) -> Vec<u32> {
    let all: Vec<u32> = (0..vertices.len() as u32).collect();
    let threshold = config.min_weight * ACCESS;
    let wanted = |v: u32| {
        let Vertex { extent, reads, writes } = vertices[v as usize];
        let degree = weight(edges, &[v], &all) + weight(edges, &all, &[v]);
        writes < reads && extent.len <= config.area && degree >= threshold
    };
    let mut chains: Vec<Vec<u32>> = all.iter().filter(|&&v| wanted(v)).map(|&v| vec![v]).collect();
    let mut heaviest: Vec<&Edge> = edges.iter().filter(|e| e.weight >= threshold).collect();
    heaviest.sort_by_key(|e| (std::cmp::Reverse(e.weight), e.from, e.to));
    for e in heaviest {
        let first = chains.iter().position(|c| c.last() == Some(&e.from));
        let second = chains.iter().position(|c| c.first() == Some(&e.to));
        if let (Some(first), Some(second)) = (first, second)
            && first != second
        {
            let tail = std::mem::take(&mut chains[second]);
            chains[first].extend(tail);
            chains.retain(|c| !c.is_empty());
        }
    }
    let reads_a_sector = |chain: &Vec<u32>| {
        let sum =
            |of: fn(&Vertex) -> u64| chain.iter().map(|&v| of(&vertices[v as usize])).sum::<u64>();
        (sum(|v| u64::from(v.reads)) << 16) / sum(|v| v.extent.len.0)
    };
    chains.sort_by_key(|c| (std::cmp::Reverse(reads_a_sector(c)), c[0]));
    let mut room = config.area.0;
    chains
        .concat()
        .into_iter()
        .filter(|&v| {
            let len = vertices[v as usize].extent.len.0;
            let fits = len <= room;
            room -= if fits { len } else { 0 };
            fits
        })
        .collect()
}

proptest! {
    #[test]
    fn the_fast_planners_choose_what_scans_would(
        lens in prop::collection::vec((1u64..20, 1u32..3, 0u32..2), 1..14),
        raw in prop::collection::vec((0u32..14, 0u32..14, 1u32..6), 0..40),
        area in 1u64..120,
        min_weight in 1u32..4,
    ) {
        let n = lens.len() as u32;
        let vertices: Vec<Vertex> = lens.iter().enumerate()
            .map(|(i, &(len, reads, writes))| Vertex { extent: Extent::new(i as u64 * 100, len), reads, writes })
            .collect();
        let mut weights = std::collections::BTreeMap::new();
        for (a, b, w) in raw {
            if a % n != b % n {
                *weights.entry((a % n, b % n)).or_insert(0) += w;
            }
        }
        let edges: Vec<Edge> = weights.into_iter().map(|((f, t), w)| edge(f, t, w)).collect();
        for strategy in Strategy::ALL.into_iter().filter(|s| !s.is_by_heat()) {
            let config = config(strategy, area, min_weight);
            let twin = if strategy == Strategy::ManyStarts { naive_chains } else { naive };
            prop_assert_eq!(planned(&vertices, &edges, &config), twin(&vertices, &edges, &config), "{}", strategy);
        }
    }
}
