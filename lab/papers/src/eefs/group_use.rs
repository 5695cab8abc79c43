//! The use of groups between two shuffles: Figure 5, and the share of grouped opens.

use rustc_hash::FxHashMap;
use seekless_block::{Duration, SimTime};
use seekless_store::Group;

use super::replay::Grouping;

/// A file of a group.
#[derive(Clone, Copy, Debug)]
struct GroupedFile {
    group: usize,
    used: bool,
}

/// A group since the last shuffle.
#[derive(Clone, Copy, Debug)]
struct UsedGroup {
    /// Its files without the one that is used first.
    others: u64,
    first: Option<SimTime>,
}

/// Counts from the first shuffle on.
#[derive(Debug, Default)]
pub(super) struct GroupUses {
    files: FxHashMap<u64, GroupedFile>,
    groups: Vec<UsedGroup>,
    /// Opens, and those of grouped files.
    opens: u64,
    grouped: u64,
    /// The other files of used groups. Of these: used until the next shuffle; within five minutes
    /// of the group's first use; within a second of it.
    others: u64,
    used: u64,
    soon: u64,
    at_once: u64,
}

impl GroupUses {
    /// Begins to count the uses of these groups.
    pub(super) fn shuffled(&mut self, groups: &[Group]) {
        self.files.clear();
        for (i, group) in groups.iter().enumerate() {
            self.files.extend(group.iter().map(|&f| (f, GroupedFile { group: i, used: false })));
        }
        let unused = |g: &Group| UsedGroup { others: g.len() as u64 - 1, first: None };
        self.groups = groups.iter().map(unused).collect();
    }

    /// Notes that a file is opened.
    pub(super) fn note(&mut self, now: SimTime, file: u64) {
        self.opens += 1;
        let Some(file) = self.files.get_mut(&file) else { return };
        self.grouped += 1;
        if std::mem::replace(&mut file.used, true) {
            return;
        }
        let group = &mut self.groups[file.group];
        let Some(first) = group.first else {
            group.first = Some(now);
            self.others += group.others;
            return;
        };
        let later = now.since(first);
        self.used += 1;
        self.soon += u64::from(later <= Duration::from_millis(300_000));
        self.at_once += u64::from(later <= Duration::from_millis(1_000));
    }

    /// The shares, beside the other results of grouping.
    pub(super) fn shares(&self, of: Grouping) -> Grouping {
        let share = |a: u64, b: u64| if b == 0 { 0.0 } else { a as f64 / b as f64 };
        Grouping {
            grouped_opens: share(self.grouped, self.opens),
            used_after_first: share(self.used, self.others),
            within_five_minutes: share(self.soon, self.others),
            at_once: share(self.at_once, self.others),
            ..of
        }
    }
}
