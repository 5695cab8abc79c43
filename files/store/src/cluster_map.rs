//! The cluster usage bitmap: which clusters are free, taken, or deleted since the last checkpoint.
//! The map is derived from the group table, and exists only in memory.

#[derive(Clone, Debug)]
pub(crate) struct ClusterMap {
    clusters: u32,
    /// One bit for each cluster; set if taken or deleted.
    used: Vec<u64>,
    /// Runs deleted since the last checkpoint.
    deleted: Vec<(u32, u32)>,
    free: u32,
    deleted_clusters: u32,
    /// The cluster after the last one written (EEFS: cluster pointer).
    pub(crate) pointer: u32,
}

impl ClusterMap {
    /// All clusters are free.
    pub(crate) fn new(clusters: u32) -> Self {
        let used = vec![0; clusters.div_ceil(64) as usize];
        Self {
            clusters,
            used,
            deleted: Vec::new(),
            free: clusters,
            deleted_clusters: 0,
            pointer: 0,
        }
    }

    /// Number of free clusters.
    pub(crate) const fn free(&self) -> u32 {
        self.free
    }

    /// Number of clusters that the next checkpoint frees.
    pub(crate) const fn deleted(&self) -> u32 {
        self.deleted_clusters
    }

    pub(crate) fn is_free(&self, cluster: u32) -> bool {
        self.used[cluster as usize / 64] & 1 << (cluster % 64) == 0
    }

    fn set(&mut self, from: u32, count: u32, to: bool) {
        for c in from..from + count {
            let (word, bit) = (&mut self.used[c as usize / 64], 1 << (c % 64));
            if (*word & bit != 0) != to {
                *word ^= bit;
                if to { self.free -= 1 } else { self.free += 1 }
            }
        }
    }

    pub(crate) fn take(&mut self, from: u32, count: u32) {
        self.set(from, count, true);
    }

    /// Takes a run that must be free. Clusters beyond the last one are left out.
    ///
    /// # Errors
    /// The first cluster that is not free.
    pub(crate) fn claim(&mut self, from: u32, count: u32) -> Result<(), u32> {
        let run = from..from.saturating_add(count).min(self.clusters);
        match run.clone().find(|c| !self.is_free(*c)) {
            Some(used) => Err(used),
            None => {
                self.take(from, run.len() as u32);
                Ok(())
            }
        }
    }

    /// Deletes a run: the next checkpoint frees it.
    pub(crate) fn delete(&mut self, from: u32, count: u32) {
        self.deleted.push((from, count));
        self.deleted_clusters += count;
    }

    /// Frees deleted clusters after a checkpoint without them.
    pub(crate) fn reclaim(&mut self) {
        for (from, count) in std::mem::take(&mut self.deleted) {
            self.set(from, count, false);
        }
        self.deleted_clusters = 0;
    }

    /// Takes the next run of `count` free clusters from the pointer on, from the beginning after
    /// the end. The pointer moves behind the run.
    pub(crate) fn allocate(&mut self, count: u32) -> Option<u32> {
        if count > self.free {
            return None;
        }
        let pointer = self.pointer.min(self.clusters);
        let at = self.run(pointer, self.clusters, count).or_else(|| {
            let end = (pointer + count).min(self.clusters);
            self.run(0, end, count)
        })?;
        self.take(at, count);
        self.pointer = at + count;
        Some(at)
    }

    fn run(&self, from: u32, to: u32, count: u32) -> Option<u32> {
        let (mut at, mut len) = (from, 0);
        while at < to {
            // Skips 64 taken clusters at once.
            if at.is_multiple_of(64) && self.used[at as usize / 64] == u64::MAX {
                (at, len) = (at + 64, 0);
                continue;
            }
            len = if self.is_free(at) { len + 1 } else { 0 };
            at += 1;
            if len == count {
                return Some(at - count);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_are_found_where_a_flat_array_has_them(
            clusters in 1u32..300, steps in prop::collection::vec((0u8..4, 1u32..9), 1..200),
        ) {
            let mut map = ClusterMap::new(clusters);
            // ' ' free, 'x' taken, 'd' deleted.
            let mut flat = vec![b' '; clusters as usize];
            let mut taken: Vec<(u32, u32)> = Vec::new();
            for (kind, n) in steps {
                match kind {
                    0 | 1 => {
                        let all: Vec<u32> = (0..clusters.saturating_sub(n - 1))
                            .filter(|&at| (at..at + n).all(|c| flat[c as usize] == b' '))
                            .collect();
                        let next = all.iter().find(|&&at| at >= map.pointer).or(all.first()).copied();
                        let got = map.allocate(n);
                        prop_assert_eq!(got, next);
                        if let Some(at) = got {
                            flat[at as usize..(at + n) as usize].fill(b'x');
                            taken.push((at, n));
                        }
                    }
                    2 if !taken.is_empty() => {
                        let (at, n) = taken.swap_remove(n as usize % taken.len());
                        map.delete(at, n);
                        flat[at as usize..(at + n) as usize].fill(b'd');
                    }
                    _ => {
                        map.reclaim();
                        flat.iter_mut().filter(|c| **c == b'd').for_each(|c| *c = b' ');
                    }
                }
                let count = |kind| flat.iter().filter(|c| **c == kind).count() as u32;
                prop_assert_eq!((map.free(), map.deleted()), (count(b' '), count(b'd')));
            }
        }
    }
}
