//! Figures for `status` and `report`.

use serde::{Deserialize, Serialize};

use crate::job::{Job, Tally};

/// The counts of a file system since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Pieces for which programs waited.
    pub misses: u64,
    /// Recognized runs.
    pub recognized: u64,
    /// Orders for reads.
    pub orders: u64,
    /// Pages that came from the disk for them, without short holes that were read along; with inodes
    /// and extents that were read to open their files.
    pub fetched: u64,
    /// Of these, pages that were used.
    pub used: u64,
    /// Pages that were not used when their run ended.
    pub vain: u64,
    /// Times that the guard allowed nothing.
    pub guarded: u64,
    /// The disk's time that was read in vain in the last hour, in milliseconds.
    pub vain_last_hour: u64,
}

/// A job in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobReport {
    /// Its number.
    pub id: u32,
    /// The program's name, if names are kept.
    pub name: String,
    /// Pieces of metadata.
    pub metadata_pieces: usize,
    /// Pieces of files.
    pub file_pieces: usize,
    /// Pages of both.
    pub pages: u64,
    /// Runs.
    pub runs: u32,
    /// Recognized runs.
    pub recognized: u32,
    /// Whole runs without fetching.
    pub plain: Tally,
    /// Whole runs with fetching.
    pub helped: Tally,
    /// Pages fetched.
    pub fetched: u64,
    /// Of these, pages that nobody used.
    pub vain: u64,
    /// Waits that reading ahead would have saved in a dry run: surely, and at most. Means over the
    /// last dry runs.
    pub would: (u64, u64),
    /// The job lost twice, or help made it slower: it is left alone for a while.
    pub rests: bool,
}

impl JobReport {
    pub(crate) fn of(job: &Job) -> Self {
        let metadata = job.pieces().iter().filter(|p| p.place.is_metadata()).count();
        Self {
            id: job.id,
            name: job.name.clone(),
            metadata_pieces: metadata,
            file_pieces: job.pieces().len() - metadata,
            pages: job.pages(),
            runs: job.runs,
            recognized: job.recognized,
            plain: job.plain,
            helped: job.helped,
            fetched: job.fetched,
            vain: job.vain,
            would: job.would,
            rests: job.rests(),
        }
    }
}
