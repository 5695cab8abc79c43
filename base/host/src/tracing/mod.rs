//! The kernel's tracing: a private tracefs instance, the kernel's description of its binary trace,
//! and the pages of its ring buffer.

mod error;
mod format;
mod instance;
mod page;
mod tracefs;

pub use error::TraceError;
pub use format::{Field, PageLayout, check_entries, common_type, event_id, field, number_field};
pub use instance::{Instance, Pipe, now, start_of};
pub use page::Entries;
