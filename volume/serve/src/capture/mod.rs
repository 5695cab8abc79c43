//! Records the requests of the kernel's block layer: a private tracefs instance with block events
//! of one device, read in binary and put in order of time. Writes to no disk.
//!
//! ```no_run
//! use seekless_serve::capture::{Config, Recorder};
//! let mut recorder = Recorder::start(&Config::new("/dev/sda"))?;
//! for _ in 0..100 {
//!     std::thread::sleep(std::time::Duration::from_millis(50));
//!     recorder.poll()?;
//!     while let Some(record) = recorder.next_record() {
//!         let who = &recorder.streams()[record.request.stream.0 as usize];
//!         println!("{} {:?}", who.name, record.request);
//!     }
//! }
//! recorder.stop()?;
//! // What was still under way comes now.
//! while let Some(record) = recorder.next_record() {
//!     println!("{:?}", record.request);
//! }
//! assert_eq!(recorder.lost_events(), 0);
//! # Ok::<(), seekless_serve::capture::CaptureError>(())
//! ```

mod device;
mod error;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod issued;
mod recorder;

pub use device::{BlockDevice, disks_below};
pub use error::CaptureError;
pub use recorder::{Config, Recorder};

/// Checks that this process may record: makes a private tracefs instance and removes it.
pub fn check() -> Result<(), CaptureError> {
    Ok(seekless_host::tracing::Instance::new().map(drop)?)
}
