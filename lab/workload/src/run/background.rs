//! Asynchronous writes of one thread: helper threads write while the thread continues, as in the C
//! library's asynchronous I/O. Each write is counted when it ends.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::file_set::{ALIGN, PATTERN};
use crate::run_counts::Tally;

/// Number of helpers per thread.
const HELPERS: usize = 8;
/// Maximum number of writes in progress; at this number the thread waits.
const MOST: u64 = 4096;

struct BackgroundWrite {
    fd: Arc<OwnedFd>,
    at: u64,
    len: usize,
    step: usize,
    begun: Instant,
    counted: bool,
}

struct Helper {
    jobs: Sender<BackgroundWrite>,
    thread: JoinHandle<(Vec<Tally>, u64)>,
}

/// The helpers; started when they are first needed.
#[derive(Default)]
pub(super) struct Background {
    helpers: Vec<Helper>,
    next: usize,
    pending: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    steps: usize,
    /// The data to write; created when it is first needed.
    pattern: Option<Arc<Vec<u8>>>,
}

impl Background {
    pub(super) fn new(steps: usize) -> Self {
        Self { steps, ..Self::default() }
    }

    /// Starts a write of `len` bytes at `at`.
    pub(super) fn write(
        &mut self,
        fd: &Arc<OwnedFd>,
        pattern: &[u8],
        (at, len): (u64, usize),
        (step, begun, counted): (usize, Instant, bool),
    ) -> Result<(), Errno> {
        if self.helpers.len() < HELPERS {
            self.start(pattern)?;
        }
        if self.pending.fetch_add(1, Ordering::AcqRel) >= MOST {
            self.wait(0)?;
        }
        self.next = (self.next + 1) % self.helpers.len();
        let job = BackgroundWrite { fd: Arc::clone(fd), at, len, step, begun, counted };
        self.helpers[self.next].jobs.send(job).map_err(|_| Errno::IO)
    }

    /// Waits until all writes have ended.
    pub(super) fn wait(&self, left: u64) -> Result<(), Errno> {
        while self.pending.load(Ordering::Acquire) > left && self.error().is_none() {
            std::thread::park_timeout(Duration::from_millis(50));
        }
        self.error().map_or(Ok(()), Err)
    }

    fn error(&self) -> Option<Errno> {
        let code = self.failed.load(Ordering::Acquire);
        (code != 0).then(|| Errno::from_raw_os_error(code as i32))
    }

    fn start(&mut self, pattern: &[u8]) -> Result<(), Errno> {
        let (jobs, inbox) = channel::<BackgroundWrite>();
        let (pending, failed) = (Arc::clone(&self.pending), Arc::clone(&self.failed));
        let pattern = self.pattern.get_or_insert_with(|| {
            let mut copy = vec![0; PATTERN + ALIGN];
            let from = copy.as_ptr().align_offset(ALIGN).min(ALIGN);
            copy[from..from + PATTERN].copy_from_slice(pattern);
            Arc::new(copy)
        });
        let (pattern, steps) = (Arc::clone(pattern), self.steps);
        let owner: Thread = std::thread::current();
        let work = move || {
            let from = pattern.as_ptr().align_offset(ALIGN).min(ALIGN);
            let (mut tallies, mut written) = (vec![Tally::default(); steps], 0);
            for job in inbox {
                match write_at(&job.fd, &pattern[from..from + PATTERN], job.at, job.len) {
                    Ok(()) if job.counted => {
                        let ns = job.begun.elapsed().as_nanos() as u64;
                        tallies[job.step].add(ns, job.len as u64);
                        written += job.len as u64;
                    }
                    Ok(()) => {}
                    Err(e) => failed.store(e.raw_os_error() as u64, Ordering::Release),
                }
                if pending.fetch_sub(1, Ordering::AcqRel) == 1 {
                    owner.unpark();
                }
            }
            (tallies, written)
        };
        let builder =
            std::thread::Builder::new().name("background".to_owned()).stack_size(64 << 10);
        let thread = builder.spawn(work).map_err(|_| Errno::AGAIN)?;
        self.helpers.push(Helper { jobs, thread });
        Ok(())
    }

    /// Ends the helpers. Returns their counts by step, and the bytes written.
    pub(super) fn end(&mut self) -> (Vec<Tally>, u64) {
        let (mut all, mut bytes) = (vec![Tally::default(); self.steps], 0);
        for Helper { jobs, thread } in self.helpers.drain(..) {
            drop(jobs);
            if let Ok((tallies, written)) = thread.join() {
                all.iter_mut().zip(&tallies).for_each(|(a, t)| a.merge(t));
                bytes += written;
            }
        }
        (all, bytes)
    }
}

/// Writes `len` bytes of the repeated pattern.
pub(super) fn write_at(fd: &OwnedFd, pattern: &[u8], at: u64, len: usize) -> Result<(), Errno> {
    let mut done = 0;
    while done < len {
        let some = (len - done).min(pattern.len());
        match rustix::io::pwrite(fd, &pattern[..some], at + done as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
