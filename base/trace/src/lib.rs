//! Readers and writers of block traces, and statistics of traces. Traces are streamed record by
//! record in constant memory.
//!
//! A [`Source`] is made from the user's text (`PATH`, `FORMAT:PATH` or `-`) and can be opened many
//! times. Formats are detected by content, and compressed files are decompressed while they are
//! read. [`stats`] describes a trace. The crate contains no cache and no disk.
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

mod collector;
mod convert;
mod detect;
mod error;
mod files;
mod formats;
mod generated;
mod held_trace;
mod input;
mod joined;
mod native;
mod reader;
mod reader_context;
mod record;
mod reorder;
mod source;
pub mod stats;
mod text_lines;
pub mod whole_file;
mod writers;

pub use collector::{Collector, Sighting};
pub use convert::{Converted, Packing, Target, convert};
pub(crate) use error::Traced;
pub use error::{Malformed, TraceError, TracePosition};
pub use files::{File, FileEvent, FileOp, FileReader};
pub use formats::Columns;
pub use generated::Generated;
pub use held_trace::{Row, TableTrace};
pub use native::StoreWriter;
pub use reader::{Info, Progress, Reader};
pub use reader_context::{Device, Example, Skipped, Stream};
pub use record::{Event, Format, OpenOptions, Record};
pub use source::Source;
