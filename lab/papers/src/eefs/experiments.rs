//! The experiments: each made-up day, or a real trace of files, under each of the three systems.

use std::path::Path;

use seekless_block::Bytes;
use seekless_disk::catalogue;
use seekless_store::GroupConfig;
use seekless_trace::{FileEvent, FileOp, OpenOptions, Source};
use serde::Serialize;

use super::EefsOptions;
use super::claims::Rare;
use super::printed::{PAPER, Paper};
use super::replay::{
    FileFacts, FileOutcome, FileSystem, FilesError, FilesOptions, facts_of, run_files,
};
use crate::synth::{FILE_DAYS, FileDay, FilePlay};
use crate::{PaperError, Progress};

pub(super) const SYSTEMS: [(FileSystem, &str); 3] = [
    (FileSystem::Ffs, "FFS"),
    (FileSystem::FfsReadAhead, "FFS, read-ahead"),
    (FileSystem::Eefs, "EEFS"),
];

/// One trace under the three systems.
pub(super) struct Compared {
    pub(super) name: String,
    pub(super) paper: Option<&'static Paper>,
    pub(super) outcomes: Vec<FileOutcome>,
}

/// How each system is set up.
pub(super) fn options(asked: &EefsOptions) -> Result<FilesOptions, PaperError> {
    let scale = asked.scale;
    if !(0.001..=1.0).contains(&scale) {
        return Err(PaperError::Invalid(format!("a scale of {scale}: give one from 0.001 to 1")));
    }
    // A part of a made-up day has a part of the memory and of the interval.
    let cache = asked.cache.unwrap_or(Bytes((128.0 * scale * f64::from(1 << 20)) as u64));
    Ok(FilesOptions {
        disk: catalogue::get(&asked.disk)?,
        cache,
        store: Bytes(256 << 20),
        cluster: Bytes(65_536),
        shuffle_every: asked.shuffle.unwrap_or((100_000.0 * scale) as u64).max(1),
        groups: GroupConfig::default(),
        spin_down: asked.spin_down,
        sync: asked.sync,
    })
}

/// The made-up days under each system, or the real trace.
pub(super) fn compared(
    asked: &EefsOptions,
    options: &FilesOptions,
    progress: &Progress<'_>,
) -> Result<Vec<Compared>, PaperError> {
    if let Some(path) = &asked.trace {
        return Ok(vec![real(path, options)?]);
    }
    let days = FILE_DAYS.iter().zip(&PAPER);
    days.map(|(day, paper)| made_up(day, paper, asked, options, progress)).collect()
}

fn made_up(
    day: &FileDay,
    paper: &'static Paper,
    asked: &EefsOptions,
    options: &FilesOptions,
    progress: &Progress<'_>,
) -> Result<Compared, PaperError> {
    let part = part_of(day, asked.scale);
    let options = of_day(day, asked, options);
    let outcomes = outcomes(day, part, asked.seed, variant(asked), &options, &SYSTEMS, progress)?;
    Ok(Compared { name: day.name.to_owned(), paper: Some(paper), outcomes })
}

/// The settings for a made-up day.
fn of_day(day: &FileDay, asked: &EefsOptions, options: &FilesOptions) -> FilesOptions {
    let part = part_of(day, asked.scale);
    let cache = Bytes(asked.cache.map_or((128.0 * part * f64::from(1 << 20)) as u64, |c| c.0));
    let shuffle_every = asked.shuffle.unwrap_or((day.interval() as f64 * part) as u64).max(1);
    FilesOptions { cache, shuffle_every, ..options.clone() }
}

fn variant(asked: &EefsOptions) -> DayVariant {
    DayVariant { directories: asked.directories, truncate: asked.truncate }
}

/// Properties of a made-up day that Table 1 leaves open.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DayVariant {
    /// Files lie evenly in this many directories; `None` is the made-up directories.
    pub(super) directories: Option<u32>,
    /// A program that writes a file anew empties the file first.
    pub(super) truncate: bool,
}

/// A made-up day under each of these systems.
fn outcomes(
    day: &FileDay,
    part: f64,
    seed: u64,
    variant: DayVariant,
    options: &FilesOptions,
    systems: &[(FileSystem, &str)],
    progress: &Progress<'_>,
) -> Result<Vec<FileOutcome>, FilesError> {
    let mut outcomes = Vec::new();
    for &(system, _) in systems {
        let play = FilePlay::new(*day, part, seed);
        let files = play.files().iter().enumerate();
        let facts: Vec<FileFacts> = files
            .map(|(number, f)| {
                let directory =
                    variant.directories.map_or(f.directory, |n| evenly(number as u64, n));
                FileFacts { directory, size: f.size, existed: true }
            })
            .collect();
        let expected = play.expected();
        let mut count = 0;
        let watched = |event: FileEvent| {
            count += 1;
            if count % (1 << 14) == 0 {
                progress(day.name, count.min(expected), expected);
            }
            Ok(event)
        };
        let events = play.flat_map(|event| emptied(event, variant.truncate)).map(watched);
        outcomes.push(run_files(system, &facts, events, options)?);
    }
    Ok(outcomes)
}

/// An event, with `O_TRUNC`'s truncation before the first write of a file.
fn emptied(event: FileEvent, truncate: bool) -> impl Iterator<Item = FileEvent> {
    let first = truncate && event.op == FileOp::Write && event.offset == 0;
    let cut = first.then_some(FileEvent { op: FileOp::Truncate, len: 0, ..event });
    cut.into_iter().chain([event])
}

/// One of `n` directories; neighbouring numbers get different ones: Fibonacci hashing (Knuth,
/// volume 3, 6.4).
const fn evenly(number: u64, n: u32) -> u32 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((mixed * n as u64) >> 32) as u32
}

/// Groups of INS and RES with the longer interval of Table 2, five times the first. Nothing for a
/// real trace, or if the interval is given.
pub(super) fn rare(
    asked: &EefsOptions,
    options: &FilesOptions,
    progress: &Progress<'_>,
) -> Result<Option<Rare>, PaperError> {
    if asked.trace.is_some() || asked.shuffle.is_some() {
        return Ok(None);
    }
    let mut rare = Rare::default();
    for (day, grouping) in FILE_DAYS.iter().zip(&mut rare) {
        let often = of_day(day, asked, options);
        let options = FilesOptions { shuffle_every: 5 * often.shuffle_every, ..often };
        let part = part_of(day, asked.scale);
        let eefs = &SYSTEMS[2..];
        let done = outcomes(day, part, asked.seed, variant(asked), &options, eefs, progress)?;
        *grouping = done.first().and_then(|o| o.grouping).unwrap_or_default();
    }
    Ok(Some(rare))
}

/// EEFS's effect on a day in one setting.
#[derive(Debug, Serialize)]
pub(super) struct Sensitivity {
    pub(super) day: &'static str,
    /// Directories of all files; `None` is the made-up ones.
    pub(super) directories: Option<u32>,
    pub(super) memory_bytes: u64,
    /// A program that writes a file anew empties the file first.
    pub(super) truncate: bool,
    /// FFS delays no write.
    pub(super) sync: bool,
    /// Requests of the disk under FFS; below, EEFS's requests as a multiple of FFS's, without and
    /// with read-ahead.
    pub(super) ffs_requests: u64,
    pub(super) of_ffs: f64,
    pub(super) of_read_ahead: f64,
    /// EEFS's energy as a multiple of FFS's: of the disk at work, and in all.
    pub(super) energy_at_work: f64,
    pub(super) energy: f64,
    /// FFS's hit rate.
    pub(super) hits: f64,
}

/// INS and RES, the days with printed numbers of requests.
pub(super) const SENSITIVE: usize = 2;

/// EEFS's effect on INS and RES in each setting; empty unless asked for.
pub(super) fn sensitivity(
    asked: &EefsOptions,
    options: &FilesOptions,
    progress: &Progress<'_>,
) -> Result<Vec<Sensitivity>, PaperError> {
    let mut all = Vec::new();
    if !asked.sensitivity {
        return Ok(all);
    }
    for day in &FILE_DAYS[..SENSITIVE] {
        let part = part_of(day, asked.scale);
        let spread = |n: f64| Some((n * part).ceil() as u32);
        let mut settings = Vec::new();
        for directories in [None, spread(30.0), spread(100.0), spread(300.0), spread(1_000.0)] {
            settings.extend([1.0, 8.0, 32.0].map(|share| (directories, share, false, false)));
        }
        for directories in [None, spread(100.0), spread(1_000.0)] {
            let ways = [(true, false), (false, true), (true, true)];
            settings.extend(ways.map(|(truncate, sync)| (directories, 1.0, truncate, sync)));
        }
        for (directories, share, truncate, sync) in settings {
            let cache = Bytes((128.0 * part * f64::from(1 << 20) / share) as u64);
            let shuffle_every =
                asked.shuffle.unwrap_or((day.interval() as f64 * part) as u64).max(1);
            let options = FilesOptions { cache, shuffle_every, sync, ..options.clone() };
            let variant = DayVariant { directories, truncate };
            let o = outcomes(day, part, asked.seed, variant, &options, &SYSTEMS, progress)?;
            let requests = |o: &FileOutcome| (o.disk_reads + o.disk_writes).max(1);
            let ratio = |i: usize| requests(&o[2]) as f64 / requests(&o[i]) as f64;
            all.push(Sensitivity {
                day: day.name,
                directories,
                memory_bytes: cache.0,
                truncate,
                sync,
                ffs_requests: requests(&o[0]),
                of_ffs: ratio(0),
                of_read_ahead: ratio(1),
                energy_at_work: at_work(&o[2]) / at_work(&o[0]),
                energy: o[2].energy.total / o[0].energy.total,
                hits: o[0].hits,
            });
        }
    }
    Ok(all)
}

pub(super) fn at_work(o: &FileOutcome) -> f64 {
    let e = o.energy;
    e.read + e.write + e.rotation + e.seek
}

/// The part of a day to run; the light day is short.
pub(super) fn part_of(day: &FileDay, scale: f64) -> f64 {
    if day.requests < 1_000_000 { scale.max(0.2) } else { scale }
}

fn real(path: &Path, options: &FilesOptions) -> Result<Compared, PaperError> {
    let source = Source::new(path);
    let open = || source.open_files(&OpenOptions::default());
    let facts = facts_of(&mut open()?)?;
    let of = |(system, _)| {
        run_files(system, &facts, open()?, options).map_err(|source| PaperError::InTrace {
            path: path.to_owned(),
            source: Box::new(source.into()),
        })
    };
    let outcomes = SYSTEMS.map(of).into_iter().collect::<Result<_, PaperError>>()?;
    Ok(Compared { name: path.display().to_string(), paper: None, outcomes })
}
