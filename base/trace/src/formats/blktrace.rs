//! blktrace's binary records: 48 bytes and a payload, in the byte order of the traced machine.
//! There is one file per CPU; they are merged here by time. ftrace's binary stream is one file of
//! the same records without sequence numbers. Notify records name processes. The process of a
//! completion is the one that happened to run, so it is left out.
//!
//! The order inside one file is kept, even if it is not the order of time. Messages, remaps, plugs
//! and similar records are skipped, and so are drivers' own commands.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;

use seekless_block::{Flags, Op};

use crate::error::{BadRecord, quote};
use crate::input::{Input, WINDOW};
use crate::reader::{Parse, read_error};
use crate::reader_context::{Dev, Process, RawRequest, ReaderContext};
use crate::{Event, Record, TracePosition, Traced};

/// Length of a record without its payload, in bytes.
const RECORD: usize = 48;
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;

// Action numbers, low half of the action word (include/uapi/linux/blktrace_api.h).
const ACT_QUEUE: u32 = 1;
const ACT_ISSUE: u32 = 7;
const ACT_COMPLETE: u32 = 8;
const NOTIFY_PROCESS: u32 = 0;
/// Set if the payload begins with the 8-byte number of a control group.
const ACT_CGROUP: u32 = 1 << 8;

// Categories, high half of the action word.
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const SYNC: u32 = 1 << 19;
const PRIVATE: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const AHEAD: u32 = 1 << 27;
const META: u32 = 1 << 28;
const DISCARD: u32 = 1 << 29;
const DRIVER: u32 = 1 << 30;
const FUA: u32 = 1 << 31;

/// Whether a file begins with a record of any version, in either byte order.
pub(crate) const fn is_blktrace(head: &[u8]) -> bool {
    matches!(head, [0..=15, b't', b'a', b'e', ..] | [b'e', b'a', b't', 0..=15, ..])
}

#[derive(Debug)]
struct Cpu {
    path: PathBuf,
    input: Input,
    /// Byte order; `None` before the first record.
    big: Option<bool>,
}

/// A request that waits for the merge.
#[derive(Clone, Copy, Debug)]
struct Head {
    raw: RawRequest<'static>,
    at: u64,
}

#[derive(Debug)]
pub(crate) struct Blktrace {
    cpus: Vec<Cpu>,
    /// If there are several files: the next request of each file, and the files by the time of that
    /// request.
    heads: Vec<Option<Head>>,
    order: BinaryHeap<Reverse<(u64, usize)>>,
    begun: bool,
}

impl Blktrace {
    pub(super) fn new(inputs: Vec<(PathBuf, Input)>) -> Self {
        let cpus: Vec<Cpu> =
            inputs.into_iter().map(|(path, input)| Cpu { path, input, big: None }).collect();
        Self { heads: vec![None; cpus.len()], cpus, order: BinaryHeap::new(), begun: false }
    }

    /// Adds the next request of file `i` to the merge.
    fn advance(&mut self, i: usize, cx: &mut ReaderContext) -> Traced<()> {
        self.heads[i] = self.cpus[i].next(cx)?;
        if let Some(head) = &self.heads[i] {
            self.order.push(Reverse((head.raw.time.unwrap_or(0), i)));
        }
        Ok(())
    }

    fn next_head(&mut self, cx: &mut ReaderContext) -> Traced<Option<(usize, Head)>> {
        if self.cpus.len() == 1 {
            return Ok(self.cpus[0].next(cx)?.map(|h| (0, h)));
        }
        if !self.begun {
            self.begun = true;
            for i in 0..self.cpus.len() {
                self.advance(i, cx)?;
            }
        }
        let Some(Reverse((_, i))) = self.order.pop() else { return Ok(None) };
        let head = self.heads[i];
        self.advance(i, cx)?;
        Ok(head.map(|h| (i, h)))
    }
}

impl Parse for Blktrace {
    fn next(&mut self, cx: &mut ReaderContext) -> Traced<Option<Record>> {
        while let Some((i, head)) = self.next_head(cx)? {
            let place = TracePosition::Byte(head.at);
            match cx.finish(&head.raw, place) {
                Ok(Some(record)) => return Ok(Some(record)),
                Ok(None) => {}
                Err(mut bad) => {
                    let e = head.raw;
                    bad.found.get_or_insert_with(|| format!("{} + {}", e.start, e.len));
                    self.cpus[i].bad(cx, head.at, bad)?;
                }
            }
        }
        Ok(None)
    }
}

/// A record without its payload, and its byte order.
struct RecordWords {
    bytes: [u8; RECORD],
    big: bool,
}

impl RecordWords {
    fn u16(&self, i: usize) -> u16 {
        let b = [self.bytes[i], self.bytes[i + 1]];
        if self.big { u16::from_be_bytes(b) } else { u16::from_le_bytes(b) }
    }

    fn u32(&self, i: usize) -> u32 {
        let r = &self.bytes;
        let b = [r[i], r[i + 1], r[i + 2], r[i + 3]];
        if self.big { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) }
    }

    fn u64(&self, i: usize) -> u64 {
        let (first, second) = (u64::from(self.u32(i)), u64::from(self.u32(i + 4)));
        if self.big { first << 32 | second } else { second << 32 | first }
    }

    /// The request in a record of a Q, D or C event.
    fn request(&self, event: Event) -> RawRequest<'static> {
        let (time, sector, bytes) = (self.u64(8), self.u64(16), self.u32(24));
        let (action, pid, dev) = (self.u32(28), self.u32(32), self.u32(36));
        let op = match action {
            a if a & FLUSH != 0 && bytes == 0 => Op::Flush,
            a if a & DISCARD != 0 => Op::Discard,
            a if a & WRITE != 0 => Op::Write,
            _ => Op::Read,
        };
        let mut raw = RawRequest::new(op, sector, u64::from(bytes.div_ceil(512)));
        raw.time = Some(time);
        raw.device = Dev::MajorMinor(dev >> 20, dev & 0xF_FFFF);
        for (bit, flag) in
            [(SYNC, Flags::SYNC), (META, Flags::META), (AHEAD, Flags::AHEAD), (FUA, Flags::FUA)]
        {
            if action & bit != 0 {
                raw.flags = raw.flags.union(flag);
            }
        }
        if event != Event::Complete {
            raw.process = Process { pid, name: &[] };
        }
        raw
    }
}

impl Cpu {
    fn next(&mut self, cx: &mut ReaderContext) -> Traced<Option<Head>> {
        loop {
            let at = self.input.at();
            match self.step(cx) {
                Ok(BlktraceEvent::Request(raw)) => return Ok(Some(Head { raw, at })),
                Ok(BlktraceEvent::Other) => {}
                Ok(BlktraceEvent::End) => return Ok(None),
                Err(Trouble::Read(e)) => {
                    cx.path.clone_from(&self.path);
                    return Err(read_error(cx, TracePosition::Byte(at), e));
                }
                Err(Trouble::Bad(bad)) => {
                    self.bad(cx, at, bad)?;
                    if !self.resync().map_err(|e| read_error(cx, TracePosition::Byte(at), e))? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn bad(&self, cx: &mut ReaderContext, at: u64, bad: BadRecord) -> Traced<()> {
        let whole = std::mem::replace(&mut cx.path, self.path.clone());
        let result = cx.bad(TracePosition::Byte(at), bad, &[]);
        cx.path = whole;
        result
    }

    fn step(&mut self, cx: &mut ReaderContext) -> Result<BlktraceEvent, Trouble> {
        let bytes = self.input.peek(RECORD).map_err(Trouble::Read)?;
        let Some(r) = bytes.first_chunk::<RECORD>() else {
            if bytes.is_empty() {
                return Ok(BlktraceEvent::End);
            }
            let found = format!("the last {} bytes of the file", bytes.len());
            return Err(Trouble::Bad(BadRecord::found("a record of 48 bytes", found)));
        };
        let big = *self.big.get_or_insert(r[0] == b'e');
        let r = RecordWords { bytes: *r, big };
        let magic = r.u32(0);
        if magic != MAGIC | VERSION {
            let found = if magic & !0xFF == MAGIC {
                format!("version {}", magic & 0xFF)
            } else {
                quote(&r.bytes[..4])
            };
            let expected = "a blktrace record of version 7 (bytes 65 61 74 07 or the reverse)";
            return Err(Trouble::Bad(BadRecord::found(expected, found)));
        }
        let action = r.u32(28);
        let payload = usize::from(r.u16(46));
        if payload != 0 {
            let whole = self.input.peek(RECORD + payload).map_err(Trouble::Read)?;
            if whole.len() < RECORD + payload {
                let found = format!("{} before the file ends", whole.len() - RECORD);
                return Err(Trouble::Bad(BadRecord::found(
                    "a payload as long as announced",
                    found,
                )));
            }
            if action & NOTIFY != 0 && action & 0xFFFF & !ACT_CGROUP == NOTIFY_PROCESS {
                let from = if action & ACT_CGROUP == 0 { 0 } else { 8.min(payload) };
                let name = &whole[RECORD + from..];
                let end = memchr::memchr(0, name).unwrap_or(name.len());
                cx.name_process(r.u32(32), &name[..end]);
            }
        }
        self.input.consume(RECORD + payload);
        if action & (NOTIFY | PRIVATE | DRIVER) != 0 {
            return Ok(BlktraceEvent::Other);
        }
        let event = match action & 0xFFFF & !ACT_CGROUP {
            ACT_QUEUE => Event::Queue,
            ACT_ISSUE => Event::Issue,
            ACT_COMPLETE => Event::Complete,
            _ => return Ok(BlktraceEvent::Other),
        };
        if !cx.wants(event) {
            return Ok(BlktraceEvent::Other);
        }
        Ok(BlktraceEvent::Request(r.request(event)))
    }

    /// Skips a bad record up to the next magic number. Returns false at the end of the file.
    fn resync(&mut self) -> std::io::Result<bool> {
        let magic = if self.big == Some(true) {
            (MAGIC | VERSION).to_be_bytes()
        } else {
            (MAGIC | VERSION).to_le_bytes()
        };
        self.input.consume(1);
        loop {
            let window = self.input.peek(WINDOW)?;
            if let Some(i) = memchr::memmem::find(window, &magic) {
                self.input.consume(i);
                return Ok(true);
            }
            let n = window.len();
            if n < WINDOW {
                self.input.consume(n);
                return Ok(false);
            }
            self.input.consume(n - 3);
        }
    }
}

enum BlktraceEvent {
    Request(RawRequest<'static>),
    Other,
    End,
}

enum Trouble {
    Read(std::io::Error),
    Bad(BadRecord),
}
