//! The backing file: made on request, and removed again if serving fails.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use seekless_block::{Bytes, SECTOR_BYTES};
use seekless_host::private::create_private;
use seekless_serve::NbdUri;

/// A new file; removed when dropped, unless it was kept.
#[derive(Debug, Default)]
pub(super) struct NewBacking(Option<PathBuf>);

impl NewBacking {
    pub(super) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for NewBacking {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Makes the backing if it does not exist and its size is known.
pub(super) fn prepare(path: &Path, size: Option<Bytes>) -> anyhow::Result<NewBacking> {
    let name = path.display();
    if NbdUri::in_path(path).is_some() {
        ensure!(size.is_none(), "{name}: its server knows its size: leave out --size");
        return Ok(NewBacking::default());
    }
    let Some(size) = size else {
        match path.metadata() {
            Ok(meta) => {
                ensure!(
                    !meta.is_file() || meta.len() > 0,
                    "{name}: the file is empty; give the file a size: `truncate -s SIZE {name}`"
                );
                return Ok(NewBacking::default());
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let todo = match path.to_string_lossy().contains("://") {
                    true => {
                        "a disk on another server begins with nbd://, nbds://, nbd+unix:// or nbds+unix://"
                    }
                    false => "--size SIZE makes a new one",
                };
                return Err(e).with_context(|| format!("{name}: cannot open it; {todo}"));
            }
            Err(e) => return Err(e).with_context(|| format!("{name}: cannot open it")),
        }
    };
    ensure!(
        size.0 > 0 && size.0.is_multiple_of(SECTOR_BYTES),
        "--size {}: a disk's size is a multiple of 512 bytes, and not 0",
        size.0
    );
    match create_private(path) {
        Ok(file) => {
            let made = NewBacking(Some(path.to_owned()));
            file.set_len(size.0)
                .with_context(|| format!("{name}: cannot set its size to {size}"))?;
            Ok(made)
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let found = path.metadata().with_context(|| format!("{name}: cannot open it"))?;
            ensure!(
                !found.is_file() || found.len() == size.0,
                "{name}: the file exists with {} bytes, not the {} bytes of --size; nothing was changed",
                found.len(),
                size.0
            );
            Ok(NewBacking::default())
        }
        Err(e) => Err(e).with_context(|| format!("{name}: cannot make it")),
    }
}
