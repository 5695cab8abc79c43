//! Writes libCacheSim's `oracleGeneral`. An object is a page of 4 KiB: its number is the page's
//! number plus 2^40 times the device's number, and its size is 4096. A request of several pages
//! becomes as many accesses. Reads and writes both become accesses; discards and flushes are left
//! out.
//!
//! Each access has the number (from 1) of the next access to the same object, or -1. Memory is
//! constant for every length of trace. The pairs (object, number) are sorted in runs on disk and
//! merged to find each next access. The results are sorted by number in buckets. Temporary files of
//! 56 bytes per access are in `TMPDIR`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seekless_block::Op;

use super::{Sink, Writer, error};
use crate::formats::Access;
use crate::input::Cursor;
use crate::{Device, Record, Stream, TraceError, Traced};

const PAGE: u32 = 4096;
const PAGE_SECTORS: u64 = 8;
/// Pages of one device have numbers below this.
const DEVICE: u64 = 1 << 40;
/// Maximum pages per request: 4 GiB.
const PAGES_MAX: u64 = 1 << 20;
/// Number of accesses sorted at a time: 64 MiB of pairs.
const RUN: usize = 1 << 22;
/// Bytes per pair on disk.
const PAIR: u64 = 16;

pub(super) struct Oracle {
    to: Sink,
    path: PathBuf,
    seconds: u32,
    next: NextAccess,
}

impl Oracle {
    pub(super) fn new(to: Sink, path: &Path) -> io::Result<Self> {
        Ok(Self { to, path: path.to_owned(), seconds: 0, next: NextAccess::new(RUN)? })
    }
}

impl Writer for Oracle {
    fn write(&mut self, record: &Record, _: &[Stream], _: &[Device]) -> Traced<bool> {
        let request = &record.request;
        if !matches!(request.op, Op::Read | Op::Write | Op::WriteZeroes) {
            return Ok(false);
        }
        let first = request.extent.start.0 / PAGE_SECTORS;
        let end = request.extent.end().0.div_ceil(PAGE_SECTORS);
        if end > DEVICE || end - first > PAGES_MAX {
            let what = format!(
                "a request of {} sectors at {} cannot be written as pages: allowed are at most 4 GiB, below 4 PiB",
                request.extent.len.0, request.extent.start.0
            );
            return Err(TraceError::Write { path: self.path.clone(), what });
        }
        let seconds = u32::try_from(request.arrival.0 / 1_000_000_000).unwrap_or(u32::MAX);
        self.seconds = self.seconds.max(seconds);
        for page in first..end {
            let object = u64::from(record.device) * DEVICE + page;
            let access = Access { seconds: self.seconds, object, bytes: PAGE, next: -1 };
            self.next.push(access).map_err(|e| error(&self.path, e))?;
        }
        Ok(true)
    }

    fn finish(self: Box<Self>, _: bool, _: u64) -> Traced<()> {
        let Self { mut to, path, next, .. } = *self;
        next.end(&mut to).and_then(|()| to.finish()).map_err(|e| error(&path, e))
    }
}

/// Finds the next access to the same object for each access.
struct NextAccess {
    /// Number of accesses in a run, and in a bucket.
    run: usize,
    accesses: BufWriter<File>,
    count: u64,
    /// Object and number (from 0) for the run in memory.
    pairs: Vec<(u64, u64)>,
    /// Sorted runs, one after another; all but the last are full.
    runs: File,
    run_lens: Vec<u64>,
}

impl NextAccess {
    fn new(run: usize) -> io::Result<Self> {
        Ok(Self {
            run,
            accesses: BufWriter::with_capacity(1 << 20, tempfile::tempfile()?),
            count: 0,
            pairs: Vec::new(),
            runs: tempfile::tempfile()?,
            run_lens: Vec::new(),
        })
    }

    fn push(&mut self, access: Access) -> io::Result<()> {
        self.accesses.write_all(&access.to_bytes())?;
        self.pairs.push((access.object, self.count));
        self.count += 1;
        if self.pairs.len() == self.run { self.end_run() } else { Ok(()) }
    }

    fn end_run(&mut self) -> io::Result<()> {
        self.pairs.sort_unstable();
        let mut to = BufWriter::with_capacity(1 << 20, &self.runs);
        for pair in &self.pairs {
            to.write_all(&bytes_of(*pair))?;
        }
        to.flush()?;
        self.run_lens.push(self.pairs.len() as u64);
        self.pairs.clear();
        Ok(())
    }

    /// Writes all accesses, each with its next access.
    fn end(mut self, to: &mut Sink) -> io::Result<()> {
        if !self.pairs.is_empty() {
            self.end_run()?;
        }
        let links = self.links()?;
        let accesses = self.accesses.into_inner().map_err(io::IntoInnerError::into_error)?;
        let cursor = Cursor::new(Arc::new(accesses), 0, Arc::default());
        let mut accesses = BufReader::with_capacity(1 << 20, cursor);
        let mut left = self.count;
        let mut record = [0; 24];
        for (bucket, &len) in links.lens.iter().enumerate() {
            let size = left.min(self.run as u64) as usize;
            left -= size as u64;
            let mut next = vec![-1i64; size];
            let first = (bucket * self.run) as u64;
            let mut pairs = links.bucket(bucket, len);
            while let Some((number, successor)) = pair_of(&mut pairs)? {
                if let Some(slot) = next.get_mut((number - first) as usize) {
                    *slot = successor as i64 + 1;
                }
            }
            for next in next {
                accesses.read_exact(&mut record)?;
                to.write_all(&Access { next, ..Access::from_bytes(&record) }.to_bytes())?;
            }
        }
        Ok(())
    }

    /// Merges the runs in order of object and number: neighbours of one object are an access and
    /// the next access.
    fn links(&mut self) -> io::Result<Links> {
        let runs = Arc::new(self.runs.try_clone()?);
        let mut at = 0;
        let mut readers = Vec::with_capacity(self.run_lens.len());
        let mut heads = BinaryHeap::new();
        for (i, &len) in self.run_lens.iter().enumerate() {
            let cursor = Cursor::new(Arc::clone(&runs), at, Arc::default());
            let mut reader = BufReader::with_capacity(64 << 10, cursor.take(len * PAIR));
            at += len * PAIR;
            if let Some(pair) = pair_of(&mut reader)? {
                heads.push(Reverse((pair, i)));
            }
            readers.push(reader);
        }
        let mut links = Links::new(self.run as u64, self.run_lens.len())?;
        let mut last = None;
        while let Some(Reverse(((object, number), i))) = heads.pop() {
            if let Some((same, before)) = last
                && same == object
            {
                links.push(before, number)?;
            }
            last = Some((object, number));
            if let Some(pair) = pair_of(&mut readers[i])? {
                heads.push(Reverse((pair, i)));
            }
        }
        links.flush()?;
        Ok(links)
    }
}

/// Pairs of an access and the next one, in buckets by the first. Each bucket has its own range in
/// the file.
struct Links {
    file: Arc<File>,
    run: u64,
    lens: Vec<u64>,
    buffers: Vec<Vec<u8>>,
}

impl Links {
    fn new(run: u64, buckets: usize) -> io::Result<Self> {
        let file = Arc::new(tempfile::tempfile()?);
        Ok(Self { file, run, lens: vec![0; buckets], buffers: vec![Vec::new(); buckets] })
    }

    fn push(&mut self, number: u64, next: u64) -> io::Result<()> {
        let bucket = (number / self.run) as usize;
        self.buffers[bucket].extend(bytes_of((number, next)));
        if self.buffers[bucket].len() >= 64 << 10 { self.write(bucket) } else { Ok(()) }
    }

    fn write(&mut self, bucket: usize) -> io::Result<()> {
        let at = (bucket as u64 * self.run + self.lens[bucket]) * PAIR;
        self.file.write_all_at(&self.buffers[bucket], at)?;
        self.lens[bucket] += self.buffers[bucket].len() as u64 / PAIR;
        self.buffers[bucket].clear();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        (0..self.lens.len()).try_for_each(|bucket| self.write(bucket))
    }

    fn bucket(&self, bucket: usize, len: u64) -> impl Read {
        let at = bucket as u64 * self.run * PAIR;
        let cursor = Cursor::new(Arc::clone(&self.file), at, Arc::default());
        BufReader::with_capacity(1 << 20, cursor.take(len * PAIR))
    }
}

fn bytes_of((a, b): (u64, u64)) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&a.to_le_bytes());
    bytes[8..].copy_from_slice(&b.to_le_bytes());
    bytes
}

fn pair_of(from: &mut impl Read) -> io::Result<Option<(u64, u64)>> {
    let mut bytes = [0; 16];
    match from.read_exact(&mut bytes) {
        Ok(()) => {
            let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[at + k]));
            Ok(Some((long(0), long(8))))
        }
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use proptest::prelude::*;

    use super::*;
    use crate::convert::Packing;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(buf);
            Ok(buf.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn nexts(objects: &[u64], run: usize) -> Vec<i64> {
        let out = Shared::default();
        let to = BufWriter::new(Box::new(out.clone()) as Box<dyn Write + Send>);
        let mut sink = Sink::new(to, Packing::None).unwrap();
        let mut next = NextAccess::new(run).unwrap();
        for &object in objects {
            next.push(Access { seconds: 7, object, bytes: PAGE, next: -1 }).unwrap();
        }
        next.end(&mut sink).unwrap();
        sink.finish().unwrap();
        let bytes = out.0.lock().unwrap().clone();
        let all = bytes.as_chunks::<24>().0.iter().map(Access::from_bytes);
        let (seen, nexts): (Vec<u64>, Vec<i64>) = all.map(|a| (a.object, a.next)).unzip();
        assert_eq!(seen, objects, "order is kept");
        nexts
    }

    #[test]
    fn by_hand() {
        assert_eq!(nexts(&[5, 6, 5, 5, 6], 2), [3, 5, 4, -1, -1]);
        assert_eq!(nexts(&[], 2), []);
    }

    proptest! {
        #[test]
        fn as_a_table_read_backwards_finds_them(
            objects in prop::collection::vec(0u64..20, 0..300), run in 1usize..50
        ) {
            let mut ahead = HashMap::new();
            let mut expected: Vec<i64> = objects
                .iter()
                .enumerate()
                .rev()
                .map(|(i, o)| ahead.insert(*o, i as i64 + 1).unwrap_or(-1))
                .collect();
            expected.reverse();
            prop_assert_eq!(nexts(&objects, run), expected);
        }
    }
}
