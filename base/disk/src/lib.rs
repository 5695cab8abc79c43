//! Mechanical disks: how long an access takes, what it costs in energy, which one a queue serves next.
//!
//! A disk here is a pure function of absolute time: where the platter stands is computed from the time
//! an access starts, never drawn or averaged. The crate knows no clock, no file, no layout policy; what
//! it computes, and what it leaves out, is written down in `docs/believing/disk-models.md`.
#![forbid(unsafe_code)]

mod anticipation;
mod arm;
mod bands;
mod bucket;
mod buffer;
pub mod catalogue;
mod check;
pub mod clustering;
mod device;
mod disk;
mod disksim;
mod drive;
mod dual;
mod energy;
pub mod fit;
#[doc(hidden)]
pub mod fuzzing;
mod geometry;
mod import;
mod import_layout;
mod mechanism;
mod meter;
mod parse;
mod queue;
mod scheduler;
mod seek;
mod shingled;
mod spec;
mod spin_down;
mod summary;
mod turn;
pub mod validate;
mod volume;
mod volume_spec;

pub use check::RangeError;
pub use device::{Device, DeviceSpec, Kind};
pub use disk::{Access, Disk, DiskError, Target};
pub use drive::{Command, Completion, Drive};
pub use energy::{
    ByState, EnergyByState, IdleLevel, PowerStates, Standby, TimeByState, Transition,
};
pub use geometry::{Geometry, Place};
pub use import::{ImportError, import_disksim};
pub use meter::Usage;
pub use parse::SpecError;
pub use scheduler::{ParseSchedulerError, Scheduler};
pub use seek::SeekCurve;
pub use spec::{
    ControllerSpec, DiskSpec, GeometrySpec, IdleLevelSpec, Mapping, MechanicsSpec, PowerSpec,
    ReadAhead, SeekSpec, ShingledSpec, Source, SourceKind, SpareRule, TreeEntry, TreeSpec,
    WriteBack, WriteElsewhereSpec, ZeroLatency, ZoneSpec,
};
pub use spin_down::{ParseSpinDownError, SpinDown, SpinDownError};
pub use summary::Summary;
pub use turn::Turn;
pub use volume::{Operations, Volume};
pub use volume_spec::{
    LimitsSpec, OperationSpec, PriceSpec, RateSpec, ServiceSpec, VolumePowerSpec, VolumeSpec,
};
