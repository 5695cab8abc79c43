//! Flushes of one device by several files: home, area and guard region. A device that fails to flush
//! its cache reports this once, to the file that asks. Unflushed bytes of the other files may be lost
//! with it, so the next flush of each of them fails too. A page that the host cannot write is
//! reported to its own file, and is no failure of the others.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use rustix::io::Errno;

/// Calls that use up the errors of earlier writes, at most.
const TRIES: usize = 3;

#[derive(Debug, Default)]
struct DeviceFlushes {
    /// One flush runs at a time, and no durable write beside it: so a flush that ends well knows of
    /// each failure before its end. The host's pages are written back before, because that may be
    /// long.
    /// A durable write ends when those beside it have ended.
    turn: RwLock<()>,
    /// Flushes and durable writes that failed.
    failures: AtomicU64,
}

/// A failure before its report. Its owner keeps other flushes out until then: the host, or the other
/// server, reports a failure once, so a flush that begins now may succeed, and must not be reported
/// first.
#[derive(Debug)]
pub(crate) struct Failed<'a> {
    pub(crate) errno: Errno,
    _flushing: Option<MutexGuard<'a, ()>>,
    _turn: Option<RwLockReadGuard<'a, ()>>,
}

impl<'a> Failed<'a> {
    /// A failed flush of a disk, with the lock of its flushes.
    pub(crate) const fn flush(errno: Errno, flushing: MutexGuard<'a, ()>) -> Self {
        Self { errno, _flushing: Some(flushing), _turn: None }
    }
}

/// A failure that takes no report from a flush.
impl From<Errno> for Failed<'_> {
    fn from(errno: Errno) -> Self {
        Self { errno, _flushing: None, _turn: None }
    }
}

impl From<Failed<'_>> for Errno {
    fn from(failed: Failed<'_>) -> Self {
        failed.errno
    }
}

/// The flushes of a file, and its share in those of its device.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    device: Arc<DeviceFlushes>,
    /// The failures that the file has reported.
    reported: AtomicU64,
}

impl Flushes {
    /// For another file on the same device.
    pub(crate) fn beside(&self) -> Self {
        let reported = AtomicU64::new(self.device.failures.load(SeqCst));
        Self { device: Arc::clone(&self.device), reported }
    }

    /// Whether a flush must wait for another one, or for a durable write.
    #[cfg(test)]
    pub(crate) fn is_busy(&self) -> bool {
        self.device.turn.try_write().is_err()
    }

    #[cfg(test)]
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.device, &other.device)
    }

    /// Writes the file back, and flushes its device. Fails too if another file's flush failed since
    /// this file's last one.
    pub(crate) fn flush(
        &self,
        mut write_back: impl FnMut() -> Result<(), Errno>,
        flush: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        // A call that finds the error of an earlier write ends there. Linux forgets a page that
        // failed, so a later call writes the others.
        let mut written = Ok(());
        for _ in 0..TRIES {
            let once = write_back();
            written = written.and(once);
            if once.is_ok() {
                break;
            }
        }
        let _alone = self.device.turn.write().unwrap_or_else(PoisonError::into_inner);
        let flushed = flush();
        if flushed.is_err() {
            self.device.failures.fetch_add(1, SeqCst);
        }
        let failures = self.device.failures.load(SeqCst);
        let reported = self.reported.swap(failures, SeqCst);
        written.and(flushed).and(if reported == failures { Ok(()) } else { Err(Errno::IO) })
    }

    /// The failures so far.
    pub(crate) fn failures(&self) -> u64 {
        self.device.failures.load(SeqCst)
    }

    /// The file had no unflushed bytes at that number of failures.
    pub(crate) fn lost_nothing(&self, failures: u64) {
        self.reported.fetch_max(failures, SeqCst);
    }

    /// Whether another file's flush failed since this file's last one.
    pub(crate) fn owes(&self) -> bool {
        self.reported.load(SeqCst) != self.device.failures.load(SeqCst)
    }

    /// Writes into the file. If a `durable` write fails, its device may have given the report to it.
    /// The report may be about the bytes of another durable write in flight, so that one fails too.
    pub(crate) fn write(
        &self,
        durable: bool,
        write: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Failed<'_>> {
        if !durable {
            return Ok(write()?);
        }
        let beside_others = self.device.turn.read().unwrap_or_else(PoisonError::into_inner);
        let before = self.failures();
        if let Err(errno) = write() {
            // Without space nothing was written, and nothing flushed here: other files lose nothing.
            // Another server may lack the space for any client's bytes.
            if !matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::FBIG) {
                let before = self.device.failures.fetch_add(1, SeqCst);
                // The caller has this report. Older ones are still to come.
                let _ = self.reported.compare_exchange(before, before + 1, SeqCst, SeqCst);
            }
            return Err(Failed { errno, _flushing: None, _turn: Some(beside_others) });
        }
        drop(beside_others);
        // A write beside this one may have the report, and has not counted it yet.
        drop(self.device.turn.write().unwrap_or_else(PoisonError::into_inner));
        if self.failures() == before { Ok(()) } else { Err(Errno::IO.into()) }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicBool;

    use seekless_block::{Flags, Op};
    use seekless_engine::Target;

    use super::super::files::{Disk, Files};
    use super::super::runs::Runs;
    use super::super::unnamed::memory_file;
    use super::*;

    const BYTES: u64 = 1 << 20;

    fn working() -> Disk {
        disk(memory_file(BYTES).unwrap())
    }

    /// Each write and each flush of it fails.
    fn failing() -> Disk {
        let file = std::fs::File::options().read(true).write(true).open("/dev/full").unwrap();
        disk(file.into())
    }

    fn disk(fd: OwnedFd) -> Disk {
        Disk::new(fd, Runs::new(&[(0, BYTES)]))
    }

    fn flushes(of: &Flushes) -> Result<(), Errno> {
        of.flush(|| Ok(()), || Ok(()))
    }

    fn flush(files: &Files, target: Target) -> Result<(), Errno> {
        Ok(files.change(target, Op::Flush, Flags::NONE, 0, 0, &[])?)
    }

    /// A hole in the log: recovery ends there, and loses what later flushes of the area cover.
    #[test]
    fn a_flush_that_fails_fails_the_next_one_of_what_lies_on_the_same_device() {
        for (bad, other) in [(Target::Home, Target::Area), (Target::Area, Target::Home)] {
            for shared in [true, false] {
                let is_home = bad == Target::Home;
                let (home, area) =
                    if is_home { (failing(), working()) } else { (working(), failing()) };
                let area = if shared { area.on_device_of(home.flushes()) } else { area };
                let files = Files::of(home, area, None);
                assert_eq!(flush(&files, other), Ok(()));
                flush(&files, bad).unwrap_err();
                assert_eq!(flush(&files, other).is_err(), shared, "{bad:?}");
                assert_eq!(flush(&files, other), Ok(()), "once");
            }
        }
    }

    #[test]
    fn a_durable_write_that_fails_is_such_a_flush_and_another_write_is_not() {
        for (durable, errno, is_flush) in
            [(false, Errno::IO, false), (true, Errno::IO, true), (true, Errno::NOSPC, false)]
        {
            let home = Flushes::default();
            let area = home.beside();
            let failed = home.write(durable, || Err(errno)).unwrap_err();
            assert_eq!(home.is_busy(), durable, "no flush comes before its report");
            drop(failed);
            assert_eq!(flushes(&area).is_err(), is_flush, "{durable} {errno}");
            assert_eq!(flushes(&area), Ok(()));
        }
    }

    /// Linux may have given the report about the bytes of the first one to the other.
    #[test]
    fn a_durable_write_beside_one_that_fails_fails_too() {
        let (home, both, has_ended) = (Flushes::default(), Barrier::new(2), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                let written = home.write(true, || {
                    both.wait();
                    Ok(())
                });
                has_ended.store(true, SeqCst);
                written.map_err(Errno::from)
            });
            let other = home.write(true, || {
                both.wait();
                // The first one waits for this one, or it has ended, which is too early.
                while !has_ended.load(SeqCst) && home.device.turn.try_read().is_ok() {
                    std::thread::yield_now();
                }
                Err(Errno::IO)
            });
            assert_eq!(other.map_err(Errno::from), Err(Errno::IO));
            assert_eq!(first.join().unwrap(), Err(Errno::IO));
        });
        assert_eq!(home.write(true, || Ok(())).map_err(Errno::from), Ok(()));
    }

    /// A bad sector under home does not end the log, and one under the area fails no client.
    #[test]
    fn a_page_that_cannot_be_written_back_is_a_failure_of_its_own_file() {
        let home = Flushes::default();
        let area = home.beside();
        // Two errors of earlier writes, each of which ends a call.
        let calls = std::cell::Cell::new(0);
        let write_back = || {
            calls.set(calls.get() + 1);
            if calls.get() < 3 { Err(Errno::IO) } else { Ok(()) }
        };
        let flush = || if calls.get() == 3 { Ok(()) } else { Err(Errno::IO) };
        home.flush(write_back, flush).unwrap_err();
        assert_eq!(calls.get(), 3);
        assert_eq!(flushes(&area), Ok(()));
        assert_eq!(flushes(&home), Ok(()));
    }

    /// The server's own flushes count as well: those of the guard, and those of a scrub.
    #[test]
    fn a_second_handle_of_a_disk_reports_to_the_first() {
        let home = failing();
        let area = working().on_device_of(home.flushes());
        let mut bare = home.bare().unwrap();
        seekless_block::Device::flush(&mut bare).unwrap_err();
        let files = Files::of(home, area, None);
        flush(&files, Target::Area).unwrap_err();
        assert_eq!(flush(&files, Target::Area), Ok(()));
    }

    /// A report that came before a durable write failed is not lost with that of the write.
    #[test]
    fn each_failure_is_reported_to_each_file() {
        let (first, fail) = (Flushes::default(), || Err(Errno::IO));
        let second = first.beside();
        first.flush(|| Ok(()), fail).unwrap_err();
        second.write(true, fail).unwrap_err();
        flushes(&second).unwrap_err();
        flushes(&second).unwrap();
        flushes(&first).unwrap_err();
        first.write(true, fail).unwrap_err();
        flushes(&first).unwrap();
        flushes(&second).unwrap_err();
    }
}
