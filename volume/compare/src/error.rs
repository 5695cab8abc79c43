//! Errors of a comparison, for the user.

use seekless_block::Bytes;
use seekless_disk::RangeError;
use seekless_learn::Policy;
use seekless_sim::SimError;
use seekless_trace::TraceError;

use crate::scan::ScanError;

/// Why a comparison failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum StudyError {
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error("{path} holds no requests")]
    Empty { path: String },
    #[error("{path} has no requests of device '{device}'; its devices: {names}")]
    NoSuchDevice { path: String, device: String, names: String },
    #[error(
        "training takes all {requests} requests: nothing is left to measure; lower the share to train"
    )]
    NothingMeasured { requests: u64 },
    #[error("{path} has too few requests ({requests}) to learn from one part and measure another")]
    TooShort { path: String, requests: u64 },
    #[error(transparent)]
    Disk(#[from] RangeError),
    #[error(
        "{path} ends at sector {end}, with its devices ({devices}) end to end. With an optimized area of {area} it needs {need}; disk {disk} has {has}. Choose a larger disk, one device of the trace, or a smaller area"
    )]
    DiskTooSmall {
        path: String,
        end: u64,
        devices: u64,
        area: Bytes,
        need: Bytes,
        disk: String,
        has: Bytes,
    },
    #[error(
        "{path} fills disk {disk}: an optimized area does not fit, so there is nothing to tune; choose a larger disk or one device of the trace"
    )]
    NoRoom { path: String, disk: String },
    #[error("policy {policy} {why}")]
    Policy { policy: Policy, why: &'static str },
    #[error("with {settings}")]
    Cell {
        settings: String,
        #[source]
        source: Box<StudyError>,
    },
    #[error("policy {policy}")]
    Run {
        policy: String,
        #[source]
        source: SimError,
    },
}

impl StudyError {
    pub(crate) fn run(system: &str, source: SimError) -> Self {
        Self::Run { policy: system.to_owned(), source }
    }

    /// The error of the first pass over the trace at `path`.
    pub(crate) fn scan(error: ScanError, path: &str) -> Self {
        let path = path.to_owned();
        match error {
            ScanError::Trace(e) => Self::Trace(e),
            ScanError::Empty { device: None, .. } => Self::Empty { path },
            ScanError::Empty { device: Some(device), names } => {
                Self::NoSuchDevice { path, device, names: names.join(", ") }
            }
        }
    }
}
