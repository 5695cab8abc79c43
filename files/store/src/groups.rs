//! Groups of files, as EEFS forms them: the strongly connected components of the file-relation
//! graph. Small components are left out, large ones are divided by a depth-first search. No file is
//! in two groups. The time is linear in files and predictions.

use std::collections::{BTreeMap, BTreeSet};

use crate::successors::Successors;

/// Files that are used together, in the order in which one leads to the next.
pub type Group = Vec<u64>;

/// The graph with dense numbers: the predicted successors of each file, most popular first. All are
/// in one list, because there may be a million files.
struct Edges {
    /// End of the successors of each file in `to`.
    ends: Vec<u32>,
    to: Vec<u32>,
}

impl Edges {
    fn of(&self, file: u32) -> &[u32] {
        let from = file.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.to[from as usize..self.ends[file as usize] as usize]
    }
}

impl Successors {
    /// The groups of the files for which `keep` is true, in order of their first file. Other files
    /// are ignored.
    pub fn groups(&self, keep: impl Fn(u64) -> bool) -> Vec<Group> {
        let files: Vec<u64> = self.all().into_iter().filter(|&f| keep(f)).collect();
        let number = |file: u64| files.binary_search(&file).ok().map(|i| i as u32);
        let mut edges = Edges { ends: Vec::with_capacity(files.len()), to: Vec::new() };
        for &file in &files {
            edges.to.extend(self.predictions(file).into_iter().filter_map(|(to, _)| number(to)));
            edges.ends.push(edges.to.len() as u32);
        }
        let (least, most) = (self.config().least as usize, self.config().most as usize);
        let mut groups = Vec::new();
        let mut inside = vec![0u32; files.len()];
        for (name, mut part) in (1..).zip(components(&edges)) {
            if part.len() < least {
                continue;
            }
            part.sort_unstable();
            part.iter().for_each(|&v| inside[v as usize] = name);
            let order = walk(&edges, &part, |v| inside[v as usize] == name);
            let parts = order.len().div_ceil(most);
            // Even parts, so that no part is below G_min.
            for i in 0..parts {
                let (from, to) = (i * order.len() / parts, (i + 1) * order.len() / parts);
                groups.push(order[from..to].iter().map(|&v| files[v as usize]).collect());
            }
        }
        groups.sort_unstable();
        groups
    }
}

/// Strongly connected components (R. Tarjan, 1972), without recursion.
fn components(edges: &Edges) -> Vec<Vec<u32>> {
    const NEW: u32 = u32::MAX;
    let n = edges.ends.len();
    let (mut index, mut low) = (vec![NEW; n], vec![0; n]);
    let (mut on_stack, mut stack) = (vec![false; n], Vec::new());
    let (mut clock, mut found) = (0, Vec::new());
    // A file, and the number of its edges followed so far.
    let mut path: Vec<(u32, usize)> = Vec::new();
    for root in 0..n as u32 {
        if index[root as usize] != NEW {
            continue;
        }
        path.push((root, 0));
        while let Some(&mut (v, ref mut next)) = path.last_mut() {
            let at = v as usize;
            if *next == 0 {
                (index[at], low[at], on_stack[at]) = (clock, clock, true);
                clock += 1;
                stack.push(v);
            }
            if let Some(&to) = edges.of(v).get(*next) {
                *next += 1;
                let to = to as usize;
                if index[to] == NEW {
                    path.push((to as u32, 0));
                } else if on_stack[to] {
                    low[at] = low[at].min(index[to]);
                }
                continue;
            }
            path.pop();
            if let Some(&(parent, _)) = path.last() {
                low[parent as usize] = low[parent as usize].min(low[at]);
            }
            if low[at] == index[at] {
                let mut part = Vec::new();
                while let Some(w) = stack.pop() {
                    on_stack[w as usize] = false;
                    part.push(w);
                    if w == v {
                        break;
                    }
                }
                found.push(part);
            }
        }
    }
    found
}

/// The files of one component in the order of a depth-first search, most popular successor first.
/// The search begins at the lowest number, so that the same files are always divided the same way.
fn walk(edges: &Edges, part: &[u32], inside: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut seen = BTreeSet::new();
    let mut order = Vec::with_capacity(part.len());
    let mut stack: Vec<u32> = part.first().copied().into_iter().collect();
    while let Some(v) = stack.pop() {
        if seen.insert(v) {
            order.push(v);
            stack.extend(edges.of(v).iter().rev().filter(|&&to| inside(to) && !seen.contains(&to)));
        }
    }
    order
}

/// Changes of groups from one shuffle to the next: a row of Table 2 of EEFS.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stability {
    /// Groups at the first shuffle.
    pub before: usize,
    /// Groups at the second.
    pub after: usize,
    /// Groups of the second shuffle that "see little changes": at most a quarter of the files in
    /// the group or in its predecessor are in only one of them. The paper gives no limit.
    pub stable: usize,
    /// Mean number of files in a group at the second shuffle.
    pub mean_size: f64,
    /// Share of the files grouped at the first shuffle that are in no group at the second.
    pub left: f64,
    /// Share of the files grouped at the second shuffle that were in no group at the first.
    pub joined: f64,
}

impl Stability {
    /// Compares groups without overlap.
    pub fn between(before: &[Group], after: &[Group]) -> Self {
        let of = |groups: &[Group]| -> BTreeMap<u64, usize> {
            let files = groups.iter().enumerate().flat_map(|(i, g)| g.iter().map(move |&f| (f, i)));
            files.collect()
        };
        let (was, is) = (of(before), of(after));
        let share = |part: usize, all: usize| if all == 0 { 0.0 } else { part as f64 / all as f64 };
        let stable = after.iter().filter(|group| {
            let mut shared = BTreeMap::<usize, usize>::new();
            group
                .iter()
                .filter_map(|f| was.get(f))
                .for_each(|&g| *shared.entry(g).or_default() += 1);
            shared.iter().any(|(&g, &both)| {
                let either = group.len() + before[g].len() - both;
                4 * (either - both) <= either
            })
        });
        Self {
            before: before.len(),
            after: after.len(),
            stable: stable.count(),
            mean_size: share(is.len(), after.len()),
            left: share(was.keys().filter(|f| !is.contains_key(f)).count(), was.len()),
            joined: share(is.keys().filter(|f| !was.contains_key(f)).count(), is.len()),
        }
    }
}

#[cfg(test)]
mod tests;
