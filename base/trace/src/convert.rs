//! Converts a trace from any format to one that can be written.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::whole_file;
use crate::writers::{self, Sink};
use crate::{Format, Info, OpenOptions, Progress, Reader, Skipped, Source, TraceError, Traced};

/// The compression of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Packing {
    #[default]
    None,
    Gzip,
    Zstd,
}

/// The output of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The file, or `-` for standard output.
    pub path: PathBuf,
    /// The format: the native store, fio, CSV or oracleGeneral.
    pub format: Format,
    /// The compression. The native store has its own compression and uses none here.
    pub packing: Packing,
    /// If given, only requests of this device are written.
    pub device: Option<String>,
}

impl Target {
    /// The formats that can be written.
    pub(crate) const FORMATS: [Format; 4] =
        [Format::Native, Format::Fio, Format::Csv, Format::Oracle];

    /// The names of the formats that can be written.
    pub fn formats() -> [&'static str; 4] {
        Self::FORMATS.map(Format::name)
    }

    /// Parses the user's text: `PATH` or `FORMAT:PATH`, with `-` for standard output. Without a
    /// format, the end of the name decides: `.fio` or `.iolog`, `.csv`, `.oracleGeneral`; every
    /// other name means the native store. A further `.gz` or `.zst` compresses the file. A path with
    /// a colon needs `./` before it: an unknown format is never taken for a part of the name.
    pub fn new(text: &str) -> Result<Self, String> {
        let names = || Self::formats().join(", ");
        let (named, path) = match text.split_once(':') {
            Some((name, path)) => match Format::from_name(name) {
                Some(format) if Self::FORMATS.contains(&format) => (Some(format), path),
                Some(_) => {
                    return Err(format!(
                        "{name} can be read but not written; formats that can be written: {}",
                        names()
                    ));
                }
                None if name.contains('/') => (None, text),
                None => {
                    return Err(format!(
                        "{name} is not the name of a format; formats that can be written: {}; for a file of this name write ./{text}",
                        names()
                    ));
                }
            },
            None => (None, text),
        };
        let (stem, packing) = match path {
            p if p.ends_with(".gz") => (&p[..p.len() - 3], Packing::Gzip),
            p if p.ends_with(".zst") => (&p[..p.len() - 4], Packing::Zstd),
            p => (p, Packing::None),
        };
        let extension = stem.trim_end_matches(".bin").rsplit('.').next().unwrap_or("");
        let format = match named {
            Some(format) => format,
            None if path == "-" => {
                return Err(format!(
                    "standard output needs a format, as in csv:- (formats that can be written: {})",
                    names()
                ));
            }
            None => match extension.to_ascii_lowercase().as_str() {
                "fio" | "iolog" => Format::Fio,
                "csv" => Format::Csv,
                "oraclegeneral" => Format::Oracle,
                _ => Format::Native,
            },
        };
        if format == Format::Native && packing != Packing::None {
            return Err(format!(
                "{path}: a Parquet file has its own compression; remove .gz or .zst from the name, or choose another format ({})",
                names()
            ));
        }
        Ok(Self { path: PathBuf::from(path), format, packing, device: None })
    }
}

impl From<&Path> for Target {
    /// The native store.
    fn from(path: &Path) -> Self {
        Self { path: path.to_owned(), format: Format::Native, packing: Packing::None, device: None }
    }
}

impl From<&PathBuf> for Target {
    /// The native store.
    fn from(path: &PathBuf) -> Self {
        Self::from(path.as_path())
    }
}

/// The result of a conversion.
#[derive(Clone, Debug)]
pub struct Converted {
    /// Number of requests written.
    pub records: u64,
    /// Number of requests that the format cannot represent.
    pub left_out: u64,
    /// The counts of records skipped while reading.
    pub skipped: Skipped,
    /// The information that the trace contains.
    pub info: Info,
}

/// Reads `source` and writes it to `target`. The output file is complete or absent: at the end it
/// replaces a file with the same name. A pipe, a terminal or standard output is written directly; a
/// disk is refused. `progress` is called once the trace is open, and from time to time.
pub fn convert(
    source: &Source,
    options: &OpenOptions,
    target: impl Into<Target>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Converted, TraceError> {
    let target = target.into();
    let out = target.path.as_path();
    if out.metadata().is_ok_and(|m| m.file_type().is_block_device()) {
        let what = "it is a disk, whose data would be lost; name a file".to_owned();
        return Err(TraceError::Write { path: out.to_owned(), what });
    }
    let mut reader = source.open(options)?;
    progress(reader.progress());
    let fail = |e: io::Error| writers::error(out, e);
    let mut run = |to: Box<dyn Write + Send>| copy(&mut reader, source, to, &target, progress);
    if out.as_os_str() == "-" {
        return run(Box::new(io::stdout()));
    }
    if out.metadata().is_ok_and(|m| !m.is_file()) {
        return run(Box::new(File::options().write(true).open(out).map_err(fail)?));
    }
    // The mode of a new file; the user's umask reduces it.
    let to = whole_file::part(out, Permissions::from_mode(0o666)).map_err(fail)?;
    let done = run(Box::new(to.as_file().try_clone().map_err(fail)?))?;
    whole_file::finish(to, out).map_err(fail)?;
    Ok(done)
}

fn copy(
    reader: &mut Reader,
    source: &Source,
    to: Box<dyn Write + Send>,
    target: &Target,
    progress: &mut dyn FnMut(Progress),
) -> Traced<Converted> {
    let fail = |e: io::Error| writers::error(&target.path, e);
    let to = Sink::new(BufWriter::with_capacity(1 << 20, to), target.packing).map_err(fail)?;
    let mut writer = writers::new(to, target, source.path(), reader.info())?;
    let (mut records, mut left_out) = (0u64, 0u64);
    while let Some(record) = reader.next_record()? {
        if let Some(wanted) = &target.device
            && reader.devices().get(record.device as usize).is_none_or(|d| d.name != *wanted)
        {
            continue;
        }
        if writer.write(&record, reader.streams(), reader.devices())? {
            records += 1;
        } else {
            left_out += 1;
        }
        if (records + left_out).is_multiple_of(65_536) {
            progress(reader.progress());
        }
    }
    if let Some(device) = &target.device
        && records + left_out == 0
    {
        let names = reader.devices().iter().map(|d| d.name.clone()).collect();
        let path = source.path().to_owned();
        return Err(TraceError::NoSuchDevice { path, device: device.clone(), names });
    }
    let info = reader.info();
    writer.finish(info.has_days, reader.skipped().lost_events)?;
    progress(reader.progress());
    Ok(Converted { records, left_out, skipped: reader.skipped().clone(), info })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed_from_formats_endings_and_compression() {
        let of = |text: &str| Target::new(text).map(|t| (t.format, t.packing));
        assert_eq!(of("a.parquet"), Ok((Format::Native, Packing::None)));
        assert_eq!(of("a"), Ok((Format::Native, Packing::None)));
        assert_eq!(of("a.csv.zst"), Ok((Format::Csv, Packing::Zstd)));
        assert_eq!(of("a.iolog.gz"), Ok((Format::Fio, Packing::Gzip)));
        assert_eq!(of("a.oracleGeneral.bin.zst"), Ok((Format::Oracle, Packing::Zstd)));
        assert_eq!(of("csv:-"), Ok((Format::Csv, Packing::None)));
        assert_eq!(of("parquet:x.csv"), Ok((Format::Native, Packing::None)));
        assert_eq!(of("./a:b.csv"), Ok((Format::Csv, Packing::None)));
        for (bad, word) in [
            ("-", "csv:-"),
            ("msr:x", "written"),
            ("cvs:-", "not the name of a format"),
            ("12:00.csv", "./12:00.csv"),
            ("a.parquet.gz", "compression"),
            ("x.zst", "compression"),
        ] {
            let error = of(bad).unwrap_err();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }
}
