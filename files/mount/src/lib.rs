//! EEFS, live: a directory of an existing file system, mounted again, with small files that are used together kept in a
//! group store beside it. Which files these are is learned from who opens what; clients see one file system, and each of
//! its files is in exactly one of the two places, whatever happens. See docs/believing/groups.md.
//!
//! From the top down: [`front`] is asked by the kernel, [`names`] and [`content`] carry it out on [`live`], which knows
//! inodes and open files; [`shuffle`] learns and decides what moves, [`groups`] moves it and keeps the two modules one;
//! [`home`] and [`handle`] are the directory.
#![forbid(unsafe_code)]

mod check;
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
    COMMAND_XATTR, DiskStatus, MountStatus, RETURN_COMMAND, SHUFFLE_COMMAND, STATUS_SCHEMA,
    STATUS_XATTR,
};
pub use disk_watch::DiskSleep;
pub use error::MountError;
pub use group_mount::{GroupMount, MountOptions, format};
pub use shuffle::Shuffled;
