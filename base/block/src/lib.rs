//! The basic types of seekless: units, extents, requests and the device trait.
//!
//! The crate contains no policy, no file format and no clock. Time is in integer nanoseconds,
//! energy in integer picojoules (milliwatt x nanosecond), and addresses are sectors of 512 bytes.
//! Floats are only for numbers in reports.
#![forbid(unsafe_code)]

mod device;
mod extent;
mod mix;
mod named;
mod request;
mod size;
mod toll;
mod units;

pub use device::{Device, DeviceError, MemDevice};
pub use extent::Extent;
pub use mix::{Dice, mix};
pub use request::{Flags, Op, Request, StreamId};
pub use size::{format_size, parse_size};
pub use toll::Toll;
pub use units::{
    Bytes, Duration, Energy, Lba, PAGE_BYTES, PAGE_SECTORS, Power, SECTOR_BYTES, Sectors, SimTime,
};
