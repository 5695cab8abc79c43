//! A table of inodes that uses little memory: there may be millions. All handles of one file system
//! have the same form, so that the table keeps only their bytes, side by side. An index of row
//! numbers finds a row, at about ten bytes a row.

use std::hash::{BuildHasher as _, BuildHasherDefault, Hash};

use hashbrown::HashTable;
use rustc_hash::FxHasher;

use crate::inode_handle::{InodeHandle, Shape};

/// The data of an inode beside its handle.
pub(crate) trait InodeRow: Copy {
    type Key: Copy + Eq + Hash;
    fn key(&self, handle: InodeHandle) -> Self::Key;
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct InodeTable<T> {
    shape: Shape,
    handles: Vec<u8>,
    rows: Vec<T>,
    index: HashTable<u32>,
}

fn hash<K: Hash>(key: K) -> u64 {
    BuildHasherDefault::<FxHasher>::default().hash_one(key)
}

/// Grows a list by an eighth, so that a million rows do not take the memory of two million.
fn reserve<T>(list: &mut Vec<T>, more: usize) {
    if list.len() + more > list.capacity() {
        list.reserve_exact(more + list.len() / 8);
    }
}

impl<T: InodeRow> InodeTable<T> {
    /// A table of inodes whose handles have this shape.
    pub(crate) const fn new(shape: Shape) -> Self {
        Self { shape, handles: Vec::new(), rows: Vec::new(), index: HashTable::new() }
    }

    pub(crate) const fn len(&self) -> usize {
        self.rows.len()
    }

    fn at(&self, place: usize) -> Option<(InodeHandle, T)> {
        let width = self.shape.bytes();
        let bytes = self.handles.get(place * width..(place + 1) * width)?;
        Some((self.shape.handle(bytes)?, *self.rows.get(place)?))
    }

    fn key_at(&self, place: u32) -> Option<T::Key> {
        self.at(place as usize).map(|(handle, row)| row.key(handle))
    }

    fn place(&self, key: T::Key) -> Option<usize> {
        let found = self.index.find(hash(key), |&i| self.key_at(i) == Some(key));
        found.map(|&i| i as usize)
    }

    pub(crate) fn get(&self, key: T::Key) -> Option<(InodeHandle, T)> {
        self.at(self.place(key)?)
    }

    /// A row to change. Its key must stay.
    pub(crate) fn get_mut(&mut self, key: T::Key) -> Option<&mut T> {
        let place = self.place(key)?;
        self.rows.get_mut(place)
    }

    /// Sets a row and returns the former row of its key. A handle of another shape belongs to
    /// another file system and is ignored; [`crate::underlying::UnderlyingDir::handle_of`] refuses
    /// such handles.
    pub(crate) fn insert(&mut self, handle: InodeHandle, row: T) -> Option<(InodeHandle, T)> {
        if handle.shape() != self.shape {
            return None;
        }
        let key = row.key(handle);
        let width = self.shape.bytes();
        if let Some(place) = self.place(key) {
            let old = self.at(place);
            self.handles[place * width..(place + 1) * width].copy_from_slice(handle.data());
            self.rows[place] = row;
            return old;
        }
        let place = self.rows.len() as u32;
        reserve(&mut self.handles, width);
        reserve(&mut self.rows, 1);
        self.handles.extend_from_slice(handle.data());
        self.rows.push(row);
        let mut index = std::mem::take(&mut self.index);
        index.insert_unique(hash(key), place, |&i| self.key_at(i).map_or(0, hash));
        self.index = index;
        None
    }

    pub(crate) fn remove(&mut self, key: T::Key) -> Option<(InodeHandle, T)> {
        let place = self.place(key)?;
        let old = self.at(place);
        let last = self.rows.len() - 1;
        let moved = self.key_at(last as u32)?;
        if let Ok(entry) = self.index.find_entry(hash(key), |&i| i as usize == place) {
            entry.remove();
        }
        // The last row moves to the free row number.
        if place != last
            && let Some(i) = self.index.find_mut(hash(moved), |&i| i as usize == last)
        {
            *i = place as u32;
        }
        let width = self.shape.bytes();
        self.handles.copy_within(last * width..(last + 1) * width, place * width);
        self.handles.truncate(last * width);
        self.rows.swap_remove(place);
        if self.rows.len() < self.rows.capacity() / 4 {
            self.shrink();
        }
        old
    }

    /// Gives memory back after many removals.
    #[cold]
    fn shrink(&mut self) {
        let to = self.rows.len() + self.rows.len() / 8 + 64;
        if to < self.rows.capacity() / 2 {
            self.rows.shrink_to(to);
            self.handles.shrink_to(to * self.shape.bytes());
            let mut index = std::mem::take(&mut self.index);
            index.shrink_to(to, |&i| self.key_at(i).map_or(0, hash));
            self.index = index;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (InodeHandle, T)> {
        (0..self.rows.len()).filter_map(|place| self.at(place))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Counted {
        key: u16,
        value: u32,
    }

    impl InodeRow for Counted {
        type Key = u16;

        fn key(&self, _: InodeHandle) -> u16 {
            self.key
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Named(u32);

    impl InodeRow for Named {
        type Key = InodeHandle;

        fn key(&self, handle: InodeHandle) -> InodeHandle {
            handle
        }
    }

    fn handle(i: u32) -> InodeHandle {
        let mut name = vec![1];
        name.extend(i.to_le_bytes());
        name.extend((!i).to_le_bytes());
        InodeHandle::from_name(&name).unwrap()
    }

    proptest! {
        #[test]
        fn a_table_behaves_like_a_map(steps in prop::collection::vec((0u16..90, any::<u32>(), 0u8..5), 0..600)) {
            let mut rows = InodeTable::new(handle(0).shape());
            let mut by_handle = InodeTable::new(handle(0).shape());
            let mut map = BTreeMap::new();
            for (key, value, what) in steps {
                let (row, at) = (Counted { key, value }, handle(value));
                match what {
                    0 | 1 => {
                        prop_assert_eq!(rows.insert(at, row), map.insert(key, (at, row)));
                        let old = by_handle.insert(handle(key.into()), Named(value));
                        prop_assert_eq!(old.is_some(), rows.len() == by_handle.len() && old.is_some());
                    }
                    2 => {
                        if let Some(row) = rows.get_mut(key) {
                            row.value = !value;
                        }
                        if let Some((_, row)) = map.get_mut(&key) {
                            row.value = !value;
                        }
                    }
                    _ => {
                        prop_assert_eq!(rows.remove(key), map.remove(&key));
                        by_handle.remove(handle(key.into()));
                    }
                }
                prop_assert_eq!(rows.len(), map.len());
                prop_assert_eq!(by_handle.len(), map.len());
                prop_assert_eq!(rows.get(key), map.get(&key).copied());
                prop_assert_eq!(by_handle.get(handle(key.into())).is_some(), map.contains_key(&key));
            }
            let mut all: Vec<(u16, (InodeHandle, Counted))> = rows.iter().map(|(h, r)| (r.key, (h, r))).collect();
            all.sort_by_key(|r| r.0);
            prop_assert_eq!(all, map.into_iter().collect::<Vec<_>>());
            prop_assert!(by_handle.iter().all(|(h, _)| by_handle.get(h).is_some()));
        }
    }

    #[test]
    fn little_memory_is_used_and_it_is_given_back() {
        let mut rows = InodeTable::new(handle(0).shape());
        for i in 0..100_000 {
            rows.insert(handle(i), Named(i));
        }
        // 8 bytes of handle and 4 of row, an eighth to spare; and the index.
        assert!(rows.handles.capacity() + 4 * rows.rows.capacity() < 100_000 * 14);
        assert!(rows.index.capacity() < 270_000);
        for i in 0..99_990 {
            assert_eq!(rows.remove(handle(i)), Some((handle(i), Named(i))));
        }
        assert!(rows.rows.capacity() < 1_000 && rows.index.capacity() < 1_000);
        assert_eq!(rows.iter().count(), 10);
    }
}
