//! Mechanical disks: how long an access takes, what it costs in energy, which one a queue serves next.
//!
//! A disk here is a pure function of absolute time: where the platter stands is computed from the time
//! an access starts, never drawn or averaged. The crate knows no clock, no file, no layout policy; what
//! it computes, and what it leaves out, is written down in `docs/disk-models.md`.
#![forbid(unsafe_code)]

mod bands;
mod buffer;
pub mod catalogue;
mod check;
mod disk;
mod disksim;
mod drive;
mod energy;
pub mod fit;
mod geometry;
mod import;
mod import_layout;
mod mechanism;
mod parse;
mod queue;
mod scheduler;
mod seek;
mod spec;
mod turn;
pub mod validate;

pub use check::RangeError;
pub use disk::{Access, Disk, DiskError, Target};
pub use drive::{Command, Completion, Drive};
pub use energy::{EnergyByState, PowerStates};
pub use geometry::{Geometry, Place};
pub use import::{ImportError, import_disksim};
pub use parse::SpecError;
pub use scheduler::{ParseSchedulerError, Scheduler};
pub use seek::SeekCurve;
pub use spec::{
    ControllerSpec, DiskSpec, GeometrySpec, Mapping, MechanicsSpec, PowerSpec, ReadAhead, SeekSpec,
    Source, SourceKind, SpareRule, TreeEntry, TreeSpec, WriteBack, ZeroLatency, ZoneSpec,
};
pub use turn::Turn;
