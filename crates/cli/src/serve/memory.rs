//! What a learner knows, kept in a file from one start to the next. Losing it costs speed and nothing else, so
//! a damaged file is said and left behind; a file that is not ours is not touched. It refuses to know what
//! the bytes mean.

use std::fs::{self, File, Permissions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use seekless_block::{SECTOR_BYTES, Sectors};
use seekless_layout::{AccessGraph, Decoded, StateError};

use crate::output;

/// More than the largest graph that a server keeps.
const BYTES_MAX: u64 = 1 << 30;

/// The file, and the volume that it is about.
#[derive(Debug)]
pub(crate) struct Memory {
    path: PathBuf,
    volume: Sectors,
    failed: bool,
}

impl Memory {
    /// Opens the memory at `path` of the disk `backing`, and what it holds; says where that cannot be used.
    pub(crate) fn open(
        path: &Path,
        backing: &Path,
        max_edges: usize,
    ) -> anyhow::Result<(Self, Option<Decoded>)> {
        let size = File::open(backing).and_then(|mut f| f.seek(SeekFrom::End(0)));
        let size = size.with_context(|| format!("{}: cannot open it", backing.display()))?;
        let volume = Sectors(size / SECTOR_BYTES);
        let known = read(path, volume, max_edges)?;
        let memory = Self { path: path.to_owned(), volume, failed: false };
        // What cannot be written at all is better known now than in an hour.
        memory.part().with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok((memory, known))
    }

    /// Replaces the file, whole and durably; says once where that fails.
    pub(crate) fn write(&mut self, graph: &AccessGraph, since_aged: seekless_block::Duration) {
        let bytes = graph.encode(self.volume, since_aged);
        let done = self.part().and_then(|mut file| {
            file.write_all(&bytes)?;
            output::keep(file, &self.path)
        });
        if let Err(error) = &done
            && !self.failed
        {
            let path = self.path.display();
            output::say(&format!("{path}: what was learned cannot be kept: {error}"));
        }
        self.failed = done.is_err();
    }

    /// What one's programs read is nobody else's business.
    fn part(&self) -> io::Result<tempfile::NamedTempFile> {
        output::part(&self.path, Permissions::from_mode(0o600))
    }
}

fn read(path: &Path, volume: Sectors, max_edges: usize) -> anyhow::Result<Option<Decoded>> {
    let name = path.display();
    let cannot = || format!("{name}: cannot read what was learned");
    let meta = match path.metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.with_context(cannot)?,
    };
    let not_ours = format!(
        "{name}: is no memory of seekless, and would be overwritten: name another file, or remove this one"
    );
    if !meta.is_file() || meta.len() > BYTES_MAX {
        bail!(not_ours);
    }
    let why = match AccessGraph::decode(&fs::read(path).with_context(cannot)?, max_edges) {
        Ok(found) if found.volume == volume => return Ok(Some(found)),
        Ok(found) => {
            format!(
                "it is about a disk of {}, and this one has {}",
                found.volume.bytes(),
                volume.bytes()
            )
        }
        Err(StateError::NotOurs) => bail!(not_ours),
        Err(error) => error.to_string(),
    };
    let mut aside = path.as_os_str().to_owned();
    aside.push(".refused");
    fs::rename(path, &aside).with_context(cannot)?;
    let aside = Path::new(&aside).display();
    output::say(&format!("{name}: {why}. Learning begins afresh; the file is now {aside}"));
    Ok(None)
}
