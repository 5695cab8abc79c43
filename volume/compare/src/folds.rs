//! Cuts a trace into folds of days, or of requests if there are too few days; or into two parts:
//! one for training, one that is measured.

use std::collections::BTreeMap;

use seekless_learn::DAY;
use seekless_trace::Record;

use crate::outcome::{Split, TraceFacts};

/// With fewer days, one day tells too little about the next: the trace is cut by requests.
const DAYS_MIN: usize = 4;

/// How to cut a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cutting {
    /// Into at most this number of folds, at least 2; every system serves all of them.
    Folds(u32),
    /// Into two: this share of the days, or of the requests, trains the policies and is not served.
    /// The rest is measured.
    Train(f64),
}

/// A part of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fold {
    pub(crate) requests: u64,
    /// Days; 0 if the trace is cut by requests.
    pub(crate) days: u64,
}

/// The trace's day number, if the trace has days; otherwise 24 hours of its time.
pub(crate) fn day_of(record: &Record, has_days: bool) -> u64 {
    record.day.filter(|_| has_days).map_or(record.request.arrival.0 / DAY.0, u64::from)
}

/// Requests of each day.
#[derive(Debug, Default)]
pub(crate) struct Days(BTreeMap<u64, u64>);

impl Days {
    /// Counts a request, and returns the day for which it counts. A day that goes back counts for
    /// the latest day before it, as in `FoldedTrace::each`.
    pub(crate) fn count(&mut self, day: u64) -> u64 {
        let day = self.0.last_key_value().map_or(day, |(&latest, _)| latest.max(day));
        *self.0.entry(day).or_insert(0) += 1;
        day
    }

    /// Days with a request.
    pub(crate) fn total(&self) -> u64 {
        self.0.len() as u64
    }

    /// The first day with a request.
    pub(crate) fn first(&self) -> u64 {
        self.0.keys().next().copied().unwrap_or(0)
    }
}

/// Where folds begin.
#[derive(Clone, Debug)]
pub(crate) struct FoldCuts {
    pub(crate) folds: Vec<Fold>,
    by: FoldBy,
    /// The first fold trains the policies, and is not served.
    pub(crate) trains: bool,
}

#[derive(Clone, Debug)]
enum FoldBy {
    /// First day of each fold.
    Day(Vec<u64>),
    /// First request of each fold.
    Index(Vec<u64>),
}

impl FoldCuts {
    /// At most `most` folds of nearly equal length: of whole days if there are enough days, else of
    /// requests.
    pub(crate) fn folds(facts: &TraceFacts, days: &Days, most: u32) -> Self {
        let most = most.max(2) as usize;
        if days.0.len() >= DAYS_MIN {
            let active: Vec<(u64, u64)> = days.0.iter().map(|(&d, &n)| (d, n)).collect();
            let count = active.len().min(most);
            let mut folds = Vec::with_capacity(count);
            let mut starts = Vec::with_capacity(count);
            for k in 0..count {
                let run = &active[k * active.len() / count..(k + 1) * active.len() / count];
                starts.push(if k == 0 { 0 } else { run[0].0 });
                folds.push(Fold {
                    requests: run.iter().map(|&(_, n)| n).sum(),
                    days: run.len() as u64,
                });
            }
            return Self { folds, by: FoldBy::Day(starts), trains: false };
        }
        let total = facts.requests;
        let count = (most as u64).min(total);
        let starts: Vec<u64> = (0..count)
            .map(|k| (u128::from(k) * u128::from(total) / u128::from(count)) as u64)
            .collect();
        let ends = starts.iter().skip(1).copied().chain([total]);
        let folds =
            starts.iter().zip(ends).map(|(&s, e)| Fold { requests: e - s, days: 0 }).collect();
        Self { folds, by: FoldBy::Index(starts), trains: false }
    }

    /// Two folds: the first has `share` of the days if the trace has at least two days, else of the
    /// requests.
    pub(crate) fn train(facts: &TraceFacts, days: &Days, share: f64) -> (Self, Split) {
        let (total, counted) = (facts.requests, facts.days as usize);
        let by_days = counted > 1 && share > 0.0 && share < 1.0;
        let (by, train, train_days) = if by_days {
            let take = ((counted as f64 * share).round() as usize).clamp(1, counted - 1);
            let train = days.0.values().take(take).sum();
            let first = days.0.keys().nth(take).copied().unwrap_or(u64::MAX);
            (FoldBy::Day(vec![0, first]), train, take as u64)
        } else {
            let train = ((total as f64 * share).floor() as u64).min(total);
            (FoldBy::Index(vec![0, train]), train, 0)
        };
        let split = Split {
            by: if by_days { "days" } else { "requests" }.to_owned(),
            days: facts.days,
            train_days,
            train_requests: train,
            measured_requests: total - train,
        };
        let measured = if by_days { facts.days - train_days } else { 0 };
        let folds = vec![
            Fold { requests: train, days: train_days },
            Fold { requests: total - train, days: measured },
        ];
        (Self { folds, by, trains: true }, split)
    }

    pub(crate) const fn last(&self) -> usize {
        self.folds.len().saturating_sub(1)
    }

    pub(crate) fn fold(&self, index: u64, day: u64) -> usize {
        let (starts, at) = match &self.by {
            FoldBy::Day(starts) => (starts, day),
            FoldBy::Index(starts) => (starts, index),
        };
        starts.partition_point(|&s| s <= at).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_that_goes_back_counts_for_the_day_before_it() {
        let mut days = Days::default();
        assert_eq!([1, 0, 2, 1, 4].map(|day| days.count(day)), [1, 1, 2, 2, 4]);
        assert_eq!(days.0, BTreeMap::from([(1, 2), (2, 2), (4, 1)]));
        assert_eq!((days.first(), days.total()), (1, 3));
    }

    #[test]
    fn days_are_never_torn_and_every_request_has_a_fold() {
        let days = Days(BTreeMap::from([(3, 10), (4, 20), (7, 30), (8, 40), (11, 50)]));
        let facts = TraceFacts { requests: 150, days: 5, ..TraceFacts::default() };
        let cut = FoldCuts::folds(&facts, &days, 2);
        // Five active days in two folds: two and three.
        assert_eq!(cut.folds, [Fold { requests: 30, days: 2 }, Fold { requests: 120, days: 3 }]);
        assert_eq!([0, 3, 6, 7, 11, 99].map(|d| cut.fold(0, d)), [0, 0, 0, 1, 1, 1]);
        assert_eq!(FoldCuts::folds(&facts, &days, 100).folds.len(), 5);
        // Half of five days is three; of one day, or none, it is one.
        for (share, requests, days_of) in [(0.5, 60, 3), (0.01, 10, 1), (0.99, 100, 4)] {
            let (cut, split) = FoldCuts::train(&facts, &days, share);
            assert_eq!((split.train_requests, split.train_days), (requests, days_of));
            assert_eq!(cut.fold(0, 3), 0);
            assert_eq!((cut.fold(0, 11), cut.trains, split.by.as_str()), (1, true, "days"));
        }
        let (_, all) = FoldCuts::train(&facts, &days, 1.0);
        assert_eq!((all.measured_requests, all.by.as_str()), (0, "requests"));
    }

    #[test]
    fn a_trace_of_one_day_is_cut_by_requests() {
        let days = Days(BTreeMap::from([(0, 7)]));
        let facts = TraceFacts { requests: 7, ..TraceFacts::default() };
        let cut = FoldCuts::folds(&facts, &days, 3);
        assert_eq!(cut.folds.iter().map(|f| f.requests).collect::<Vec<_>>(), [2, 2, 3]);
        assert_eq!([0, 1, 2, 3, 4, 6].map(|i| cut.fold(i, 0)), [0, 0, 1, 1, 2, 2]);
        let few = TraceFacts { requests: 1, ..TraceFacts::default() };
        assert_eq!(FoldCuts::folds(&few, &Days::default(), 8).folds.len(), 1);
        let (cut, split) = FoldCuts::train(&facts, &days, 0.5);
        assert_eq!((split.train_requests, split.measured_requests), (3, 4));
        assert_eq!([0, 2, 3, 6].map(|i| cut.fold(i, 0)), [0, 0, 1, 1]);
        let (cut, _) = FoldCuts::train(&facts, &days, 0.0);
        assert_eq!(cut.fold(0, 0), 1, "nothing is learned from");
    }
}
