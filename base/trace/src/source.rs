//! Where a trace comes from: a path, a named format, the standard input, or the files a tracer left per
//! CPU. Opens it as often as asked; what cannot be read twice is first kept in a temporary file.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::context::Context;
use crate::error::quote;
use crate::files::{FileLines, FileReader, Laid};
use crate::generated::{self, Generator};
use crate::input::{Cursor, Input, unpack};
use crate::native::StoreReader;
use crate::reader::Parse;
use crate::reorder::Reorder;
use crate::{Format, OpenOptions, Place, Reader, TraceError, detect, formats};

/// A trace named by the user.
pub struct Source {
    name: PathBuf,
    stdin: bool,
    format: Option<Format>,
    /// Makes the requests, where they are not read.
    generator: Option<Generator>,
    /// A copy of what cannot be read twice, made at the first opening; it has no name in any directory.
    spool: Mutex<Option<Arc<File>>>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("name", &self.name).field("format", &self.format).finish()
    }
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
        Self { name: path.into(), stdin: false, format, generator: None, spool: Mutex::new(None) }
    }

    /// A synthetic trace: the same requests at every opening.
    #[must_use]
    pub fn generated(name: &str, generator: Generator) -> Self {
        let source = Self::from_path(name, Some(Format::Synthetic));
        Self { generator: Some(generator), ..source }
    }

    /// The path as the user named it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.name
    }

    /// From the bytes of a trace file, which messages call `name`.
    ///
    /// # Errors
    /// Where no temporary file can be made to keep them in.
    pub fn from_bytes(name: impl Into<PathBuf>, mut bytes: &[u8]) -> Result<Self, TraceError> {
        let source = Self::from_path(name, None);
        let fail = |e| TraceError::Open { path: source.name.clone(), hint: "", source: e };
        let file = Arc::new(copy(&mut bytes).map_err(fail)?);
        Ok(Self { spool: Mutex::new(Some(file)), ..source })
    }

    /// The same, its format named.
    #[must_use]
    pub fn named(self, format: Option<Format>) -> Self {
        Self { format, ..self }
    }

    /// A reader from the start. The standard input and other pipes are copied whole into a temporary file
    /// (in `TMPDIR`) the first time.
    ///
    /// # Errors
    /// Where the file cannot be opened or unpacked, is empty, or is in no known format.
    pub fn open(&self, options: &OpenOptions) -> Result<Reader, TraceError> {
        if self.format == Some(Format::Synthetic) {
            let name = self.name.to_string_lossy();
            return match &self.generator {
                Some(generator) => Ok(generated::reader(&name, generator, options)),
                None => Err(TraceError::NotGenerated { name: name.into_owned() }),
            };
        }
        let (opening, inputs, file) = self.opened(options)?;
        opening.reader(inputs, file.as_ref())
    }

    /// A reader of files from the start, for a trace of files (see [`Format::is_of_files`]).
    ///
    /// # Errors
    /// As [`Self::open`], and where the trace is of a disk.
    pub fn open_files(&self, options: &OpenOptions) -> Result<FileReader, TraceError> {
        let (opening, inputs, _) = self.opened(options)?;
        opening.file_reader(inputs)
    }

    /// What a reader is made of; the file is the first one.
    fn opened<'a>(&'a self, options: &'a OpenOptions) -> Result<Opened<'a>, TraceError> {
        let files = self.files()?;
        let read = Arc::new(AtomicU64::new(0));
        let mut total = 0;
        let mut inputs = Vec::with_capacity(files.len());
        for (path, file) in &files {
            let fail = |source| begin_error(path, source);
            total += file.metadata().map_err(fail)?.len();
            let cursor = Cursor::new(Arc::clone(file), 0, Arc::clone(&read));
            inputs.push((path.clone(), Input::new(unpack(cursor).map_err(fail)?)));
        }
        let opening = Opening { name: &self.name, format: self.format, options, read, total };
        Ok((opening, inputs, files.into_iter().next().map(|(_, file)| file)))
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
        // It would be copied whole, as other things that are no file.
        if std::fs::metadata(&self.name).is_ok_and(|m| m.file_type().is_block_device()) {
            let hint = ": a disk and no trace of one; `seekless record DEVICE -o TRACE` makes one";
            let source = io::Error::other("a block device");
            return Err(TraceError::Open { path: self.name.clone(), hint, source });
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

impl Reader {
    /// Reads a trace once, from anything that can be read. Messages call it `name`. A native store is first
    /// copied to a temporary file.
    ///
    /// # Errors
    /// Where it cannot be read or unpacked, is empty, or is in no known format.
    pub fn from_read(
        from: impl io::Read + Send + 'static,
        name: &Path,
        format: Option<Format>,
        options: &OpenOptions,
    ) -> Result<Self, TraceError> {
        let bytes = unpack(from).map_err(|e| begin_error(name, e))?;
        let read = Arc::new(AtomicU64::new(0));
        let opening = Opening { name, format, options, read, total: 0 };
        opening.reader(vec![(name.to_owned(), Input::new(bytes))], None)
    }
}

type Opened<'a> = (Opening<'a>, Vec<(PathBuf, Input)>, Option<Arc<File>>);

/// What a reader is made of, but for its bytes.
struct Opening<'a> {
    name: &'a Path,
    format: Option<Format>,
    options: &'a OpenOptions,
    read: Arc<AtomicU64>,
    total: u64,
}

impl Opening<'_> {
    /// The format and the file's beginning.
    fn look(&self, inputs: &mut [(PathBuf, Input)]) -> Result<(Format, Vec<u8>), TraceError> {
        let empty = || TraceError::Empty { path: self.name.to_owned() };
        let several = inputs.len() > 1;
        let (path, first) = inputs.first_mut().ok_or_else(empty)?;
        let head = first.peek(detect::SAMPLE).map_err(|e| begin_error(path, e))?;
        // Of several, the first may well be empty: a CPU that did nothing.
        if head.is_empty() && (!several || self.total == 0) {
            return Err(empty());
        }
        let format = match self.format {
            // Only blktrace comes in several files.
            _ if several => Format::Blktrace,
            Some(format) => format,
            None => match detect::detect(head)[..] {
                [format] => format,
                [] => {
                    let (path, found) = (path.clone(), quote(head));
                    return Err(TraceError::UnknownFormat { path, found });
                }
                ref any => {
                    let formats = any.iter().map(|f| f.name()).collect::<Vec<_>>().join(", ");
                    return Err(TraceError::Ambiguous { path: path.clone(), formats });
                }
            },
        };
        Ok((format, head.to_vec()))
    }

    fn reader(
        self,
        mut inputs: Vec<(PathBuf, Input)>,
        file: Option<&Arc<File>>,
    ) -> Result<Reader, TraceError> {
        let (format, head) = self.look(&mut inputs)?;
        let Self { name, options, read, total, .. } = self;
        let mut cx = Context::new(name.to_owned(), format, *options);
        let mut info = formats::info(format, &head, options);
        let empty = || TraceError::Empty { path: name.to_owned() };
        let mut parse: Box<dyn Parse> = if format == Format::Native {
            let (path, first) = inputs.first_mut().ok_or_else(empty)?;
            let file = plain(file, first).map_err(|e| begin_error(path, e))?;
            let (store, told) = StoreReader::new(file, Arc::clone(&read), name)?;
            info = told;
            cx.skipped.lost_events = store.lost;
            Box::new(store)
        } else if format.is_of_files() {
            let (path, input) = inputs.into_iter().next().ok_or_else(empty)?;
            laid(format, file, input, &read, &cx).map_err(|e| begin_error(&path, e))?
        } else {
            formats::open(format, inputs).ok_or_else(empty)?
        };
        if format.is_unsorted() {
            parse = Box::new(Reorder::new(parse, &cx));
        }
        cx.days = info.has_days;
        Ok(Reader { parse, cx, info, read, total, ended: false })
    }

    fn file_reader(self, mut inputs: Vec<(PathBuf, Input)>) -> Result<FileReader, TraceError> {
        let (format, head) = self.look(&mut inputs)?;
        let Self { name, options, read, total, .. } = self;
        let path = name.to_owned();
        let (Some(parser), Some((_, input))) =
            (formats::file_format(format), inputs.into_iter().next())
        else {
            return Err(TraceError::NotOfFiles { path, format });
        };
        let lines = FileLines::new(input, parser);
        let info = formats::info(format, &head, options);
        let cx = Context::new(path, format, *options);
        Ok(FileReader { lines, cx, info, read, total, ended: false })
    }
}

/// A trace of files as one of a disk. It is read twice, so what is no file is copied to one.
fn laid(
    format: Format,
    file: Option<&Arc<File>>,
    mut input: Input,
    read: &Arc<AtomicU64>,
    cx: &Context,
) -> io::Result<Box<dyn Parse>> {
    let file = match file {
        Some(file) => Arc::clone(file),
        None => Arc::new(copy(&mut input)?),
    };
    let open = |read| -> io::Result<FileLines> {
        let input = Input::new(unpack(Cursor::new(Arc::clone(&file), 0, read))?);
        let parser = formats::file_format(format).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(FileLines::new(input, parser))
    };
    let mut own = Context::new(cx.path.clone(), format, cx.options);
    // The first reading is no progress; the head was counted once already.
    let first = open(Arc::default())?;
    read.store(0, Ordering::Relaxed);
    Ok(Box::new(Laid::new(first, open(Arc::clone(read))?, &mut own)))
}

fn begin_error(path: &Path, source: io::Error) -> TraceError {
    TraceError::Read { path: path.to_owned(), place: Place::Byte(0), source }
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

/// The file itself where it is one and not compressed, an unpacked copy where not: Parquet is read from
/// its end.
fn plain(file: Option<&Arc<File>>, input: &mut Input) -> io::Result<Arc<File>> {
    if let Some(file) = file {
        let mut magic = [0; 4];
        if file.read_at(&mut magic, 0)? == 4 && &magic == b"PAR1" {
            return Ok(Arc::clone(file));
        }
    }
    copy(input).map(Arc::new)
}

fn copy(from: &mut impl io::Read) -> io::Result<File> {
    let mut to = tempfile::tempfile()?;
    io::copy(from, &mut to)?;
    Ok(to)
}
