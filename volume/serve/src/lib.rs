//! The live volume: served over NBD and as a FUSE file, on real or emulated disks.
//!
//! One thread owns one volume. This thread waits for sockets, worker threads, the emulated disk and
//! commands together. The thread takes all requests in a socket, answers at once if the page cache
//! has the data, and sends all replies of a round in one call. A request takes no lock. After
//! warm-up, a page-cache hit allocates no memory. The engine decides where data move; this crate
//! moves the data.
//!
//! ```no_run
//! use seekless_serve::{Backing, Builder};
//! let server = Builder::new(Backing::Path("disk.img".into()))
//!     .listen("unix:disk.sock".parse()?)
//!     .spawn()?;
//! println!("{} served", server.size());
//! server.stop()?;
//! # Ok::<(), seekless_serve::ServeError>(())
//! ```
#![deny(unsafe_code)]

pub mod adopt;
pub mod area;
mod backend;
mod buffers;
mod builder;
mod calibration;
pub mod capture;
pub mod client;
mod conn;
pub mod control;
mod error;
pub mod ext;
pub mod extents;
mod fuse;
mod handle;
mod host_end;
pub mod http;
mod learner;
mod listen;
mod memory;
mod memory_file;
mod memory_shares;
mod observe;
mod payload;
mod policy_guard;
mod poll_or_sleep;
mod reply_buffers;
mod server;
mod shadow;
pub mod status;
mod stop_in_order;
mod tap;
mod tls;
mod ublk;
mod verdict;
mod volume;
mod watch;

pub use backend::emulated::{DiskStats, HeadSample};
pub use backend::identity::on_one_disk;
pub use backend::lateness::Lateness;
pub use backend::remote::NbdUri;
pub use builder::{Backing, Builder, Emulation, HostQueue, MakeShadow};
pub use error::ServeError;
pub use fuse::{FuseMount, MountPoint};
pub use handle::{Injector, ServerHandle};
pub use host_end::HostEnd;
pub use learner::Learning;
pub use listen::Address;
pub use memory_file::{MemoryFile, Say};
pub use observe::Streams;
pub use server::{AdaptiveCounts, AreaStats, Job, Reply, ServerStats};
pub use shadow::{Compared, Counted, Shadow, StandIn, disk_shadow};
pub use stop_in_order::{Ending, StopReply};
pub use tap::IoSample;
pub use tls::TlsFiles;
pub use ublk::{UblkDevice, UblkPoint};
pub use volume::IoFailure;
pub use watch::{About, Board};
