//! Errors in traces, and their positions. Exit codes and printing are defined elsewhere.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::{Event, Format};

/// A position in a file, after decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TracePosition {
    /// Line, counted from 1.
    Line(u64),
    /// Byte offset, counted from 0.
    Byte(u64),
    /// Row of the native store, counted from 0.
    Row(u64),
}

impl fmt::Display for TracePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(n) => write!(f, "line {n}"),
            Self::Byte(n) => write!(f, "byte {n}"),
            Self::Row(n) => write!(f, "row {n}"),
        }
    }
}

/// A record that does not follow its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The file, as named by the user.
    pub path: PathBuf,
    /// The format it was read as.
    pub format: Format,
    /// Position in the file.
    pub place: TracePosition,
    /// The expected content.
    pub expected: &'static str,
    /// The content found, cut to a readable length.
    pub found: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, format, place, expected, found } = self;
        write!(
            f,
            "{}: {place}: reading {format}: expected {expected}, found {found}; lenient reading counts and skips such records",
            path.display()
        )
    }
}

/// The reason why a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("{}: cannot be opened{}", path.display(), hint)]
    Open {
        /// The file.
        path: PathBuf,
        /// A guess at the user's intention.
        hint: &'static str,
        /// The error from the host.
        #[source]
        source: io::Error,
    },
    /// Reading or decompressing failed in the middle.
    #[error("{}: reading stopped at {place}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The position that reading reached.
        place: TracePosition,
        /// The error from the host or from the decompressor.
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
    /// The trace is of a disk, but a trace of files was requested.
    #[error("{}: {format} is a trace of a disk, not of files; traces of files are strace and procmon", path.display())]
    NotOfFiles {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: Format,
    },
    /// A synthetic trace was named, but no generator exists here.
    #[error(
        "synth:{name}: a synthetic trace is not a file; write one with `seekless-lab synth {name} -o FILE`, then name that file"
    )]
    NotGenerated {
        /// The trace requested.
        name: String,
    },
    /// The file is empty.
    #[error("{}: the file is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A record does not follow its format.
    #[error("{0}")]
    Malformed(Box<Malformed>),
    /// The trace has requests, but none with the requested event.
    #[error(
        "{}: no {} events, but {queue} Q, {issue} D and {complete} C events; choose one of these with --event",
        path.display(), event.letter()
    )]
    NoSuchEvent {
        /// The file.
        path: PathBuf,
        /// The event requested.
        event: Event,
        /// Number of Q events.
        queue: u64,
        /// Number of D events.
        issue: u64,
        /// Number of C events.
        complete: u64,
    },
    /// The trace has no request of the requested device.
    #[error("{}: no requests of device '{device}'; {}", path.display(), listed(names))]
    NoSuchDevice {
        /// The file.
        path: PathBuf,
        /// The device requested.
        device: String,
        /// The devices in the trace.
        names: Vec<String>,
    },
    /// The native store cannot be read.
    #[error("{}: not a readable native store: {what}", path.display())]
    Store {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// The output cannot be written.
    #[error("{}: cannot be written", path.display())]
    WriteFailed {
        /// The file.
        path: PathBuf,
        /// The error from the host.
        source: io::Error,
    },
    /// A trace cannot be written in the requested format.
    #[error("{}: cannot be written: {what}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
}

/// The names of devices, limited to a readable number.
fn listed(names: &[String]) -> String {
    const MOST: usize = 20;
    let some = names.iter().take(MOST).map(|n| format!("'{n}'")).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => "the trace has none".to_owned(),
        n if n > MOST => format!("it has {n}, among them {some}"),
        _ => format!("it has {some}"),
    }
}

/// A bad record, as reported by a parser. The reader adds file and position.
#[derive(Debug)]
pub(crate) struct BadRecord {
    pub(crate) expected: &'static str,
    /// The content found, if it is not simply the line.
    pub(crate) found: Option<String>,
}

impl BadRecord {
    pub(crate) const fn new(expected: &'static str) -> Self {
        Self { expected, found: None }
    }

    #[cold]
    pub(crate) fn found(expected: &'static str, found: String) -> Self {
        Self { expected, found: Some(found) }
    }
}

/// Quotes bytes for a message, and limits their length.
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
