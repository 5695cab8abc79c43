//! Errors of a comparison, for the user.

use seekless_block::Bytes;
use seekless_disk::RangeError;
use seekless_learn::Policy;
use seekless_sim::SimError;
use seekless_trace::TraceError;

use crate::scan::ScanError;

/// Why a comparison failed.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace has no requests.
    #[error("{path} holds no requests")]
    Empty {
        /// The trace.
        path: String,
    },
    /// The device asked for is not in the trace.
    #[error("{path} has no requests of device '{device}'; its devices: {names}")]
    NoSuchDevice {
        /// The trace.
        path: String,
        /// The name asked for.
        device: String,
        /// The devices in the trace.
        names: String,
    },
    /// Training takes all requests.
    #[error(
        "training takes all {requests} requests: nothing is left to measure; lower the share to train"
    )]
    NothingMeasured {
        /// Requests in the trace.
        requests: u64,
    },
    /// The trace has too few requests for folds.
    #[error("{path} has too few requests ({requests}) to learn from one part and measure another")]
    TooShort {
        /// The trace.
        path: String,
        /// Requests in the trace.
        requests: u64,
    },
    /// The disk's description is out of range.
    #[error(transparent)]
    Disk(#[from] RangeError),
    /// The disk is too small for the trace.
    #[error(
        "{path} ends at sector {end}, with its devices ({devices}) end to end. With an optimized area of {area} it needs {need}; disk {disk} has {has}. Choose a larger disk, one device of the trace, or a smaller area"
    )]
    DiskTooSmall {
        /// The trace.
        path: String,
        /// Its highest sector.
        end: u64,
        /// Number of its devices.
        devices: u64,
        /// The area.
        area: Bytes,
        /// Size of the trace and the area.
        need: Bytes,
        /// The disk's name.
        disk: String,
        /// Its size.
        has: Bytes,
    },
    /// The disk has no space beside the trace.
    #[error(
        "{path} fills disk {disk}: an optimized area does not fit, so there is nothing to tune; choose a larger disk or one device of the trace"
    )]
    NoRoom {
        /// The trace.
        path: String,
        /// The disk's name.
        disk: String,
    },
    /// A policy that the comparison cannot try.
    #[error("policy {policy} {why}")]
    Policy {
        /// The policy.
        policy: Policy,
        /// Reason, and the policies that can be tried.
        why: &'static str,
    },
    /// A cell of a sweep failed.
    #[error("with {settings}")]
    Cell {
        /// Its settings, as `key=value`.
        settings: String,
        /// Cause.
        #[source]
        source: Box<StudyError>,
    },
    /// The simulation failed.
    #[error("policy {policy}")]
    Run {
        /// The policy.
        policy: String,
        /// Cause.
        #[source]
        source: SimError,
    },
}

impl StudyError {
    /// The error of a system's simulation.
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
