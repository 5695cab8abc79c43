//! The native store: one Parquet file with one row per request, readable by every tool that reads
//! Parquet. This file has the only definition of the columns; `docs/changing/trace-store.md`
//! repeats them and a test compares. Parquet is used through its column interface, without Arrow:
//! every column is flat.

mod read;
mod write;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::schema::types::{Type, TypePtr};
use seekless_block::Flags;

pub(crate) use read::StoreReader;
pub use write::StoreWriter;

/// Name and version of the schema, under the key `seekless.schema`.
const SCHEMA: &str = "seekless.trace/1";
const KEY_SCHEMA: &str = "seekless.schema";
const KEY_VERSION: &str = "seekless.version";
const KEY_SOURCE: &str = "seekless.source";
const KEY_FORMAT: &str = "seekless.source_format";
const KEY_UNITS: &str = "seekless.units";
const UNITS: &str = "time_ns, service_ns: nanoseconds; sector, sectors: 512 bytes";
const KEY_TIMES: &str = "seekless.has_times";
const KEY_DAYS: &str = "seekless.has_days";
const KEY_PROCESSES: &str = "seekless.has_processes";
const KEY_SERVICE: &str = "seekless.has_service";
const KEY_LOST: &str = "seekless.lost_events";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnType {
    Int,
    Bool,
    Text,
}

#[derive(Clone, Copy, Debug)]
struct Definition {
    name: &'static str,
    kind: ColumnType,
    /// Whether a row can be null, and a file can lack the column.
    optional: bool,
    #[cfg(test)]
    meaning: &'static str,
}

macro_rules! columns {
    ($($index:ident = $name:literal, $kind:ident, $optional:literal, $meaning:literal;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        enum Col { $($index,)* }
        /// Every column, in order.
        const COLUMNS: &[Definition] = &[$(Definition {
            name: $name, kind: ColumnType::$kind, optional: $optional,
            #[cfg(test)]
            meaning: $meaning,
        },)*];
    };
}

columns! {
    Time = "time_ns", Int, true, "arrival, counted from the first request; null where the trace has no times";
    Op = "op", Text, false, "`read`, `write`, `discard`, `write_zeroes` or `flush`";
    Sector = "sector", Int, false, "first sector; 0 for a flush";
    Sectors = "sectors", Int, false, "length; 0 for a flush";
    Fua = "fua", Bool, true, "stable before completion";
    Sync = "sync", Bool, true, "somebody waits for it";
    Meta = "meta", Bool, true, "file system metadata";
    Ahead = "ahead", Bool, true, "read-ahead";
    Stream = "stream", Int, true, "the process, numbered from 1 in order of first sight; 0 where unknown";
    Pid = "pid", Int, true, "process number of the stream, where known";
    Process = "process", Text, true, "command of the stream, where known";
    Device = "device", Int, true, "which device, numbered from 0 in order of first sight";
    DeviceName = "device_name", Text, true, "as the trace names it, where it does";
    Day = "day", Int, true, "day number, where the trace has days";
    Service = "service_ns", Int, true, "how long the disk of the time took, where known";
}

const FLAGS: [(Flags, Col); 4] = [
    (Flags::FUA, Col::Fua),
    (Flags::SYNC, Col::Sync),
    (Flags::META, Col::Meta),
    (Flags::AHEAD, Col::Ahead),
];

/// Values of one column, with the definition levels of an optional one (1 present, 0 null).
#[derive(Debug)]
struct Column {
    values: Values,
    levels: Vec<i16>,
}

#[derive(Debug)]
enum Values {
    Int(Vec<i64>),
    Bool(Vec<bool>),
    Text(Vec<ByteArray>),
}

impl Column {
    const fn new(kind: ColumnType) -> Self {
        let values = match kind {
            ColumnType::Int => Values::Int(Vec::new()),
            ColumnType::Bool => Values::Bool(Vec::new()),
            ColumnType::Text => Values::Text(Vec::new()),
        };
        Self { values, levels: Vec::new() }
    }

    fn clear(&mut self) {
        self.levels.clear();
        match &mut self.values {
            Values::Int(v) => v.clear(),
            Values::Bool(v) => v.clear(),
            Values::Text(v) => v.clear(),
        }
    }
}

fn schema() -> Result<TypePtr, parquet::errors::ParquetError> {
    let fields = COLUMNS
        .iter()
        .map(|c| {
            let (physical, logical) = match c.kind {
                ColumnType::Int => (Physical::INT64, None),
                ColumnType::Bool => (Physical::BOOLEAN, None),
                ColumnType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            };
            let repetition = if c.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
            Type::primitive_type_builder(c.name, physical)
                .with_repetition(repetition)
                .with_logical_type(logical)
                .build()
                .map(TypePtr::new)
        })
        .collect::<Result<_, _>>()?;
    Ok(TypePtr::new(Type::group_type_builder("trace").with_fields(fields).build()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_names_every_column_as_it_is() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/changing/trace-store.md");
        let document = std::fs::read_to_string(path).unwrap();
        for c in COLUMNS {
            let kind = match c.kind {
                ColumnType::Int => "INT64",
                ColumnType::Bool => "BOOLEAN",
                ColumnType::Text => "BYTE_ARRAY (STRING)",
            };
            let optional = if c.optional { "optional" } else { "required" };
            let row = format!("| `{}` | {kind} | {optional} | {} |", c.name, c.meaning);
            assert!(document.contains(&row), "docs/changing/trace-store.md lacks the row\n{row}");
        }
        let table = document.split("## Keys").next().unwrap();
        assert_eq!(table.matches("\n| `").count(), COLUMNS.len(), "a row too many");
        for key in [KEY_SCHEMA, KEY_VERSION, KEY_SOURCE, KEY_FORMAT, KEY_UNITS, KEY_TIMES, KEY_DAYS]
            .into_iter()
            .chain([KEY_PROCESSES, KEY_SERVICE, KEY_LOST, SCHEMA])
        {
            assert!(
                document.contains(&format!("`{key}`")),
                "docs/changing/trace-store.md lacks {key}"
            );
        }
    }
}
