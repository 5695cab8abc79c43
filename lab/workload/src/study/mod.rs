//! Server workloads on file systems: what is to be run (`spec`), what was (`record`), how sure it is (`sample`), and what
//! follows (`tables`, `effects`). Plain data in and out; running is done elsewhere.

mod effects;
mod record;
mod sample;
mod spec;
mod tables;

pub use effects::{Effect, Evidence, Finding, effects};
pub use record::{RunRecord, read_records};
pub use sample::{Sample, Welch, student_t, welch};
pub use spec::{Cell, Combine, DeviceKind, DeviceSpec, StudySpec, WorkloadSpec};
pub use tables::{
    Best, Compared, Linearity, Measured, Quantity, Relative, Results, Row, advice_sentence,
};
