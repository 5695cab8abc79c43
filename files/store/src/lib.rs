//! EEFS's group store (D. Li and J. Wang, "A Performance-oriented Energy Efficient File System"): small files that are
//! used together stand together in a group of one or more contiguous clusters; a group is read whole, and written whole
//! to where nothing stood before. All other files, and every directory, stay with the *other module*: an existing file
//! system, or a model of one. Which files form a group [`Successors`] says, which learns who follows whom.
//!
//! [`GroupStore`] is a deterministic state machine: [`Input`]s in, [`Output`]s out; time, I/O and chance are arguments. [`Store`]
//! drives it over a [`seekless_block::Device`]. It knows no path and no directory: a file is a [`FileNumber`], which
//! is never used twice.
//!
//! # How a driver keeps every file in exactly one place
//!
//! The other module decides. A file that is here leaves a *marker* in its place there: live, the file's own inode,
//! with no bytes, and an extended attribute that holds [`GroupStore::uuid`] and the file's number (EEFS has a negative inode number).
//! Names, hard links and extended attributes then stay what they are, and setting and taking away the marker are single, atomic
//! operations of the other module. An entry without a marker is nothing; a marker without an entry would be a loss, and
//! the order below never leaves one.
//!
//! **There to here** (a shuffle), with the files locked against writers, or given up when one was written meanwhile:
//! 1. Read the files. [`Ask::Group`] with them as [`Member::New`]; wait for [`Reply::Numbers`]: data and entries are on
//!    stable storage, [`FileState::Arriving`]. Until the next step the other module's bytes are the file.
//! 2. For each: set the attribute, make it durable. From here on the group store's bytes are the file. Then cut the
//!    inode to no bytes.
//! 3. When the cut is durable, [`Ask::Settle`]. Nobody need wait for it. An entry that is settled, with a marker whose inode has bytes,
//!    then says that somebody wrote there without the driver.
//!
//! **Here to there** (too large, in no group any more, or everything comes home):
//! 1. [`Ask::Leave`]; wait: the entries are [`FileState::Leaving`] on stable storage.
//! 2. [`Ask::Read`] all of it, write it into the inode, make that durable, then take the attribute away, and make that durable before
//!    any client may write: what a client's fdatasync covers need not be the attribute. From here on the inode's bytes are the file.
//! 3. [`Ask::Remove`]. It is written down only behind [`Output::SyncOther`].
//!
//! A file that is to be cut to nothing needs no more than to have its marker taken away: its inode has no bytes.
//!
//! **A file is removed** (its last link goes, or another is renamed over it): first there, then [`Ask::Remove`]. While it is open it
//! is removed there alone; `Remove` follows when it is closed for the last time. The store writes a removal down only after
//! [`Output::SyncOther`] was answered, so that no crash brings a marker back whose entry is gone.
//!
//! **After attaching**, for each of [`GroupStore::unsettled`], before anything else is asked: find the inode (by the name that was
//! given), and look for the marker. It is there: cut the inode to no bytes and [`Ask::Settle`] (also for one that was
//! leaving: it starts anew). It is not: [`Ask::Remove`]. For this a name must lead to the inode: whoever renames a directory or a file
//! settles what is on its way in it first, or tells [`Ask::Rename`].
//!
//! **fsync** of a file that is here is [`Ask::Sync`]; of one that is there, the other module's own. A removal that was not
//! synced there before a loss of power may leave an entry without a marker: dead weight, which a full check removes.
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
pub use disk_sleep::{DiskPhase, IDLE_CLASSES, SleepClock, SleepStats, ahead};
pub use examine::{Examined, examine};
pub use file_name::Name;
pub use group_store::GroupStore;
pub use groups::{Group, Stability};
pub use store_on_device::{OtherModule, StoreOnDevice};
pub use successors::{GroupConfig, GroupConfigError, Successors};
pub use tables::{FileEntry, GroupEntry, Slot, TableError};
