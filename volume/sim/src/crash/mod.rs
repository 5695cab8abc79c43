//! Crash enumeration: a durable engine lives random histories over devices with volatile caches; at every moment at
//! which the devices change, some of the states that a loss of power may leave are recovered from and compared with
//! what clients were promised.
//!
//! The devices and the promises are models. Nothing here says what a real disk does with a flush.

mod draw;
mod explore;
mod guarded;
mod history;
mod inspect;
mod live;
mod machine;
mod medium;
mod mend;
mod model;
mod parts;
mod world;

pub use explore::{Failure, Looks, Tally, explore, shrink};
pub use history::{Fault, History, HistoryStep, Piece, Side, Slow};
pub use machine::{Machine, Mended, Placement, Refused, Setup, Stamp};
pub use medium::Disk;
