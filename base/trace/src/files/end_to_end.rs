//! Reads a trace of files as a trace of a disk. The files are placed one after another, in the
//! order of their first appearance, each in whole pages of 4 KiB up to the end of its furthest read
//! or write. Reads and writes become requests at these addresses, and syncs become flushes; all
//! other events are skipped. The positions of the files are invented. The order of accesses inside
//! a file, repeated accesses, and accesses together with other files are real.

use seekless_block::Op;

use super::{FileLines, FileOp};
use crate::error::BadRecord;
use crate::reader::Parse;
use crate::reader_context::{RawRequest, ReaderContext, SECTOR_MAX};
use crate::text_lines::sectors_of_bytes;
use crate::{Record, Traced};

const PAGE: u64 = 4096;
const PAGE_SECTORS: u64 = PAGE / 512;

pub(crate) struct FilesEndToEnd {
    lines: FileLines,
    /// First sector of each file.
    starts: Vec<u64>,
}

impl FilesEndToEnd {
    /// Reads `first` to its end for the lengths of the files. The requests come from `again`, the
    /// same trace. An error ends the first reading; the second reading finds and reports it.
    pub(crate) fn new(mut first: FileLines, again: FileLines, cx: &mut ReaderContext) -> Self {
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

impl Parse for FilesEndToEnd {
    fn next(&mut self, cx: &mut ReaderContext) -> Traced<Option<Record>> {
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
                    let raw = RawRequest { time: event.time, ..RawRequest::new(op, start, len) };
                    cx.admit(&raw, place).and_then(|admitted| {
                        let Some(admitted) = admitted else { return Ok(None) };
                        if cx.devices.is_empty() {
                            cx.add_device(String::new())?;
                        }
                        Ok(Some(cx.record(&raw, admitted, 0, event.stream)))
                    })
                }
                None => Err(BadRecord::new("files that fit 2^55 sectors together")),
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
