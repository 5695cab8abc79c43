//! The papers that seekless unites, reproduced: one module a paper ([`borg`], [`clustering`],
//! [`eefs`], [`fast10`], [`fs2`]) with its claims, its printed numbers, its replays on modelled disks and its
//! tables. Beside them: a model of the fast file system, synthetic traces with the statistics that
//! the papers print ([`synth`]), and the clustering of hot files on a mounted file system
//! ([`hot_files`]).
#![forbid(unsafe_code)]

pub mod borg;
mod claims;
pub mod clustering;
pub mod eefs;
mod error;
pub mod fast10;
mod ffs;
pub mod fs2;
pub mod hot_files;
mod reproduction;
pub mod synth;

pub use eefs::FilesError;
pub use error::PaperError;
pub use reproduction::{AccessFigure, HeadMoves, Progress, Reproduction};
