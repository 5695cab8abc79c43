//! Placement of extents that are used together: BORG's strategy and the alternatives that BORG
//! names (FAST'09, 4.3 and 7), one a file; and strategies by temperature alone, all in [`heat`].
//! All see the same access graph and fill the optimized area from its start.

mod grow;
mod heat;
mod heaviest_edge;
mod links;
mod many_starts;
mod most_connected;

use seekless_block::{Bytes, Extent, Lba, Sectors, named};

use crate::graph::ACCESS;
use crate::{AccessGraph, Copy, Pages, Plan, Planning, Vertex};
use grow::Board;
pub(crate) use links::Links;

/// The order of vertices in the area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// From the most connected vertex on, always the vertex most connected to the placed ones:
    /// BORG's (4.3).
    #[default]
    MostConnected,
    /// The same, from the two ends of the heaviest edge on (7).
    HeaviestEdge,
    /// Every vertex is a starting point: chains are joined over the heaviest edges first (7).
    ManyStarts,
    /// By temperature: the hottest extent in the middle, the others outwards (the clustering paper,
    /// section 4).
    OrganPipe,
    /// The same in buckets that double in size from the middle outwards, each in order of address
    /// (equation 8).
    Buckets,
    /// The same with the hottest 8% of all sectors ever read (equation 9).
    Lazy,
    /// The same with whole megabytes, as disks shuffled their cylinders.
    CylinderShuffle,
    /// The same with pieces of 8 KiB, each by itself.
    BlockShuffle,
    /// The hottest extent first, from the start of the area on: for an area whose start is its
    /// fastest part.
    HottestFirst,
}

impl Strategy {
    /// Whether the strategy uses only the temperature, and no order of accesses.
    pub(crate) const fn is_by_heat(self) -> bool {
        !matches!(self, Self::MostConnected | Self::HeaviestEdge | Self::ManyStarts)
    }
}

named!(Strategy:
    MostConnected = "most-connected",
    HeaviestEdge = "heaviest-edge",
    ManyStarts = "many-starts",
    OrganPipe = "organ-pipe",
    Buckets = "buckets",
    Lazy = "lazy",
    CylinderShuffle = "cylinder-shuffle",
    BlockShuffle = "block-shuffle",
    HottestFirst = "hottest-first",
);

/// The limits of a planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanConfig {
    /// Capacity for copies in the optimized area.
    pub area: Sectors,
    /// A vertex joins a group only over edges with at least this many accesses: BORG's threshold. 0
    /// takes every vertex that is not forgotten.
    pub min_weight: u32,
    /// Which vertex comes next.
    pub strategy: Strategy,
    /// The use of the plan in force.
    pub planning: Planning,
    /// The data of one access.
    pub reach: Reach,
}

/// The data that one access to a disk brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The length of a read of home.
    pub read_ahead: Sectors,
    /// The length of a read of a copy, aligned; at least one sector.
    pub cluster: Sectors,
    /// The data transferred in the time of a short seek and half a turn.
    pub transfer: Sectors,
}

impl Reach {
    /// With an engine's read-ahead and cluster, on a disk of 7,200 turns a minute. Half a turn and
    /// a short seek take 5 ms. In this time a slow disk of 50 MB/s transfers 256 KiB.
    pub fn new(read_ahead: Bytes, cluster: Bytes) -> Self {
        Self {
            read_ahead: read_ahead.sectors_ceil(),
            cluster: cluster.sectors_ceil().max(Sectors(1)),
            transfer: Sectors(512),
        }
    }
}

/// Plans copies of extents that `graph` saw read together. Vertices with at least as many writes as
/// reads get none: writes would void their copies before they paid.
pub fn plan(graph: &AccessGraph, config: &PlanConfig) -> Plan {
    let (vertices, edges) = graph.snapshot();
    if config.strategy.is_by_heat() {
        return lay(heat::order(&vertices, graph.pages(), config).into_iter().map(|u| u.extent));
    }
    let links = Links::new(vertices.len(), &edges);
    drop(edges); // as large as the links
    let order = order(&vertices, &links, config);
    lay(order.into_iter().map(|v| vertices[v as usize].extent))
}

/// The vertices that get a copy, in order of place.
pub(crate) fn order(vertices: &[Vertex], links: &Links, config: &PlanConfig) -> Vec<u32> {
    let threshold = config.min_weight.saturating_mul(ACCESS).max(1);
    let board = Board::new(vertices, links, config.area, threshold);
    match config.strategy {
        Strategy::MostConnected => most_connected::order(board),
        Strategy::HeaviestEdge => heaviest_edge::order(board),
        Strategy::ManyStarts => many_starts::order(board),
        // Revised plans have whole vertices.
        by_heat => {
            let whole = match by_heat {
                Strategy::CylinderShuffle | Strategy::BlockShuffle => Strategy::OrganPipe,
                other => other,
            };
            let config = PlanConfig { strategy: whole, ..*config };
            let all = Pages::new(Sectors(0), Sectors(u64::MAX));
            heat::order(vertices, all, &config).into_iter().map(|u| u.vertex).collect()
        }
    }
}

/// Copies side by side from the start of the area.
fn lay(homes: impl Iterator<Item = Extent>) -> Plan {
    let mut place = Lba(0);
    let copies = homes.map(|home| {
        let copy = Copy { home, place };
        place = place + home.len;
        copy
    });
    Plan { copies: copies.collect() }
}

#[cfg(test)]
mod tests;
