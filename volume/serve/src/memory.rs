//! The memory that the engine names: clients' buffers, read buffers, RAM pages, the staging area.

use seekless_block::{PAGE_BYTES, Sectors};
use seekless_engine::{Config, Memory, MemoryMove, PageSum, RequestId, page_sum};
use seekless_nbd::Errno;
use slab::Slab;

use crate::buffers::{Buffers, size_of};
use crate::memory_shares::Shares;
use crate::payload::PayloadPool;

/// The data of a request at its start.
pub(crate) enum Data<'a> {
    /// No data.
    None,
    /// A read, into this buffer if it ends at once.
    Read(&'a mut [u8]),
    /// A write of these bytes.
    Write(&'a [u8]),
    /// A buffer that the volume may keep: the data of a write, or a buffer for a read.
    Owned(Vec<u8>),
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct Inflight<O> {
    pub(crate) owner: O,
    pub(crate) bytes: usize,
    pub(crate) buf: Option<Vec<u8>>,
}

/// The request at its start: its data still belongs to the caller.
pub(crate) struct Current<'a> {
    pub(crate) id: usize,
    pub(crate) data: Data<'a>,
    pub(crate) result: Option<Result<(), Errno>>,
}

impl Current<'_> {
    pub(crate) const fn nobody() -> Self {
        Self { id: usize::MAX, data: Data::None, result: None }
    }
}

/// All memory, and the requests in flight with their buffers.
pub(crate) struct Memories<O> {
    pub(crate) requests: Slab<Inflight<O>>,
    pub(crate) buffers: Buffers,
    /// What clients hold beyond their own shares.
    pub(crate) payload: PayloadPool,
    read_buffers: Vec<Option<Vec<u8>>>,
    /// Bytes of all read buffers, and most of them that are kept when nothing stands in them.
    read_bytes: usize,
    idle_most: usize,
    buffer_bytes: usize,
    slots: Vec<u8>,
    stage: Vec<u8>,
    stage_bytes: usize,
}

impl<O> Memories<O> {
    pub(crate) fn new(config: &Config, shares: &Shares) -> Self {
        let pages = (config.cache_bytes.0 / PAGE_BYTES * PAGE_BYTES) as usize;
        Self {
            requests: Slab::with_capacity(1024),
            buffers: Buffers::new(shares.kept),
            payload: PayloadPool::new(shares.payload),
            read_buffers: Vec::with_capacity(256),
            read_bytes: 0,
            idle_most: shares.reads / 2,
            buffer_bytes: config.buffer_bytes.0 as usize,
            slots: vec![0; pages],
            stage: Vec::new(),
            stage_bytes: config.stage_bytes.0 as usize,
        }
    }

    /// The bytes of a place in memory, for writing.
    pub(crate) fn place_mut<'a>(
        &'a mut self,
        memory: Memory,
        len: usize,
        current: &'a mut Current<'_>,
    ) -> Option<&'a mut [u8]> {
        let range = range_of(memory, len);
        match memory {
            Memory::Client { id, .. } => {
                let id = id.0 as usize;
                if id == current.id
                    && let Data::Read(buf) = &mut current.data
                {
                    return buf.get_mut(range);
                }
                let inflight = self.requests.get_mut(id)?;
                let bytes = inflight.bytes;
                let buf = inflight.buf.get_or_insert_with(|| self.buffers.take(bytes));
                buf.get_mut(range)
            }
            Memory::Buffer { index, .. } => {
                self.read_buffer(index as usize, range.end).get_mut(range)
            }
            Memory::Slot { .. } => self.slots.get_mut(range),
            Memory::Stage { .. } => {
                self.stage.resize(self.stage_bytes, 0);
                self.stage.get_mut(range)
            }
        }
    }

    /// The bytes of a place in memory, for reading.
    pub(crate) fn place<'a>(
        &'a self,
        memory: Memory,
        len: usize,
        current: &'a Current<'_>,
    ) -> Option<&'a [u8]> {
        let range = range_of(memory, len);
        match memory {
            Memory::Client { id, .. } => {
                let id = id.0 as usize;
                match &current.data {
                    Data::Write(buf) if id == current.id => buf.get(range),
                    Data::Read(buf) if id == current.id => buf.get(range),
                    _ => self.requests.get(id)?.buf.as_ref()?.get(range),
                }
            }
            Memory::Buffer { index, .. } => {
                self.read_buffers.get(index as usize)?.as_ref()?.get(range)
            }
            Memory::Slot { .. } => self.slots.get(range),
            Memory::Stage { .. } => self.stage.get(range),
        }
    }

    /// A read buffer of the engine that holds at least `len` bytes. A longer one keeps the bytes of
    /// the shorter one before it.
    fn read_buffer(&mut self, index: usize, len: usize) -> &mut Vec<u8> {
        if index >= self.read_buffers.len() {
            self.read_buffers.resize_with(index + 1, || None);
        }
        let len = len.min(self.buffer_bytes);
        // Just resized: the entry is there.
        let entry = self.read_buffers[index].get_or_insert_default();
        if entry.len() < len {
            let mut longer = self.buffers.take(len);
            if let Some(head) = longer.get_mut(..entry.len()) {
                head.copy_from_slice(entry);
            }
            let shorter = std::mem::replace(entry, longer);
            self.read_bytes += size_of(len) - shorter.len();
            if !shorter.is_empty() {
                self.buffers.give(shorter);
            }
        }
        entry
    }

    /// Whether this many bytes are all of a request's.
    pub(crate) fn is_whole(&self, id: RequestId, len: usize) -> bool {
        self.requests.get(id.0 as usize).is_some_and(|inflight| inflight.bytes == len)
    }

    /// Lends a read buffer to a worker; empty if it is lent already.
    pub(crate) fn lend_buffer(&mut self, index: u32, len: usize) -> Vec<u8> {
        std::mem::take(self.read_buffer(index as usize, len))
    }

    pub(crate) fn buffer_is_back(&mut self, index: u32, buf: Vec<u8>) {
        if let Some(entry) = self.read_buffers.get_mut(index as usize) {
            *entry = Some(buf);
        }
    }

    /// Gives up read buffers with nothing in them, if there are many. The engine has no outputs left.
    pub(crate) fn trim(&mut self, idle: &[u32]) {
        if self.read_bytes <= self.idle_most {
            return;
        }
        for &index in idle {
            if let Some(buf) = self.read_buffers.get_mut(index as usize).and_then(Option::take) {
                self.read_bytes -= buf.len();
                self.buffers.give(buf);
            }
        }
    }

    /// Bytes of buffers, and of the staging memory.
    pub(crate) const fn bytes(&self) -> usize {
        self.buffers.bytes() + self.stage.len()
    }

    /// Copies within memory. The engine never names overlapping places. It copies only from RAM
    /// pages, buffers and clients, to RAM pages and clients.
    pub(crate) fn copy(&mut self, m: MemoryMove, current: &mut Current<'_>) {
        let len = m.len.bytes().0 as usize;
        let to = range_of(m.to, len);
        match m.to {
            Memory::Slot { .. } => {
                let mut slots = std::mem::take(&mut self.slots);
                transfer(slots.get_mut(to), self.place(m.from, len, current));
                self.slots = slots;
            }
            Memory::Client { id, .. } => {
                let id = id.0 as usize;
                if id == current.id
                    && let Data::Read(dst) = &mut current.data
                {
                    let none = Current::nobody();
                    transfer(dst.get_mut(to), self.place(m.from, len, &none));
                    return;
                }
                let Some(inflight) = self.requests.get_mut(id) else { return };
                let bytes = inflight.bytes;
                let mut buf = inflight.buf.take().unwrap_or_else(|| self.buffers.take(bytes));
                transfer(buf.get_mut(to), self.place(m.from, len, current));
                if let Some(inflight) = self.requests.get_mut(id) {
                    inflight.buf = Some(buf);
                }
            }
            Memory::Buffer { .. } | Memory::Stage { .. } => {
                let mut bounce = self.buffers.take(len);
                transfer(bounce.get_mut(..len), self.place(m.from, len, current));
                transfer(self.place_mut(m.to, len, current), bounce.get(..len));
                self.buffers.give(bounce);
            }
        }
    }

    /// Copies a page of metadata into memory.
    pub(crate) fn put(&mut self, page: &[u8], to: Memory) {
        let mut nobody = Current::nobody();
        transfer(self.place_mut(to, page.len(), &mut nobody), Some(page));
    }

    pub(crate) fn zero(&mut self, to: Memory, len: Sectors, current: &mut Current<'_>) {
        match self.place_mut(to, len.bytes().0 as usize, current) {
            Some(bytes) => bytes.fill(0),
            None => unreachable!("the engine named memory that is not there"),
        }
    }

    /// The checksum of each page of memory, in order.
    pub(crate) fn sum(
        &self,
        from: Memory,
        pages: u32,
        current: &Current<'_>,
        sums: &mut Vec<PageSum>,
    ) {
        sums.clear();
        let bytes = self.place(from, pages as usize * PAGE_BYTES as usize, current);
        // Missing memory has no sums, and the engine reports it.
        sums.extend(bytes.unwrap_or_default().chunks(PAGE_BYTES as usize).map(page_sum));
    }

    /// The request outlives the call: its data moves to its own buffer.
    pub(crate) fn detach(&mut self, current: &mut Current<'_>) {
        if !self.requests.contains(current.id) {
            return;
        }
        let src: &[u8] = match &current.data {
            Data::Read(buf) => buf,
            Data::Write(buf) => buf,
            Data::None | Data::Owned(_) => return,
        };
        let mut own = self.buffers.take(src.len());
        if let Some(head) = own.get_mut(..src.len()) {
            head.copy_from_slice(src);
        }
        if let Some(inflight) = self.requests.get_mut(current.id) {
            inflight.buf = Some(own);
        }
        current.data = Data::None;
    }
}

/// Copies between places. A missing place is a bug of the program: it must not serve wrong bytes.
pub(crate) fn transfer(to: Option<&mut [u8]>, from: Option<&[u8]>) {
    let (Some(to), Some(from)) = (to, from) else {
        unreachable!("the engine named memory that is not there")
    };
    to.copy_from_slice(from);
}

/// The byte range of a place in its buffer.
pub(crate) fn range_of(memory: Memory, len: usize) -> std::ops::Range<usize> {
    let start = match memory {
        Memory::Client { offset, .. }
        | Memory::Buffer { offset, .. }
        | Memory::Stage { offset } => offset.bytes().0 as usize,
        Memory::Slot { index, offset } => {
            index as usize * PAGE_BYTES as usize + offset.bytes().0 as usize
        }
    };
    start..start.saturating_add(len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// RFC 3720, appendix B.4 has the polynomial; one bit at a time.
    fn crc32c(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |sum: u32, &byte| {
            (0..8).fold(sum ^ u32::from(byte), |s, _| (s >> 1) ^ (0x82F6_3B78 * (s & 1)))
        })
    }

    proptest! {
        /// Disks hold sums from other code on other processors.
        #[test]
        fn sums_are_crc32c(bytes in prop::collection::vec(any::<u8>(), 0..10_000), from in 0usize..64) {
            let bytes = bytes.get(from..).unwrap_or_default();
            prop_assert_eq!(crc_fast::crc32_iscsi(bytes), crc32c(bytes));
        }
    }

    #[test]
    fn sums_are_those_of_the_rfc() {
        assert_eq!(crc_fast::crc32_iscsi(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc_fast::crc32_iscsi(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc_fast::crc32_iscsi(b"123456789"), 0xE306_9283);
    }
}
