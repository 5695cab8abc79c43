//! Where a trace comes from: a path, a named format, the standard input, or the files a tracer left per
//! CPU. Opens it as often as asked; what cannot be read twice is first kept in a temporary file.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use crate::context::Context;
use crate::error::quote;
use crate::input::{Input, unpack};
use crate::native::StoreReader;
use crate::reader::Parse;
use crate::{Format, OpenOptions, Place, Reader, TraceError, detect, formats};

/// A trace named by the user.
#[derive(Debug)]
pub struct Source {
    name: PathBuf,
    stdin: bool,
    format: Option<Format>,
    /// A copy of what cannot be read twice, made at the first opening; it has no name in any directory.
    spool: Mutex<Option<Arc<File>>>,
}

impl Source {
    /// From what the user typed: `PATH`, `FORMAT:PATH`, or either with `-` for the standard input. Where a
    /// path itself begins with a format's name and a colon, write `./` before it. For blktrace, `PATH` may
    /// also be what was given to `blktrace -o`: with `PATH.blktrace.0` and so on beside it, these are read
    /// together; so are those of a directory.
    #[must_use]
    pub fn new(text: impl AsRef<OsStr>) -> Self {
        let bytes = text.as_ref().as_bytes();
        let named = memchr::memchr(b':', bytes).and_then(|colon| {
            let name = std::str::from_utf8(&bytes[..colon]).ok()?;
            Some((Format::from_name(name)?, &bytes[colon + 1..]))
        });
        let (format, path) = match named {
            Some((format, path)) => (Some(format), path),
            None => (None, bytes),
        };
        Self { stdin: path == b"-", ..Self::from_path(OsStr::from_bytes(path), format) }
    }

    /// From a path, and its format where it is not to be found by content.
    #[must_use]
    pub fn from_path(path: impl Into<PathBuf>, format: Option<Format>) -> Self {
        Self { name: path.into(), stdin: false, format, spool: Mutex::new(None) }
    }

    /// The path as the user named it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.name
    }

    /// A reader from the start. The standard input and other pipes are copied whole into a temporary file
    /// (in `TMPDIR`) the first time.
    ///
    /// # Errors
    /// Where the file cannot be opened or unpacked, is empty, or is in no known format.
    pub fn open(&self, options: &OpenOptions) -> Result<Reader, TraceError> {
        let files = self.files()?;
        let read = Arc::new(AtomicU64::new(0));
        let mut total = 0;
        let mut inputs = Vec::with_capacity(files.len());
        for (path, file) in &files {
            let fail =
                |source| TraceError::Read { path: path.clone(), place: Place::Byte(0), source };
            total += file.metadata().map_err(fail)?.len();
            let bytes = unpack(Arc::clone(file), Arc::clone(&read)).map_err(fail)?;
            inputs.push((path.clone(), Input::new(bytes)));
        }
        let format = match (self.format, files.len()) {
            (Some(format), 1) => Some(format),
            (None, 1) => None,
            // Only blktrace comes in several files.
            _ => Some(Format::Blktrace),
        };
        let Some((path, first)) = inputs.first_mut() else {
            return Err(TraceError::Empty { path: self.name.clone() });
        };
        let fail = |source| TraceError::Read { path: path.clone(), place: Place::Byte(0), source };
        let head = first.peek(detect::SAMPLE).map_err(fail)?;
        if total == 0 || (head.is_empty() && files.len() == 1) {
            return Err(TraceError::Empty { path: self.name.clone() });
        }
        let Some(format) = format.or_else(|| detect::detect(head)) else {
            return Err(TraceError::UnknownFormat { path: path.clone(), found: quote(head) });
        };
        let mut cx = Context::new(self.name.clone(), format, *options);
        let mut info = formats::info(format, head, options);
        let parse: Box<dyn Parse> = if format == Format::Native {
            let file = plain(&files[0].1, first).map_err(fail)?;
            let (store, told) = StoreReader::new(file, Arc::clone(&read), &self.name)?;
            info = told;
            Box::new(store)
        } else {
            let empty = TraceError::Empty { path: path.clone() };
            formats::open(format, inputs).ok_or(empty)?
        };
        cx.days = info.has_days;
        Ok(Reader { parse, cx, info, read, total, ended: false })
    }

    /// The files of the trace, with their names.
    fn files(&self) -> Result<Vec<(PathBuf, Arc<File>)>, TraceError> {
        let fail = |source| TraceError::Open { path: self.name.clone(), hint: "", source };
        let mut spool = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*spool {
            return Ok(vec![(self.name.clone(), Arc::clone(file))]);
        }
        let one = |file| Ok(vec![(self.name.clone(), file)]);
        if self.stdin {
            let file = Arc::new(copy(&mut io::stdin().lock()).map_err(fail)?);
            *spool = Some(Arc::clone(&file));
            return one(file);
        }
        let mut file = match File::open(&self.name) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let found = self.beside().unwrap_or_default();
                return if found.is_empty() { Err(self.not_found(e)) } else { open_all(found) };
            }
            Err(e) => return Err(fail(e)),
        };
        let kind = file.metadata().map_err(fail)?.file_type();
        if kind.is_dir() {
            let found = per_cpu(&self.name, b"").map_err(fail)?;
            if found.is_empty() {
                let source = io::Error::from(io::ErrorKind::IsADirectory);
                let hint = ": a directory without blktrace files (NAME.blktrace.0, ...)";
                return Err(TraceError::Open { path: self.name.clone(), hint, source });
            }
            return open_all(found);
        }
        if !kind.is_file() {
            file = copy(&mut file).map_err(fail)?;
            let file = Arc::new(file);
            *spool = Some(Arc::clone(&file));
            return one(file);
        }
        one(Arc::new(file))
    }

    /// The files `NAME.blktrace.N`, where `NAME` is what the user named with or without `.blktrace`.
    fn beside(&self) -> Option<Vec<PathBuf>> {
        let name = self.name.file_name()?.as_bytes();
        let name = name.strip_suffix(b".blktrace").unwrap_or(name);
        let parent = self.name.parent().filter(|p| !p.as_os_str().is_empty());
        per_cpu(parent.unwrap_or(Path::new(".")), name).ok()
    }

    fn not_found(&self, source: io::Error) -> TraceError {
        let colon = memchr::memchr(b':', self.name.as_os_str().as_bytes()).is_some();
        let hint = if self.format.is_none() && colon {
            " (what stands before the colon is the name of no format)"
        } else {
            ""
        };
        TraceError::Open { path: self.name.clone(), hint, source }
    }
}

/// The files `PREFIX.blktrace.N` of a directory, compressed or not, in order; any prefix where it is empty.
fn per_cpu(directory: &Path, prefix: &[u8]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in directory.read_dir()? {
        let path = entry?.path();
        let Some(name) = path.file_name().map(OsStrExt::as_bytes) else { continue };
        let plain = [b".gz".as_slice(), b".zst", b".xz", b".bz2"]
            .iter()
            .find_map(|end| name.strip_suffix(*end))
            .unwrap_or(name);
        let Some(at) = memchr::memmem::rfind(plain, b".blktrace.") else { continue };
        let cpu = std::str::from_utf8(&plain[at + b".blktrace.".len()..]).ok();
        let cpu = cpu.and_then(|n| n.parse::<u32>().ok());
        if let Some(cpu) = cpu
            && (prefix.is_empty() || &plain[..at] == prefix)
        {
            found.push((plain[..at].to_owned(), cpu, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, _, path)| path).collect())
}

fn open_all(paths: Vec<PathBuf>) -> Result<Vec<(PathBuf, Arc<File>)>, TraceError> {
    paths
        .into_iter()
        .map(|path| match File::open(&path) {
            Ok(file) => Ok((path, Arc::new(file))),
            Err(source) => Err(TraceError::Open { path, hint: "", source }),
        })
        .collect()
}

/// The file itself where it is not compressed, an unpacked copy where it is: Parquet is read from its end.
fn plain(file: &Arc<File>, input: &mut Input) -> io::Result<Arc<File>> {
    let mut magic = [0; 4];
    if file.read_at(&mut magic, 0)? == 4 && &magic == b"PAR1" {
        return Ok(Arc::clone(file));
    }
    copy(input).map(Arc::new)
}

fn copy(from: &mut impl io::Read) -> io::Result<File> {
    let mut to = tempfile::tempfile()?;
    io::copy(from, &mut to)?;
    Ok(to)
}
