//! EEFS's group store (D. Li and J. Wang, "A Performance-oriented Energy Efficient File System"):
//! small files that are used together form a group of one or more contiguous clusters. The store
//! reads a group whole, and writes it whole to free clusters. All other files, and all directories,
//! stay in the *other module*: an existing file system, or a model of one. [`Successors`] learns
//! which file follows which, and says which files form groups.
//!
//! [`GroupStore`] is a deterministic state machine: [`Input`]s in, [`Output`]s out; time and I/O
//! are arguments. [`StoreOnDevice`] drives the store over a [`seekless_block::Device`]. The store
//! knows no paths and no directories: a file is a [`FileNumber`], which is never used twice.
//!
//! # How a driver keeps every file in exactly one place
//!
//! The other module decides. A file of the store has a *marker* in the other module: on a mount,
//! the empty inode of the file with an extended attribute, which holds [`GroupStore::uuid`] and the
//! number of the file (EEFS has a negative inode number). Names, hard links and other extended
//! attributes stay unchanged. Setting and removing a marker are atomic operations. An entry without
//! a marker means nothing. A marker without an entry would be a lost file; the order below prevents
//! that.
//!
//! **Into the store** (a shuffle). The files are locked against writers, or the move is given up
//! after a write:
//! 1. Read the files. [`Ask::Group`] with them as [`Member::New`]; wait for [`Reply::Numbers`]:
//!    contents and entries are on stable storage, [`FileState::Arriving`]. Until the next step the
//!    bytes in the other module are the file.
//! 2. Set each marker durably. From now on the bytes in the store are the file. Then truncate the
//!    inode.
//! 3. When the truncation is durable, [`Ask::Settle`]. Nobody has to wait for that. Bytes in the
//!    inode of a settled file then mean a write by another program.
//!
//! **Out of the store** (the file is too large, in no group any more, or all files move back):
//! 1. [`Ask::Leave`]; wait: the entries are [`FileState::Leaving`] on stable storage.
//! 2. [`Ask::Read`] the contents, write them to the inode durably, then remove the marker. Clients
//!    may write in the store until the read. The removal must be durable before any client may
//!    write again: a client's fdatasync need not cover the marker. From now on the bytes in the
//!    inode are the file.
//! 3. [`Ask::Remove`]. The store commits the removal only after [`Output::SyncOther`].
//!
//! To truncate a file of the store to nothing, remove its marker: its inode is empty already.
//!
//! **A file is removed** (its last link is removed, or another file is renamed over it): first in
//! the other module, then with [`Ask::Remove`]. For an open file, `Remove` follows after its last
//! close. The store commits a removal only after the answer to [`Output::SyncOther`], so that no
//! crash brings back a marker without an entry.
//!
//! **After attaching**, before all other asks, the driver looks for the marker of each of
//! [`GroupStore::unsettled`], at the inode of the given name. With a marker: truncate the inode and
//! [`Ask::Settle`], also a file that was leaving. Without a marker: [`Ask::Remove`]. An inode that is
//! not found proves nothing, since the disk may not read it for a while: the file stays unsettled,
//! and the driver asks for no change of it before the next attach. The name must lead to the inode,
//! also after a rename of the file or of its directory: a mount's name is the inode's handle.
//!
//! **fsync** of a file of the store is [`Ask::Sync`]. A power loss before the sync of a removal may
//! leave an entry without a marker: dead weight, which the driver removes later.
#![forbid(unsafe_code)]

mod api;
mod attach;
mod cluster_map;
mod commit;
mod disk_sleep;
mod examine;
mod file_name;
pub mod format;
mod group_cache;
mod group_store;
mod groups;
mod store_on_device;
mod successors;
mod tables;

pub use api::{
    Arrival, Ask, Attributes, Config, FILE_BYTES_MAX, Fault, FileNumber, FileState,
    GROUP_FILES_MAX, Input, Io, IoId, IoPurpose, Member, NAME_BYTES_MAX, Output, Reply, RequestId,
    Stats,
};
pub use attach::{AttachError, format as format_store, superblock};
pub use disk_sleep::{DiskPhase, SleepClock, SleepStats, groups_to_read_ahead};
pub use examine::{Examined, examine};
pub use file_name::Name;
pub use group_store::GroupStore;
pub use groups::{Group, Stability};
pub use store_on_device::{OtherModule, StoreOnDevice};
pub use successors::{GroupConfig, GroupConfigError, Successors};
pub use tables::{FileEntry, TableError};
