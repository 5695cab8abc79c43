//! Memory that a server returns to the kernel when its own I/O stands still.
//!
//! A server's write to a file may need memory in the kernel: ext4 reads the bitmap of a block group
//! before the first block is taken from this group. The kernel charges these pages to the control
//! group of the server. If the group is full of dirty pages of the server's own volume, only the
//! server can free memory, and waits for it. The reserve ends such a wait: its pages are charged to
//! the same group. The other programs of the group wait for their dirty pages, so the server gets
//! the pages first.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread, park, park_timeout};
use std::time::Duration;

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

use crate::error::{HostError, cannot};

/// An I/O that takes longer than one look, or two, stands still. A slow disk may look the same: the
/// reserve is returned in vain then, and taken again.
const LOOK: Duration = Duration::from_millis(500);
/// The kernel charges 256 KiB to a group at once, if the group has them.
const PIECE_BYTES: u64 = 1 << 20;
const PIECES: usize = 4;
/// The memory of a whole reserve, in bytes.
pub const RESERVE_BYTES: u64 = PIECE_BYTES * PIECES as u64;
const STACK_BYTES: usize = 64 << 10;

/// Which threads wait for a device now. One counter for each thread: odd during an I/O.
#[derive(Debug)]
pub struct Waits(Box<[AtomicU64]>);

impl Waits {
    /// For this number of threads.
    pub fn new(threads: usize) -> Self {
        Self(std::iter::repeat_with(AtomicU64::default).take(threads).collect())
    }

    /// The number of threads.
    #[expect(clippy::len_without_is_empty, reason = "a server without a worker does nothing")]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Marks the I/O of a thread for as long as the result lives.
    pub fn begin(&self, thread: usize) -> Wait<'_> {
        let count = self.0.get(thread);
        count.map(|c| c.fetch_add(1, Ordering::Relaxed));
        Wait(count)
    }

    /// Whether an I/O has lasted since the last look. `before`: the counters at that time.
    fn stand_still(&self, before: &mut [u64]) -> bool {
        let mut still = false;
        for (count, before) in self.0.iter().zip(before) {
            let now = count.load(Ordering::Relaxed);
            still |= now == *before && !now.is_multiple_of(2);
            *before = now;
        }
        still
    }
}

/// An I/O of a thread.
#[derive(Debug)]
pub struct Wait<'a>(Option<&'a AtomicU64>);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.map(|c| c.fetch_add(1, Ordering::Relaxed));
    }
}

/// The pieces that are held now, and whether the threads end.
#[derive(Debug, Default)]
struct Pieces {
    held: Mutex<Vec<OwnedFd>>,
    ends: AtomicBool,
}

impl Pieces {
    fn held(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        // The vector is whole after any panic.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one piece, if one is missing. May wait for memory, so without the lock.
    fn take(&self) {
        if self.held().len() < PIECES
            && let Ok(piece) = piece()
        {
            self.held().push(piece);
        }
    }
}

/// Memory that belongs to a file without a name. Memory of the process itself would be no better,
/// and worse while it is taken: the kernel locks the map of the process meanwhile.
fn piece() -> rustix::io::Result<OwnedFd> {
    let file = memfd_create("seekless-reserve", MemfdFlags::CLOEXEC)?;
    fallocate(&file, FallocateFlags::empty(), 0, PIECE_BYTES)?;
    Ok(file)
}

/// The reserve of a server, with two threads: one returns memory and never waits for any, the other
/// takes memory again. Dropping the reserve ends them.
#[derive(Debug)]
pub struct Reserve {
    pieces: Arc<Pieces>,
    returns: Option<JoinHandle<()>>,
    takes: Thread,
}

impl Reserve {
    /// Takes [`RESERVE_BYTES`], or less if the kernel has no more, and watches these threads.
    /// # Errors
    /// A thread cannot be started.
    pub fn watch(waits: Arc<Waits>) -> Result<Self, HostError> {
        let pieces = Arc::new(Pieces::default());
        (0..PIECES).for_each(|_| pieces.take());
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.into()).stack_size(STACK_BYTES);
            thread.spawn(work).map_err(cannot("start a thread of the memory reserve"))
        };
        let of_takes = Arc::clone(&pieces);
        let taker = spawn("seekless-takes", Box::new(move || take_again(&of_takes)))?;
        let takes = taker.thread().clone();
        let (of_returns, wake) = (Arc::clone(&pieces), takes.clone());
        let look = Box::new(move || return_on_stalls(&of_returns, &waits, &wake));
        let returns = Some(spawn("seekless-returns", look)?);
        Ok(Self { pieces, returns, takes })
    }
}

fn return_on_stalls(pieces: &Pieces, waits: &Waits, takes: &Thread) {
    let mut before = vec![0; waits.0.len()];
    while !pieces.ends.load(Ordering::Relaxed) {
        park_timeout(LOOK);
        if waits.stand_still(&mut before) {
            let piece = pieces.held().pop();
            drop(piece);
        } else {
            takes.unpark();
        }
    }
}

fn take_again(pieces: &Pieces) {
    // This thread may wait for writes, which the server can do meanwhile. Without that the kernel
    // would sooner end a program of the group.
    let _ = rustix::process::configure_io_flusher_behavior(false);
    while !pieces.ends.load(Ordering::Relaxed) {
        park();
        pieces.take();
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.pieces.ends.store(true, Ordering::Relaxed);
        // The thread that takes memory may wait for long: nobody waits for it.
        self.takes.unpark();
        if let Some(thread) = self.returns.take() {
            thread.thread().unpark();
            // It does not panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until the reserve has this number of pieces.
    fn until(reserve: &Reserve, pieces: usize) {
        let end = std::time::Instant::now() + Duration::from_mins(1);
        while reserve.pieces.held().len() != pieces {
            assert!(std::time::Instant::now() < end, "never {pieces} pieces");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn an_io_that_stands_still_returns_the_reserve() {
        let waits = Arc::new(Waits::new(2));
        let reserve = Reserve::watch(Arc::clone(&waits)).unwrap();
        assert_eq!(reserve.pieces.held().len(), PIECES);
        let wait = waits.begin(1);
        until(&reserve, 0);
        drop(wait);
        until(&reserve, PIECES);
    }

    #[test]
    fn only_one_io_that_lasts_stands_still() {
        let waits = Waits::new(3);
        let mut before = [0; 3];
        assert!(!waits.stand_still(&mut before), "nothing in flight");
        let wait = waits.begin(2);
        assert!(!waits.stand_still(&mut before), "just begun");
        assert!(waits.stand_still(&mut before));
        drop(wait);
        let _next = waits.begin(2);
        assert!(!waits.stand_still(&mut before), "another one");
        assert!(waits.stand_still(&mut before));
    }
}
