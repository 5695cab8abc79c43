//! Clustering of hot files on a mounted file system, without our device underneath: a trace tells
//! how hot each file is; the blocks of the hottest files then go to one run of free space, by
//! ext4's own call.

mod apply;
mod donor;
mod error;
mod heat;
mod list;
mod location;
mod mounted;
mod survey;
mod travel;

pub use apply::{Outcome, apply};
pub use error::HotFilesError;
pub use heat::{Choice, hottest};
pub use list::{HotFile, List};
pub use mounted::Mounted;
pub use survey::{Survey, survey};
pub use travel::{Travel, Trip};
