//! The decoders of extended attributes and of names in a group store, for fuzz targets and for a
//! test that replays their corpora. Each checks properties that hold for all bytes.

use crate::inode_handle::InodeHandle;
use crate::inode_table::{InodeRow, InodeTable};
use crate::underlying::{self, Marker};

#[derive(Clone, Copy)]
struct Empty;

impl InodeRow for Empty {
    type Key = InodeHandle;

    fn key(&self, handle: InodeHandle) -> InodeHandle {
        handle
    }
}

/// Reads the name of a file in a group store.
///
/// # Panics
/// A handle differs from its bytes.
pub fn handle(data: &[u8]) {
    if let Some(handle) = InodeHandle::from_name(data) {
        assert_eq!(handle.to_name(), data);
        assert_eq!(handle.shape().handle(handle.data()), Some(handle));
        let mut rows = InodeTable::new(handle.shape());
        rows.insert(handle, Empty);
        assert!(rows.get(handle).is_some_and(|(found, _)| found == handle));
    }
}

/// Reads a marker and the binding of a directory.
///
/// # Panics
/// A marker or binding differs from its bytes.
pub fn marker(data: &[u8]) {
    if let Some(marker) = Marker::decode(data) {
        assert_eq!(marker.encode()[..], *data);
    }
    if let Some((store, Some(handle))) = underlying::decode_binding(data) {
        assert_eq!([&store[..], &handle.to_name()].concat(), data);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_corpora_do_no_harm_whole_or_cut() {
        for (name, read) in
            [("fs_handle", super::handle as fn(&[u8])), ("fs_marker", super::marker)]
        {
            let corpus = format!("{}/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
            let mut seen = 0;
            for entry in std::fs::read_dir(corpus).unwrap() {
                let data = std::fs::read(entry.unwrap().path()).unwrap();
                (0..=data.len()).for_each(|len| read(&data[..len]));
                seen += 1;
            }
            assert!(seen >= 5, "{name}: {seen} files");
        }
    }
}
