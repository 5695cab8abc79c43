//! The deterministic block engine. Time and results of I/O are arguments; I/Os to start are
//! outputs. The live server and the simulator are two loops around this one machine. Without an
//! area the engine is the vanilla system: the same RAM, the same read-ahead, no copies.
//!
//! The engine knows no clock, no thread, no file, and no byte of data but its own metadata.
//!
//! Read `core` first: RAM cache, reads, writes, the map of copies. The other modules add to it:
//! `write_buffer` (the log, destaging, flushes), `free_space` (replicas in discarded pages),
//! `background` (jobs), `area` (format, attach, examine, repair), [`format`](mod@format) (bytes on
//! the area).
#![forbid(unsafe_code)]

mod api;
mod area;
mod background;
mod core;
pub mod format;
mod free_space;
mod write_buffer;

pub use api::{
    Class, Command, Config, Fault, Input, Io, IoFailed, IoId, Memory, MemoryMove, Mode, Output,
    RequestId, Stats, Sum, Target, Trouble,
};
pub use area::attach::{
    AttachError, AttachReport, FormatOptions, Resizable, attach, divided_like, format_area,
    resizable, resize_area,
};
pub use area::examine::{
    Examined, Finding, Repair, RepairReport, examine, repair, repair_outdated, repair_report,
    restore_superblock,
};
pub use area::guarding::{GuardStep, Guarding, in_guard_region};
pub use area::proof::{HomeGuard, Proof};
pub use background::Progress;
pub use background::scrub::Scrubbed;
pub use core::{Engine, ram_pages};
pub(crate) use core::{Pending, RequestOrigin, SumFor};
pub use format::{PageSum, page_sum};
pub use free_space::replicas::{Replicated, RoomFrom, RoomPart};
