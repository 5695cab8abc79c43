//! The pure part of `seekless watch`: what programs use first and in which order, how a repeated
//! job is recognized, how far to run ahead of it, and how much of this may be in vain. Events and
//! the time are arguments; orders come out. No clock, thread or file.
#![forbid(unsafe_code)]

mod chase;
mod fills;
mod guard;
mod job;
mod piece;
mod report;
mod run;
pub mod state;
mod watcher;

pub use fills::{Fills, Pages};
#[cfg(test)]
use guard::VAIN_MOST;
pub use job::{Job, Tally};
pub use piece::{DEVICE, PIECE_PAGES, Piece, PieceId};
pub use report::{JobReport, Totals};
pub use run::PageUser;
pub use watcher::{IDLE, Limits, ORDER_GROUPS, Order, Watcher};
