//! Crash enumeration: a durable engine runs random histories over devices with volatile caches. At
//! every moment at which the devices change, some of the states that a power failure may leave are
//! recovered, and compared with the promises to clients.
//!
//! The devices and the promises are models. This module does not say how a real disk treats a
//! flush.

mod draw;
mod draw_in_place;
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

pub(crate) use explore::{Looks, Tally, explore, shrink};
pub(crate) use history::{Fault, History, HistoryStep, Slow};
pub(crate) use machine::{Machine, Mended, Placement, Refused, Setup};
pub(crate) use medium::Disk;
