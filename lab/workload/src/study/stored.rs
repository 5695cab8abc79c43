//! The folder of a study: `spec.toml`, `host.json` and `runs.jsonl`.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use seekless_host::write_whole;

use super::error::StudyError;
use super::record::{RunRecord, read_records};
use super::spec::StudySpec;
use crate::host::Facts;

/// The content of a study's folder.
#[derive(Clone, Debug)]
pub struct Stored {
    pub(super) spec: StudySpec,
    /// The host that ran the study.
    pub(super) facts: Facts,
    pub(super) records: Vec<RunRecord>,
}

impl Stored {
    /// Reads the folder of a study.
    ///
    /// # Errors
    /// If it holds no study, or a file of the study is damaged.
    pub fn read(dir: &Path) -> Result<Self, StudyError> {
        let path = dir.join("spec.toml");
        let text = fs::read_to_string(&path).map_err(|source| StudyError::NoStudy {
            dir: dir.to_owned(),
            path: path.clone(),
            source,
        })?;
        let spec = StudySpec::toml(&path.display().to_string(), &text)?;
        let path = dir.join("host.json");
        let host = fs::read_to_string(&path).map_err(io_error("read", &path))?;
        let facts =
            serde_json::from_str(&host).map_err(|source| StudyError::Json { path, source })?;
        Ok(Self { spec, facts, records: records(dir)?.0 })
    }
}

/// The runs in a folder, and the byte behind the last whole record.
fn records(dir: &Path) -> Result<(Vec<RunRecord>, usize), StudyError> {
    let path = dir.join("runs.jsonl");
    if !path.exists() {
        return Ok((Vec::new(), 0));
    }
    let text = fs::read_to_string(&path).map_err(io_error("read", &path))?;
    read_records(&text).map_err(|(line, why)| StudyError::Record { path, line, why })
}

/// Keeps the specification, unless the folder holds the same already.
pub(super) fn keep_spec(dir: &Path, text: &str) -> Result<(), StudyError> {
    let path = dir.join("spec.toml");
    match fs::read_to_string(&path) {
        Ok(old) if old != text => Err(StudyError::Refused(format!(
            "{} holds the runs of another specification: give another folder, or remove {}",
            dir.display(),
            path.display()
        ))),
        Ok(_) => Ok(()),
        Err(_) => write(&path, text),
    }
}

pub(super) fn keep_facts(dir: &Path, facts: &Facts) -> Result<(), StudyError> {
    let path = dir.join("host.json");
    match serde_json::to_string_pretty(facts) {
        Ok(text) => write(&path, &text),
        Err(source) => Err(StudyError::Json { path, source }),
    }
}

/// The file that records are appended to.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    file: File,
}

impl RecordFile {
    /// Opens the records of a folder for appending. The end of a record that a crash cut off is
    /// removed.
    pub(super) fn open(dir: &Path) -> Result<(Self, Vec<RunRecord>), StudyError> {
        let (records, whole) = records(dir)?;
        let path = dir.join("runs.jsonl");
        let cannot = io_error("write", &path);
        let open = || -> io::Result<File> {
            let mut file = File::options().create(true).truncate(false).write(true).open(&path)?;
            file.set_len(whole as u64)?;
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        };
        let file = open().map_err(cannot)?;
        Ok((Self { path, file }, records))
    }

    /// Appends a record; it is durable when this returns.
    pub(super) fn append(&mut self, record: &RunRecord) -> Result<(), StudyError> {
        let mut line = serde_json::to_string(record)
            .map_err(|source| StudyError::Json { path: self.path.clone(), source })?;
        line.push('\n');
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(io_error("write", &self.path))
    }
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StudyError + use<> {
    let path = path.to_owned();
    move |source| StudyError::Io { what, path, source }
}

/// Writes a file whole or not at all.
fn write(path: &Path, text: &str) -> Result<(), StudyError> {
    write_whole(path, text.as_bytes(), 0o644).map_err(io_error("write", path))
}
