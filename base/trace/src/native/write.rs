//! Writes the native store, row group by row group; one row group is in memory. The origin of the
//! records is not known here.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use seekless_block::Op;

use super::{
    COLUMNS, Col, Column, FLAGS, KEY_DAYS, KEY_FORMAT, KEY_LOST, KEY_PROCESSES, KEY_SCHEMA,
    KEY_SERVICE, KEY_SOURCE, KEY_TIMES, KEY_UNITS, KEY_VERSION, SCHEMA, UNITS, Values, schema,
};
use crate::{Device, Info, Record, Stream, TraceError};

/// Rows per row group: the unit of work for one thread in DuckDB and Polars.
const GROUP_ROWS: usize = 122_880;

/// Writes a native store.
pub struct StoreWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    path: PathBuf,
    columns: Vec<Column>,
    rows: usize,
    has_times: bool,
    /// The names of streams and devices in Parquet's form, converted once.
    processes: Vec<Option<ByteArray>>,
    devices: Vec<Option<ByteArray>>,
    ops: [ByteArray; Op::NAMES.len()],
}

impl<W: Write + Send> std::fmt::Debug for StoreWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreWriter").field("path", &self.path).field("rows", &self.rows).finish()
    }
}

impl<W: Write + Send> StoreWriter<W> {
    /// A store written to `to`; errors name it `path`. `source` is the origin of the trace.
    pub fn new(to: W, path: &Path, source: &Path, info: Info) -> Result<Self, TraceError> {
        let fail = |e: ParquetError| error(path, &e);
        let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
        let metadata = vec![
            pair(KEY_SCHEMA, SCHEMA.to_owned()),
            pair(KEY_VERSION, env!("CARGO_PKG_VERSION").to_owned()),
            pair(KEY_SOURCE, source.display().to_string()),
            pair(KEY_FORMAT, info.format.name().to_owned()),
            pair(KEY_UNITS, UNITS.to_owned()),
            pair(KEY_TIMES, info.has_times.to_string()),
            pair(KEY_PROCESSES, info.has_processes.to_string()),
            pair(KEY_SERVICE, info.has_service.to_string()),
        ];
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).map_err(fail)?))
            .set_created_by(format!("seekless {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(metadata));
        // Times and addresses rarely repeat, so they are stored as differences, not with
        // dictionaries.
        for c in [Col::Time, Col::Sector, Col::Service] {
            let path = ColumnPath::from(COLUMNS[c as usize].name);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let schema = schema().map_err(fail)?;
        let file =
            SerializedFileWriter::new(to, schema, Arc::new(properties.build())).map_err(fail)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            columns: COLUMNS.iter().map(|c| Column::new(c.kind)).collect(),
            rows: 0,
            has_times: info.has_times,
            processes: Vec::new(),
            devices: Vec::new(),
            ops: Op::NAMES.map(|(_, name)| ByteArray::from(name)),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one record. `streams` and `devices` are the tables of the record's reader. Returns
    /// whether a row group was written.
    pub fn write(
        &mut self,
        record: &Record,
        streams: &[Stream],
        devices: &[Device],
    ) -> Result<bool, TraceError> {
        let request = &record.request;
        let (stream, device) = (request.stream.0, record.device);
        let range = |_| {
            let what = "a time, a sector number or a length passes 2^63".to_owned();
            TraceError::Write { path: self.path.clone(), what }
        };
        let time = i64::try_from(request.arrival.0).map_err(range)?;
        let sector = i64::try_from(request.extent.start.0).map_err(range)?;
        let sectors = i64::try_from(request.extent.len.0).map_err(range)?;
        let service = record.service.map(|s| i64::try_from(s.0)).transpose().map_err(range)?;

        self.int(Col::Time, self.has_times.then_some(time));
        self.text(Col::Op, Some(self.ops[request.op as usize].clone()));
        self.int(Col::Sector, Some(sector));
        self.int(Col::Sectors, Some(sectors));
        for (flag, col) in FLAGS {
            self.bool(col, request.flags.contains(flag));
        }
        self.int(Col::Stream, Some(i64::from(stream)));
        let who = streams.get(stream as usize);
        self.int(Col::Pid, who.filter(|s| s.pid != 0).map(|s| i64::from(s.pid)));
        let name = cached(&mut self.processes, stream, who.map(|s| s.name.as_str()));
        self.text(Col::Process, name);
        self.int(Col::Device, Some(i64::from(device)));
        let name = devices.get(device as usize).map(|d| d.name.as_str());
        let name = cached(&mut self.devices, device, name);
        self.text(Col::DeviceName, name);
        self.int(Col::Day, record.day.map(i64::from));
        self.int(Col::Service, service);

        self.rows += 1;
        if self.rows < GROUP_ROWS {
            return Ok(false);
        }
        self.write_group().map_err(|e| error(&self.path, &e))?;
        Ok(true)
    }

    /// Stores the number of events that the recorder lost.
    pub fn lost_events(&mut self, lost: u64) {
        self.file.append_key_value_metadata(KeyValue::new(KEY_LOST.to_owned(), lost.to_string()));
    }

    /// Writes the rest and the footer. `has_days` tells whether the day numbers are valid, which is
    /// only known at the end of a trace.
    pub fn finish(mut self, has_days: bool) -> Result<W, TraceError> {
        let path = self.path.clone();
        let fail = |e: ParquetError| error(&path, &e);
        if self.rows > 0 {
            self.write_group().map_err(fail)?;
        }
        self.file
            .append_key_value_metadata(KeyValue::new(KEY_DAYS.to_owned(), has_days.to_string()));
        let mut to = self.file.into_inner().map_err(fail)?;
        to.flush().map_err(|e| fail(e.into()))?;
        Ok(to)
    }

    fn int(&mut self, col: Col, value: Option<i64>) {
        let column = &mut self.columns[col as usize];
        column.levels.push(i16::from(value.is_some()));
        if let (Values::Int(v), Some(value)) = (&mut column.values, value) {
            v.push(value);
        }
    }

    fn bool(&mut self, col: Col, value: bool) {
        let column = &mut self.columns[col as usize];
        column.levels.push(1);
        if let Values::Bool(v) = &mut column.values {
            v.push(value);
        }
    }

    fn text(&mut self, col: Col, value: Option<ByteArray>) {
        let column = &mut self.columns[col as usize];
        column.levels.push(i16::from(value.is_some()));
        if let (Values::Text(v), Some(value)) = (&mut column.values, value) {
            v.push(value);
        }
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for (column, definition) in self.columns.iter_mut().zip(COLUMNS) {
            let Some(mut writer) = group.next_column()? else { break };
            let levels = definition.optional.then_some(column.levels.as_slice());
            match &column.values {
                Values::Int(v) => writer.typed::<Int64Type>().write_batch(v, levels, None)?,
                Values::Bool(v) => writer.typed::<BoolType>().write_batch(v, levels, None)?,
                Values::Text(v) => writer.typed::<ByteArrayType>().write_batch(v, levels, None)?,
            };
            writer.close()?;
            column.clear();
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

/// A name in Parquet's form, converted again only if it changed; `None` if unknown.
fn cached(table: &mut Vec<Option<ByteArray>>, id: u32, name: Option<&str>) -> Option<ByteArray> {
    let id = id as usize;
    if table.len() <= id {
        table.resize(id + 1, None);
    }
    let name = name.filter(|n| !n.is_empty())?;
    if table[id].as_ref().is_none_or(|old| old.data() != name.as_bytes()) {
        table[id] = Some(ByteArray::from(name));
    }
    table[id].clone()
}

fn error(path: &Path, e: &ParquetError) -> TraceError {
    TraceError::Write { path: path.to_owned(), what: e.to_string() }
}
