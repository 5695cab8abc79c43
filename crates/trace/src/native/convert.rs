//! From any format to the native store. Knows the two ends, and nothing of what lies between.

use std::fs::{File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::StoreWriter;
use crate::{Info, OpenOptions, Progress, Reader, Skipped, Source, TraceError};

/// What a conversion did.
#[derive(Clone, Debug)]
pub struct Converted {
    /// Records written.
    pub records: u64,
    /// What was passed over.
    pub skipped: Skipped,
    /// What the trace could tell.
    pub info: Info,
}

/// Reads `source` and writes it as a native store at `out`, which stands there whole or not at all (it
/// replaces a file of that name at the end; a pipe or a device is written to directly). `progress` is
/// called now and then.
///
/// # Errors
/// Where the source cannot be read or the store not be written.
pub fn convert(
    source: &Source,
    options: &OpenOptions,
    out: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Converted, TraceError> {
    let mut reader = source.open(options)?;
    let fail = |e: std::io::Error| TraceError::Write { path: out.to_owned(), what: e.to_string() };
    if out.metadata().is_ok_and(|m| !m.is_file()) {
        let to = File::options().write(true).open(out).map_err(fail)?;
        return copy(&mut reader, source, to, out, progress).map(|(done, _)| done);
    }
    let directory = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let to = tempfile::Builder::new()
        .prefix(".seekless-")
        // As any new file: the user's umask takes away from this.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(fail)?;
    let (done, to) = copy(&mut reader, source, to, out, progress)?;
    to.as_file().sync_all().map_err(fail)?;
    to.persist(out).map_err(|e| fail(e.error))?;
    Ok(done)
}

fn copy<W: Write + Send>(
    reader: &mut Reader,
    source: &Source,
    to: W,
    out: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Converted, W), TraceError> {
    let to = BufWriter::with_capacity(1 << 20, to);
    let mut writer = StoreWriter::new(to, out, source.path(), reader.info())?;
    let mut records = 0;
    while let Some(record) = reader.next_record()? {
        if writer.write(&record, reader.streams(), reader.devices())? {
            progress(reader.progress());
        }
        records += 1;
    }
    let info = reader.info();
    if reader.skipped().lost_events > 0 {
        writer.lost_events(reader.skipped().lost_events);
    }
    let to = writer
        .finish(info.has_days)?
        .into_inner()
        .map_err(|e| TraceError::Write { path: out.to_owned(), what: e.error().to_string() })?;
    progress(reader.progress());
    Ok((Converted { records, skipped: reader.skipped().clone(), info }, to))
}
