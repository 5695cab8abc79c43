//! Against a twin that keeps everything and asks every pair.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use seekless_block::StreamId;

use super::*;
use crate::successors::{GroupConfig, GroupConfigError};

/// In place of a stream: the file is gone.
const GONE: u32 = u32::MAX;
/// A successor that is gone.
const NOBODY: u64 = u64::MAX;

/// Remembers every request.
#[derive(Default)]
struct Twin(Vec<(u32, u64)>);

fn play(graph: &mut Successors, requests: &[(u32, u64)]) {
    for &(stream, file) in requests {
        if stream == GONE { graph.forget(file) } else { graph.observe(StreamId(stream), file) }
    }
}

impl Twin {
    fn successors(&self, config: &GroupConfig) -> BTreeMap<u64, BTreeMap<u64, usize>> {
        let mut last = BTreeMap::new();
        let mut lists: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for &(stream, file) in &self.0 {
            if stream == GONE {
                lists.remove(&file);
                lists.values_mut().flatten().filter(|f| **f == file).for_each(|f| *f = NOBODY);
                continue;
            }
            lists.entry(file).or_default();
            if let Some(before) = last.insert(stream, file)
                && before != file
                && let Some(list) = lists.get_mut(&before)
            {
                list.push(file);
            }
        }
        lists
            .into_iter()
            .map(|(file, list)| {
                let mut counts = BTreeMap::new();
                for to in list.iter().rev().take(config.window.into()) {
                    *counts.entry(*to).or_insert(0) += 1;
                }
                counts.retain(|f, n| *f != NOBODY && *n >= usize::from(config.needed));
                (file, counts)
            })
            .collect()
    }

    /// Sets of files each of which is reached from each.
    fn components(&self, config: &GroupConfig) -> Vec<BTreeSet<u64>> {
        let edges = self.successors(config);
        let reach: BTreeMap<u64, BTreeSet<u64>> = edges
            .keys()
            .map(|&from| {
                let mut found = BTreeSet::from([from]);
                loop {
                    let more: BTreeSet<u64> =
                        found.iter().flat_map(|f| edges[f].keys().copied()).collect();
                    if more.is_subset(&found) {
                        return (from, found);
                    }
                    found.extend(more);
                }
            })
            .collect();
        let mut all: Vec<BTreeSet<u64>> = reach
            .iter()
            .map(|(f, to)| to.iter().copied().filter(|t| reach[t].contains(f)).collect())
            .collect();
        all.sort();
        all.dedup();
        all
    }
}

fn requests() -> impl Strategy<Value = Vec<(u32, u64)>> {
    // Walks over few files, so that there are components of every size.
    let step = (0u32..3, 0u64..24, 0u64..100);
    prop::collection::vec(step, 0..600).prop_map(|steps| {
        let mut at = [0u64; 3];
        let walk = steps.into_iter().map(|(stream, file, odd)| {
            let last = &mut at[stream as usize];
            if odd >= 97 {
                return (GONE, file);
            }
            *last = if odd < 80 { (*last + 1) % (6 + 6 * u64::from(stream)) } else { file };
            (stream, *last)
        });
        walk.collect()
    })
}

proptest! {
    #[test]
    fn groups_are_those_of_the_naive_twin(
        requests in requests(), window in 1u8..12, needed in 1u8..5, least in 1u32..5, more in 0u32..6,
    ) {
        let needed = needed.min(window);
        let config = GroupConfig { window, needed, least, most: 2 * least - 1 + more, ..GroupConfig::default() };
        let mut graph = Successors::new(config).unwrap();
        play(&mut graph, &requests);
        let twin = Twin(requests);
        for (file, counts) in twin.successors(&config) {
            let ours: BTreeMap<u64, usize> =
                graph.predictions(file).into_iter().map(|(f, n)| (f, n.into())).collect();
            prop_assert_eq!(ours, counts);
        }
        let groups = graph.groups(|_| true);
        let grouped: Vec<u64> = groups.iter().flatten().copied().collect();
        let distinct: BTreeSet<u64> = grouped.iter().copied().collect();
        prop_assert_eq!(grouped.len(), distinct.len(), "a file in two groups");
        for part in twin.components(&config) {
            let inside: Vec<&Group> = groups.iter().filter(|g| part.contains(&g[0])).collect();
            if part.len() < least as usize {
                prop_assert!(inside.is_empty());
                continue;
            }
            let files: BTreeSet<u64> = inside.iter().flat_map(|g| g.iter().copied()).collect();
            prop_assert_eq!(&files, &part, "all of a component, and nothing else, is grouped");
            prop_assert_eq!(inside.len(), part.len().div_ceil(config.most as usize));
            for g in inside {
                prop_assert!((least..=config.most).contains(&(g.len() as u32)), "{:?}", g);
            }
        }
    }

    #[test]
    fn memory_is_bounded_and_what_was_seen_last_is_kept(
        requests in prop::collection::vec((0u32..40, 0u64..60), 1..800),
    ) {
        let config = GroupConfig { files_max: 16, streams_max: 8, ..GroupConfig::default() };
        let mut graph = Successors::new(config).unwrap();
        let mut seen = Vec::new();
        for (s, f) in requests {
            graph.observe(StreamId(s), f);
            seen.push(f);
            prop_assert!(graph.files() <= 16);
            // Three quarters stay when room is made.
            let latest: BTreeSet<u64> = {
                let mut latest = BTreeSet::new();
                for f in seen.iter().rev() {
                    if latest.len() == 12 { break; }
                    latest.insert(*f);
                }
                latest
            };
            for f in latest {
                prop_assert!(graph.knows(f), "{} was forgotten", f);
            }
        }
    }
}

#[test]
fn a_walk_that_is_repeated_is_a_group_in_its_order() {
    let mut graph = Successors::new(GroupConfig::default()).unwrap();
    for _ in 0..4 {
        for file in [30, 10, 20, 40] {
            // Asked for more than once at a time; and somebody else is busy meanwhile.
            graph.observe(StreamId(1), file);
            graph.observe(StreamId(2), file + 1000);
            graph.observe(StreamId(1), file);
        }
    }
    // Nobody came back from here often enough.
    graph.observe(StreamId(1), 50);
    assert_eq!(graph.groups(|_| true), [vec![10, 20, 40, 30], vec![1010, 1020, 1040, 1030]]);
    // A file that may not be grouped breaks the ring it was a part of.
    assert_eq!(graph.groups(|f| f != 20), [vec![1010, 1020, 1040, 1030]]);
    graph.forget(1040);
    // Nor does what led to it lead to it when it comes back.
    graph.observe(StreamId(3), 1040);
    assert_eq!(graph.groups(|_| true), [vec![10, 20, 40, 30]]);
}

#[test]
fn a_component_larger_than_a_group_is_divided_evenly() {
    let mut graph = Successors::new(GroupConfig::default()).unwrap();
    for file in (0..5).flat_map(|_| 0..20) {
        graph.observe(StreamId(0), file);
    }
    let groups = graph.groups(|_| true);
    assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [6, 7, 7]);
    assert_eq!(groups.concat(), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_million_files_take_no_stack_and_little_time() {
    let mut graph = Successors::new(GroupConfig { needed: 1, ..GroupConfig::default() }).unwrap();
    for file in (0..200_000).chain(0..1) {
        graph.observe(StreamId(0), file);
    }
    assert_eq!(graph.groups(|_| true).concat().len(), 200_000);
}

#[test]
fn stability_is_counted_as_table_2_counts_it() {
    let before = [vec![1, 2, 3, 4], vec![5, 6, 7], vec![8, 9, 10]];
    let after = [vec![1, 2, 3], vec![5, 6, 11, 12], vec![10, 9, 8]];
    let found = Stability::between(&before, &after);
    assert_eq!((found.before, found.after, found.stable), (3, 3, 2));
    assert!((found.mean_size - 10.0 / 3.0).abs() < 1e-12);
    // 4 and 7 of ten left; 11 and 12 of ten are new.
    assert!((found.left - 0.2).abs() < 1e-12 && (found.joined - 0.2).abs() < 1e-12);
    assert_eq!(Stability::between(&[], &[]), Stability::default());
}

#[test]
fn impossible_settings_are_refused_in_words() {
    let said = |config: GroupConfig| Successors::new(config).unwrap_err().to_string();
    let good = GroupConfig::default();
    assert!(said(GroupConfig { needed: 11, ..good }).starts_with("11 of the last 10 successors"));
    assert_eq!(
        said(GroupConfig { most: 4, ..good }),
        "groups of 3 to 4 files: expected at least 1 file, and a maximum of at least 5"
    );
    assert!(matches!(
        Successors::new(GroupConfig { files_max: 0, ..good }),
        Err(GroupConfigError::Room { files: 0, .. })
    ));
}
