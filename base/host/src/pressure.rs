//! Memory for a server whose clients are on the same host. When memory is short, the kernel lets a
//! process that asks for more wait until dirty pages are written. If these pages go to the server's
//! own volume, the server waits for itself. So such a server takes its memory before it begins, and
//! keeps it.

use rustix::mm::MlockAllFlags;
use rustix::thread::CapabilitySet;

use crate::sys;

/// Size of one piece of the reserve: below the size that the allocator maps by itself.
const PIECE_BYTES: usize = 1 << 20;

/// Prepares this process, before it starts threads: memory that is freed stays with the process,
/// and the kernel gives its threads memory without waiting for writes, where it may.
pub fn prepare() {
    sys::keep_freed_memory();
    crate::fuse_mount::serve_under_memory_pressure();
}

/// Takes `reserve` bytes for later, and locks all memory of this process, also future memory.
/// Returns what is missing, in words.
pub fn hold(reserve: usize) -> Option<&'static str> {
    let pieces: Vec<Vec<u8>> =
        std::iter::repeat_with(|| vec![1; PIECE_BYTES]).take(reserve / PIECE_BYTES).collect();
    drop(pieces);
    // A limit on locked memory would make later allocations fail.
    let may = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    let locked =
        may && rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).is_ok();
    let missing = "the server's memory is not locked (CAP_IPC_LOCK): when memory is short, programs on the mount may hang";
    (!locked).then_some(missing)
}
