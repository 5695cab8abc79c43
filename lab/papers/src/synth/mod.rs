//! Made-up traces: a week of requests with the statistics that a paper prints of its own trace,
//! which nobody can obtain. The numbers are in `weeks`, the types here.
//! Everything is drawn from a seed: the same personality, scale and seed give the same trace.
//! docs/lab/synth.md lists the matched and the invented parts. Requests come from a [`Source`] like
//! any others.

mod clock;
mod dice;
mod eefs;
mod file_days;
mod fs2;
mod matched;
mod play;
mod population;
mod start_up;
mod strace;
mod weeks;

use std::sync::Arc;

use seekless_block::Bytes;
use seekless_trace::{Generated, Source};

pub(crate) use eefs::FilePlay;
pub use file_days::{FILE_DAYS, FileDay};
pub(crate) use fs2::{Fs2Load, Fs2World, Paced};
pub use matched::{Matched, counted, matched};
pub(crate) use start_up::{StartUp, start_up};
pub use strace::{WrittenDay, write_strace};
pub use weeks::PERSONALITIES;

/// A gigabyte of the paper's tables, taken for 2^30 bytes.
const GB: f64 = (1u64 << 30) as f64;

/// The printed numbers of a trace: BORG's Table 1 (FAST'09). Sizes in GB, shares from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// Size of the file system.
    pub size_gb: f64,
    /// Bytes read; repetitions count.
    pub read_gb: f64,
    /// Bytes read; each byte counts once.
    pub unique_read_gb: f64,
    /// Bytes written; repetitions count.
    pub written_gb: f64,
    /// Bytes written; each byte counts once.
    pub unique_written_gb: f64,
    /// Share of the file system that was accessed.
    pub accessed: f64,
    /// Share of the accesses to the 20% most accessed pages of all accessed pages.
    pub top20: f64,
    /// Share of the non-sequential accesses that repeat at least once.
    pub determinism: f64,
}

/// The reads of a personality, or its writes. Pages are read and written in *tasks*: extents in the
/// same order at every run of the task.
#[derive(Clone, Copy, Debug)]
struct Side {
    /// Share of the pages in tasks with more than one run.
    again: f64,
    /// Share of single pages: directories, inodes, bitmaps. They are the most popular.
    single: f64,
    /// Mean pages of an extent in a task with more than one run.
    again_pages: f64,
    /// Mean pages of an extent with one request.
    once_pages: f64,
    /// Mean extents of a task.
    steps: f64,
    /// Share of the tasks that run all week; the others live for `hours`.
    steady: f64,
    /// Lifetime of the other tasks, in hours of activity.
    hours: f64,
    /// Mean milliseconds from one extent of a task to the next.
    think_ms: f64,
    /// Programs that run the tasks.
    programs: &'static [&'static str],
}

/// The file system's journal, written cyclically: a commit after every run of a writing task.
#[derive(Clone, Copy, Debug)]
struct Journal {
    pages: u64,
    /// Its share of the pages written.
    share: f64,
}

/// A kind of week. All other numbers are derived from the printed ones.
#[derive(Debug)]
pub struct Personality {
    /// The name on the command line.
    pub name: &'static str,
    /// The users of the week.
    pub title: &'static str,
    /// The source of its numbers; `None` if the numbers are ours.
    pub printed_in: Option<&'static str>,
    /// The target numbers of the trace.
    pub printed: Printed,
    reads: Side,
    writes: Side,
    journal: Journal,
    /// Extents of a directory, which lie together on the disk.
    directory: u32,
    /// Share of the extents at other places.
    scattered: f64,
    /// Activity by hour of the day.
    hours: [u8; 24],
    /// Activity by day, the first a Monday.
    days: [u8; 7],
}

/// A personality at a scale, from a seed.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    /// The personality.
    pub personality: &'static Personality,
    /// Size of the file system and of all requests, as a multiple of the printed sizes. The week
    /// stays a week.
    pub scale: f64,
    /// Seed of all draws.
    pub seed: u64,
}

impl Synthetic {
    /// The least and the greatest scale.
    const SCALES: [f64; 2] = [0.001, 16.0];

    /// The default seed.
    pub const SEED: u64 = 1;

    /// The personality of this name, at this scale.
    ///
    /// # Errors
    /// A text if there is no personality of this name, or the scale is not within 0.001 to 16.
    pub fn new(name: &str, scale: f64, seed: u64) -> Result<Self, String> {
        let Some(personality) = PERSONALITIES.into_iter().find(|p| p.name == name) else {
            let names = PERSONALITIES.map(|p| p.name).join(", ");
            return Err(format!("'{name}' is no personality; there are {names}"));
        };
        let [least, most] = Self::SCALES;
        if !(least..=most).contains(&scale) {
            return Err(format!("a scale of {scale}: give one from {least} to {most}"));
        }
        Ok(Self { personality, scale, seed })
    }

    /// The week as a trace: the same requests each time it is opened.
    pub fn source(self) -> Source {
        let week = move || -> Box<dyn Generated> { Box::new(play::Play::new(&self)) };
        Source::generated(self.personality.name, Arc::new(week))
    }

    /// Size of the file system, whole pages.
    pub fn size(&self) -> Bytes {
        Bytes(self.pages(self.personality.printed.size_gb) * seekless_block::PAGE_BYTES)
    }

    /// Pages of this many printed gigabytes.
    fn pages(&self, gb: f64) -> u64 {
        (gb * self.scale * GB / seekless_block::PAGE_BYTES as f64).round() as u64
    }
}
