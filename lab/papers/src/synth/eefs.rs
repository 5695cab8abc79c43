//! Made-up days of file requests with the sums of EEFS's Table 1: programs look at a set of files
//! repeatedly, read them, and write some. Everything is drawn from a seed. docs/lab/synth.md lists
//! the matched and the invented parts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seekless_block::{SimTime, StreamId};
use slab::Slab;

use super::dice::Dice;
use super::file_days::FileDay;
use seekless_trace::{FileEvent, FileOp};

const MB: f64 = (1u64 << 20) as f64;
/// An hour in nanoseconds.
const HOUR: f64 = 3_600e9;
/// Bytes of one read or write.
const CHUNK: u64 = 8_192;
/// Small files are below this size.
const SMALL: u64 = 16_384;

/// Activity in each of 24 equal parts of a day. Our numbers.
const ACTIVITY: [u8; 24] =
    [2, 1, 1, 1, 1, 1, 1, 2, 5, 9, 10, 10, 8, 9, 10, 10, 10, 9, 7, 6, 6, 5, 4, 3];

/// Share of opens by programs with several files: EEFS's groups cover "70% to 89% of all file
/// accesses".
const GROUPED: f64 = 0.8;

/// A file of a made-up day; it exists when the day begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MadeFile {
    /// Its directory, numbered from 0.
    pub directory: u32,
    /// Its size in bytes; constant.
    pub size: u64,
}

impl MadeFile {
    pub(crate) fn path(&self, file: u32) -> String {
        format!("/made/d{}/f{file}", self.directory)
    }
}

/// The files of a task that a run uses: neighbours in its list, whose end leads to its start.
#[derive(Clone, Copy, Debug, Default)]
struct TaskPart {
    first: usize,
    files: usize,
}

/// A program's part of its list until a time in nanoseconds: someone works on the same files for
/// some minutes.
#[derive(Clone, Copy, Debug, Default)]
struct Sitting {
    part: TaskPart,
    until: u64,
}

/// A program at work.
#[derive(Clone, Debug)]
struct ProgramRun {
    task: u32,
    part: TaskPart,
    stream: u32,
    /// Rounds of looking left, before the round of reads and writes.
    looks: u32,
    /// Whether the run uses every file of its task.
    whole: bool,
    step: usize,
    /// The open file: the task's list may change while it is open.
    file: u32,
    /// Bytes of the present file read or written so far; `open`: whether the file is open.
    done: u64,
    phase: FilePhase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilePhase {
    Open,
    Read,
    Write,
}

/// A day of requests, in order of time.
#[derive(Debug)]
pub(crate) struct FilePlay {
    day: FileDay,
    scale: f64,
    files: Vec<MadeFile>,
    /// The files of each task, in order of use: first programs with several files, then each other
    /// file by itself.
    tasks: Vec<Vec<u32>>,
    /// The usual files of each program, and the files that it may use instead.
    usual: Vec<(Vec<u32>, Vec<u32>)>,
    /// The present sitting of each program.
    sittings: Vec<Sitting>,
    /// The number of the present interval between shuffles.
    epoch: u64,
    /// Cumulative probabilities of the tasks.
    popularity: Vec<f64>,
    dice: Dice,
    active: BinaryHeap<Reverse<(u64, usize)>>,
    runs: Slab<ProgramRun>,
    /// Runs begun; `all`: runs of the day.
    begun: u64,
    all: u64,
    /// Streams so far.
    streams: u32,
    next_start: u64,
    /// Requests, bytes read and bytes written so far.
    emitted: u64,
    read: u64,
    written: u64,
}

/// The files of a day, the usual and other files of its programs, and the files of each task.
struct Population {
    files: Vec<MadeFile>,
    usual: Vec<(Vec<u32>, Vec<u32>)>,
    tasks: Vec<Vec<u32>>,
}

impl Population {
    fn draw(day: &FileDay, scale: f64, dice: &mut Dice) -> Self {
        let distinct = day.distinct_mb * MB * scale;
        let directories = (f64::from(day.directories) * scale).ceil() as u32;
        let mut files: Vec<MadeFile> = Vec::new();
        let (mut bytes, mut small) = (0.0, 0u64);
        let mut file = |dice: &mut Dice| {
            // The share holds at every moment, not only on the mean.
            let size = if small as f64 <= day.small * files.len() as f64 {
                small += 1;
                (dice.exponential(5_000.0) as u64 + 64).min(SMALL - 1)
            } else {
                SMALL + dice.exponential(day.large_bytes - SMALL as f64) as u64
            };
            let directory = evenly(files.len() as u64, directories);
            files.push(MadeFile { directory, size });
            bytes += size as f64;
            (files.len() as u32 - 1, bytes < distinct)
        };
        let from_to = |dice: &mut Dice, (from, to): (u32, u32)| from + dice.below(to - from + 1);
        let mut usual = Vec::new();
        for _ in 0..day.programs {
            let n = from_to(dice, day.uses);
            let mut some = |n: u32| (0..n).map(|_| file(dice).0).collect::<Vec<_>>();
            usual.push((some(n), some(day.others.1)));
        }
        let mut tasks: Vec<Vec<u32>> = usual.iter().map(|u| u.0.clone()).collect();
        loop {
            let (next, more) = file(dice);
            tasks.push(vec![next]);
            if !more {
                break;
            }
        }
        Self { files, usual, tasks }
    }
}

/// The mean number of files in a run of a program with this number of files.
fn used_files(files: usize, part: f64) -> f64 {
    1.0 + files.saturating_sub(1) as f64 * part
}

/// Cumulative probabilities of all tasks: programs first, then single files. `mean`: files of a
/// program's run.
fn popularity(programs: usize, mean: f64, tasks: usize) -> Vec<f64> {
    // Program starts are flatter than Zipf's law, so that every program starts within an hour;
    // other files follow Zipf's law.
    let lone = tasks - programs;
    let started = GROUPED / (GROUPED + mean * (1.0 - GROUPED));
    let of = |n: usize, power: f64| (1..=n).map(move |rank| (rank as f64).powf(-power));
    let (all_programs, all_lone): (f64, f64) = (of(programs, 0.5).sum(), of(lone, 1.0).sum());
    let mut sum = 0.0;
    of(programs, 0.5)
        .map(|w| w / all_programs * started)
        .chain(of(lone, 1.0).map(|w| w / all_lone * (1.0 - started)))
        .map(|w| {
            sum += w;
            sum
        })
        .collect()
}

impl FilePlay {
    /// A day, or a part of it: requests, bytes, files, directories and hours times `scale`, which
    /// is above 0 and at most 1.
    pub(crate) fn new(day: FileDay, scale: f64, seed: u64) -> Self {
        let mut dice = Dice::new(seed, 40);
        let Population { files, usual, tasks } = Population::draw(&day, scale, &mut dice);
        let mean = usual.iter().map(|u| used_files(u.0.len(), day.part)).sum::<f64>();
        let popularity = popularity(usual.len(), mean / usual.len() as f64, tasks.len());
        let sum = popularity.last().copied().unwrap_or(1.0);
        // Mean bytes of a drawn task; a fifth of the runs has no bytes left to read or write.
        let bytes_of = |task: &Vec<u32>| -> f64 {
            let all: f64 = task.iter().map(|&f| files[f as usize].size as f64).sum();
            all * used_files(task.len(), day.part) / task.len() as f64
        };
        let mut before = 0.0;
        let weighted = tasks.iter().zip(&popularity).map(|(task, &until)| {
            let weight = until - std::mem::replace(&mut before, until);
            bytes_of(task) * weight
        });
        let per_run = weighted.sum::<f64>() / sum;
        let runs = (day.read_mb + day.written_mb) * MB * scale * 1.25 / per_run;
        // Each file is read at least once; on a short day, people do more than that.
        let all = (runs as u64).max(2 * tasks.len() as u64);
        let mut play = Self {
            day,
            scale,
            files,
            tasks,
            sittings: vec![Sitting::default(); usual.len()],
            usual,
            epoch: 0,
            popularity,
            dice,
            active: BinaryHeap::new(),
            runs: Slab::new(),
            begun: 0,
            all,
            streams: 0,
            next_start: 0,
            emitted: 0,
            read: 0,
            written: 0,
        };
        play.next_start = play.start();
        play
    }

    pub(crate) fn files(&self) -> &[MadeFile] {
        &self.files
    }

    /// Requests to come, approximately.
    pub(crate) fn expected(&self) -> u64 {
        (self.day.requests as f64 * self.scale) as u64
    }

    /// The start of the next run: uniform within a part of the day, parts by people's activity.
    fn start(&mut self) -> u64 {
        let at = (self.begun as f64 + self.dice.unit()) / self.all as f64;
        let day = self.day.hours * self.scale * HOUR;
        let sum: u32 = ACTIVITY.iter().map(|a| u32::from(*a)).sum();
        let mut left = at * f64::from(sum);
        for (part, &weight) in ACTIVITY.iter().enumerate() {
            let weight = f64::from(weight);
            if left < weight {
                return ((part as f64 + left / weight) / 24.0 * day) as u64;
            }
            left -= weight;
        }
        day as u64
    }

    /// Some programs use other files for one interval, drawn anew each time: neighbouring intervals
    /// differ as much as distant ones.
    fn vary(&mut self) {
        let length = (self.day.interval() as f64 * self.scale).max(1.0);
        // Half an interval off: people do not know the times of shuffles.
        let epoch = (self.emitted as f64 / length + 0.5) as u64;
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        for (task, (usual, instead)) in self.tasks.iter_mut().zip(&self.usual) {
            task.clone_from(usual);
            if self.dice.unit() < self.day.varied {
                let (from, to) = self.day.others;
                let n = from + self.dice.below(to - from + 1);
                for &other in &instead[..n as usize] {
                    let at = self.dice.below(task.len() as u32) as usize;
                    task[at] = other;
                }
            }
        }
    }

    /// Number `i` of the tasks that run wholly: programs first, so that their files are a ring from
    /// the morning on; then other files, in an order that separates neighbours.
    fn whole_task(&self, i: u64) -> usize {
        let programs = self.usual.len() as u64;
        let lone = self.tasks.len() as u64 - programs;
        let task = i.checked_sub(programs).map_or(i, |i| programs + i * stride(lone) % lone);
        task as usize
    }

    /// The files of a program in a run that begins now.
    fn present_part(&mut self, program: usize) -> TaskPart {
        let (now, all) = (self.next_start, self.tasks[program].len());
        let sitting = &mut self.sittings[program];
        if now >= sitting.until {
            // Whole files, with the share as their mean.
            let files = (used_files(all, self.day.part) + self.dice.unit()) as usize;
            let first = self.dice.below(all as u32) as usize;
            let minutes = self.dice.exponential(self.day.sitting_minutes * self.scale);
            let until = now + (minutes * HOUR / 60.0) as u64;
            *sitting = Sitting { part: TaskPart { first, files: files.min(all) }, until };
        }
        sitting.part
    }

    /// The number of looks that brings the requests so far to the paper's count.
    fn looks(&self) -> u32 {
        let progress = self.begun as f64 / self.all as f64;
        let owed = self.day.requests as f64 * self.scale * progress - self.emitted as f64;
        let open: f64 = self.active.len() as f64 * 40.0;
        let programs = self.tasks.iter().take(self.usual.len());
        let each = 2.0 * programs.map(|t| used_files(t.len(), self.day.part)).sum::<f64>()
            / self.usual.len() as f64;
        ((owed - open) / each / 4.0).clamp(0.0, 24.0).round() as u32
    }

    fn begin(&mut self) {
        self.vary();
        // Every task runs wholly once during the day; further runs go by popularity.
        let every = self.all / self.tasks.len() as u64;
        let whole =
            self.begun.is_multiple_of(every) && self.begun / every < self.tasks.len() as u64;
        let task = if whole {
            self.whole_task(self.begun / every)
        } else {
            let at = self.dice.unit() * self.popularity.last().copied().unwrap_or(1.0);
            self.popularity.partition_point(|p| *p <= at).min(self.tasks.len() - 1)
        };
        let program = task < self.usual.len();
        let part = if program && !whole {
            self.present_part(task)
        } else {
            TaskPart { first: 0, files: self.tasks[task].len() }
        };
        self.begun += 1;
        self.streams += 1;
        let run = ProgramRun {
            task: task as u32,
            part,
            stream: self.streams,
            // The first run of a program goes round often enough to make its files a ring.
            looks: self.looks().max(if program && whole { 4 } else { 0 }),
            whole,
            step: 0,
            file: 0,
            done: 0,
            phase: FilePhase::Open,
        };
        let slot = self.runs.insert(run);
        self.active.push(Reverse((self.next_start, slot)));
        self.next_start =
            if self.begun < self.all { self.start().max(self.next_start) } else { u64::MAX };
    }

    /// The next request of a run, and nanoseconds to the request after it; `None` at the end of the
    /// run.
    fn step(&mut self, slot: usize) -> (FileOp, u32, u64, u64, Option<f64>) {
        let progress = self.begun as f64 / self.all as f64;
        let run = &mut self.runs[slot];
        if run.phase == FilePhase::Open {
            let task = &self.tasks[run.task as usize];
            run.file = task[(run.part.first + run.step) % task.len()];
        }
        let file = run.file;
        let size = self.files[file as usize].size;
        let at = run.done;
        match run.phase {
            FilePhase::Open => {
                run.done = 0;
                let want = |so_far: u64, mb: f64| (so_far as f64) < mb * MB * self.scale * progress;
                run.phase = if run.looks > 0 {
                    run.done = size;
                    FilePhase::Read
                } else if want(self.written, self.day.written_mb) && self.dice.below(3) == 0 {
                    FilePhase::Write
                } else {
                    if !run.whole && !want(self.read, self.day.read_mb) {
                        run.done = size;
                    }
                    FilePhase::Read
                };
                (FileOp::Open, file, 0, 0, Some(1e6))
            }
            phase if at < size => {
                let len = CHUNK.min(size - at);
                run.done += len;
                if phase == FilePhase::Read {
                    self.read += len;
                    (FileOp::Read, file, at, len, Some(1e6))
                } else {
                    self.written += len;
                    (FileOp::Write, file, at, len, Some(1e6))
                }
            }
            _ => {
                (run.phase, run.done) = (FilePhase::Open, 0);
                run.step += 1;
                // A run sometimes skips a file.
                if !run.whole && run.step + 1 < run.part.files && self.dice.below(12) == 0 {
                    run.step += 1;
                }
                let gap = if run.looks > 0 { 4e6 } else { 3e7 };
                let mut more = true;
                if run.step >= run.part.files {
                    run.step = 0;
                    more = run.looks > 0;
                    run.looks = run.looks.saturating_sub(1);
                    // Each round is a process of its own, so that the last file of a part does not
                    // lead to its first: the files outside the part stay in the ring.
                    if !run.whole {
                        self.streams += 1;
                        run.stream = self.streams;
                    }
                }
                (FileOp::Close, file, 0, 0, more.then_some(gap))
            }
        }
    }
}

impl Iterator for FilePlay {
    type Item = FileEvent;

    fn next(&mut self) -> Option<FileEvent> {
        while self.begun < self.all && self.active.peek().is_none_or(|a| a.0.0 >= self.next_start) {
            self.begin();
        }
        let Reverse((time, slot)) = self.active.pop()?;
        let stream = StreamId(self.runs[slot].stream);
        let (op, file, offset, len, gap) = self.step(slot);
        self.emitted += 1;
        match gap {
            Some(mean) => {
                let gap = self.dice.exponential(mean) as u64 + 1_000;
                self.active.push(Reverse((time + gap, slot)));
            }
            None => {
                self.runs.remove(slot);
            }
        }
        Some(FileEvent { time: SimTime(time), stream, file, op, offset, len, latency: None })
    }
}

/// One of `n` directories; neighbouring numbers get different ones: Fibonacci hashing (Knuth,
/// volume 3, 6.4).
const fn evenly(number: u64, n: u32) -> u32 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((mixed * n as u64) >> 32) as u32
}

/// A number coprime to `n`: steps of this size visit each of `n` positions once.
fn stride(n: u64) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (n * 5 / 8 + 1..).find(|&s| gcd(s, n) == 1).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::file_days::FILE_DAYS;
    use super::super::strace::strace_line;
    use super::*;
    use seekless_trace::{OpenOptions, Source};

    #[test]
    fn a_day_matches_table_1() {
        for (day, scale) in FILE_DAYS.into_iter().zip([0.05, 0.05, 1.0, 0.03]) {
            let mut play = FilePlay::new(day, scale, 1);
            let (mut requests, mut read, mut written, mut last) = (0u64, 0u64, 0u64, 0);
            let mut touched = BTreeMap::new();
            for event in play.by_ref() {
                requests += 1;
                assert!(event.time.0 >= last);
                last = event.time.0;
                match event.op {
                    FileOp::Read => read += event.len,
                    FileOp::Write => written += event.len,
                    _ => continue,
                }
                let end: &mut u64 = touched.entry(event.file).or_default();
                *end = (*end).max(event.offset + event.len);
            }
            let distinct: u64 = touched.values().sum();
            let near = |what: &str, found: f64, printed: f64| {
                let off = found / printed - 1.0;
                assert!(
                    off.abs() < 0.05,
                    "{}: {what} is {found}, printed {printed}: off by {off}",
                    day.name
                );
            };
            near("requests", requests as f64, day.requests as f64 * scale);
            near("read", read as f64, day.read_mb * MB * scale);
            near("written", written as f64, day.written_mb * MB * scale);
            near("distinct", distinct as f64, day.distinct_mb * MB * scale);
            let small = play.files().iter().filter(|f| f.size < SMALL).count();
            near("small", small as f64 / play.files().len() as f64, day.small);
        }
    }

    #[test]
    fn the_interval_is_the_papers_except_on_the_light_day() {
        let intervals = FILE_DAYS.map(|day| day.interval());
        assert_eq!(intervals, [100_000, 100_000, 3_589, 100_000]);
    }

    #[test]
    fn a_day_is_the_same_after_writing_and_reading_strace() {
        let mut play = FilePlay::new(FILE_DAYS[2], 0.002, 7);
        let events: Vec<FileEvent> = play.by_ref().collect();
        let text: String = events
            .iter()
            .map(|e| strace_line(e, &play.files()[e.file as usize].path(e.file)) + "\n")
            .collect();
        let source = Source::from_bytes("made.strace", text.as_bytes()).unwrap();
        let mut reader = source.open_files(&OpenOptions::default()).unwrap();
        let mut names = BTreeMap::new();
        for made in &events {
            let read = reader.next_event().unwrap().unwrap();
            assert_eq!((read.op, read.offset, read.len), (made.op, made.offset, made.len));
            assert!(
                read.time.since(made.time).0.max(made.time.since(read.time).0)
                    < 2_000_000 + events[0].time.0
            );
            assert_eq!(*names.entry(read.file).or_insert(made.file), made.file);
        }
        assert!(reader.next_event().unwrap().is_none());
    }
}
