//! The layout of a store: two superblocks, two checkpoints, the log, the clusters.

use seekless_block::{Extent, PAGE_BYTES, PAGE_SECTORS, SECTOR_BYTES, Sectors};

use super::{
    BODY_BYTES, FormatError, RECORD_BYTES_MAX, Superblock, check, file_bytes, group_bytes,
};
use crate::{FILE_BYTES_MAX, GROUP_FILES_MAX, NAME_BYTES_MAX};

/// Pages of the smallest log: a quarter of it has space for the records of any single group.
pub(crate) const LOG_PAGES_MIN: u32 = 128;
/// A checkpoint has fewer pages than this.
const CHECKPOINT_PAGES_END: u64 = 1 << 28;
/// Clusters of the smallest store.
const CLUSTERS_MIN: u32 = 4;
/// Bytes of records reserved for each cluster. The paper's mean file has about 10 KiB. The entry of
/// a file, with its name and its slot, takes about 110 bytes.
const TABLE_BYTES_PER_CLUSTER: u64 = 1_600;

/// The layout of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size of a cluster.
    pub cluster: Sectors,
    /// Number of clusters.
    pub clusters: u32,
    /// Pages of each checkpoint, fewer than 2^28.
    pub checkpoint_pages: u32,
    /// Pages of the log.
    pub log_pages: u32,
}

/// An impossible layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum GeometryError {
    #[error("clusters of {0} bytes: expected 65536 (64 KiB) or 131072 (128 KiB)")]
    Cluster(u64),
    #[error("a store of {found} bytes is too small: give it {needed}")]
    Small { found: u64, needed: u64 },
    #[error(
        "a store of {0} bytes is too large: it has fewer than 2^31 clusters, and 2^28 pages in a checkpoint"
    )]
    Large(u64),
}

impl Geometry {
    /// The layout of a store of `capacity` with clusters of `cluster` bytes.
    ///
    /// # Errors
    /// The capacity is too small, or the cluster size is not supported.
    pub fn fit(capacity: Sectors, cluster: u64) -> Result<Self, GeometryError> {
        if ![65_536, 131_072].contains(&cluster) {
            return Err(GeometryError::Cluster(cluster));
        }
        let cluster = Sectors(cluster / SECTOR_BYTES);
        let all = capacity.0 / cluster.0;
        if all >= 1 << 31 {
            return Err(GeometryError::Large(capacity.bytes().0));
        }
        let table = all * TABLE_BYTES_PER_CLUSTER * (cluster.0 / 128);
        let checkpoint_pages = (1 + table.div_ceil(Self::page_holds() as u64)).max(4);
        if checkpoint_pages >= CHECKPOINT_PAGES_END {
            return Err(GeometryError::Large(capacity.bytes().0));
        }
        let checkpoint_pages = checkpoint_pages as u32;
        // A log of this length writes about as many bytes as the checkpoint that empties it.
        let log_pages = checkpoint_pages.clamp(LOG_PAGES_MIN, 1 << 14);
        let mut geometry = Self { cluster, clusters: 0, checkpoint_pages, log_pages };
        let left = capacity.0.saturating_sub(geometry.clusters_at().0);
        geometry.clusters = (left / cluster.0) as u32;
        if geometry.clusters >= CLUSTERS_MIN {
            return Ok(geometry);
        }
        // The tables grow slowly with the store: twice the least clusters are enough, and little
        // more than needed.
        let needed =
            (geometry.clusters_at().0 + 2 * u64::from(CLUSTERS_MIN) * cluster.0) * SECTOR_BYTES;
        Err(GeometryError::Small { found: capacity.bytes().0, needed })
    }

    /// Of a superblock.
    pub(super) fn of(s: &Superblock) -> Result<Self, FormatError> {
        let Superblock { cluster, clusters, checkpoint_pages, log_pages, .. } = *s;
        let sizes = [128, 256].contains(&cluster.0);
        check(sizes, "superblock.cluster", cluster.0, "128 or 256 sectors")?;
        let count = (4..1 << 31).contains(&clusters);
        check(count, "superblock.clusters", clusters, "4 to 2^31 - 1")?;
        let pages = (4..CHECKPOINT_PAGES_END).contains(&u64::from(checkpoint_pages));
        check(pages, "superblock.checkpoint_pages", checkpoint_pages, "4 to 2^28 - 1")?;
        let log = (LOG_PAGES_MIN..=1 << 20).contains(&log_pages);
        check(log, "superblock.log_pages", log_pages, "128 to 2^20")?;
        let geometry = Self { cluster, clusters, checkpoint_pages, log_pages };
        let fits = geometry.end().0 <= s.capacity.0;
        check(fits, "superblock.capacity", s.capacity.0, "no less than all its parts")?;
        Ok(geometry)
    }

    /// Bytes of records that fit into each page of a checkpoint in any order.
    pub(crate) const fn page_holds() -> usize {
        BODY_BYTES - RECORD_BYTES_MAX
    }

    /// Bytes of records that fit into a checkpoint.
    pub(crate) const fn table_bytes_max(&self) -> u64 {
        (self.checkpoint_pages as u64 - 1) * Self::page_holds() as u64
    }

    /// Bytes of a cluster.
    pub const fn cluster_bytes(&self) -> u32 {
        (self.cluster.0 * SECTOR_BYTES) as u32
    }

    /// Number of clusters for this many bytes.
    pub(crate) const fn clusters_for(&self, bytes: u32) -> u32 {
        let clusters = bytes.div_ceil(self.cluster_bytes());
        if clusters == 0 { 1 } else { clusters }
    }

    /// Page of the header of the checkpoint with this generation. There are two places: for even
    /// and for odd generations.
    pub const fn checkpoint_at(&self, generation: u64) -> u64 {
        2 + (generation & 1) * self.checkpoint_pages as u64
    }

    /// First page of the log.
    pub const fn log_at(&self) -> u64 {
        2 + 2 * self.checkpoint_pages as u64
    }

    /// First sector of the clusters, a multiple of the cluster size.
    pub const fn clusters_at(&self) -> Sectors {
        let pages = self.log_at() + self.log_pages as u64;
        Sectors((pages * PAGE_SECTORS).next_multiple_of(self.cluster.0))
    }

    /// The sector after the last cluster.
    pub const fn end(&self) -> Sectors {
        Sectors(self.clusters_at().0 + self.clusters as u64 * self.cluster.0)
    }

    /// The extent of the first `bytes` bytes of a cluster, in whole pages.
    pub(crate) const fn group_extent(&self, cluster: u32, bytes: u32) -> Extent {
        let start = self.clusters_at().0 + cluster as u64 * self.cluster.0;
        let pages = (bytes as u64).div_ceil(PAGE_BYTES);
        Extent::new(start, if pages == 0 { PAGE_SECTORS } else { pages * PAGE_SECTORS })
    }

    /// Pages of the store, in sectors.
    pub const fn pages(page: u64, pages: u64) -> Extent {
        Extent::new(page * PAGE_SECTORS, pages * PAGE_SECTORS)
    }
}

// The largest commit of one group: each of its files in a group of its own.
const _: () = assert!(
    GROUP_FILES_MAX * (file_bytes(NAME_BYTES_MAX) + group_bytes(1))
        < (LOG_PAGES_MIN as usize / 4 - 1) * Geometry::page_holds()
);
// Every file fits into one cluster: a group can always be taken apart into single ones.
const _: () = assert!(FILE_BYTES_MAX <= 65_536);
