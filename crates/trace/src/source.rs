//! Where a trace comes from: a path, a named format, the standard input, or the files a tracer left per
//! CPU. Opens it as often as asked; what cannot be read twice is first kept in a temporary file.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use crate::context::Context;
use crate::error::quote;
use crate::input::{Input, unpack};
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
    ///
    /// # Errors
    /// None today; a wrong path shows at [`Self::open`].
    pub fn new(text: impl AsRef<str>) -> Result<Self, TraceError> {
        let text = text.as_ref();
        let (format, path) = match text.split_once(':') {
            Some((name, path)) if Format::from_name(name).is_some() => {
                (Format::from_name(name), path)
            }
            _ => (None, text),
        };
        Ok(Self { stdin: path == "-", ..Self::from_path(path, format) })
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
        for (path, file) in files {
            let fail =
                |source| TraceError::Read { path: path.clone(), place: Place::Byte(0), source };
            total += file.metadata().map_err(fail)?.len();
            inputs.push((path.clone(), Input::new(unpack(file, Arc::clone(&read)).map_err(fail)?)));
        }
        let files = inputs.len();
        let (path, first) = &mut inputs[0];
        let path = path.clone();
        let head = first.peek(detect::SAMPLE).map_err(|source| TraceError::Read {
            path: path.clone(),
            place: Place::Byte(0),
            source,
        })?;
        if head.is_empty() && files == 1 {
            return Err(TraceError::Empty { path });
        }
        let Some(format) = self.format.or_else(|| detect::detect(head)) else {
            return Err(TraceError::UnknownFormat { path, found: quote(head) });
        };
        let mut cx = Context::new(self.name.clone(), format, *options);
        let info = formats::info(format);
        cx.days = info.has_days;
        let (_, input) = inputs.remove(0);
        let parse = formats::open(format, input);
        Ok(Reader { parse, cx, info, read, total, ended: false })
    }

    /// The files of the trace, with their names.
    fn files(&self) -> Result<Vec<(PathBuf, Arc<File>)>, TraceError> {
        let fail = |source| TraceError::Open { path: self.name.clone(), hint: "", source };
        let mut spool = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*spool {
            return Ok(vec![(self.name.clone(), Arc::clone(file))]);
        }
        if self.stdin {
            let file = Arc::new(copy(&mut io::stdin().lock()).map_err(fail)?);
            *spool = Some(Arc::clone(&file));
            return Ok(vec![(self.name.clone(), file)]);
        }
        let mut file = File::open(&self.name).map_err(fail)?;
        if !file.metadata().map_err(fail)?.is_file() {
            file = copy(&mut file).map_err(fail)?;
        }
        let file = Arc::new(file);
        Ok(vec![(self.name.clone(), file)])
    }
}

fn copy(from: &mut impl io::Read) -> io::Result<File> {
    let mut to = tempfile::tempfile()?;
    io::copy(from, &mut to)?;
    Ok(to)
}
