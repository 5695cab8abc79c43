//! Readers and writers of block traces, and their statistics: what a disk was asked for, streamed record by
//! record in constant memory.
//!
//! A [`Source`] is made from what the user typed (`PATH`, `FORMAT:PATH` or `-`), and can be opened many
//! times. Formats are found by content, compressed files are unpacked as they are read. [`stats`] says what
//! a trace is like. This crate does not know what is done with the requests: no cache, no disk.
//!
//! ```no_run
//! use seekless_trace::{OpenOptions, Source};
//! let source = Source::new("week.blkparse.gz");
//! let mut reader = source.open(&OpenOptions::default())?;
//! while let Some(record) = reader.next_record()? {
//!     println!("{:?}", record.request);
//! }
//! # Ok::<(), seekless_trace::TraceError>(())
//! ```
#![forbid(unsafe_code)]

mod collect;
mod context;
mod convert;
mod detect;
mod error;
mod files;
mod formats;
#[doc(hidden)]
pub mod fuzzing;
mod generated;
mod input;
mod native;
mod reader;
mod record;
mod reorder;
mod source;
pub mod stats;
mod text;
mod writers;

pub use collect::{Collector, Sighting};
pub use context::{Device, Example, Skipped, Stream};
pub use convert::{Converted, Packing, Target, convert};
pub use error::{Malformed, Place, TraceError};
pub use files::{File, FileEvent, FileOp, FileReader};
pub use generated::{Generated, Generator};
pub use native::StoreWriter;
pub use reader::{Info, Progress, Reader};
pub use record::{Event, Format, OpenOptions, Record};
pub use source::Source;
