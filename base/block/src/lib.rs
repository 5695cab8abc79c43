//! The words every room of seekless shares: units as types, the request, the device.
//!
//! This crate knows no policy, no file format, no clock. Time is integer nanoseconds, energy integer
//! picojoules (milliwatt x nanosecond), addresses are sectors of 512 bytes. Floats appear only where a
//! number leaves for a report.
#![forbid(unsafe_code)]

mod device;
mod extent;
mod request;
mod size;
mod units;

pub use device::{Device, DeviceError, MemDevice};
pub use extent::Extent;
pub use request::{Flags, Op, Request, StreamId};
pub use size::{ParseSizeError, format_size, parse_size};
pub use units::{
    Bytes, Duration, Energy, Lba, PAGE_BYTES, PAGE_SECTORS, Power, SECTOR_BYTES, Sectors, SimTime,
    UnalignedBytes,
};
