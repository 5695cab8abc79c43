//! When it pays to lay hot data together: the analysis of Staelin and Garcia-Molina, "Clustering Active Disk Data
//! to Improve Disk Performance" (CS-TR-283-90), as pure functions. Which cylinder is accessed how often under a
//! layout ([`Access`]), how far the arm then travels ([`Arm`]), what waiting for the platter costs where several
//! requests meet in a cylinder ([`Rotation`], counted exactly), and what a loaded disk makes of both ([`Load`]).
//!
//! Knows no trace and no plan. `docs/believing/clustering.md` says where it departs from the paper, and why.

mod access;
mod arm;
mod fit;
mod load;
mod named;
mod rotation;

pub use access::{Access, Bell, Mixture, PERFECT, curve_of};
pub use arm::{Arm, Light};
pub use fit::{Fit as MixtureFit, fit as fit_mixture};
pub use load::{Load, Order, Point};
pub use named::Layout;
pub use rotation::{Exact, Rotation, Start};
