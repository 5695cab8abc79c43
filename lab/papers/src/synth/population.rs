//! The extents of a week and their number of runs: extents in tasks, laid out over a file system.
//! Page counts match the printed ones by construction. The only free number, the steepness of
//! popularity by rank, is solved for the share of accesses to the hottest fifth of the pages.

use super::dice::Dice;
use super::{Personality, Side, Synthetic};

/// Share of long extents among extents with one request, and their length as a multiple of the
/// others'.
const LONG: f64 = 0.1;
const LONGER: f64 = 11.0;
/// Most free pages behind a file.
const SLACK: u32 = 4;

/// Pages that lie together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) start: u32,
    pub(super) len: u32,
}

/// Extents that are requested one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    /// Its first extent; `len` is their number.
    pub(super) first: u32,
    pub(super) steps: u32,
    pages: u32,
    pub(super) runs: u32,
    pub(super) writes: bool,
}

#[derive(Debug)]
pub(super) struct Population {
    pub(super) extents: Vec<Run>,
    pub(super) tasks: Vec<Task>,
    pub(super) journal: Run,
    /// Mean pages that a run of a writing task puts into the journal.
    pub(super) commit_pages: f64,
    /// Pages of all accesses; repetitions count.
    pub(super) accesses: u64,
}

impl Population {
    pub(super) fn new(synthetic: &Synthetic) -> Self {
        let Personality { printed, reads, writes, journal, .. } = synthetic.personality;
        let pages = |gb| synthetic.pages(gb).max(1);
        let journalled = (pages(printed.written_gb) as f64 * journal.share) as u64;
        let journal_pages =
            ((journal.pages as f64 * synthetic.scale) as u64).clamp(1, journalled.max(1));
        let mut dice = Dice::new(synthetic.seed, 1);
        let (mut extents, mut tasks) = (Vec::new(), Vec::new());
        let mut side = |side: &Side, unique: u64, writes: bool| {
            let first = tasks.len();
            fill(side, unique, writes, &mut extents, &mut tasks, &mut dice);
            first..tasks.len()
        };
        let read = side(reads, pages(printed.unique_read_gb), false);
        let left = pages(printed.unique_written_gb).saturating_sub(journal_pages).max(1);
        let written = side(writes, left, true);
        let totals = [pages(printed.read_gb), pages(printed.written_gb).saturating_sub(journalled)];

        // The steeper the popularity, the greater the share of the hottest fifth.
        let (mut flat, mut steep) = (0.01, 2.0);
        for _ in 0..40 {
            let exponent = (flat + steep) / 2.0;
            popularity(reads, totals[0], exponent, &mut tasks[read.clone()]);
            popularity(writes, totals[1], exponent, &mut tasks[written.clone()]);
            if top20(&tasks, journal_pages, journalled) < printed.top20 {
                flat = exponent;
            } else {
                steep = exponent;
            }
        }
        let runs: u64 = tasks[written].iter().map(|t| u64::from(t.runs)).sum();
        let accesses =
            tasks.iter().map(|t| u64::from(t.runs) * u64::from(t.pages)).sum::<u64>() + journalled;
        let mut this = Self {
            extents,
            tasks,
            journal: Run { start: 0, len: journal_pages as u32 },
            commit_pages: journalled as f64 / runs.max(1) as f64,
            accesses,
        };
        this.lay(synthetic);
        this
    }

    /// Gives every extent its address: extents of a directory lie together in random order,
    /// directories in random order, the journal among them.
    fn lay(&mut self, synthetic: &Synthetic) {
        let Personality { directory, scattered, .. } = synthetic.personality;
        let mut dice = Dice::new(synthetic.seed, 2);
        let directories = (self.extents.len() as u32 / directory).max(1);
        let mut rank: Vec<u32> = (0..directories).collect();
        for i in (1..directories).rev() {
            rank.swap(i as usize, dice.below(i + 1) as usize);
        }
        let mut order: Vec<(u32, u32, u32)> = (0..self.extents.len() as u32)
            .map(|i| {
                let own = (i / directory).min(directories - 1);
                let at = if dice.unit() < *scattered { dice.below(directories) } else { own };
                (rank[at as usize], dice.below(u32::MAX), i)
            })
            .collect();
        order.sort_unstable();

        let used: u64 = self.extents.iter().map(|e| u64::from(e.len)).sum::<u64>()
            + u64::from(self.journal.len);
        let free = synthetic.pages(synthetic.personality.printed.size_gb).saturating_sub(used);
        // Small gaps between files; the rest of the free space between directories.
        let slack = if u64::from(SLACK) * self.extents.len() as u64 <= free { SLACK } else { 1 };
        let small: Vec<u32> = order.iter().map(|_| dice.below(slack)).collect();
        let rest = free - small.iter().map(|s| u64::from(*s)).sum::<u64>();
        let gaps: Vec<f64> = (0..=directories).map(|_| dice.exponential(1.0)).collect();
        let all: f64 = gaps.iter().sum();
        let (mut at, mut before, mut seen) = (0u64, 0.0, u32::MAX);
        for ((directory, _, i), small) in order.into_iter().zip(small) {
            if directory != seen {
                seen = directory;
                let until = before + gaps[directory as usize];
                // Rounding of cumulative sums loses no page.
                at += (rest as f64 * until / all) as u64 - (rest as f64 * before / all) as u64;
                before = until;
                if directory == directories / 2 {
                    self.journal.start = at as u32;
                    at += u64::from(self.journal.len);
                }
            }
            self.extents[i as usize].start = at as u32;
            at += u64::from(self.extents[i as usize].len + small);
        }
        // Writes are in order of address, as an elevator schedules them.
        for task in self.tasks.iter().filter(|t| t.writes) {
            let all = task.first as usize..(task.first + task.steps) as usize;
            self.extents[all].sort_unstable_by_key(|e| e.start);
        }
    }
}

/// Extents and tasks of the reads or the writes, most popular first, `unique` pages in all.
fn fill(
    side: &Side,
    unique: u64,
    writes: bool,
    extents: &mut Vec<Run>,
    tasks: &mut Vec<Task>,
    dice: &mut Dice,
) {
    let hot = (unique as f64 * side.again) as u64;
    let single = (unique as f64 * side.single) as u64;
    let mut done = 0;
    while done < unique {
        let end = if done < hot { hot } else { unique };
        let first = extents.len() as u32;
        let begin = done;
        for _ in 0..dice.count(side.steps) {
            let mean = if done < single {
                1.0
            } else if done < hot {
                side.again_pages
            } else {
                let short = side.once_pages / (1.0 - LONG + LONG * LONGER);
                if dice.unit() < LONG { short * LONGER } else { short }
            };
            let len = u64::from(dice.count(mean)).min(end - done);
            extents.push(Run { start: 0, len: len as u32 });
            done += len;
            if done == end {
                break;
            }
        }
        let steps = extents.len() as u32 - first;
        tasks.push(Task { first, steps, pages: (done - begin) as u32, runs: 1, writes });
    }
}

/// The number of runs of each task, `total` pages in all. A repeated task runs twice, and further
/// times in proportion to x^-exponent - 1, with the share `x` of the pages before it: Zipf's law,
/// ending at two runs.
fn popularity(side: &Side, total: u64, exponent: f64, tasks: &mut [Task]) {
    let unique: u64 = tasks.iter().map(|t| u64::from(t.pages)).sum();
    let hot = (unique as f64 * side.again).max(1.0).floor();
    let weight = |before: u64, pages: u32| {
        let x = (before as f64 + f64::from(pages) / 2.0) / hot;
        if x < 1.0 { x.powf(-exponent) - 1.0 } else { -1.0 }
    };
    let (mut before, mut sum, mut base) = (0, 0.0, 0.0);
    for task in tasks.iter() {
        let w = weight(before, task.pages);
        sum += w.max(0.0) * f64::from(task.pages);
        base += f64::from(task.pages) * if w < 0.0 { 1.0 } else { 2.0 };
        before += u64::from(task.pages);
    }
    let factor = (total as f64 - base).max(0.0) / sum.max(f64::MIN_POSITIVE);
    // Rounding errors carry over to the next task.
    let (mut before, mut owed) = (0, 0.0);
    for task in tasks {
        let w = weight(before, task.pages);
        before += u64::from(task.pages);
        if w < 0.0 {
            task.runs = 1;
            continue;
        }
        owed += (2.0 + factor * w) * f64::from(task.pages);
        task.runs = (owed / f64::from(task.pages)).round().max(2.0) as u32;
        owed -= f64::from(task.runs) * f64::from(task.pages);
    }
}

/// Share of all accesses to the hottest fifth of the pages.
fn top20(tasks: &[Task], journal_pages: u64, journalled: u64) -> f64 {
    let mut classes: Vec<(f64, f64)> =
        tasks.iter().map(|t| (f64::from(t.runs), f64::from(t.pages))).collect();
    classes.push((journalled as f64 / journal_pages as f64, journal_pages as f64));
    classes.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let pages: f64 = classes.iter().map(|c| c.1).sum();
    let accesses: f64 = classes.iter().map(|c| c.0 * c.1).sum();
    let (mut left, mut top) = (pages / 5.0, 0.0);
    for (count, pages) in classes {
        let take = pages.min(left);
        top += take * count;
        left -= take;
    }
    top / accesses
}
