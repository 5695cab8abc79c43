//! Section 6, which the paper plans and does not measure: each night, files move between buckets,
//! each bucket with its own list of free places; new files come to the centre, and leave it as they
//! cool. Drift is the paper's; the number of new files a day, and that they are hot, is ours.

use seekless_block::Dice;
use seekless_disk::clustering::{Access, Arm};
use seekless_report::{Table, Unit};
use serde::Serialize;

use super::figures::{BLOCK, rz55};

/// Files of a cylinder, all of one size. Our number.
const FILES: usize = 8;
/// The share of places in use.
const USED: f64 = 0.9;
/// The share of accesses that go to other files a day later: 20 to 30% (Figure 11).
const DRIFT: f64 = 0.25;
/// Buckets of 2, 4, ... cylinders; the last bucket is the rest.
const BUCKETS: usize = 9;
/// Shares of files that are new each day. Our numbers.
const NEW: [f64; 2] = [0.01, 0.05];
/// Days of a run, and the last of these that count.
const DAYS: u32 = 30;
const COUNTED: u32 = 15;

/// What happens to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Rule {
    /// They stay where they are; new files come anywhere.
    Stay,
    /// They move each night; new files come anywhere.
    Anywhere,
    /// They move each night; new files come to the centre.
    Central,
}

/// The results of a rule: means over days.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Daily {
    pub(super) rule: Rule,
    /// Share of the files that are new each day.
    pub(super) new: f64,
    /// Mean seek in the day, one request at a time.
    pub(super) seek_ms: f64,
    /// Share of the files that a night moves.
    pub(super) moved: f64,
}

struct Files {
    cylinders: usize,
    /// By file: its place, its share of the accesses, and what the file system knows of that.
    place: Vec<usize>,
    heat: Vec<f64>,
    known: Vec<f64>,
    /// Free places by bucket.
    free: [Vec<usize>; BUCKETS],
    /// Bucket by place.
    bucket: Vec<usize>,
    dice: Dice,
}

impl Files {
    fn new(arm: &Arm, seed: u64) -> Self {
        let cylinders = arm.cylinders() as usize;
        let places = cylinders * FILES;
        let bucket = (0..places).map(|place| bucket_of(place / FILES, cylinders)).collect();
        let mut dice = Dice::new(seed);
        let mut order: Vec<usize> = (0..places).collect();
        for i in (1..places).rev() {
            order.swap(i, dice.below(i as u64 + 1) as usize);
        }
        let free = order.split_off((places as f64 * USED) as usize);
        // Temperatures by rank; places are in no order, so ranks need none either.
        let heat = Access::perfect(order.len() as u32).shares().to_vec();
        let known = vec![0.0; order.len()];
        let mut files =
            Self { cylinders, place: order, heat, known, free: Default::default(), bucket, dice };
        free.into_iter().for_each(|place| files.give(place));
        files
    }

    fn give(&mut self, place: usize) {
        self.free[self.bucket[place]].push(place);
    }

    /// A file, each as likely as it is accessed.
    fn accessed(&mut self) -> usize {
        let mut left = self.dice.unit();
        let found = self.heat.iter().position(|heat| {
            left -= heat;
            left <= 0.0
        });
        found.unwrap_or(0)
    }

    fn any(&mut self) -> usize {
        self.dice.below(self.heat.len() as u64) as usize
    }

    fn drift(&mut self) {
        let mut drifted = 0.0;
        while drifted < DRIFT {
            let (hot, other) = (self.accessed(), self.any());
            drifted += (self.heat[hot] - self.heat[other]).abs();
            self.heat.swap(hot, other);
        }
    }

    /// Some files end, and as many begin, as hot as a file that is accessed.
    fn renew(&mut self, share: f64, rule: Rule) {
        for _ in 0..(self.heat.len() as f64 * share) as usize {
            let (old, hot) = (self.any(), self.accessed());
            self.heat.swap(old, hot);
            self.known[old] = 0.0;
            let bucket = match rule {
                Rule::Central => self.free.iter().position(|list| !list.is_empty()),
                _ => {
                    let all: usize = self.free.iter().map(Vec::len).sum();
                    let mut at = self.dice.below(all as u64) as usize;
                    self.free.iter().position(|list| {
                        let here = at < list.len();
                        at = at.saturating_sub(list.len());
                        here
                    })
                }
            };
            let Some(place) = bucket.and_then(|b| self.free[b].pop()) else { continue };
            let left = std::mem::replace(&mut self.place[old], place);
            self.give(left);
        }
    }

    fn seek_ms(&self, arm: &Arm) -> f64 {
        let mut shares = vec![0.0; self.cylinders];
        for (place, heat) in self.place.iter().zip(&self.heat) {
            shares[place / FILES] += heat;
        }
        Access::new(shares).map_or(f64::NAN, |access| arm.light(&access, BLOCK).seek_ms)
    }

    /// The day's accesses count, earlier ones half (section 6).
    fn learn(&mut self) {
        self.known
            .iter_mut()
            .zip(&self.heat)
            .for_each(|(known, heat)| *known = *known / 2.0 + heat);
    }

    /// Moves files to the buckets of their temperatures: cold files leave the centre first. Returns
    /// the number of moves.
    fn night(&mut self) -> usize {
        let mut rank: Vec<usize> = (0..self.known.len()).collect();
        rank.sort_by(|&a, &b| self.known[b].total_cmp(&self.known[a]));
        let mut wanted = vec![BUCKETS - 1; rank.len()];
        let mut ranked = rank.iter();
        for bucket in 0..BUCKETS {
            let room = self.bucket.iter().filter(|b| **b == bucket).count() as f64 * USED;
            ranked.by_ref().take(room as usize).for_each(|&file| wanted[file] = bucket);
        }
        let colder = rank.iter().rev().filter(|&&f| wanted[f] > self.bucket[self.place[f]]);
        let hotter = rank.iter().filter(|&&f| wanted[f] < self.bucket[self.place[f]]);
        let all: Vec<usize> = colder.chain(hotter).copied().collect();
        let mut moves = 0;
        for file in all {
            let Some(place) = self.free[wanted[file]].pop() else { continue };
            let left = std::mem::replace(&mut self.place[file], place);
            self.give(left);
            moves += 1;
        }
        moves
    }
}

fn bucket_of(cylinder: usize, cylinders: usize) -> usize {
    let away = (2 * cylinder + 1).abs_diff(cylinders) / 2;
    // The innermost 2^k - 1 cylinders on each side are the first k buckets.
    (1..BUCKETS).find(|&k| away < (1 << k) - 1).map_or(BUCKETS - 1, |k| k - 1)
}

fn run(arm: &Arm, rule: Rule, new: f64, seed: u64) -> Daily {
    let mut files = Files::new(arm, seed);
    let (mut seek, mut moved) = (0.0, 0);
    for day in 0..DAYS {
        files.drift();
        files.renew(new, rule);
        let counts = day >= DAYS - COUNTED;
        seek += if counts { files.seek_ms(arm) } else { 0.0 };
        files.learn();
        let moves = if rule == Rule::Stay { 0 } else { files.night() };
        moved += if counts { moves } else { 0 };
    }
    let days = f64::from(COUNTED);
    Daily { rule, new, seek_ms: seek / days, moved: moved as f64 / days / files.place.len() as f64 }
}

/// All rules.
pub(super) fn daily(seed: u64) -> Vec<Daily> {
    let arm = rz55();
    let rules = [Rule::Stay, Rule::Anywhere, Rule::Central];
    NEW.iter().flat_map(|&new| rules.map(|rule| run(&arm, rule, new, seed))).collect()
}

pub(super) fn table(daily: &[Daily]) -> Table {
    let title = "Section 6: new files in the centre, a list of free places a bucket";
    let table = Table::of(title, daily)
        .text("files", |d| match d.rule {
            Rule::Stay => "stay where they are",
            Rule::Anywhere => "move each night, new ones anywhere",
            Rule::Central => "move each night, new ones in the centre",
        })
        .number("new each day", Unit::Share, |d| d.new)
        .number("mean seek", Unit::Seconds, |d| d.seek_ms / 1e3)
        .number("moved each night", Unit::Share, |d| d.moved);
    table.done().note(
        "RZ55, one request at a time, means of 15 days. A quarter of the accesses drifts each day (Figure 11). The paper prints no number. New files are as hot as what is accessed; their share is ours.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_double_from_the_centre() {
        let mut sizes = [0; BUCKETS];
        (0..1224).for_each(|cylinder| sizes[bucket_of(cylinder, 1224)] += 1);
        assert_eq!(sizes[..8], [2, 4, 8, 16, 32, 64, 128, 256]);
        assert_eq!(sizes.iter().sum::<usize>(), 1224);
    }

    #[test]
    fn no_place_is_lost_or_held_twice_and_new_files_in_the_centre_seek_less() {
        let arm = rz55();
        let mut files = Files::new(&arm, 3);
        for _ in 0..3 {
            files.drift();
            files.renew(0.05, Rule::Central);
            files.learn();
            files.night();
            let mut all: Vec<usize> =
                files.place.iter().chain(files.free.iter().flatten()).copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..1224 * FILES).collect::<Vec<_>>());
        }
        let seek = |rule| run(&arm, rule, 0.05, 3).seek_ms;
        let (stay, anywhere, central) =
            (seek(Rule::Stay), seek(Rule::Anywhere), seek(Rule::Central));
        assert!(central < anywhere && anywhere < stay, "{central} {anywhere} {stay}");
    }
}
