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
use super::flushes::Failed;
use crate::error::ServeError;
use seekless_host::reserve::Waits;
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

/// Longest discard or write of zeroes that any worker may do.
const SHORT_BYTES: u64 = 1 << 20;

impl Job {
    /// Whether the disk may need seconds or minutes for it. A client may have hundreds of these,
    /// and they need no memory.
    const fn is_long(&self) -> bool {
        let zeroes = matches!(self.work, Work::Io(_, Op::Discard | Op::WriteZeroes, _));
        zeroes && self.len > SHORT_BYTES
    }

    /// Its share of a worker's time.
    const fn weight(&self) -> u64 {
        if self.is_long() { self.len / SHORT_BYTES } else { 1 }
    }
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
    /// With the weight of the jobs that have not ended.
    queues: Vec<(Sender<Job>, u64)>,
    /// With the index of the worker, and the weight of the job.
    ended: Receiver<(usize, u64, EndedJob)>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts a thread for each counter; the end of each job makes `bell`, an eventfd, readable.
    pub(crate) fn new(
        waits: &Arc<Waits>,
        files: &Arc<Files>,
        bell: &Arc<OwnedFd>,
    ) -> Result<Self, ServeError> {
        let (report, ended) = channel();
        let mut queues = Vec::new();
        let mut threads = Vec::new();
        for index in 0..waits.len() {
            let (send, jobs) = channel::<Job>();
            let (files, bell, report) = (Arc::clone(files), Arc::clone(bell), report.clone());
            let waits = Arc::clone(waits);
            let work = move || {
                if files.is_direct() {
                    reserve_bounce();
                }
                while let Ok(job) = jobs.recv() {
                    let weight = job.weight();
                    let wait = (!job.is_long()).then(|| waits.begin(index));
                    let is_reported = carry_out(&files, job, |ended| {
                        drop(wait);
                        report.send((index, weight, ended)).is_ok()
                    });
                    if !is_reported {
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

    /// Gives a job to the worker with the least work. Long jobs go to half of the workers, so that
    /// the other half does the short ones. Returns the job if that worker is gone.
    pub(crate) fn send(&mut self, job: Job) -> Result<(), Job> {
        let all = self.queues.len();
        let some = if job.is_long() { all.div_ceil(2) } else { all };
        match self.queues.iter_mut().take(some).min_by_key(|(_, waiting)| *waiting) {
            Some((queue, waiting)) => {
                *waiting += job.weight();
                queue.send(job).map_err(|e| e.0)
            }
            None => Err(job),
        }
    }

    pub(crate) fn ended(&mut self) -> Option<EndedJob> {
        let (index, weight, ended) = self.ended.try_recv().ok()?;
        if let Some((_, waiting)) = self.queues.get_mut(index) {
            *waiting -= weight;
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

/// A failed flush or durable write keeps other flushes out until `report` returns.
fn carry_out<T>(files: &Files, mut job: Job, report: impl FnOnce(EndedJob) -> T) -> T {
    let range = job.from..job.from.saturating_add(job.len as usize);
    let mut runs = Vec::new();
    let result: Result<(), Failed<'_>> = match job.work {
        Work::Io(target, Op::Read, _) => match job.buf.get_mut(range) {
            Some(buf) => files.read(target, job.at, buf).map_err(Failed::from),
            None => Err(rustix::io::Errno::FAULT.into()),
        },
        Work::Io(target, op, flags) => {
            let buf = if op == Op::Write { job.buf.get(range) } else { Some([].as_slice()) };
            match buf {
                Some(buf) => files.change(target, op, flags, job.at, job.len, buf),
                None => Err(rustix::io::Errno::FAULT.into()),
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
        Work::Guard(up) => files.move_guard(up).map_err(Failed::from),
        Work::Forget => {
            files.forget_area();
            Ok(())
        }
    };
    let told = result.as_ref().copied().map_err(|failed| errno_of(failed.errno));
    let reported = report(EndedJob { name: job.name, result: told, buf: job.buf, runs });
    drop(result);
    reported
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;
    use crate::backend::files::Disk;
    use crate::backend::runs::Runs;
    use crate::backend::unnamed::memory_file;

    const GIB: u64 = 1 << 30;
    const BYTES: u64 = 1 << 20;

    fn job(op: Op, len: u64) -> Job {
        let buf = vec![0; if op == Op::Read { len as usize } else { 0 }];
        let work = Work::Io(Target::Home, op, Flags::NONE);
        Job { name: JobName::Hint, work, at: 0, len, buf, from: 0 }
    }

    #[test]
    fn long_zeroes_leave_workers_for_short_jobs() {
        let home = Disk::new(memory_file(GIB).unwrap(), Runs::all());
        let files = Arc::new(Files::new(home, 0, None).unwrap());
        let bell = Arc::new(eventfd(0, EventfdFlags::empty()).unwrap());
        let mut workers = Workers::new(&Arc::new(Waits::new(8)), &files, &bell).unwrap();
        let waiting =
            |workers: &Workers| workers.queues.iter().map(|(_, w)| *w).collect::<Vec<_>>();
        for i in 0..64 {
            let op = if i % 2 == 0 { Op::WriteZeroes } else { Op::Discard };
            workers.send(job(op, GIB)).unwrap();
        }
        assert_eq!(waiting(&workers), [[16u64 << 10; 4], [0; 4]].concat());
        // However many short ones wait.
        for op in [Op::Read, Op::WriteZeroes].repeat(1000) {
            workers.send(job(op, 4096)).unwrap();
        }
        assert_eq!(waiting(&workers), [[16u64 << 10; 4], [500; 4]].concat());
        let mut ends = 0;
        while ends < 2064 {
            match workers.ended() {
                Some(ended) => {
                    ended.result.unwrap();
                    ends += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        assert_eq!(waiting(&workers), [0u64; 8]);
        workers.stop();
    }

    /// The host has reported the failure once, so a flush that begins now ends well. If the volume
    /// heard of that one first, it would tell a client that its writes are durable.
    #[test]
    fn a_failure_is_reported_before_another_flush_begins() {
        let working = || Disk::new(memory_file(BYTES).unwrap(), Runs::new(&[(0, BYTES)]));
        let null = std::fs::File::open("/dev/null").unwrap();
        // Opened for reading.
        let failing = Disk::new(null.into(), Runs::new(&[(0, BYTES)]));
        for (home, op) in
            [(working(), Op::Flush), (working(), Op::WriteZeroes), (failing, Op::Write)]
        {
            if op != Op::Write {
                home.owe();
            }
            let files = Files::of(home, working(), None);
            let len = if op == Op::Flush { 0 } else { 4096 };
            let work = Work::Io(Target::Home, op, Flags::FUA);
            carry_out(&files, Job { work, buf: vec![0; len as usize], ..job(op, len) }, |ended| {
                assert!(ended.result.is_err(), "{op:?}");
                assert!(files.home().is_busy(), "{op:?}");
            });
            assert!(!files.home().is_busy(), "{op:?}");
        }
    }

    #[test]
    fn one_worker_does_all() {
        let home = Disk::new(memory_file(GIB).unwrap(), Runs::all());
        let files = Arc::new(Files::new(home, 0, None).unwrap());
        let bell = Arc::new(eventfd(0, EventfdFlags::empty()).unwrap());
        let mut workers = Workers::new(&Arc::new(Waits::new(1)), &files, &bell).unwrap();
        for op in [Op::WriteZeroes, Op::Read] {
            workers.send(job(op, GIB >> 4)).unwrap();
        }
        assert_eq!(workers.queues.first().unwrap().1, 65);
        workers.stop();
    }
}
