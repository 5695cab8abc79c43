//! Memory that a server returns to the kernel when its own I/O stands still.
//!
//! A server's write to a file may need memory in the kernel: ext4 reads the bitmap of a block group
//! before the first block is taken from this group. The kernel charges these pages to the control
//! group of the server. If the group is full of dirty pages of the server's own volume, only the
//! server can free memory, and waits for it. The reserve ends such a wait: its pages are charged to
//! the same group. The other programs of the group wait for their dirty pages, so the server gets
//! the pages first. The kernel may swap the reserve out: then it frees swap space alone.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, park_timeout};
use std::time::Duration;

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

use crate::error::{HostError, cannot};
use crate::pressure;

/// If no I/O begins or ends from one look to the next, they stand still. A slow disk may look the
/// same: then the server returns a part of the reserve in vain, and takes it again.
const LOOK: Duration = Duration::from_millis(500);
/// The kernel charges 256 KiB to a group at once, if the group has them.
const PIECE_BYTES: u64 = 512 << 10;
const PIECES: usize = 8;
/// The memory of a whole reserve, in bytes.
pub const RESERVE_BYTES: u64 = PIECE_BYTES * PIECES as u64;
/// What the group must have before the reserve takes memory again.
const ROOM_BYTES: u64 = 4 * RESERVE_BYTES;
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

    /// Whether there are I/Os, and none has begun or ended since the last look. `before`: the
    /// counters at that time.
    fn stand_still(&self, before: &mut [u64]) -> bool {
        let (mut waits, mut moved) = (false, false);
        for (count, before) in self.0.iter().zip(before) {
            let now = count.load(Ordering::Relaxed);
            waits |= !now.is_multiple_of(2);
            moved |= now != *before;
            *before = now;
        }
        waits && !moved
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

/// Memory that belongs to a file without a name. Memory of the process itself would be no better,
/// and worse while it is taken: the kernel locks the map of the process meanwhile.
fn piece() -> rustix::io::Result<OwnedFd> {
    let file = memfd_create("seekless-reserve", MemfdFlags::CLOEXEC)?;
    fallocate(&file, FallocateFlags::empty(), 0, PIECE_BYTES)?;
    Ok(file)
}

/// What the thread of a reserve holds and knows.
struct Watch {
    waits: Arc<Waits>,
    before: Vec<u64>,
    held: Vec<OwnedFd>,
}

impl Watch {
    fn new(waits: Arc<Waits>) -> Self {
        let before = vec![0; waits.len()];
        let mut watch = Self { waits, before, held: Vec::with_capacity(PIECES) };
        (0..PIECES).for_each(|_| watch.take());
        watch
    }

    /// Takes one piece, if one is missing and the kernel has memory without waiting for writes, and
    /// without ending a program.
    fn take(&mut self) {
        let has_room = || pressure::group_room().is_none_or(|bytes| bytes >= ROOM_BYTES);
        if self.held.len() < PIECES
            && has_room()
            && let Ok(piece) = piece()
        {
            self.held.push(piece);
        }
    }

    /// Returns a piece if the I/Os stand still, else takes one.
    fn look(&mut self) {
        if self.waits.stand_still(&mut self.before) {
            self.held.pop();
        } else {
            self.take();
        }
    }
}

/// The reserve of a server. Dropping the reserve returns all of it.
#[derive(Debug)]
pub struct Reserve {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reserve {
    /// Takes [`RESERVE_BYTES`], or less if the kernel has no more, and watches these threads.
    /// # Errors
    /// No thread can be started.
    pub fn watch(waits: Arc<Waits>) -> Result<Self, HostError> {
        let ends = Arc::<AtomicBool>::default();
        let (mut watch, end) = (Watch::new(waits), Arc::clone(&ends));
        let work = move || {
            while !end.load(Ordering::Relaxed) {
                park_timeout(LOOK);
                watch.look();
            }
        };
        let thread = std::thread::Builder::new().name("seekless-reserve".into());
        let thread = thread.stack_size(STACK_BYTES).spawn(work);
        let thread = Some(thread.map_err(cannot("start the thread of the memory reserve"))?);
        Ok(Self { ends, thread })
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It does not panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ios_that_stand_still_return_the_reserve_piece_by_piece() {
        let mut watch = Watch::new(Arc::new(Waits::new(2)));
        assert_eq!(watch.held.len(), PIECES);
        let waits = Arc::clone(&watch.waits);
        let wait = waits.begin(1);
        watch.look();
        assert_eq!(watch.held.len(), PIECES, "just begun");
        for left in (0..PIECES).rev().chain([0]) {
            watch.look();
            assert_eq!(watch.held.len(), left);
        }
        drop(wait);
        for held in (1..=PIECES).chain([PIECES]) {
            watch.look();
            assert_eq!(watch.held.len(), held);
        }
    }

    #[test]
    fn ios_stand_still_if_none_begins_or_ends() {
        let waits = Waits::new(3);
        let mut before = [0; 3];
        assert!(!waits.stand_still(&mut before), "nothing in flight");
        let _wait = waits.begin(2);
        assert!(!waits.stand_still(&mut before), "just begun");
        assert!(waits.stand_still(&mut before));
        drop(waits.begin(0));
        assert!(!waits.stand_still(&mut before), "another one has ended");
        assert!(waits.stand_still(&mut before));
    }
}
