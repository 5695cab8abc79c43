//! A table of any layout: the user says which column holds what, by `--columns`.

use std::str::FromStr;

use seekless_block::Op;

use super::rwbs;
use crate::error::{BadRecord, Parsed};
use crate::reader_context::{Dev, Process, RawRequest, ReaderContext};
use crate::text_lines::{
    Fields, LineFormat, ParsedLine, decimal, number, number32, sectors_of_bytes,
};

const EXPECTED: &str = "values in the columns that --columns names";
/// Most columns of a table.
const MOST: usize = 64;
const HELP: &str = "FIELD=COLUMN[:UNIT], with commas between: time (s, ms, us, ns), op (words, read0, read1), \
offset and size (bytes, sectors, KiB, pages), process, device, service (as time); offset and size are needed";

/// A column: its number from 1, and the decimal digits or bytes of its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Column {
    number: u8,
    unit: u32,
}

/// How an operation is written.
const WORDS: u32 = 0;
const READ_IS_0: u32 = 1;
const READ_IS_1: u32 = 2;

/// Which columns of a table hold what, and in which units. Columns are separated by commas, by
/// semicolons, or by blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    time: Option<Column>,
    op: Option<Column>,
    offset: Column,
    size: Column,
    process: Option<Column>,
    device: Option<Column>,
    service: Option<Column>,
    header: bool,
}

impl Columns {
    /// The first line holds titles.
    #[must_use]
    pub const fn with_header(self, header: bool) -> Self {
        Self { header, ..self }
    }

    /// Whether times, processes and service times are known.
    pub(super) const fn knows(&self) -> [bool; 3] {
        [self.time.is_some(), self.process.is_some(), self.service.is_some()]
    }

    fn parse<'a>(&self, line: &'a [u8]) -> Option<ParsedLine<'a>> {
        let mut values: [&[u8]; MOST] = [&[]; MOST];
        let count = split(line, &mut values)?;
        let of = |column: Column| {
            let value = values[..count].get(usize::from(column.number) - 1)?;
            Some((*value, column.unit))
        };
        let bytes = |column| {
            let (value, unit) = of(column)?;
            number(value)?.checked_mul(u64::from(unit))
        };
        let (start, len) = sectors_of_bytes(bytes(self.offset)?, bytes(self.size)?)?;
        let (op, flags) = match self.op.map(of) {
            None => (Op::Read, seekless_block::Flags::NONE),
            Some(value) => operation(value?)?,
        };
        let mut raw = RawRequest::new(op, start, len);
        raw.flags = flags;
        let time = |column: Option<Column>| match column {
            None => Some(None),
            Some(column) => {
                of(column).and_then(|(value, digits)| Some(Some(decimal(value, digits)?)))
            }
        };
        (raw.time, raw.service) = (time(self.time)?, time(self.service)?);
        if let Some(column) = self.process {
            let (value, _) = of(column)?;
            raw.process = match number32(value) {
                Some(pid) => Process { pid, name: &[] },
                None => Process { pid: 0, name: value },
            };
        }
        if let Some(column) = self.device {
            raw.device = Dev::Name(of(column)?.0);
        }
        Some(ParsedLine::Request(raw))
    }
}

/// The fields of a line; `None` if a quote does not end.
fn split<'a>(line: &'a [u8], values: &mut [&'a [u8]; MOST]) -> Option<usize> {
    let mut fields = Fields(line);
    let commas = line.contains(&b',');
    if !commas && line.contains(&b';') {
        let mut count = 0;
        for (value, field) in values.iter_mut().zip(line.split(|&b| b == b';')) {
            *value = crate::text_lines::trim(field);
            count += 1;
        }
        return Some(count);
    }
    for (i, value) in values.iter_mut().enumerate() {
        if fields.0.is_empty() {
            return Some(i);
        }
        *value = if commas { fields.quoted()? } else { fields.word() };
    }
    Some(MOST)
}

fn operation((value, way): (&[u8], u32)) -> Option<(Op, seekless_block::Flags)> {
    let plain = |op| Some((op, seekless_block::Flags::NONE));
    if way != WORDS {
        return match (value, way) {
            (b"0", READ_IS_0) | (b"1", READ_IS_1) => plain(Op::Read),
            (b"1", READ_IS_0) | (b"0", READ_IS_1) => plain(Op::Write),
            _ => None,
        };
    }
    const NAMES: [(&str, Op); 9] = [
        ("r", Op::Read),
        ("read", Op::Read),
        ("w", Op::Write),
        ("write", Op::Write),
        ("discard", Op::Discard),
        ("trim", Op::Discard),
        ("unmap", Op::Discard),
        ("flush", Op::Flush),
        ("sync", Op::Flush),
    ];
    let named = NAMES.iter().find(|(name, _)| value.eq_ignore_ascii_case(name.as_bytes()));
    if let Some(&(_, op)) = named {
        return plain(op);
    }
    let kind = rwbs::parse(value)?;
    Some((kind.op?, kind.flags))
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FIELDS: [&str; 7] = ["time", "op", "offset", "size", "process", "device", "service"];
        let mut found = [None; FIELDS.len()];
        for part in text.split(',') {
            let wrong = || format!("'{part}' is not {HELP}");
            let (field, place) = part.split_once('=').ok_or_else(wrong)?;
            let (place, unit) = place.split_once(':').map_or((place, None), |(a, b)| (a, Some(b)));
            let at = FIELDS.iter().position(|&f| f == field.trim()).ok_or_else(wrong)?;
            let number = place.trim().parse::<u8>().ok();
            let number = number.filter(|n| (1..=MOST as u8).contains(n)).ok_or_else(wrong)?;
            let unit = match (FIELDS[at], unit) {
                ("time" | "service", None | Some("s")) => 9,
                ("time" | "service", Some("ms")) => 6,
                ("time" | "service", Some("us")) => 3,
                ("time" | "service", Some("ns")) => 0,
                ("offset" | "size", None | Some("bytes")) => 1,
                ("offset" | "size", Some("sectors")) => 512,
                ("offset" | "size", Some("KiB")) => 1024,
                ("offset" | "size", Some("pages")) => 4096,
                ("op", None | Some("words")) => WORDS,
                ("op", Some("read0")) => READ_IS_0,
                ("op", Some("read1")) => READ_IS_1,
                ("process" | "device", None) => 0,
                _ => return Err(wrong()),
            };
            if found[at].replace(Column { number, unit }).is_some() {
                return Err(format!("'{field}' stands twice in '{text}'"));
            }
        }
        let [time, op, offset, size, process, device, service] = found;
        let (Some(offset), Some(size)) = (offset, size) else {
            return Err(format!("offset or size is missing in '{text}': {HELP}"));
        };
        Ok(Self { time, op, offset, size, process, device, service, header: false })
    }
}

/// The lines of such a table.
#[derive(Debug)]
pub(super) struct Table {
    columns: Columns,
    titles: bool,
}

impl Table {
    pub(super) const fn new(columns: Columns) -> Self {
        Self { columns, titles: columns.header }
    }
}

impl LineFormat for Table {
    fn line<'a>(&mut self, line: &'a [u8], _: &mut ReaderContext) -> Parsed<ParsedLine<'a>> {
        if std::mem::take(&mut self.titles) {
            return Ok(ParsedLine::Nothing);
        }
        self.columns.parse(line).ok_or(BadRecord::new(EXPECTED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_columns_are_refused_with_what_is_wrong() {
        for (text, what) in [
            ("", "''"),
            ("offset=1", "size is missing"),
            ("offset=1,size=0", "'size=0'"),
            ("offset=1,size=65", "'size=65'"),
            ("offset=1,size=2,size=3", "twice"),
            ("offset=1:ms,size=2", "'offset=1:ms'"),
            ("offset=1,size=2,op=3:read2", "'op=3:read2'"),
            ("offset=1,size=2,colour=3", "'colour=3'"),
        ] {
            let error = text.parse::<Columns>().unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
