//! A few hundred files whose every byte is known, to be written, overwritten, replaced and
//! compared.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

use crate::host::Numbers;

/// A new file whose space is reserved at once: files lie in the order in which they were made.
pub(crate) fn reserved(path: &Path, len: u64) -> File {
    let file = File::create(path).unwrap();
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len).unwrap();
    file
}

/// The files: length and version of each.
pub(crate) struct Files(Vec<(usize, u64)>);

impl Files {
    pub(crate) fn new(count: usize, numbers: &mut Numbers) -> Self {
        Self((0..count).map(|_| (length(numbers), 0)).collect())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Writes them all.
    pub(crate) fn fill(&self, root: &Path) {
        for i in 0..self.count() {
            let path = path(root, i);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, self.content(i)).unwrap();
        }
    }

    /// Compares them all, in order.
    pub(crate) fn check(&self, root: &Path) {
        let wrong: Vec<usize> = (0..self.count())
            .filter(|&i| fs::read(path(root, i)).unwrap() != self.content(i))
            .collect();
        assert!(wrong.is_empty(), "under {}, these files are wrong: {wrong:?}", root.display());
    }

    /// Writes a new version over the old, in place.
    pub(crate) fn overwrite(&mut self, root: &Path, i: usize) {
        self.0[i].1 += 1;
        let mut file = File::options().write(true).open(path(root, i)).unwrap();
        file.write_all(&self.content(i)).unwrap();
        if i.is_multiple_of(3) {
            file.sync_data().unwrap();
        }
    }

    /// Replaces one by another of another length, elsewhere on the disk.
    pub(crate) fn replace(&mut self, root: &Path, i: usize, numbers: &mut Numbers) {
        self.0[i] = (length(numbers), self.0[i].1 + 1);
        let path = path(root, i);
        let new = path.with_extension("new");
        fs::write(&new, self.content(i)).unwrap();
        fs::rename(new, path).unwrap();
    }

    fn content(&self, i: usize) -> Vec<u8> {
        let (len, version) = self.0[i];
        Numbers::new((i as u64) << 32 | version).bytes(len)
    }
}

fn length(numbers: &mut Numbers) -> usize {
    let most = if numbers.below(10) == 0 { 300_000 } else { 30_000 };
    1 + numbers.below(most) as usize
}

fn path(root: &Path, i: usize) -> PathBuf {
    root.join(format!("dir{}", i % 7)).join(format!("file{i}"))
}
