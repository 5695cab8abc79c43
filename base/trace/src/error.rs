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
#[allow(missing_docs, reason = "the messages say the same")]
pub enum TraceError {
    #[error("{}: cannot be opened{}", path.display(), hint)]
    Open { path: PathBuf, hint: &'static str, source: io::Error },
    #[error("{}: reading stopped at {place}", path.display())]
    Read { path: PathBuf, place: TracePosition, source: io::Error },
    #[error(
        "{}: no known trace format (tried {}); it begins with {found}; if you know the format, name it: FORMAT:{}",
        path.display(), Format::ALL.iter().map(|f| f.name()).collect::<Vec<_>>().join(", "), path.display()
    )]
    UnknownFormat { path: PathBuf, found: String },
    #[error(
        "{}: this may be any of {formats}; name the format: FORMAT:{}", path.display(), path.display()
    )]
    Ambiguous { path: PathBuf, formats: String },
    #[error("{}: {format} is a trace of a disk, not of files; traces of files are strace and procmon", path.display())]
    NotOfFiles { path: PathBuf, format: Format },
    #[error(
        "synth:{name}: a synthetic trace is not a file; write one with `seekless-lab synth {name} -o FILE`, then name that file"
    )]
    NotGenerated { name: String },
    #[error(
        "{}: the format `columns` needs --columns, which says what each column holds", path.display()
    )]
    NoColumns { path: PathBuf },
    #[error("{}: the file is empty", path.display())]
    Empty { path: PathBuf },
    #[error("{0}")]
    Malformed(Box<Malformed>),
    #[error(
        "{}: no {} events, but {queue} Q, {issue} D and {complete} C events; choose one of these with --event",
        path.display(), event.letter()
    )]
    NoSuchEvent { path: PathBuf, event: Event, queue: u64, issue: u64, complete: u64 },
    #[error("{}: no requests of device '{device}'; {}", path.display(), listed(names))]
    NoSuchDevice { path: PathBuf, device: String, names: Vec<String> },
    #[error("{}: not a readable native store: {what}", path.display())]
    Store { path: PathBuf, what: String },
    #[error(
        "{}: {}not in order of time: {behind_ns} ns older than the request before; sort it first",
        path.display(), place.map_or_else(String::new, |p| format!("{p}: "))
    )]
    Unsorted { path: PathBuf, place: Option<TracePosition>, behind_ns: u64 },
    #[error("{}: has no times, so its requests cannot be put in order with others", path.display())]
    NoTimes { path: PathBuf },
    #[error("{}: cannot be joined: expected {expected} in all traces together", path.display())]
    Join { path: PathBuf, expected: &'static str },
    #[error("{}: reading was stopped", path.display())]
    Stopped { path: PathBuf },
    #[error("{}: cannot be written", path.display())]
    WriteFailed { path: PathBuf, source: io::Error },
    #[error("{}: cannot be written: {what}", path.display())]
    Write { path: PathBuf, what: String },
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

/// The result of a parser.
pub(crate) type Parsed<T> = Result<T, BadRecord>;

/// The result of reading or writing a trace.
pub(crate) type Traced<T> = Result<T, TraceError>;

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
