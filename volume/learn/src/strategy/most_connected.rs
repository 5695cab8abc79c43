//! BORG's own strategy (FAST'09, 4.3): first the vertex with the highest total weight of edges,
//! then the vertex most connected to it, and so on. Each component of the graph becomes a group of
//! its own.

use super::Board;

pub(super) fn order(mut board: Board<'_>) -> Vec<u32> {
    for seed in board.by_degree() {
        if board.is_free(seed) {
            board.grow(&[seed]);
        }
    }
    board.order
}
