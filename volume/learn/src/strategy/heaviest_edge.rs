//! "The placement can begin with the nodes connected to the highest weight edge, and then resorting
//! to the same incremental addition of vertices" (BORG, FAST'09, 7).

use std::cmp::Reverse;

use super::Board;

pub(super) fn order(mut board: Board<'_>) -> Vec<u32> {
    let seeds = board.by_degree();
    let mut edges: Vec<(Reverse<u32>, u32, u32)> = seeds
        .iter()
        .flat_map(|&from| {
            board.links.outgoing(from).iter().map(move |&(to, w)| (Reverse(w), from, to))
        })
        .filter(|&(weight, _, to)| weight.0 >= board.threshold && board.is_free(to))
        .collect();
    edges.sort_unstable();
    for (_, from, to) in edges {
        if board.is_free(from) && board.is_free(to) && board.both_fit(from, to) {
            board.grow(&[from, to]);
        }
    }
    // The rest has no neighbours left.
    for seed in seeds {
        if board.is_free(seed) {
            board.grow(&[seed]);
        }
    }
    board.order
}
