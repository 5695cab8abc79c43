//! The planner against the paper's words carried out naively.

use proptest::prelude::*;
use seekless_block::Extent;

use super::*;

fn vertex(i: u64, len: u64) -> Vertex {
    Vertex { extent: Extent::new(i * 100, len), reads: 1, writes: 0 }
}

fn edge(from: u32, to: u32, accesses: u32) -> Edge {
    Edge { from, to, weight: accesses * ACCESS }
}

fn order(plan: &Plan) -> Vec<u64> {
    plan.copies.iter().map(|c| c.home.start.0 / 100).collect()
}

#[test]
fn a_chain_worked_by_hand() {
    // Degrees: 0: 5, 1: 5+9 = 14, 2: 9+2+4 = 15, 3: 2, 4: 4. 2 comes first. Most connected to {2}: 1, by
    // 1->2 (9), so before. Then 0 by 0->1 (5), before. Then 4 by 2->4 (4), after. Then 3 by 3->2 (2), before.
    let vertices: Vec<Vertex> = (0..5).map(|i| vertex(i, 8)).collect();
    let edges = [edge(0, 1, 5), edge(1, 2, 9), edge(2, 4, 4), edge(3, 2, 2)];
    let config = BorgConfig { area: Sectors(1000), min_weight: 1 };
    let plan = plan(&vertices, &edges, &config);
    assert_eq!(order(&plan), vec![3, 0, 1, 2, 4]);
    assert_eq!(plan.copies[4].place, Lba(32));
    assert_eq!(plan.check(Sectors(10_000), Sectors(40)), Ok(()));
}

#[test]
fn weak_edges_full_areas_and_written_vertices_stay_out() {
    let mut vertices: Vec<Vertex> = (0..5).map(|i| vertex(i, 8)).collect();
    let edges = [edge(0, 1, 5), edge(1, 2, 9), edge(2, 4, 4), edge(3, 2, 2)];
    let of = |vertices: &[Vertex], area, min_weight| {
        order(&plan(vertices, &edges, &BorgConfig { area: Sectors(area), min_weight }))
    };
    assert_eq!(of(&vertices, 1000, 3), vec![0, 1, 2, 4], "3 hangs on an edge of weight 2");
    assert_eq!(of(&vertices, 24, 1), vec![0, 1, 2], "the area is full");
    assert_eq!(of(&vertices, 7, 1), Vec::<u64>::new());
    vertices[1].writes = 1;
    assert_eq!(
        of(&vertices, 1000, 1),
        vec![3, 2, 4, 0],
        "1 is written as often as read: 0 is alone"
    );
}

/// Every step by a scan over all vertices.
fn naive(vertices: &[Vertex], edges: &[Edge], config: &BorgConfig) -> Plan {
    let n = vertices.len() as u32;
    let mut left: Vec<u32> =
        (0..n).filter(|&v| vertices[v as usize].writes < vertices[v as usize].reads).collect();
    let degree = |v: u32| -> u32 {
        edges.iter().filter(|e| e.from == v || e.to == v).map(|e| e.weight).sum()
    };
    let mut room = config.area.0;
    let mut result = Plan::default();
    let mut place = Lba(0);
    loop {
        let fits = |v: &u32, room: u64| vertices[*v as usize].extent.len.0 <= room;
        let Some(&seed) = left
            .iter()
            .filter(|v| fits(v, room) && degree(**v) >= config.min_weight * ACCESS)
            .max_by_key(|&&v| (degree(v), std::cmp::Reverse(v)))
        else {
            return result;
        };
        let mut group = vec![seed];
        left.retain(|&v| v != seed);
        room -= vertices[seed as usize].extent.len.0;
        loop {
            let to = |v: u32| -> u32 {
                edges
                    .iter()
                    .filter(|e| group.contains(&e.from) && e.to == v)
                    .map(|e| e.weight)
                    .sum()
            };
            let from = |v: u32| -> u32 {
                edges
                    .iter()
                    .filter(|e| group.contains(&e.to) && e.from == v)
                    .map(|e| e.weight)
                    .sum()
            };
            let best = left
                .iter()
                .filter(|v| fits(v, room))
                .flat_map(|&v| [(to(v), true, v), (from(v), false, v)])
                .max_by_key(|&(w, after, v)| (w, after, std::cmp::Reverse(v)));
            let Some((weight, after, v)) = best else { break };
            if weight < config.min_weight * ACCESS {
                break;
            }
            left.retain(|&x| x != v);
            room -= vertices[v as usize].extent.len.0;
            if after {
                group.push(v);
            } else {
                group.insert(0, v);
            }
        }
        for v in group {
            let home = vertices[v as usize].extent;
            result.copies.push(Copy { home, place });
            place = place + home.len;
        }
    }
}

proptest! {
    #[test]
    fn the_heap_chooses_what_a_scan_would(
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
        let config = BorgConfig { area: Sectors(area), min_weight };
        let fast = plan(&vertices, &edges, &config);
        prop_assert_eq!(&fast, &naive(&vertices, &edges, &config));
        prop_assert_eq!(fast.check(Sectors(2000), Sectors(area)), Ok(()));
    }
}
