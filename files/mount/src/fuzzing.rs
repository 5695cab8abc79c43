//! What the fuzz targets call, here so that a test can replay their corpora: decoders of what stands in extended attributes and in a
//! group store. Each checks what must hold for any bytes at all.

use crate::inode_handle::InodeHandle;
use crate::inode_table::{InodeRow, InodeTable};
use crate::underlying::{self, Marker};

#[derive(Clone, Copy)]
struct Found;

impl InodeRow for Found {
    type Key = InodeHandle;

    fn key(&self, handle: InodeHandle) -> InodeHandle {
        handle
    }
}

/// A file's name in a group store.
///
/// # Panics
/// Where a handle is not the bytes that it came from.
pub fn handle(data: &[u8]) {
    if let Some(handle) = InodeHandle::from_name(data) {
        assert_eq!(handle.to_name(), data);
        assert_eq!(handle.shape().handle(handle.data()), Some(handle));
        let mut rows = InodeTable::new(handle.shape());
        rows.insert(handle, Found);
        assert!(rows.get(handle).is_some_and(|(found, _)| found == handle));
    }
}

/// A marker, and a directory's binding.
///
/// # Panics
/// Where what was read is not the bytes that it came from.
pub fn marker(data: &[u8]) {
    if let Some(marker) = Marker::decode(data) {
        assert_eq!(marker.encode()[..], *data);
    }
    if let Some((store, Some(handle))) = underlying::bound(data) {
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
