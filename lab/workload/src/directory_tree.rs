//! The directory tree of a file set, as in Filebench: the width of a directory and the depth of the
//! files are gamma distributed, around the set's mean width and ln(files) / ln(width). Files are
//! only in the lowest directories. This module makes names and numbers, no files.

use crate::personality::{FileSetSpec, SizeSpec};
use crate::seeded_random::SeededRandom;

/// Maximum depth of a tree; a deeper one would exceed the longest path.
const DEEPEST: usize = 64;

/// The places of a set's files: their names and sizes.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// Directories below the set's own, each after its parent, with a slash at the end.
    pub(crate) folders: Vec<String>,
    /// Paths below the set's directory, one after another, each with a zero byte at its end.
    names: Vec<u8>,
    starts: Vec<usize>,
    /// Sizes in bytes.
    pub(crate) sizes: Vec<u64>,
    /// Whether the file exists at the beginning.
    pub(crate) there: Vec<bool>,
}

struct TreeBuilder<'a> {
    spec: &'a FileSetSpec,
    chance: SeededRandom,
    tree: Tree,
}

impl Tree {
    /// Builds the tree. The same set and seed give the same tree.
    pub(crate) fn grow(spec: &FileSetSpec, seed: u64, purpose: u64) -> Self {
        let files = spec.files as usize;
        let tree = Self {
            folders: Vec::new(),
            names: Vec::with_capacity(files * 16),
            starts: Vec::with_capacity(files),
            sizes: Vec::with_capacity(files),
            there: Vec::with_capacity(files),
        };
        let mut grower = TreeBuilder { spec, chance: SeededRandom::new(seed, 2 * purpose), tree };
        // Adds folders to the first level until all files have a place.
        while grower.tree.sizes.len() < files {
            grower.folder("", 2);
        }
        let mut tree = grower.tree;
        let mut chance = SeededRandom::new(seed, 2 * purpose + 1);
        tree.there =
            (0..files).map(|_| spec.prealloc >= 1.0 || chance.unit() < spec.prealloc).collect();
        tree
    }

    /// The path below the set's directory, with a zero byte at its end.
    pub(crate) fn name(&self, file: usize) -> &[u8] {
        let from = self.starts[file];
        let to = self.starts.get(file + 1).copied().unwrap_or(self.names.len());
        &self.names[from..to]
    }

    pub(crate) fn len(&self) -> usize {
        self.sizes.len()
    }
}

impl TreeBuilder<'_> {
    fn folder(&mut self, above: &str, depth: usize) {
        let path = format!("{above}{:08}/", self.tree.folders.len() + 1);
        self.tree.folders.push(path.clone());
        let shape = self.spec.width_shape;
        let deep = self.chance.gamma(self.spec.mean_depth().max(1e-9), shape).floor().max(1.0);
        let leaf = depth >= DEEPEST || depth as f64 >= deep;
        let width = self.chance.gamma(self.spec.width, shape).ceil().max(1.0);
        let mut entries = 0.0;
        while entries < width && (self.tree.sizes.len() as u64) < self.spec.files {
            entries += 1.0;
            if leaf {
                self.file(&path);
            } else {
                self.folder(&path, depth + 1);
            }
        }
    }

    fn file(&mut self, path: &str) {
        let tree = &mut self.tree;
        tree.starts.push(tree.names.len());
        tree.names.extend_from_slice(path.as_bytes());
        tree.names.extend_from_slice(format!("{:08}\0", tree.sizes.len() + 1).as_bytes());
        tree.sizes.push(match self.spec.size {
            SizeSpec::Fixed(size) => size,
            SizeSpec::Gamma { mean, shape } => self.chance.gamma(mean as f64, shape).round() as u64,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::personality::preset;
    use crate::seeded_random::gamma_cdf;

    /// Mean and shape of the sizes in the paper's sets, checked by the Kolmogorov-Smirnov test
    /// against the gamma distribution, and by moments.
    #[test]
    fn sizes_have_the_mean_and_the_shape_they_should() {
        for (name, set) in [("webserver", 0), ("fileserver", 0), ("varmail", 0)] {
            let spec = preset(name).unwrap().unwrap().sets.swap_remove(set);
            let SizeSpec::Gamma { mean, shape } = spec.size else {
                panic!("{name} has fixed sizes")
            };
            assert!((shape - 1.5).abs() < 1e-12);
            let seed = 11;
            let mut sizes = Tree::grow(&spec, seed, 0).sizes;
            let n = sizes.len() as f64;
            let (m, true_mean) = (sizes.iter().sum::<u64>() as f64 / n, mean as f64);
            let var = sizes.iter().map(|s| (*s as f64 - m).powi(2)).sum::<f64>() / (n - 1.0);
            // Standard errors: of the mean, mean / sqrt(shape n); of the shape by moments, about 3
            // times 1 / sqrt(n).
            assert!(
                (m / true_mean - 1.0).abs() < 4.0 / (shape * n).sqrt(),
                "{name}, seed {seed}: mean {m}"
            );
            assert!((m * m / var - shape).abs() < 12.0 / n.sqrt(), "{name}: shape {}", m * m / var);
            sizes.sort_unstable();
            let far = |(i, x): (usize, &u64)| {
                (gamma_cdf(*x as f64, true_mean, shape) - (i as f64 + 0.5) / n).abs()
            };
            let d = sizes.iter().enumerate().map(far).fold(0.0, f64::max);
            assert!(d < 1.63 / n.sqrt() + 0.5 / n, "{name}, seed {seed}: D = {d}");
        }
    }

    /// Filebench's own figures for mean 16k and shape 1.5: half below 12.5k, nine in ten below
    /// 31k... as measured.
    #[test]
    fn quantiles_agree_with_those_measured_in_filebench() {
        for (mean, p50, p90) in [(16.0, 12.5, 31.0), (128.0, 104.0, 269.0)] {
            let k = 1024.0;
            assert!((gamma_cdf(p50 * k, mean * k, 1.5) - 0.5).abs() < 0.03, "{mean}");
            assert!((gamma_cdf(p90 * k, mean * k, 1.5) - 0.9).abs() < 0.03, "{mean}");
        }
    }

    #[test]
    fn trees_are_as_deep_as_the_paper_says() {
        for (name, deep, folders) in [
            ("webserver", 3.3f64, 50..4000),
            ("fileserver", 3.6, 100..10_000),
            ("varmail", 0.8, 1..3),
        ] {
            let spec = preset(name).unwrap().unwrap().sets.swap_remove(0);
            let (mut depths, mut n) = (0.0, 0.0);
            for seed in 1..=5 {
                let tree = Tree::grow(&spec, seed, 0);
                assert_eq!(tree.len() as u64, spec.files);
                assert!(
                    folders.contains(&tree.folders.len()),
                    "{name}: {} folders",
                    tree.folders.len()
                );
                // Directories above each file, including the set's own.
                let slashes = |i| tree.name(i).iter().filter(|b| **b == b'/').count();
                depths += (0..tree.len()).map(|i| slashes(i) + 1).sum::<usize>() as f64;
                n += tree.len() as f64;
            }
            // Deeper branches contain more of the files, so the mean over files is above the mean
            // over branches.
            let mean = depths / n;
            assert!(mean >= deep.max(1.0) * 0.8 && mean < deep.max(1.0) * 2.5, "{name}: {mean}");
        }
    }

    #[test]
    fn names_are_distinct_and_reproducible() {
        let spec = preset("webserver").unwrap().unwrap().scaled(0.05).sets.swap_remove(0);
        let (a, b) = (Tree::grow(&spec, 3, 1), Tree::grow(&spec, 3, 1));
        let names: std::collections::BTreeSet<_> =
            (0..a.len()).map(|i| a.name(i).to_vec()).collect();
        assert_eq!(names.len(), 1000);
        assert!((0..a.len()).all(|i| a.name(i) == b.name(i) && a.name(i).ends_with(b"\0")));
        assert_eq!(a.sizes, b.sizes);
        assert_ne!(a.sizes, Tree::grow(&spec, 4, 1).sizes);
        let some = FileSetSpec { prealloc: 0.8, ..spec };
        let there = Tree::grow(&some, 5, 0).there.iter().filter(|t| **t).count();
        assert!((750..850).contains(&there), "{there}");
    }
}
