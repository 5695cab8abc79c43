//! VMware's vscsiStats traces, version 1: little-endian records of 32 bytes, `{u32 serial, bytes, sg; u16
//! command, version; u64 sector; u64 microseconds}`. SCSI commands that move no data are passed over.

use seekless_block::Op;

use super::fixed::{Found, RecordFormat, cut_short};
use crate::context::Raw;
use crate::error::Bad;

const RECORD: usize = 32;
const VERSION: u16 = 0x0100;

/// Whether the first records all carry the version, and one of them moves data.
pub(crate) fn is_vscsi(head: &[u8]) -> bool {
    let mut first = head.chunks_exact(RECORD).take(8);
    let version = |r: &[u8]| u16::from_le_bytes([r[14], r[15]]) == VERSION;
    first.clone().all(version) && first.any(|r| operation(r[12]).is_some())
}

#[derive(Debug)]
pub(super) struct Vscsi;

impl RecordFormat for Vscsi {
    fn look_ahead(&self) -> usize {
        RECORD
    }

    fn record(&mut self, bytes: &[u8]) -> Result<Found, (Bad, usize)> {
        let Some(r) = bytes.first_chunk::<RECORD>() else {
            return Err(cut_short("a record of 32 bytes", bytes));
        };
        let long = |i: usize| {
            u64::from_le_bytes([
                r[i],
                r[i + 1],
                r[i + 2],
                r[i + 3],
                r[i + 4],
                r[i + 5],
                r[i + 6],
                r[i + 7],
            ])
        };
        let version = u16::from_le_bytes([r[14], r[15]]);
        if version != VERSION {
            let found = format!("{version:#06x}");
            return Err((Bad::found("version 0x0100 at byte 14 of the record", found), RECORD));
        }
        let Some(op) = operation(r[12]) else { return Ok(Found { request: None, bytes: RECORD }) };
        let len = u32::from_le_bytes([r[4], r[5], r[6], r[7]]);
        let mut raw = Raw::new(op, long(16), u64::from(len.div_ceil(512)));
        let Some(time) = long(24).checked_mul(1_000) else {
            let found = format!("{} microseconds", long(24));
            return Err((Bad::found("a time below 584 years", found), RECORD));
        };
        raw.time = Some(time);
        Ok(Found { request: Some(raw), bytes: RECORD })
    }
}

/// What a SCSI operation code (SBC-4) does to the medium.
const fn operation(code: u8) -> Option<Op> {
    match code {
        0x08 | 0x28 | 0xA8 | 0x88 => Some(Op::Read),
        0x0A | 0x2A | 0xAA | 0x8A | 0x2E | 0xAE | 0x8E => Some(Op::Write),
        0x35 | 0x91 => Some(Op::Flush),
        _ => None,
    }
}
