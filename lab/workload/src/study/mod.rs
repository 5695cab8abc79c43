//! Studies of server workloads on file systems: the specification (`spec`), the runs
//! (`run_record`), their statistics (`statistics`), and the conclusions (`tables`, `effects`).
//! Input and output are plain data; the runs happen elsewhere.

mod effects;
mod run_record;
mod spec;
mod spec_toml;
mod statistics;
mod tables;

pub use effects::{Effect, Evidence, Finding, effects};
pub use run_record::{RunRecord, read_records};
pub use spec::{Cell, Combine, DeviceKind, DeviceSpec, StudySpec, WorkloadSpec};
pub use statistics::Sample;
pub use tables::{
    Best, Compared, Linearity, Measured, Quantity, Relative, Results, Row, advice_sentence,
};
