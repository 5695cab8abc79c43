//! What a learner knows, kept in a file from one start to the next. Losing it costs speed and nothing else, so
//! a damaged file is said and left behind; a file that is not ours is not touched. It refuses to know what
//! the bytes mean.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use seekless_block::Bytes;
use seekless_learn::{AccessGraph, Decoded, StateError};

use seekless_cli::output;

/// More than the largest graph that a server keeps.
const BYTES_MAX: u64 = 1 << 30;

/// The file.
#[derive(Debug)]
pub(crate) struct Memory {
    path: PathBuf,
    failed: bool,
}

impl Memory {
    /// Opens the memory at `path`, and what it holds for a server with so much RAM; says where that cannot be used.
    pub(crate) fn open(
        path: &Path,
        ram: Bytes,
        max_edges: usize,
    ) -> anyhow::Result<(Self, Option<Decoded>)> {
        let memory = Self { path: path.to_owned(), failed: false };
        let known = memory.read(ram, max_edges)?;
        // What cannot be written at all is better known now than in an hour.
        memory.part().with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok((memory, known))
    }

    fn read(&self, ram: Bytes, max_edges: usize) -> anyhow::Result<Option<Decoded>> {
        let name = self.path.display();
        let cannot = || format!("{name}: cannot read what was learned");
        let meta = match self.path.metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.with_context(cannot)?,
        };
        let not_ours = format!(
            "{name}: is no memory of seekless, and would be overwritten: name another file, or remove this one"
        );
        if !meta.is_file() || meta.len() > BYTES_MAX {
            bail!(not_ours);
        }
        let bytes = fs::read(&self.path).with_context(cannot)?;
        match AccessGraph::decode(&bytes, ram, max_edges) {
            Ok(found) => Ok(Some(found)),
            Err(StateError::NotOurs) => bail!(not_ours),
            Err(error) => {
                self.set_aside(&error.to_string());
                Ok(None)
            }
        }
    }

    /// Leaves a file that cannot be used behind under another name, and says why.
    pub(crate) fn set_aside(&self, why: &str) {
        let mut aside = self.path.as_os_str().to_owned();
        aside.push(".refused");
        let name = self.path.display();
        let now = match fs::rename(&self.path, &aside) {
            Ok(()) => format!("is now {}", Path::new(&aside).display()),
            Err(error) => format!("will be replaced ({error})"),
        };
        output::say(&format!("{name}: {why}. Learning begins afresh; the file {now}"));
    }

    /// Replaces the file, whole and durably; says once where that fails.
    pub(crate) fn write(&mut self, graph: &AccessGraph, since_aged: seekless_block::Duration) {
        let bytes = graph.encode(since_aged);
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
