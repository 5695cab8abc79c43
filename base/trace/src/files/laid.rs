//! A trace of files as one of a disk: files laid end to end, in order of first appearance, each in whole pages
//! of 4 KiB up to where its furthest read or write ends. Reads and writes become requests at these addresses,
//! syncs become flushes, all else is passed over. Where a file lies is ours, not the machine's; that it is read
//! in order, again, or together with another, is the trace's.

use seekless_block::Op;

use super::{FileLines, FileOp};
use crate::context::{Context, Raw, SECTOR_MAX};
use crate::error::Bad;
use crate::reader::Parse;
use crate::text::sectors_of_bytes;
use crate::{Record, TraceError};

const PAGE: u64 = 4096;
const PAGE_SECTORS: u64 = PAGE / 512;

/// A reader of a trace of files that yields requests.
pub(crate) struct Laid {
    lines: FileLines,
    /// First sector of each file.
    starts: Vec<u64>,
}

impl Laid {
    /// Reads `first` to its end to learn how long files are; the requests come from `again`, the same trace.
    /// An error ends the first reading, and will be met and told by the second.
    pub(crate) fn new(mut first: FileLines, again: FileLines, cx: &mut Context) -> Self {
        while let Ok(Some(_)) = first.next(cx) {}
        let mut at = 0u64;
        let start = |file: &super::File| {
            let start = at;
            at = at.saturating_add(file.end.div_ceil(PAGE) * PAGE_SECTORS).min(SECTOR_MAX + 1);
            start
        };
        Self { starts: first.table.files.iter().map(start).collect(), lines: again }
    }
}

impl Parse for Laid {
    fn next(&mut self, cx: &mut Context) -> Result<Option<Record>, TraceError> {
        while let Some((event, place)) = self.lines.next(cx)? {
            let op = match event.op {
                FileOp::Read => Op::Read,
                FileOp::Write => Op::Write,
                FileOp::Sync => Op::Flush,
                _ => continue,
            };
            let home = self.starts.get(event.file as usize).copied();
            let extent = sectors_of_bytes(event.offset, event.len)
                .and_then(|(start, len)| Some((start.checked_add(home?)?, len)));
            let done = match extent {
                Some((start, len)) => {
                    let raw = Raw { time: event.time, ..Raw::new(op, start, len) };
                    cx.admit(&raw, place).and_then(|admitted| {
                        let Some(admitted) = admitted else { return Ok(None) };
                        if cx.devices.is_empty() {
                            cx.add_device(String::new())?;
                        }
                        Ok(Some(cx.record(&raw, admitted, 0, event.stream)))
                    })
                }
                None => Err(Bad::new("files that fit 2^55 sectors together")),
            };
            match done {
                Ok(Some(record)) => return Ok(Some(record)),
                Ok(None) => {}
                Err(bad) => cx.bad(place, bad, b"a read or write")?,
            }
        }
        Ok(None)
    }
}
