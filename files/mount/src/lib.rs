//! EEFS, live: a directory of an existing file system, mounted again, with small files that are used together kept in a
//! group store beside it. Which files these are is learned from who opens what; clients see one file system, and each of
//! its files is in exactly one of the two places, whatever happens. See docs/believing/groups.md.
//!
//! From the top down: [`front`] is asked by the kernel, [`names`] and [`content`] carry it out on [`live`], which knows
//! inodes and open files; [`shuffle`] learns and decides what moves, [`groups`] moves it and keeps the two modules one;
//! [`home`] and [`handle`] are the directory.
#![forbid(unsafe_code)]

mod check;
mod content;
mod control;
mod error;
mod front;
pub mod fuzzing;
mod group_mount;
mod groups;
mod handle;
mod home;
mod live;
mod names;
mod rest;
mod rows;
mod shuffle;

pub use check::{Checked, check};
pub use control::{DO, DiskState, RETURN, SHUFFLE, STATE, STATE_SCHEMA, State};
pub use error::MountError;
pub use group_mount::{GroupMount, MountOptions, format};
pub use rest::Sleep;
pub use shuffle::Shuffled;
