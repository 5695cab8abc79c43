//! A study of file systems under server workloads: the matrix to run (`spec`), the runs (`runner`,
//! `devices`), their records (`record`, `stored`), their uncertainty (`sample`), and the
//! conclusions (`tables`, `report`, `figures`).

mod devices;
mod error;
mod figures;
mod record;
mod report;
mod runner;
mod sample;
mod spec;
mod stored;
mod tables;

pub use error::StudyError;
pub use report::StudyReport;
pub use runner::{Ended, Event, RunSettings, run};
pub use spec::{Cell, DeviceKind, DeviceSpec, StudySpec, WorkloadSpec};
pub use stored::Stored;
