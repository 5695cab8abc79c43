//! A learner's memory, kept in a file from one start to the next. Its loss costs only speed, so a
//! damaged file is reported and renamed. A file of another program is not touched. Format:
//! docs/changing/learned-state-format.md.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seekless_block::Bytes;
use seekless_learn::{AccessGraph, Decoded, EDGES_MAX, StateError};

use seekless_host::{HostError, cannot_at, folder, part_of, remove_parts, write_whole};

use crate::error::ServeError;

/// Shows a line of text to the user.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// More than the largest memory of a learner.
const BYTES_MAX: u64 = 1 << 30;

/// The file, and its contents at opening.
pub struct MemoryFile {
    path: PathBuf,
    known: Option<Decoded>,
    say: Say,
    failed: bool,
}

impl MemoryFile {
    /// Opens the memory at `path`. `say` reports an unusable file.
    pub fn open(path: &Path, say: Say) -> Result<Self, ServeError> {
        let mut memory = Self { path: path.to_owned(), known: None, say, failed: false };
        memory.known = memory.read()?;
        // Tests the write now, not in an hour.
        part_of(path).map_err(cannot_at(path, "be written"))?;
        remove_parts(folder(path), |name| Some(name) == path.file_name());
        Ok(memory)
    }

    /// True if the file had the memory of an earlier server.
    pub const fn knows(&self) -> bool {
        self.known.is_some()
    }

    /// Returns the file's contents.
    pub(crate) fn take_known(&mut self) -> Option<Decoded> {
        self.known.take()
    }

    fn read(&self) -> Result<Option<Decoded>, ServeError> {
        let cannot = || cannot_at(&self.path, "read the learned data");
        let meta = match self.path.metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(cannot())?,
        };
        let not_ours = || {
            let why = "is not a state file of seekless, and would be overwritten: name another file, or remove this file";
            HostError::Refused { path: self.path.clone(), why: why.to_owned() }
        };
        if !meta.is_file() || meta.len() > BYTES_MAX {
            return Err(not_ours().into());
        }
        let bytes = fs::read(&self.path).map_err(cannot())?;
        match AccessGraph::decode(&bytes, Bytes(0), EDGES_MAX) {
            Ok(found) => Ok(Some(found)),
            Err(StateError::NotOurs) => Err(not_ours().into()),
            Err(error) => {
                self.set_aside(&error.to_string());
                Ok(None)
            }
        }
    }

    /// Renames an unusable file, and reports the reason.
    pub(crate) fn set_aside(&self, why: &str) {
        let mut aside = self.path.as_os_str().to_owned();
        aside.push(".refused");
        let name = self.path.display();
        let now = match fs::rename(&self.path, &aside) {
            Ok(()) => format!("is now {}", Path::new(&aside).display()),
            Err(error) => format!("will be replaced ({error})"),
        };
        (self.say)(&format!("{name}: {why}. Learning starts again; the file {now}"));
    }

    /// Replaces the file durably as a whole; reports the first failure.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // The memory tells which programs run: only its owner may read it.
        let done = write_whole(&self.path, bytes, 0o600);
        if let Err(error) = &done
            && !self.failed
        {
            let path = self.path.display();
            (self.say)(&format!("{path}: the learned data cannot be saved: {error}"));
        }
        self.failed = done.is_err();
    }
}
