//! The experiments: each made-up day, or a real trace of files, under each of the three systems.

use std::path::Path;

use seekless_block::Bytes;
use seekless_disk::catalogue;
use seekless_store::GroupConfig;
use seekless_trace::{FileEvent, FileOp, OpenOptions, Source};
use serde::Serialize;

use super::EefsOptions;
use super::claims::LongIntervalGroupings;
use super::printed::{PAPER, Paper};
use super::replay::{
    FileFacts, FileOutcome, FileSystem, FilesOptions, Simulated, facts_of, run_files,
};
use crate::synth::{FILE_DAYS, FileDay, FilePlay};
use crate::{PaperError, Progress};

pub(super) const SYSTEMS: [(FileSystem, &str); 3] = [
    (FileSystem::Ffs, "FFS"),
    (FileSystem::FfsReadAhead, "FFS, read-ahead"),
    (FileSystem::Eefs, "EEFS"),
];

const MB: f64 = (1u64 << 20) as f64;
/// Inodes that the fast file system keeps in memory on a whole day. From 256 to 4,096, the requests
/// of FFS change by 2%.
const INODES: f64 = 1_024.0;

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
    let cache = asked.cache.unwrap_or(Bytes((128.0 * MB * scale) as u64));
    Ok(FilesOptions {
        disk: catalogue::get(&asked.disk)?,
        cache,
        inodes: INODES as usize,
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
    let days = days(asked);
    let days = days.iter().zip(&PAPER);
    days.map(|(day, paper)| made_up(day, paper, asked, options, progress)).collect()
}

fn made_up(
    day: &FileDay,
    paper: &'static Paper,
    asked: &EefsOptions,
    options: &FilesOptions,
    progress: &Progress<'_>,
) -> Result<Compared, PaperError> {
    let options = of_day(day, asked, options);
    let outcomes = outcomes(day, asked, asked.truncate, &options, &SYSTEMS, progress)?;
    Ok(Compared { name: day.name.to_owned(), paper: Some(paper), outcomes })
}

/// The days, with the directories asked for.
fn days(asked: &EefsOptions) -> [FileDay; 4] {
    FILE_DAYS.map(|day| day.in_directories(asked.directories.unwrap_or(day.directories)))
}

/// The settings for a made-up day. A part of a day has a part of the memory and of the interval, but
/// enough memory for some groups.
fn of_day(day: &FileDay, asked: &EefsOptions, options: &FilesOptions) -> FilesOptions {
    let part = part_of(day, asked.scale);
    let cache = asked.cache.unwrap_or(Bytes(((day.memory_mb * part).max(1.0) * MB) as u64));
    let inodes = (INODES * part).ceil() as usize;
    let shuffle_every = asked.shuffle.unwrap_or((day.interval() as f64 * part) as u64).max(1);
    FilesOptions { cache, inodes, shuffle_every, ..options.clone() }
}

/// A made-up day under each of these systems.
fn outcomes(
    day: &FileDay,
    asked: &EefsOptions,
    truncate: bool,
    options: &FilesOptions,
    systems: &[(FileSystem, &str)],
    progress: &Progress<'_>,
) -> Simulated<Vec<FileOutcome>> {
    let mut outcomes = Vec::new();
    for &(system, _) in systems {
        let play = FilePlay::new(*day, part_of(day, asked.scale), asked.seed);
        let facts: Vec<FileFacts> = play
            .files()
            .iter()
            .map(|f| FileFacts { directory: f.directory, size: f.size, existed: true })
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
        let events = play.flat_map(|event| emptied(event, truncate)).map(watched);
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

/// Groups of INS and RES with the longer interval of Table 2, five times the first. Nothing for a
/// real trace, or if the interval is given.
pub(super) fn rare(
    asked: &EefsOptions,
    options: &FilesOptions,
    progress: &Progress<'_>,
) -> Result<Option<LongIntervalGroupings>, PaperError> {
    if asked.trace.is_some() || asked.shuffle.is_some() {
        return Ok(None);
    }
    let mut rare = LongIntervalGroupings::default();
    for (day, grouping) in days(asked).iter().zip(&mut rare) {
        let often = of_day(day, asked, options);
        let options = FilesOptions { shuffle_every: 5 * often.shuffle_every, ..often };
        let done = outcomes(day, asked, asked.truncate, &options, &SYSTEMS[2..], progress)?;
        *grouping = done.first().and_then(|o| o.grouping).unwrap_or_default();
    }
    Ok(Some(rare))
}

/// EEFS's effect on a day in one setting.
#[derive(Debug, Serialize)]
pub(super) struct Sensitivity {
    pub(super) day: &'static str,
    /// Directories of all files.
    pub(super) directories: u32,
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
        let fitted = of_day(day, asked, options);
        let mut settings = Vec::new();
        for directories in [10, 30, 100, 300, 1_000, day.directories] {
            settings.extend([16, 4, 1].map(|times| (directories, times, false, false)));
        }
        for directories in [10, 100, day.directories] {
            let ways = [(true, false), (false, true), (true, true)];
            settings.extend(ways.map(|(truncate, sync)| (directories, 1, truncate, sync)));
        }
        for (directories, times, truncate, sync) in settings {
            let cache = Bytes(fitted.cache.0 * times);
            let options = FilesOptions { cache, sync, ..fitted.clone() };
            let o = outcomes(
                &day.in_directories(directories),
                asked,
                truncate,
                &options,
                &SYSTEMS,
                progress,
            )?;
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

#[cfg(test)]
mod tests {
    use seekless_disk::SpinDown;

    use super::*;

    /// Nothing here runs with groups.
    #[test]
    fn ffs_alone_comes_near_the_printed_numbers() {
        if std::env::var_os("SEEKLESS_LONG").is_none() {
            eprintln!("SKIPPED whole days under FFS: set SEEKLESS_LONG=1");
            return;
        }
        let asked = EefsOptions {
            scale: 1.0,
            seed: 1,
            trace: None,
            cache: None,
            directories: None,
            sensitivity: false,
            shuffle: None,
            spin_down: SpinDown::None,
            disk: "toshiba-pccard".to_owned(),
            sync: false,
            truncate: false,
        };
        let base = options(&asked).unwrap();
        for (day, paper) in days(&asked).iter().zip(&PAPER) {
            let settings = of_day(day, &asked, &base);
            let ffs =
                &outcomes(day, &asked, false, &settings, &SYSTEMS[..1], &|_, _, _| {}).unwrap()[0];
            let near = |what: &str, found: f64, printed: f64, reach: f64| {
                let off = (found - printed).abs();
                assert!(off <= reach, "{}: {what}: {found}, printed {printed}", day.name);
            };
            let printed = paper.requests[0] as f64;
            let requests = (ffs.disk_reads + ffs.disk_writes) as f64;
            near("requests", requests, printed, 0.15 * printed);
            near("busy share", ffs.busy, paper.busy(), 0.02);
            if let Some(hits) = paper.hits {
                near("hits", ffs.hits, hits[0] / 100.0, 0.05);
                near("hits of names", ffs.name_hits, 0.7, 0.02);
            }
        }
    }
}
