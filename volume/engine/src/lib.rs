//! The deterministic block engine. Time and I/O results are arguments, I/O requests are outputs; the
//! live server and the simulator are two loops around this one machine. With no area it is the vanilla
//! system: the same RAM, the same read-ahead, no copies.
//!
//! It knows no clock, no thread, no file, and no byte of data but its own metadata.
//!
//! Read `core` first: RAM cache, reads, writes, the map of copies. Everything else is built around that core:
//! `write_buffer` (the log, destaging, flushes), `free_space` (replicas in discarded pages), `background` (jobs),
//! `area` (format, attach, examine, repair), [`format`](mod@format) (bytes on the area).
#![forbid(unsafe_code)]

mod api;
mod area;
mod background;
mod core;
pub mod format;
mod free_space;
mod write_buffer;

pub use api::{
    Class, Command, Config, Fault, Input, Io, IoFailed, IoId, Memory, Mode, Move, Output,
    RequestId, Stats, Sum, Target, Trouble,
};
pub use area::attach::{
    AttachError, AttachReport, FormatOptions, attach, format_area, resize_area,
};
pub use area::examine::{Examined, Finding, Repair, RepairReport, examine, repair};
pub use area::guarding::{GuardStep, Guarding};
pub use area::proof::{HomeGuard, Proof};
pub use background::Progress;
pub(crate) use core::{Asked, Pending, Pool, SumFor};
pub use core::{Engine, ram_pages};
pub use format::{PageSum, page_sum};
pub use free_space::replicas::{Replicated, RoomFrom, RoomPart};
