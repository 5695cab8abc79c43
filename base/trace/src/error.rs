//! What can go wrong with a trace, and where. Says nothing of exit codes or printing.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::{Event, Format};

/// A place in a file, after decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Line, counted from 1.
    Line(u64),
    /// Byte offset, counted from 0.
    Byte(u64),
    /// Row of the native store, counted from 0.
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(n) => write!(f, "line {n}"),
            Self::Byte(n) => write!(f, "byte {n}"),
            Self::Row(n) => write!(f, "row {n}"),
        }
    }
}

/// A record that is not what its format says it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// The format it was read as.
    pub format: Format,
    /// Where in it.
    pub place: Place,
    /// What should have stood there.
    pub expected: &'static str,
    /// What stood there, cut to a readable length.
    pub found: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, format, place, expected, found } = self;
        write!(
            f,
            "{}: {place}: reading {format}: expected {expected}, found {found}; lenient reading counts such records and passes over them",
            path.display()
        )
    }
}

/// Why a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("{}: cannot be opened{}", path.display(), hint)]
    Open {
        /// The file.
        path: PathBuf,
        /// What the user may have meant.
        hint: &'static str,
        /// The host's word.
        #[source]
        source: io::Error,
    },
    /// Reading or decompressing failed part way.
    #[error("{}: reading stopped at {place}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// How far reading came.
        place: Place,
        /// The host's or the decompressor's word.
        source: io::Error,
    },
    /// The content matches no format.
    #[error(
        "{}: no known trace format (tried {}); it begins with {found}; if you know the format, name it: FORMAT:{}",
        path.display(), Format::ALL.iter().map(|f| f.name()).collect::<Vec<_>>().join(", "), path.display()
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Its beginning.
        found: String,
    },
    /// The content fits several formats equally well.
    #[error(
        "{}: this may be any of {formats}; name which it is: FORMAT:{}", path.display(), path.display()
    )]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// Their names.
        formats: String,
    },
    /// The trace is of a disk, and what was asked for is a trace of files.
    #[error("{}: {format} is a trace of a disk, not of files; strace and procmon are", path.display())]
    NotOfFiles {
        /// The file.
        path: PathBuf,
        /// What it is.
        format: Format,
    },
    /// A synthetic trace is named, and nothing here makes one.
    #[error(
        "synth:{name}: a synthetic trace is no file; write one with `seekless-lab synth {name} -o FILE`, then name that file"
    )]
    NotGenerated {
        /// The trace asked for.
        name: String,
    },
    /// The file holds nothing.
    #[error("{}: the file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A record is not what its format says.
    #[error("{0}")]
    Malformed(Box<Malformed>),
    /// The trace holds requests, but none of the event asked for.
    #[error(
        "{}: no {} events, but {queue} Q, {issue} D and {complete} C: ask for one of these",
        path.display(), event.letter()
    )]
    NoSuchEvent {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        event: Event,
        /// How many Q events there are.
        queue: u64,
        /// How many D events there are.
        issue: u64,
        /// How many C events there are.
        complete: u64,
    },
    /// The trace has no request of the device asked for.
    #[error("{}: no requests of device '{device}'; {}", path.display(), listed(names))]
    NoSuchDevice {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        device: String,
        /// The devices there are.
        names: Vec<String>,
    },
    /// The native store cannot be read.
    #[error("{}: not a readable native store: {what}", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// What is written to fails.
    #[error("{}: cannot be written", path.display())]
    WriteFailed {
        /// The file.
        path: PathBuf,
        /// The host's word.
        source: io::Error,
    },
    /// A trace cannot be written in the format asked for.
    #[error("{}: cannot be written: {what}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        what: String,
    },
}

/// The names of devices, as many as one likes to read.
fn listed(names: &[String]) -> String {
    const MOST: usize = 20;
    let some = names.iter().take(MOST).map(|n| format!("'{n}'")).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => "the trace has none".to_owned(),
        n if n > MOST => format!("it has {n}, among them {some}"),
        _ => format!("it has {some}"),
    }
}

/// What a parser says of a bad record; the reader adds file and place.
#[derive(Debug)]
pub(crate) struct Bad {
    pub(crate) expected: &'static str,
    /// What was found, where it is not simply the line.
    pub(crate) found: Option<String>,
}

impl Bad {
    pub(crate) const fn new(expected: &'static str) -> Self {
        Self { expected, found: None }
    }

    #[cold]
    pub(crate) fn found(expected: &'static str, found: String) -> Self {
        Self { expected, found: Some(found) }
    }
}

/// Bytes from outside, quoted and cut for a message.
pub(crate) fn quote(bytes: &[u8]) -> String {
    const MAX: usize = 96;
    let mut out = String::from("'");
    for &b in &bytes[..bytes.len().min(MAX)] {
        out.extend(std::ascii::escape_default(b).map(char::from));
    }
    out.push('\'');
    if bytes.len() > MAX {
        out.push_str("...");
    }
    out
}
