//! libCacheSim's `oracleGeneral`: little-endian records of 24 bytes, `{u32 seconds; u64 object; u32
//! bytes; i64 next}`. `next` is the number of the next record (from 1) for the same object, or -1;
//! it is ignored. The format has no operation, so every record is a read.
//!
//! An object has no address, so it gets one. If all objects at the file's beginning have one size,
//! object `n` is in the `n`-th slot of that size. If sizes differ, `n` is used as a sector number,
//! which is right if libCacheSim made the trace from a block trace. Hashes are not addresses in
//! either case: numbers above 2^55 sectors are refused.

use seekless_block::Op;

use super::binary_records::{ParsedRecord, RecordFormat, cut_short};
use crate::error::BadRecord;
use crate::reader_context::RawRequest;

pub(crate) const RECORD: usize = 24;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) seconds: u32,
    pub(crate) object: u64,
    pub(crate) bytes: u32,
    pub(crate) next: i64,
}

impl Access {
    pub(crate) fn from_bytes(r: &[u8; RECORD]) -> Self {
        let (int, long) = (
            |i: usize| u32::from_le_bytes([r[i], r[i + 1], r[i + 2], r[i + 3]]),
            |i: usize| u64::from_le_bytes(std::array::from_fn(|k| r[i + k])),
        );
        Self { seconds: int(0), object: long(4), bytes: int(12), next: long(16) as i64 }
    }

    pub(crate) fn to_bytes(self) -> [u8; RECORD] {
        let mut r = [0; RECORD];
        r[..4].copy_from_slice(&self.seconds.to_le_bytes());
        r[4..12].copy_from_slice(&self.object.to_le_bytes());
        r[12..16].copy_from_slice(&self.bytes.to_le_bytes());
        r[16..].copy_from_slice(&self.next.to_le_bytes());
        r
    }
}

fn accesses(head: &[u8]) -> impl Iterator<Item = Access> {
    head.as_chunks::<RECORD>().0.iter().map(Access::from_bytes)
}

/// Whether the times never decrease and every `next` points ahead to a record of the same object.
/// Some writers count records from 0.
pub(crate) fn is_oracle(head: &[u8]) -> bool {
    let all: Vec<Access> = accesses(head).collect();
    let whole = head.len() >= crate::detect::SAMPLE || head.len().is_multiple_of(RECORD);
    let points = |i: usize, a: &Access| match usize::try_from(a.next) {
        Err(_) => a.next == -1,
        Ok(next) => {
            let same = |at: usize| at > i && all.get(at).is_some_and(|b| b.object == a.object);
            a.next == i64::MAX || next > all.len() || (next > 0 && same(next - 1)) || same(next)
        }
    };
    whole
        && !all.is_empty()
        && all.iter().any(|a| a.next == -1 || a.next == i64::MAX || a.next <= all.len() as i64)
        && all.windows(2).all(|w| w[0].seconds <= w[1].seconds)
        && all.iter().enumerate().all(|(i, a)| a.bytes > 0 && points(i, a))
}

#[derive(Debug)]
pub(super) struct Oracle {
    /// Sectors from one object to the next; 1 if sizes differ.
    slot: u64,
}

impl Oracle {
    /// A parser for a file that begins with `head`.
    pub(super) fn new(head: &[u8]) -> Self {
        let mut sizes = accesses(head).map(|a| a.bytes);
        let first = sizes.next().unwrap_or(0);
        let slot =
            if sizes.all(|s| s == first) { u64::from(first.div_ceil(512)).max(1) } else { 1 };
        Self { slot }
    }
}

impl RecordFormat for Oracle {
    fn look_ahead(&self) -> usize {
        RECORD
    }

    fn record(&mut self, bytes: &[u8]) -> Result<ParsedRecord, (BadRecord, usize)> {
        let Some(r) = bytes.first_chunk::<RECORD>() else {
            return Err(cut_short("a record of 24 bytes", bytes));
        };
        let a = Access::from_bytes(r);
        let Some(start) = a.object.checked_mul(self.slot) else {
            let found = format!("object {}", a.object);
            return Err((
                BadRecord::found("object numbers that are addresses, not hashes", found),
                RECORD,
            ));
        };
        let mut raw = RawRequest::new(Op::Read, start, u64::from(a.bytes.div_ceil(512)));
        raw.time = Some(u64::from(a.seconds) * 1_000_000_000);
        Ok(ParsedRecord { request: Some(raw), bytes: RECORD })
    }
}
