//! The formats that can be written, one per file. The native store has its own module.

mod csv;
mod fio;
mod oracle;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::write::GzEncoder;

use crate::convert::{Packing, Target};
use crate::{Device, Format, Info, Record, StoreWriter, Stream, TraceError, Traced};

/// Takes requests one by one.
pub(crate) trait Writer {
    /// Writes one request. `streams` and `devices` are the tables of its reader. Returns false if
    /// the format cannot represent the request.
    fn write(&mut self, record: &Record, streams: &[Stream], devices: &[Device]) -> Traced<bool>;
    /// Writes the rest. `has_days` tells whether the day numbers are valid, `lost_events` is the
    /// number of events that the recorder reported as lost.
    fn finish(self: Box<Self>, has_days: bool, lost_events: u64) -> Traced<()>;
}

/// A writer of the target's format to `to`.
pub(crate) fn new(to: Sink, target: &Target, source: &Path, info: Info) -> Traced<Box<dyn Writer>> {
    let path = target.path.as_path();
    let fail = |e: io::Error| error(path, e);
    Ok(match target.format {
        Format::Fio => Box::new(fio::Fio::new(to, path, info.has_times).map_err(fail)?),
        Format::Csv => Box::new(csv::Csv::new(to, path, info.has_times).map_err(fail)?),
        Format::Oracle => Box::new(oracle::Oracle::new(to, path).map_err(fail)?),
        Format::Native => Box::new(StoreWriter::new(to, path, source, info)?),
        other => {
            let what = format!("{} can only be read", other.name());
            return Err(TraceError::Write { path: path.to_owned(), what });
        }
    })
}

impl Writer for StoreWriter<Sink> {
    fn write(&mut self, record: &Record, streams: &[Stream], devices: &[Device]) -> Traced<bool> {
        Self::write(self, record, streams, devices).map(|_| true)
    }

    fn finish(mut self: Box<Self>, has_days: bool, lost_events: u64) -> Traced<()> {
        if lost_events > 0 {
            self.lost_events(lost_events);
        }
        let path = self.path().to_owned();
        Self::finish(*self, has_days)?.finish().map_err(|e| error(&path, e))
    }
}

pub(crate) fn error(path: &Path, source: io::Error) -> TraceError {
    TraceError::WriteFailed { path: path.to_owned(), source }
}

type Out = BufWriter<Box<dyn Write + Send>>;

pub(crate) enum Sink {
    Plain(Out),
    Gzip(GzEncoder<Out>),
    Zstd(zstd::stream::write::Encoder<'static, Out>),
}

impl Sink {
    pub(crate) fn new(to: Out, packing: Packing) -> io::Result<Self> {
        Ok(match packing {
            Packing::None => Self::Plain(to),
            Packing::Gzip => Self::Gzip(GzEncoder::new(to, flate2::Compression::default())),
            Packing::Zstd => Self::Zstd(zstd::stream::write::Encoder::new(to, 3)?),
        })
    }

    /// Ends the compression and writes all data.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(to) => to,
            Self::Gzip(to) => to.finish()?,
            Self::Zstd(to) => to.finish()?,
        }
        .flush()
    }
}

impl Write for Sink {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(to) => to.write(buf),
            Self::Gzip(to) => to.write(buf),
            Self::Zstd(to) => to.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(to) => to.flush(),
            Self::Gzip(to) => to.flush(),
            Self::Zstd(to) => to.flush(),
        }
    }
}
