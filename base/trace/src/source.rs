//! The source of a trace: a path, a named format, standard input, or the per-CPU files of a tracer.
//! A source can be opened many times. Input that cannot be read twice is first copied to a
//! temporary file.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::quote;
use crate::files::{FileLines, FileReader, FilesEndToEnd};
use crate::input::{Cursor, Input, unpack};
use crate::native::StoreReader;
use crate::reader::Parse;
use crate::reader_context::ReaderContext;
use crate::reorder::Reorder;
use crate::whole_file::folder;
use crate::{Format, OpenOptions, Reader, TraceError, TracePosition, Traced, detect, formats};

/// A compressed store may have this many bytes, whatever its own size.
const UNPACKED_FREE: u64 = 1 << 30;
/// It may have this many times its own size: a store is compressed already.
const UNPACKED_TIMES: u64 = 100;

/// Opens a reader at the start.
type Maker = Arc<dyn Fn(&OpenOptions) -> Traced<Reader> + Send + Sync>;

/// A trace named by the user.
#[derive(Clone)]
pub struct Source {
    name: PathBuf,
    stdin: bool,
    format: Option<Format>,
    /// Opens a reader, if the requests are not read from a file.
    maker: Option<Maker>,
    /// Ends every reader, if set.
    stop: Option<Arc<AtomicBool>>,
    /// A copy of input that cannot be read twice, made at the first opening. It has no name in any
    /// directory.
    spool: Arc<Mutex<Option<Arc<File>>>>,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").field("name", &self.name).field("format", &self.format).finish()
    }
}

impl Source {
    /// Parses the user's text: `PATH`, `FORMAT:PATH`, or either with `-` for standard input. If a
    /// path itself begins with a format's name and a colon, write `./` before it. For blktrace,
    /// `PATH` can also be the name given to `blktrace -o`: the files `PATH.blktrace.0` and so on
    /// are then read together. A directory of such files works too.
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

    /// A source from a path and its format; without a format, the content decides.
    pub fn from_path(path: impl Into<PathBuf>, format: Option<Format>) -> Self {
        let (maker, stop, spool) = (None, None, Arc::default());
        Self { name: path.into(), stdin: false, format, maker, stop, spool }
    }

    /// A trace that is no file: `maker` opens a reader at the start.
    pub(crate) fn made(
        name: impl Into<PathBuf>,
        maker: impl Fn(&OpenOptions) -> Traced<Reader> + Send + Sync + 'static,
    ) -> Self {
        Self { maker: Some(Arc::new(maker)), ..Self::from_path(name, None) }
    }

    /// The same trace; once `stop` is set, its readers end with [`TraceError::Stopped`].
    #[must_use]
    pub fn stopped_by(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// The same trace, whose readers read to the end.
    #[must_use]
    pub fn unstoppable(self) -> Self {
        Self { stop: None, ..self }
    }

    /// Its readers end when those of `other` end.
    pub(crate) fn stopped_like(self, other: &Self) -> Self {
        Self { stop: other.stop.clone(), ..self }
    }

    /// The path as named by the user.
    pub fn path(&self) -> &Path {
        &self.name
    }

    /// A source from the bytes of a trace file; messages call it `name`.
    pub fn from_bytes(name: impl Into<PathBuf>, mut bytes: &[u8]) -> Result<Self, TraceError> {
        let source = Self::from_path(name, None);
        let fail = |e| TraceError::Open { path: source.name.clone(), hint: "", source: e };
        let file = Arc::new(copy(&mut bytes).map_err(fail)?);
        Ok(Self { spool: Arc::new(Mutex::new(Some(file))), ..source })
    }

    /// The same source with a given format.
    #[must_use]
    pub fn named(self, format: Option<Format>) -> Self {
        Self { format, ..self }
    }

    /// Opens a reader at the start. At the first opening, standard input and other pipes are copied
    /// completely to a temporary file (in `TMPDIR`).
    pub fn open(&self, options: &OpenOptions) -> Result<Reader, TraceError> {
        let reader = self.started(options)?;
        Ok(match &self.stop {
            Some(stop) => reader.stopped_by(Arc::clone(stop)),
            None => reader,
        })
    }

    fn started(&self, options: &OpenOptions) -> Traced<Reader> {
        if let Some(maker) = &self.maker {
            return maker(options);
        }
        if self.format == Some(Format::Synthetic) {
            let name = self.name.to_string_lossy().into_owned();
            return Err(TraceError::NotGenerated { name });
        }
        let (opening, inputs, file) = self.opened(options)?;
        opening.reader(inputs, file.as_ref())
    }

    /// Opens a reader of file events at the start, for a trace of files (see
    /// [`Format::is_of_files`]).
    pub fn open_files(&self, options: &OpenOptions) -> Result<FileReader, TraceError> {
        let (opening, inputs, _) = self.opened(options)?;
        opening.file_reader(inputs)
    }

    /// The parts of a reader; the file is the first one.
    fn opened<'a>(&'a self, options: &'a OpenOptions) -> Traced<Opened<'a>> {
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
        let opening = ReaderParts { name: &self.name, format: self.format, options, read, total };
        Ok((opening, inputs, files.into_iter().next().map(|(_, file)| file)))
    }

    /// The files of the trace, with their names.
    fn files(&self) -> Traced<Vec<(PathBuf, Arc<File>)>> {
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
        // The whole device would be copied, as with other input that is not a file.
        if std::fs::metadata(&self.name).is_ok_and(|m| m.file_type().is_block_device()) {
            let hint =
                ": this is a disk, not a trace; `seekless record DEVICE -o TRACE` records a trace";
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

    /// The files `NAME.blktrace.N`. `NAME` is the user's text with or without `.blktrace`.
    fn beside(&self) -> Option<Vec<PathBuf>> {
        let name = self.name.file_name()?.as_bytes();
        let name = name.strip_suffix(b".blktrace").unwrap_or(name);
        per_cpu(folder(&self.name), name).ok()
    }

    fn not_found(&self, source: io::Error) -> TraceError {
        let colon = memchr::memchr(b':', self.name.as_os_str().as_bytes()).is_some();
        let hint = if self.format.is_none() && colon {
            " (the text before the colon is not the name of a format)"
        } else {
            ""
        };
        TraceError::Open { path: self.name.clone(), hint, source }
    }
}

impl Reader {
    /// Reads a trace once, from any input. Messages call it `name`. A native store is first copied
    /// to a temporary file.
    pub fn from_read(
        from: impl io::Read + Send + 'static,
        name: &Path,
        format: Option<Format>,
        options: &OpenOptions,
    ) -> Result<Self, TraceError> {
        let bytes = unpack(from).map_err(|e| begin_error(name, e))?;
        let read = Arc::new(AtomicU64::new(0));
        let opening = ReaderParts { name, format, options, read, total: 0 };
        opening.reader(vec![(name.to_owned(), Input::new(bytes))], None)
    }
}

type Opened<'a> = (ReaderParts<'a>, Vec<(PathBuf, Input)>, Option<Arc<File>>);

/// The parts of a reader, without its bytes.
struct ReaderParts<'a> {
    name: &'a Path,
    format: Option<Format>,
    options: &'a OpenOptions,
    read: Arc<AtomicU64>,
    total: u64,
}

impl ReaderParts<'_> {
    /// Returns the format and the beginning of the file.
    fn look(&self, inputs: &mut [(PathBuf, Input)]) -> Traced<(Format, Vec<u8>)> {
        let empty = || TraceError::Empty { path: self.name.to_owned() };
        let several = inputs.len() > 1;
        let (path, first) = inputs.first_mut().ok_or_else(empty)?;
        let head = first.peek(detect::SAMPLE).map_err(|e| begin_error(path, e))?;
        // The first of several files can be empty: a CPU without work.
        if head.is_empty() && (!several || self.total == 0) {
            return Err(empty());
        }
        let format = match self.format {
            // Only blktrace has several files.
            _ if several => Format::Blktrace,
            Some(Format::Columns) if self.options.columns.is_none() => {
                return Err(TraceError::NoColumns { path: path.clone() });
            }
            Some(format) => format,
            None if self.options.columns.is_some() => Format::Columns,
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

    fn reader(self, mut inputs: Vec<(PathBuf, Input)>, file: Option<&Arc<File>>) -> Traced<Reader> {
        let (format, head) = self.look(&mut inputs)?;
        let Self { name, options, read, total, .. } = self;
        let mut cx = ReaderContext::new(name.to_owned(), format, *options);
        let mut info = formats::info(format, &head, options);
        let empty = || TraceError::Empty { path: name.to_owned() };
        let mut parse: Box<dyn Parse> = if format == Format::Native {
            let (path, first) = inputs.first_mut().ok_or_else(empty)?;
            let file = plain(file, first, UNPACKED_FREE).map_err(|e| begin_error(path, e))?;
            let (store, told) = StoreReader::new(file, Arc::clone(&read), name)?;
            info = told;
            cx.skipped.lost_events = store.lost;
            Box::new(store)
        } else if format.is_of_files() {
            let (path, input) = inputs.into_iter().next().ok_or_else(empty)?;
            laid(format, file, input, &read, &cx).map_err(|e| begin_error(&path, e))?
        } else {
            formats::open(format, inputs, options).ok_or_else(empty)?
        };
        if format.is_unsorted() {
            parse = Box::new(Reorder::new(parse, &cx));
        }
        cx.days = info.has_days;
        Ok(Reader { parse, cx, info, read, total, ended: false })
    }

    fn file_reader(self, mut inputs: Vec<(PathBuf, Input)>) -> Traced<FileReader> {
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
        let cx = ReaderContext::new(path, format, *options);
        Ok(FileReader { lines, cx, info, read, total, ended: false })
    }
}

/// Opens a trace of files as a trace of a disk. The trace is read twice, so input that is not a
/// file is copied to one.
fn laid(
    format: Format,
    file: Option<&Arc<File>>,
    mut input: Input,
    read: &Arc<AtomicU64>,
    cx: &ReaderContext,
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
    let mut own = ReaderContext::new(cx.path.clone(), format, cx.options);
    // The first reading does not count as progress; the head is already counted.
    let first = open(Arc::default())?;
    read.store(0, Ordering::Relaxed);
    Ok(Box::new(FilesEndToEnd::new(first, open(Arc::clone(read))?, &mut own)))
}

fn begin_error(path: &Path, source: io::Error) -> TraceError {
    TraceError::Read { path: path.to_owned(), place: TracePosition::Byte(0), source }
}

/// The files `PREFIX.blktrace.N` of a directory, compressed or not, in order. An empty prefix means
/// any prefix.
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

fn open_all(paths: Vec<PathBuf>) -> Traced<Vec<(PathBuf, Arc<File>)>> {
    paths
        .into_iter()
        .map(|path| match File::open(&path) {
            Ok(file) => Ok((path, Arc::new(file))),
            Err(source) => Err(TraceError::Open { path, hint: "", source }),
        })
        .collect()
}

/// The file itself if it is not compressed, otherwise a decompressed copy: Parquet is read from its
/// end. A small file must not fill the folder for temporary files, so a copy of more than `free`
/// bytes has a bound.
fn plain(file: Option<&Arc<File>>, input: &mut Input, free: u64) -> io::Result<Arc<File>> {
    let mut most = u64::MAX;
    if let Some(file) = file {
        let mut magic = [0; 4];
        if file.read_at(&mut magic, 0)? == 4 && &magic == b"PAR1" {
            return Ok(Arc::clone(file));
        }
        most = file.metadata()?.len().saturating_mul(UNPACKED_TIMES).max(free);
    }
    let copied = copy(&mut io::Read::take(input, most))?;
    if copied.metadata()?.len() == most {
        let why = "it unpacks to far more bytes than a store of its size has; if you trust it, unpack it yourself";
        return Err(io::Error::other(why));
    }
    Ok(Arc::new(copied))
}

fn copy(from: &mut impl io::Read) -> io::Result<File> {
    let mut to = tempfile::tempfile()?;
    io::copy(from, &mut to)?;
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the copy of a store of these bytes, packed; any store may have a MiB.
    fn copied(bytes: &[u8]) -> io::Result<u64> {
        let packed = zstd::encode_all(bytes, 1)?;
        let file = Arc::new(copy(&mut packed.as_slice())?);
        let mut input = Input::new(unpack(Cursor::new(Arc::clone(&file), 0, Arc::default()))?);
        plain(Some(&file), &mut input, 1 << 20)?.metadata().map(|m| m.len())
    }

    #[test]
    fn a_small_file_fills_no_folder() {
        // Bytes that no packer makes smaller.
        let mut x = 0x9E37_79B9_7F4A_7C15_u64;
        let random = std::iter::repeat_with(|| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x.to_le_bytes()
        });
        let random: Vec<u8> = random.take(16 << 10).flatten().collect();
        let zeroes = |mib: usize| vec![0; mib << 20];
        copied(&zeroes(2)).unwrap_err();
        copied(&[random.clone(), zeroes(16)].concat()).unwrap_err();
        // Seldom so small, and within the bound of its own size.
        assert_eq!(copied(&[random, zeroes(8)].concat()).unwrap(), (128 << 10) + (8 << 20));
        assert_eq!(copied(&zeroes(2)[..1 << 19]).unwrap(), 1 << 19);
    }
}
