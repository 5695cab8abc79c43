//! Reads the native store in batches. It also reads files that other tools have rewritten, if the
//! columns keep their names and types: the seekless keys can be missing, and rows can be filtered
//! or sorted.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, Length};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::types::SchemaDescriptor;
use rustc_hash::FxHashMap;
use seekless_block::{Flags, Op};

use super::{
    COLUMNS, Col, Column, ColumnType, FLAGS, KEY_DAYS, KEY_FORMAT, KEY_LOST, KEY_PROCESSES,
    KEY_SCHEMA, KEY_SERVICE, KEY_TIMES, SCHEMA, Values,
};
use crate::error::{BadRecord, Parsed, quote};
use crate::input::Cursor;
use crate::reader::{Info, Parse};
use crate::reader_context::{Process, RawRequest, ReaderContext};
use crate::{Format, Record, TraceError, TracePosition, Traced};

/// Number of rows decoded at a time.
const BATCH_ROWS: usize = 8192;

/// A file that many cursors read; the bytes read are counted.
#[derive(Clone, Debug)]
struct Chunks {
    file: Arc<File>,
    len: u64,
    read: Arc<AtomicU64>,
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for Chunks {
    type T = io::BufReader<Cursor>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        // Page headers are small and are read ahead several times, so counting them would be
        // misleading.
        Ok(io::BufReader::new(Cursor::new(Arc::clone(&self.file), start, Arc::default())))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes, ParquetError> {
        // Checked before memory is asked for: the length comes from the file.
        if start.checked_add(length as u64).is_none_or(|end| end > self.len) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} pass the end")));
        }
        let mut buf = vec![0; length];
        self.file.read_exact_at(&mut buf, start)?;
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(buf.into())
    }
}

thread_local! {
    /// Whether this thread is in the Parquet library. A panic there only means a damaged file.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Calls the Parquet library, which panics on some damaged files, and converts a panic to an error.
/// After an error, the objects that `f` used must not be used again. Such a panic prints nothing:
/// the first call installs a panic hook that is silent for a thread inside this function and calls
/// the former hook for all others.
fn guarded<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                before(info);
            }
        }));
    });
    let outer = GUARDED.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(f));
    GUARDED.set(outer);
    done.unwrap_or_else(|_| Err("damaged; the decoder stopped without a message".to_owned()))
}

pub(crate) struct StoreReader {
    file: SerializedFileReader<Chunks>,
    /// The position of each of our columns in this file.
    index: Vec<Option<usize>>,
    next_group: usize,
    readers: Vec<Option<ColumnReader>>,
    batch: Vec<Batch>,
    /// Number of rows in the batch, and number of rows returned.
    rows: usize,
    row: usize,
    /// Row of the file that begins the batch.
    base: u64,
    streams: FxHashMap<i64, u32>,
    devices: FxHashMap<i64, u32>,
    /// Number of events that the recorder reported as lost.
    pub(crate) lost: u64,
}

/// One column of the batch, and the position of its next value.
#[derive(Debug)]
struct Batch {
    column: Column,
    /// Whether the file's column has definition levels.
    nullable: bool,
    value: usize,
}

/// Finds the store's columns in a file. Returns the position of each, and an empty batch for each.
fn columns(schema: &SchemaDescriptor) -> Result<(Vec<Option<usize>>, Vec<Batch>), String> {
    let mut index = Vec::new();
    let mut batch = Vec::new();
    for c in COLUMNS {
        let at = schema.columns().iter().position(|d| d.path().parts() == [c.name.to_owned()]);
        if at.is_none() && !c.optional {
            return Err(format!("it has no column '{}'", c.name));
        }
        let d = at.map(|i| schema.column(i));
        let nullable = d.as_ref().is_some_and(|d| d.max_def_level() > 0);
        if d.is_some_and(|d| d.max_rep_level() > 0 || d.max_def_level() > 1) {
            return Err(format!("its column '{}' is nested", c.name));
        }
        index.push(at);
        batch.push(Batch { column: Column::new(c.kind), nullable, value: 0 });
    }
    Ok((index, batch))
}

impl StoreReader {
    /// Opens the store. Returns the reader and the information in the store.
    pub(crate) fn new(file: Arc<File>, read: Arc<AtomicU64>, path: &Path) -> Traced<(Self, Info)> {
        let fail = |what: String| TraceError::Store { path: path.to_owned(), what };
        let len = file.metadata().map_err(|e| fail(e.to_string()))?.len();
        let chunks = Chunks { file, len, read };
        let file = guarded(|| SerializedFileReader::new(chunks).map_err(|e| e.to_string()))
            .map_err(fail)?;
        let metadata = file.metadata().file_metadata();
        let key = |name: &str| {
            let pairs = metadata.key_value_metadata()?;
            pairs.iter().find(|p| p.key == name)?.value.as_deref()
        };
        if let Some(version) = key(KEY_SCHEMA)
            && version != SCHEMA
        {
            return Err(fail(format!("its schema is {version}, this program reads {SCHEMA}")));
        }
        let (index, batch) = columns(metadata.schema_descr()).map_err(fail)?;
        let says = |name: &str, col: Col| match key(name) {
            Some(value) => value == "true",
            None => index[col as usize].is_some_and(|i| {
                file.metadata().row_groups().iter().any(|group| {
                    let column = group.columns().get(i);
                    let nulls = column.and_then(|c| c.statistics()?.null_count_opt());
                    nulls.is_none_or(|n| i64::try_from(n) != Ok(group.num_rows()))
                })
            }),
        };
        let info = Info {
            // Invented requests and addresses stay invented.
            format: key(KEY_FORMAT)
                .and_then(Format::from_name)
                .filter(|format| format.caveat().is_some())
                .unwrap_or(Format::Native),
            has_times: says(KEY_TIMES, Col::Time),
            has_days: says(KEY_DAYS, Col::Day),
            has_processes: says(KEY_PROCESSES, Col::Stream),
            has_service: says(KEY_SERVICE, Col::Service),
        };
        let lost = key(KEY_LOST).and_then(|v| v.parse().ok()).unwrap_or(0);
        let reader = Self {
            file,
            lost,
            index,
            next_group: 0,
            readers: Vec::new(),
            batch,
            rows: 0,
            row: 0,
            base: 0,
            streams: FxHashMap::from_iter([(0, 0)]),
            devices: FxHashMap::default(),
        };
        Ok((reader, info))
    }

    /// Decodes the next batch. Returns false at the end.
    fn fill(&mut self) -> Result<bool, String> {
        self.base += self.rows as u64;
        (self.rows, self.row) = (0, 0);
        loop {
            if self.readers.is_empty() {
                if self.next_group >= self.file.num_row_groups() {
                    return Ok(false);
                }
                let group = self.file.get_row_group(self.next_group).map_err(|e| e.to_string())?;
                self.next_group += 1;
                for at in &self.index {
                    let reader = at.map(|i| group.get_column_reader(i)).transpose();
                    self.readers.push(reader.map_err(|e| e.to_string())?);
                }
            }
            let mut rows = None;
            for ((reader, batch), definition) in
                self.readers.iter_mut().zip(&mut self.batch).zip(COLUMNS)
            {
                let Some(reader) = reader else { continue };
                batch.value = 0;
                batch.column.clear();
                let n = batch
                    .fill(reader, definition.kind)
                    .map_err(|e| format!("column '{}': {e}", definition.name))?;
                if *rows.get_or_insert(n) != n {
                    return Err(format!("column '{}' has fewer rows than others", definition.name));
                }
            }
            match rows {
                Some(n) if n > 0 => {
                    self.rows = n;
                    return Ok(true);
                }
                _ => self.readers.clear(),
            }
        }
    }

    /// The column indices of the next row. Moves past the row, valid or not.
    fn take(&mut self) -> Row {
        let row = self.row;
        self.row += 1;
        let mut out = Row::default();
        for (i, batch) in self.batch.iter_mut().enumerate() {
            if self.index[i].is_none()
                || (batch.nullable && batch.column.levels.get(row) != Some(&1))
            {
                continue;
            }
            let at = batch.value;
            batch.value += 1;
            match &batch.column.values {
                Values::Int(v) => out.ints[i] = v.get(at).copied(),
                Values::Bool(v) => out.bools |= u16::from(v.get(at) == Some(&true)) << i,
                Values::Text(_) => out.texts[i] = Some(at),
            }
        }
        out
    }

    fn text(&self, row: &Row, col: Col) -> &[u8] {
        match (&self.batch[col as usize].column.values, row.texts[col as usize]) {
            (Values::Text(v), Some(at)) => v.get(at).map_or(&[], ByteArray::data),
            _ => &[],
        }
    }

    fn record(&mut self, cx: &mut ReaderContext, place: TracePosition) -> Parsed<Option<Record>> {
        let row = self.take();
        let op = self.text(&row, Col::Op);
        let Some(&(op, _)) = Op::NAMES.iter().find(|(_, name)| name.as_bytes() == op) else {
            let found = quote(op);
            return Err(BadRecord::found(
                "an op: read, write, discard, write_zeroes, flush",
                found,
            ));
        };
        let (Some(start), Some(len)) = (row.unsigned(Col::Sector)?, row.unsigned(Col::Sectors)?)
        else {
            return Err(BadRecord::found("a sector and a length", "null".to_owned()));
        };
        let mut raw = RawRequest::new(op, start, if op == Op::Flush { 0 } else { len });
        raw.time = row.unsigned(Col::Time)?;
        raw.service = row.unsigned(Col::Service)?;
        raw.day = row.small(Col::Day)?;
        raw.flags = FLAGS
            .iter()
            .filter(|(_, col)| row.bools >> (*col as u16) & 1 == 1)
            .fold(Flags::NONE, |all, (flag, _)| all.union(*flag));
        let pid = row.small(Col::Pid)?.unwrap_or(0);
        let Some(admitted) = cx.admit(&raw, place)? else { return Ok(None) };
        let stored = row.ints[Col::Device as usize].unwrap_or(0);
        let device = match self.devices.get(&stored) {
            Some(&id) => id,
            None => {
                let id =
                    cx.add_device(crate::reader_context::text(self.text(&row, Col::DeviceName)))?;
                self.devices.insert(stored, id);
                id
            }
        };
        let stored = row.ints[Col::Stream as usize].unwrap_or(0);
        let stream = match self.streams.get(&stored) {
            Some(&id) => id,
            None => {
                let name = self.text(&row, Col::Process);
                let id = cx.add_stream(Process { pid, name }).unwrap_or(0);
                self.streams.insert(stored, id);
                id
            }
        };
        if stream != 0 {
            cx.name_stream(stream, self.text(&row, Col::Process));
        }
        Ok(Some(cx.record(&raw, admitted, device, stream)))
    }
}

/// The positions of a row's values.
#[derive(Default)]
struct Row {
    ints: [Option<i64>; COLUMNS.len()],
    texts: [Option<usize>; COLUMNS.len()],
    /// One bit per column.
    bools: u16,
}

impl Row {
    fn unsigned(&self, col: Col) -> Parsed<Option<u64>> {
        let Some(v) = self.ints[col as usize] else { return Ok(None) };
        u64::try_from(v).map(Some).map_err(|_| negative(col, v))
    }

    fn small(&self, col: Col) -> Parsed<Option<u32>> {
        let Some(v) = self.ints[col as usize] else { return Ok(None) };
        u32::try_from(v).map(Some).map_err(|_| negative(col, v))
    }
}

#[cold]
fn negative(col: Col, value: i64) -> BadRecord {
    let found = format!("{value} in column '{}'", COLUMNS[col as usize].name);
    BadRecord::found("a number of 0 or more, pids and days below 2^32", found)
}

impl Batch {
    /// Decodes up to [`BATCH_ROWS`] rows. Returns their number.
    fn fill(&mut self, reader: &mut ColumnReader, kind: ColumnType) -> Result<usize, String> {
        let mut rows = 0;
        while rows < BATCH_ROWS {
            let want = BATCH_ROWS - rows;
            let levels = self.nullable.then_some(&mut self.column.levels);
            let got = match (&mut *reader, &mut self.column.values) {
                (ColumnReader::Int64ColumnReader(r), Values::Int(v)) => {
                    r.read_records(want, levels, None, v)
                }
                (ColumnReader::BoolColumnReader(r), Values::Bool(v)) => {
                    r.read_records(want, levels, None, v)
                }
                (ColumnReader::ByteArrayColumnReader(r), Values::Text(v)) => {
                    r.read_records(want, levels, None, v)
                }
                _ => return Err(format!("not of type {kind:?}")),
            };
            match got.map_err(|e| e.to_string())? {
                (0, ..) => break,
                (n, ..) => rows += n,
            }
        }
        Ok(rows)
    }
}

impl Parse for StoreReader {
    fn next(&mut self, cx: &mut ReaderContext) -> Traced<Option<Record>> {
        loop {
            if self.row == self.rows {
                match guarded(|| self.fill()) {
                    Ok(true) => {}
                    Ok(false) => return Ok(None),
                    Err(what) => {
                        let what = format!("row {}: {what}", self.base);
                        return Err(TraceError::Store { path: cx.path.clone(), what });
                    }
                }
            }
            let place = TracePosition::Row(self.base + self.row as u64);
            match self.record(cx, place) {
                Ok(Some(record)) => return Ok(Some(record)),
                Ok(None) => {}
                Err(bad) => cx.bad(place, bad, &[])?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const CHILD: &str = "SEEKLESS_GUARDED_CHILD";

    /// Runs in its own process, because the panic hook belongs to the process.
    #[test]
    fn a_panic_over_a_damaged_file_prints_nothing_and_others_print() {
        if std::env::var_os(CHILD).is_some() {
            let damaged = guarded::<()>(|| panic!("a damaged page"));
            assert!(damaged.unwrap_err().contains("damaged"));
            assert!(std::thread::spawn(|| panic!("a fault of ours")).join().is_err());
            return;
        }
        let name =
            "native::read::tests::a_panic_over_a_damaged_file_prints_nothing_and_others_print";
        let out = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{said}");
        assert!(said.contains("a fault of ours") && !said.contains("a damaged page"), "{said}");
    }
}
