//! "The placement can begin with the nodes connected to the highest weight edge, and then resorting
//! to the same incremental addition of vertices" (BORG, FAST'09, 7).

use super::Board;

pub(super) fn order(mut board: Board<'_>) -> Vec<u32> {
    let seeds = board.by_degree();
    for (_, from, to) in board.edges(&seeds) {
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
