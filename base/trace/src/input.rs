//! The bytes of a trace file: opens, decompresses and counts them, and returns lines or blocks from
//! one buffer of fixed size. The trace formats are elsewhere.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CONCATENATED: u32 = liblzma::stream::CONCATENATED;

/// Size of the window, which is also the maximum length of a line and of look-ahead.
pub(crate) const WINDOW: usize = 256 << 10;

/// A file that is read from its start with its own cursor, so that one open file serves many
/// readers.
#[derive(Debug)]
pub(crate) struct Cursor {
    file: Arc<File>,
    at: u64,
    /// Shared with the reader's progress.
    read: Arc<AtomicU64>,
}

impl Cursor {
    pub(crate) const fn new(file: Arc<File>, at: u64, read: Arc<AtomicU64>) -> Self {
        Self { file, at, read }
    }
}

impl Read for Cursor {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(buf, self.at)?;
        self.at += n as u64;
        self.read.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// The bytes of `raw`, decompressed if the magic number is that of gzip, Zstandard, xz or bzip2.
/// Streams of several members are read to their end.
pub(crate) fn unpack(mut raw: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::with_capacity(6);
    raw.by_ref().take(6).read_to_end(&mut magic)?;
    let kind = magic.clone();
    let raw = io::Cursor::new(magic).chain(raw);
    Ok(match kind[..] {
        [0x1F, 0x8B, ..] => {
            let raw = io::BufReader::with_capacity(64 << 10, raw);
            Box::new(flate2::bufread::MultiGzDecoder::new(raw))
        }
        [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => {
            let mut d = zstd::stream::read::Decoder::new(raw)?;
            // The maximum of `zstd --long`; a larger window is a memory bomb.
            d.window_log_max(27)?;
            Box::new(d)
        }
        [0xFD, b'7', b'z', b'X', b'Z', 0] => {
            // The largest preset needs 65 MiB; more is a memory bomb.
            let stream = liblzma::stream::Stream::new_stream_decoder(128 << 20, CONCATENATED)?;
            Box::new(liblzma::read::XzDecoder::new_stream(raw, stream))
        }
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Box::new(bzip2::read::MultiBzDecoder::new(raw)),
        _ => Box::new(raw),
    })
}

pub(crate) struct Input {
    src: Box<dyn Read + Send>,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    eof: bool,
    /// Offset of `buf[start]` in the decompressed stream.
    at: u64,
    /// Number of lines returned.
    line: u64,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("at", &self.at).field("line", &self.line).finish()
    }
}

/// A line in the window.
pub(crate) enum Line<'a> {
    /// The line without its line end.
    Whole(&'a [u8]),
    /// Longer than the window; the line was dropped.
    TooLong,
}

impl Input {
    pub(crate) fn new(src: Box<dyn Read + Send>) -> Self {
        Self { src, buf: vec![0; WINDOW], start: 0, end: 0, eof: false, at: 0, line: 0 }
    }

    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    pub(crate) const fn line_number(&self) -> u64 {
        self.line
    }

    /// Reads until the window contains `n` bytes or the stream ends.
    fn fill(&mut self, n: usize) -> io::Result<()> {
        if self.buf.len() - self.start < n {
            self.buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end - self.start < n && !self.eof {
            match self.src.read(&mut self.buf[self.end..]) {
                Ok(0) => self.eof = true,
                Ok(got) => self.end += got,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// The next `n` bytes without consuming them, fewer at the end of the stream. `n` is at most
    /// [`WINDOW`].
    pub(crate) fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        let n = n.min(WINDOW);
        if self.end - self.start < n {
            self.fill(n)?;
        }
        Ok(&self.buf[self.start..self.end.min(self.start + n)])
    }

    pub(crate) fn consume(&mut self, n: usize) {
        let n = n.min(self.end - self.start);
        self.start += n;
        self.at += n as u64;
    }

    /// The next line, without `\n` or `\r\n`.
    pub(crate) fn line(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut searched = 0;
        loop {
            let have = &self.buf[self.start..self.end];
            if let Some(i) = memchr::memchr(b'\n', &have[searched..]) {
                let (from, len) = (self.start, searched + i);
                self.consume(len + 1);
                self.line += 1;
                return Ok(Some(Line::Whole(trim_cr(&self.buf[from..from + len]))));
            }
            searched = have.len();
            if searched == WINDOW {
                return self.long_line().map(Some);
            }
            if self.eof {
                if searched == 0 {
                    return Ok(None);
                }
                let from = self.start;
                self.consume(searched);
                self.line += 1;
                return Ok(Some(Line::Whole(trim_cr(&self.buf[from..from + searched]))));
            }
            self.fill(searched + 1)?;
        }
    }

    #[cold]
    fn long_line(&mut self) -> io::Result<Line<'static>> {
        loop {
            let have = self.peek(WINDOW)?;
            let (n, done) = match memchr::memchr(b'\n', have) {
                Some(i) => (i + 1, true),
                None => (have.len(), have.is_empty()),
            };
            self.consume(n);
            if done {
                break;
            }
        }
        self.line += 1;
        Ok(Line::TooLong)
    }
}

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let have = self.peek(buf.len())?;
        let n = have.len();
        buf[..n].copy_from_slice(have);
        self.consume(n);
        Ok(n)
    }
}

fn trim_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}
