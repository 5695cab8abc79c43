//! EEFS, live: a directory of an existing file system is mounted again, over itself or elsewhere.
//! Small files that are used together move to a group store beside the directory. The mount learns
//! from opened files which files these are. Clients see one file system, and each file is in
//! exactly one of the two at any time. See docs/believing/groups.md.
//!
//! From the top down: [`fuse_requests`] takes the requests of the kernel. [`name_requests`] and
//! [`data_requests`] carry them out on [`mounted_dir`], which knows inodes and open files.
//! [`shuffle`] learns and decides which files move, [`grouped_files`] moves them. [`underlying`],
//! [`inode_handle`] and [`inode_table`] are the directory and its inodes.
#![forbid(unsafe_code)]

mod check;
mod client_rights;
mod control;
mod data_requests;
mod disk_watch;
mod error;
mod fuse_requests;
pub mod fuzzing;
mod group_mount;
mod grouped_files;
mod inode_handle;
mod inode_table;
mod mounted_dir;
mod name_requests;
mod shuffle;
mod underlying;

pub use check::{Checked, check};
pub use control::{
    COMMAND_XATTR, DiskStatus, MountStatus, RETURN_COMMAND, SAVE_COMMAND, SHUFFLE_COMMAND,
    STATUS_SCHEMA, STATUS_XATTR,
};
pub use disk_watch::DiskSleep;
pub use error::MountError;
pub use group_mount::{GroupMount, MountOptions, format};
