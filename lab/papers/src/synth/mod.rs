//! Made-up traces: a week of requests whose statistics are those that a paper prints of its own, which nobody
//! can have any more. One file a personality, data alone; what they share is here. Everything is drawn from a
//! seed: the same personality, scale and seed give the same trace. What is matched and what is invented is
//! told in docs/lab/synth.md. It knows no file: requests come out of a [`Source`] like any others.

mod borg_developer;
mod borg_office;
mod borg_svn;
mod borg_vmm;
mod borg_web;
mod clock;
mod dice;
mod eefs;
mod fs2;
mod matched;
mod play;
mod population;
mod start_up;
mod strace;

use std::sync::Arc;

use seekless_block::Bytes;
use seekless_trace::{Generated, Source};

pub use eefs::{FILE_DAYS, FileDay, FilePlay, MadeFile};
pub use fs2::{Fs2Load, Fs2World, Paced};
pub use matched::{Matched, counted, matched};
pub use start_up::{StartUp, start_up};
pub use strace::{WrittenDay, write_strace};

/// A gigabyte of the paper's tables, taken for 2^30 bytes.
const GB: f64 = (1u64 << 30) as f64;

/// The personalities there are.
pub const PERSONALITIES: [&Personality; 5] = [
    &borg_office::PERSONALITY,
    &borg_developer::PERSONALITY,
    &borg_svn::PERSONALITY,
    &borg_web::PERSONALITY,
    &borg_vmm::PERSONALITY,
];

/// What a paper prints of a trace: BORG's Table 1 (FAST'09). Sizes in GB, shares between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// Size of the file system.
    pub size_gb: f64,
    /// Bytes read, each time counted.
    pub read_gb: f64,
    /// Bytes read, each once.
    pub unique_read_gb: f64,
    /// Bytes written, each time counted.
    pub written_gb: f64,
    /// Bytes written, each once.
    pub unique_written_gb: f64,
    /// Share of the file system that was accessed.
    pub accessed: f64,
    /// Share of the accesses that goes to the 20% of the accessed pages with most of them.
    pub top20: f64,
    /// Share of the non-sequential accesses that repeat at least once.
    pub determinism: f64,
}

/// One side of a personality, its reads or its writes. Pages are read and written in *tasks*: extents that are
/// asked for one after the other, in the same order every time the task is run.
#[derive(Clone, Copy, Debug)]
struct Side {
    /// Share of the pages in tasks that are run more than once.
    again: f64,
    /// Share of the pages that stand alone: directories, inodes, bitmaps. They are the most popular.
    single: f64,
    /// Mean pages of an extent of a task that is run again.
    again_pages: f64,
    /// Mean pages of an extent that is asked for once.
    once_pages: f64,
    /// Mean extents of a task.
    steps: f64,
    /// Share of the tasks that are run all week; the others live for `hours`.
    steady: f64,
    /// Hours of activity that a passing task lives.
    hours: f64,
    /// Mean milliseconds from one extent of a task to the next.
    think_ms: f64,
    /// Who runs the tasks.
    programs: &'static [&'static str],
}

/// The file system's journal: written round and round, a commit after every run of a task that writes.
#[derive(Clone, Copy, Debug)]
struct Journal {
    /// Its length.
    pages: u64,
    /// Its share of the pages written.
    share: f64,
}

/// A kind of week. What its fields do not say is derived from what the paper printed.
#[derive(Debug)]
pub struct Personality {
    /// As on the command line.
    pub name: &'static str,
    /// What it stands for.
    pub title: &'static str,
    /// Where its numbers are printed; `None` where they are nobody's but ours.
    pub printed_in: Option<&'static str>,
    /// What the trace is made to match.
    pub printed: Printed,
    reads: Side,
    writes: Side,
    journal: Journal,
    /// Extents that lie together on the disk.
    directory: u32,
    /// Share of the extents that lie anywhere else instead.
    scattered: f64,
    /// Activity by hour of the day.
    hours: [u8; 24],
    /// Activity by day, the first a Monday.
    days: [u8; 7],
}

/// A personality, how much of it, and which throw of the dice.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic {
    /// Which.
    pub personality: &'static Personality,
    /// Size of the file system and of what is asked of it, as a multiple of what is printed. The week stays a week.
    pub scale: f64,
    /// Seed of all that is drawn.
    pub seed: u64,
}

impl Synthetic {
    /// The least and the greatest scale.
    pub const SCALES: [f64; 2] = [0.001, 16.0];

    /// The seed where none is given.
    pub const SEED: u64 = 1;

    /// The personality of this name, at this scale.
    ///
    /// # Errors
    /// In words, where there is none of this name, or the scale is out of [`Self::SCALES`].
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
    #[must_use]
    pub fn source(self) -> Source {
        let week = move || -> Box<dyn Generated> { Box::new(play::Play::new(&self)) };
        Source::generated(self.personality.name, Arc::new(week))
    }

    /// Size of the file system, whole pages.
    #[must_use]
    pub fn size(&self) -> Bytes {
        Bytes(self.pages(self.personality.printed.size_gb) * seekless_block::PAGE_BYTES)
    }

    /// Pages of so many printed gigabytes.
    fn pages(&self, gb: f64) -> u64 {
        (gb * self.scale * GB / seekless_block::PAGE_BYTES as f64).round() as u64
    }
}
