//! Traces as Arrow tables: the columns of the native store, one row per request.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Int64Builder, StringDictionaryBuilder};
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchReader, StringArray,
};
use arrow_pyarrow::Table;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::PyErr;
use seekless_block::{Flags, Op};
use seekless_trace::{OpenOptions, Progress, Record, Row, Source, TableTrace, TraceError};

use crate::errors;

/// Rows of a batch.
const ROWS: usize = 1 << 16;

const FLAGS: [(Flags, &str); 4] =
    [(Flags::FUA, "fua"), (Flags::SYNC, "sync"), (Flags::META, "meta"), (Flags::AHEAD, "ahead")];

/// Why a table cannot be read or made.
#[derive(Debug)]
pub(crate) enum TableError {
    Trace(TraceError),
    Arrow(ArrowError),
    /// The table and what is wrong.
    Wrong(String),
}

impl From<TraceError> for TableError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl From<ArrowError> for TableError {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

impl TableError {
    pub(crate) fn raise(&self) -> PyErr {
        match self {
            Self::Trace(error) => errors::trace(error),
            Self::Arrow(error) => errors::option(error.to_string()),
            Self::Wrong(what) => errors::option(what.as_str()),
        }
    }
}

/// Names and types are those of the native store, so that a Parquet file of the table is one.
fn schema() -> SchemaRef {
    let int = |name: &str, null| Field::new(name, DataType::Int64, null);
    let words = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let word = |name: &str| Field::new(name, words.clone(), true);
    let mut fields = vec![int("time_ns", true), word("op"), int("sector", false)];
    fields.push(int("sectors", false));
    fields.extend(FLAGS.map(|(_, name)| Field::new(name, DataType::Boolean, false)));
    fields.extend([int("stream", false), int("pid", true), word("process")]);
    fields.extend([int("device", false), word("device_name")]);
    fields.extend([int("day", true), int("service_ns", true)]);
    Arc::new(Schema::new(fields))
}

type Words = StringDictionaryBuilder<Int32Type>;

/// The columns of a batch that is being filled.
#[derive(Default)]
struct Batch {
    rows: usize,
    times: Int64Builder,
    op: Words,
    sector: Int64Builder,
    sectors: Int64Builder,
    flags: [BooleanBuilder; 4],
    stream: Int64Builder,
    pid: Int64Builder,
    process: Words,
    device: Int64Builder,
    device_name: Words,
    day: Int64Builder,
    service: Int64Builder,
}

impl Batch {
    fn push(
        &mut self,
        record: &Record,
        has_times: bool,
        (pid, process, device): (u32, &str, &str),
    ) {
        let Record { request, day, service, .. } = record;
        // Readers limit sector numbers to 2^55; times beyond 292 years have no number here.
        let int = |n: u64| i64::try_from(n).ok();
        self.rows += 1;
        self.times.append_option(int(request.arrival.0).filter(|_| has_times));
        let op = Op::NAMES.iter().find(|(op, _)| *op == request.op).map_or("", |(_, name)| name);
        self.op.append_value(op);
        self.sector.append_value(int(request.extent.start.0).unwrap_or(i64::MAX));
        self.sectors.append_value(int(request.extent.len.0).unwrap_or(i64::MAX));
        for (column, (flag, _)) in self.flags.iter_mut().zip(FLAGS) {
            column.append_value(request.flags.contains(flag));
        }
        self.stream.append_value(i64::from(request.stream.0));
        self.pid.append_option(Some(i64::from(pid)).filter(|n| *n > 0));
        self.process.append_option(Some(process).filter(|t| !t.is_empty()));
        self.device.append_value(i64::from(record.device));
        self.device_name.append_option(Some(device).filter(|t| !t.is_empty()));
        self.day.append_option(day.map(i64::from));
        self.service.append_option(service.and_then(|s| int(s.0)));
    }

    fn finish(mut self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.times.finish()),
            Arc::new(self.op.finish()),
            Arc::new(self.sector.finish()),
            Arc::new(self.sectors.finish()),
        ];
        columns.extend(self.flags.iter_mut().map(|f| Arc::new(f.finish()) as ArrayRef));
        columns.extend([
            Arc::new(self.stream.finish()) as ArrayRef,
            Arc::new(self.pid.finish()),
            Arc::new(self.process.finish()),
            Arc::new(self.device.finish()),
            Arc::new(self.device_name.finish()),
            Arc::new(self.day.finish()),
            Arc::new(self.service.finish()),
        ]);
        RecordBatch::try_new(Arc::clone(schema), columns)
    }
}

pub(crate) fn read(
    source: &Source,
    options: &OpenOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Table, TableError> {
    let schema = schema();
    let mut reader = source.open(options)?;
    let (mut batches, mut batch) = (Vec::new(), Batch::default());
    while let Some(record) = reader.next_record()? {
        let stream = reader.streams().get(record.request.stream.0 as usize);
        let (pid, process) = stream.map_or((0, ""), |s| (s.pid, s.name.as_str()));
        let device = reader.devices().get(record.device as usize);
        let device = device.map_or("", |d| d.name.as_str());
        batch.push(&record, reader.info().has_times, (pid, process, device));
        if batch.rows == ROWS {
            batches.push(std::mem::take(&mut batch).finish(&schema)?);
            progress(reader.progress());
        }
    }
    if batch.rows > 0 {
        batches.push(batch.finish(&schema)?);
    }
    Ok(Table::try_new(batches, schema)?)
}

/// A trace of a table's rows, in order. The columns are those of [`read`], with plain text; all
/// but `sector` and `sectors` may be absent.
pub(crate) fn source(name: &str, reader: impl RecordBatchReader) -> Result<Source, TableError> {
    let schema = reader.schema();
    let has = |column| schema.column_with_name(column).is_some();
    let has_times = has("time_ns");
    let path = Path::new(name);
    let mut table = TableTrace::new(path, has_times, has("day") && !has_times, has("service_ns"));
    let mut row = 0u64;
    for batch in reader {
        let batch = batch?;
        let columns = Columns::of(name, &batch)?;
        for i in 0..batch.num_rows() {
            let at = columns
                .row(i)
                .map_err(|what| TableError::Wrong(format!("{name}: row {row}: {what}")))?;
            table.push(&at)?;
            row += 1;
        }
    }
    if row == 0 {
        return Err(TraceError::Empty { path: path.to_owned() }.into());
    }
    Ok(table.source())
}

/// The columns of a batch.
struct Columns<'a> {
    times: Option<&'a Int64Array>,
    op: Option<&'a StringArray>,
    sector: &'a Int64Array,
    sectors: &'a Int64Array,
    flags: [Option<&'a BooleanArray>; 4],
    pid: Option<&'a Int64Array>,
    process: Option<&'a StringArray>,
    device: Option<&'a StringArray>,
    day: Option<&'a Int64Array>,
    service: Option<&'a Int64Array>,
}

impl<'a> Columns<'a> {
    fn of(name: &str, batch: &'a RecordBatch) -> Result<Self, TableError> {
        let wrong = |column: &str, expected: &str| {
            TableError::Wrong(format!("{name}: column '{column}': expected {expected}"))
        };
        let int = |column: &str| match batch.column_by_name(column) {
            None => Ok(None),
            Some(values) => values
                .as_primitive_opt::<Int64Type>()
                .map(Some)
                .ok_or_else(|| wrong(column, "64-bit integers")),
        };
        let text = |column: &str| match batch.column_by_name(column) {
            None => Ok(None),
            Some(values) => {
                values.as_string_opt::<i32>().map(Some).ok_or_else(|| wrong(column, "text"))
            }
        };
        let mut flags = [None; 4];
        for (flag, (_, column)) in flags.iter_mut().zip(FLAGS) {
            if let Some(values) = batch.column_by_name(column) {
                *flag = Some(values.as_boolean_opt().ok_or_else(|| wrong(column, "booleans"))?);
            }
        }
        Ok(Self {
            times: int("time_ns")?,
            op: text("op")?,
            sector: int("sector")?.ok_or_else(|| wrong("sector", "a column of that name"))?,
            sectors: int("sectors")?.ok_or_else(|| wrong("sectors", "a column of that name"))?,
            flags,
            pid: int("pid")?,
            process: text("process")?,
            device: text("device")?,
            day: int("day")?,
            service: int("service_ns")?,
        })
    }

    fn row(&self, i: usize) -> Result<Row<'a>, String> {
        let number = |column: &str, values: Option<&Int64Array>| match values {
            Some(values) if values.is_valid(i) => u64::try_from(values.value(i))
                .map(Some)
                .map_err(|_| format!("{column} is {}; expected 0 or more", values.value(i))),
            _ => Ok(None),
        };
        let small = |column: &str, values| match number(column, values)?.map(u32::try_from) {
            Some(Err(_)) => Err(format!("{column} is too large; expected less than 2^32")),
            Some(Ok(n)) => Ok(Some(n)),
            None => Ok(None),
        };
        let needed = |column: &str, values| {
            number(column, values)?.ok_or_else(|| format!("{column} is null"))
        };
        let text = |values: Option<&'a StringArray>| match values {
            Some(values) if values.is_valid(i) => values.value(i),
            _ => "",
        };
        let op = match self.op {
            None => Op::Read,
            Some(_) => operation(text(self.op))?,
        };
        let mut flags = Flags::NONE;
        for (values, (flag, _)) in self.flags.iter().zip(FLAGS) {
            if values.is_some_and(|v| v.is_valid(i) && v.value(i)) {
                flags = flags.union(flag);
            }
        }
        Ok(Row {
            time: self.times.map(|times| needed("time_ns", Some(times))).transpose()?,
            op,
            flags,
            sector: needed("sector", Some(self.sector))?,
            sectors: needed("sectors", Some(self.sectors))?,
            pid: small("pid", self.pid)?.unwrap_or(0),
            process: text(self.process),
            device: text(self.device),
            day: small("day", self.day)?,
            service: number("service_ns", self.service)?,
        })
    }
}

fn operation(text: &str) -> Result<Op, String> {
    let names = || Op::NAMES.map(|(_, name)| name).join(", ");
    let found = Op::NAMES.iter().find(|(_, name)| *name == text).map(|(op, _)| *op);
    found.ok_or_else(|| format!("op is '{text}'; expected one of {}", names()))
}
