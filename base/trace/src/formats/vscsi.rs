//! VMware's vscsiStats traces, little-endian. Version 1 has records of 32 bytes, `{u32 serial,
//! bytes, sg; u16 command, version; u64 sector; u64 microseconds}`. Version 2 has 40 bytes, `{u16
//! command, version; u32 serial, bytes, sg; u64 sector, microseconds, response}`. SCSI commands
//! that move no data are skipped. Version 2 follows libCacheSim and was not checked against data.
//! The unit of its response is not known, so the response is ignored.

use seekless_block::Op;

use super::binary_records::{ParsedRecord, RecordFormat, cut_short};
use crate::error::BadRecord;
use crate::reader_context::RawRequest;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    record: usize,
    command: usize,
    version: u16,
    bytes: usize,
    sector: usize,
    time: usize,
}

const V1: Layout =
    Layout { record: 32, command: 12, version: 0x0100, bytes: 4, sector: 16, time: 24 };
const V2: Layout =
    Layout { record: 40, command: 0, version: 0x0200, bytes: 8, sector: 16, time: 24 };

impl Layout {
    fn of(head: &[u8]) -> Option<Self> {
        [V1, V2].into_iter().find(|layout| {
            let mut first = head.chunks_exact(layout.record).take(8).peekable();
            let has = |r: &[u8]| short(r, layout.command + 2) == layout.version;
            first.peek().is_some() && first.all(has)
        })
    }
}

fn short(r: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([r[at], r[at + 1]])
}

/// Whether the first records all have a version, and one of them moves data.
pub(crate) fn is_vscsi(head: &[u8]) -> bool {
    Layout::of(head).is_some_and(|layout| {
        let mut first = head.chunks_exact(layout.record).take(8);
        first.any(|r| operation(short(r, layout.command)).is_some())
    })
}

#[derive(Debug)]
pub(super) struct Vscsi(Layout);

impl Vscsi {
    /// A parser for a file that begins with `head`.
    pub(super) fn new(head: &[u8]) -> Self {
        Self(Layout::of(head).unwrap_or(V1))
    }
}

impl RecordFormat for Vscsi {
    fn look_ahead(&self) -> usize {
        self.0.record
    }

    fn record(&mut self, bytes: &[u8]) -> Result<ParsedRecord, (BadRecord, usize)> {
        let layout = self.0;
        let Some(r) = bytes.get(..layout.record) else {
            let expected =
                if layout == V1 { "a record of 32 bytes" } else { "a record of 40 bytes" };
            return Err(cut_short(expected, bytes));
        };
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|k| r[at + k]));
        let version = short(r, layout.command + 2);
        if version != layout.version {
            let found = format!("{version:#06x}");
            let expected = if layout == V1 {
                "version 0x0100 at byte 14 of the record"
            } else {
                "version 0x0200 at byte 2 of the record"
            };
            return Err((BadRecord::found(expected, found), layout.record));
        }
        let Some(op) = operation(short(r, layout.command)) else {
            return Ok(ParsedRecord { request: None, bytes: layout.record });
        };
        let len = u32::from_le_bytes(std::array::from_fn(|k| r[layout.bytes + k]));
        let mut raw = RawRequest::new(op, long(layout.sector), u64::from(len.div_ceil(512)));
        let Some(time) = long(layout.time).checked_mul(1_000) else {
            let found = format!("{} microseconds", long(layout.time));
            return Err((BadRecord::found("a time below 584 years", found), layout.record));
        };
        raw.time = Some(time);
        Ok(ParsedRecord { request: Some(raw), bytes: layout.record })
    }
}

/// The effect of a SCSI operation code (SBC-4) on the medium.
const fn operation(code: u16) -> Option<Op> {
    match code {
        0x08 | 0x28 | 0xA8 | 0x88 => Some(Op::Read),
        0x0A | 0x2A | 0xAA | 0x8A | 0x2E | 0xAE | 0x8E => Some(Op::Write),
        0x35 | 0x91 => Some(Op::Flush),
        _ => None,
    }
}
