//! Models of disks and other storage devices: duration and energy of each access, and the order in
//! which a queue is served.
//!
//! A disk is a pure function of absolute time. The angle of the platter follows from the start time
//! of an access; it is never random or an average. The crate has no clock, no file and no layout
//! policy. The models and their limits are described in `docs/believing/disk-models.md`.
#![forbid(unsafe_code)]

mod anticipation;
mod arm_queue;
mod buffer;
pub mod catalogue;
pub mod clustering;
mod device;
mod device_summary;
mod disk;
mod disksim_import;
mod disksim_layout;
mod disksim_syntax;
mod drive;
mod dual_actuator;
mod energy;
pub mod fit;
mod geometry;
mod mechanism;
mod power_meter;
mod queue;
mod rotation;
mod scheduler;
mod seek_curve;
mod shingled;
mod spec;
mod spec_check;
mod spec_text;
mod spin_down;
mod token_bucket;
mod track_tree;
pub mod validate;
mod volume;
mod volume_spec;

pub use device::{Device, DeviceSpec, Kind};
pub use device_summary::Summary;
pub use disk::{Access, Disk, DiskError, Target};
pub use disksim_import::{ImportError, import_disksim};
pub use drive::{Command, Completion, Drive};
pub use energy::{
    ByState, EnergyByState, IdleLevel, PowerStates, Standby, TimeByState, Transition,
};
pub use geometry::{Geometry, PlatterPosition};
pub use power_meter::Usage;
pub use rotation::Spindle;
pub use scheduler::Scheduler;
pub use seek_curve::SeekCurve;
pub use spec::{
    ControllerSpec, DiskSpec, GeometrySpec, IdleLevelSpec, Mapping, MechanicsSpec, PowerSpec,
    ReadAhead, SeekSpec, ShingledSpec, Source, SourceKind, SpareRule, TreeEntry, TreeSpec,
    WriteBack, WriteElsewhereSpec, ZeroLatency, ZoneSpec,
};
pub use spec_check::RangeError;
pub use spec_text::SpecError;
pub use spin_down::{SpinDown, SpinDownError};
pub use volume::{Operations, Volume};
pub use volume_spec::{
    LimitsSpec, OperationSpec, PriceSpec, RateSpec, ServiceSpec, VolumePowerSpec, VolumeSpec,
};
