//! Threads that wait for the disk, so that the volume's thread does not. A job owns its buffer; the
//! buffer returns with the result.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use seekless_block::{Flags, Op};
use seekless_engine::{IoId, Target};
use seekless_nbd::Errno;

use super::errno_of;
use super::files::Files;
use crate::error::ServeError;
use seekless_host::{cannot, reserve_bounce};

/// A worker calls the kernel and little else.
const STACK_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(crate) struct Job {
    /// The caller's name for the job.
    pub(crate) name: JobName,
    pub(crate) work: Work,
    /// In bytes.
    pub(crate) at: u64,
    /// In bytes.
    pub(crate) len: u64,
    /// The data is at `from .. from + len`.
    pub(crate) buf: Vec<u8>,
    pub(crate) from: usize,
}

/// The origin of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobName {
    /// An I/O of the engine.
    Io(IoId),
    /// A client's question that the engine does not see.
    Question(usize),
    /// A move of the guard.
    Guard,
    /// Read-ahead: the result does not matter.
    Hint,
    /// A scrub waits until the host's memory has dropped the area.
    Scrub,
}

/// The kind of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Device I/O.
    Io(Target, Op, Flags),
    /// Ask for holes.
    Status,
    /// Read-ahead.
    WillNeed(Target),
    /// Move the guard up or down.
    Guard(bool),
    /// Drop the area's bytes from the host's memory.
    Forget,
}

/// A job that ended.
#[derive(Debug)]
pub(crate) struct EndedJob {
    pub(crate) name: JobName,
    pub(crate) result: Result<(), Errno>,
    pub(crate) buf: Vec<u8>,
    pub(crate) runs: Vec<(u32, u32)>,
}

/// The threads.
#[derive(Debug)]
pub(crate) struct Workers {
    queues: Vec<(Sender<Job>, usize)>,
    ended: Receiver<(usize, EndedJob)>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` threads; the end of each job makes `bell`, an eventfd, readable.
    pub(crate) fn new(
        count: usize,
        files: &Arc<Files>,
        bell: &Arc<OwnedFd>,
    ) -> Result<Self, ServeError> {
        let (report, ended) = channel();
        let mut queues = Vec::new();
        let mut threads = Vec::new();
        for index in 0..count.max(1) {
            let (send, jobs) = channel::<Job>();
            let (files, bell, report) = (Arc::clone(files), Arc::clone(bell), report.clone());
            let work = move || {
                if files.is_direct() {
                    reserve_bounce();
                }
                while let Ok(job) = jobs.recv() {
                    if report.send((index, carry_out(&files, job))).is_err() {
                        break;
                    }
                    ring(&bell);
                }
            };
            let name = format!("seekless-io-{index}");
            let thread = std::thread::Builder::new().name(name).stack_size(STACK_BYTES);
            let thread = thread.spawn(work);
            threads.push(thread.map_err(cannot("start a worker thread"))?);
            queues.push((send, 0));
        }
        Ok(Self { queues, ended, threads })
    }

    /// Gives a job to the worker with the least work. Returns the job if that worker is gone.
    pub(crate) fn send(&mut self, job: Job) -> Result<(), Job> {
        match self.queues.iter_mut().min_by_key(|(_, waiting)| *waiting) {
            Some((queue, waiting)) => {
                *waiting += 1;
                queue.send(job).map_err(|e| e.0)
            }
            None => Err(job),
        }
    }

    /// The next job that ended.
    pub(crate) fn ended(&mut self) -> Option<EndedJob> {
        let (index, ended) = self.ended.try_recv().ok()?;
        if let Some((_, waiting)) = self.queues.get_mut(index) {
            *waiting -= 1;
        }
        Some(ended)
    }

    /// Ends the threads after their jobs.
    pub(crate) fn stop(self) {
        drop(self.queues);
        for thread in self.threads {
            // A worker that panicked returns nothing.
            let _ = thread.join();
        }
    }
}

/// Makes an eventfd readable.
pub(crate) fn ring(bell: &OwnedFd) {
    // A write can fail only if the counter is full, and then the eventfd is readable.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

fn carry_out(files: &Files, mut job: Job) -> EndedJob {
    let range = job.from..job.from.saturating_add(job.len as usize);
    let mut runs = Vec::new();
    let result = match job.work {
        Work::Io(target, Op::Read, _) => match job.buf.get_mut(range) {
            Some(buf) => files.read(target, job.at, buf),
            None => Err(rustix::io::Errno::FAULT),
        },
        Work::Io(target, op, flags) => {
            let buf = if op == Op::Write { job.buf.get(range) } else { Some([].as_slice()) };
            match buf {
                Some(buf) => files.change(target, op, flags, job.at, job.len, buf),
                None => Err(rustix::io::Errno::FAULT),
            }
        }
        Work::Status => {
            runs = files.status(job.at, u32::try_from(job.len).unwrap_or(u32::MAX));
            Ok(())
        }
        Work::WillNeed(target) => {
            files.will_need(target, job.at, job.len);
            Ok(())
        }
        Work::Guard(up) => files.move_guard(up),
        Work::Forget => {
            files.forget_area();
            Ok(())
        }
    };
    EndedJob { name: job.name, result: result.map_err(errno_of), buf: job.buf, runs }
}
