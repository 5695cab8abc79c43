//! Where accesses fall when hot data are clustered, and how far the arm then travels: Staelin and Garcia-Molina,
//! "Clustering Active Disk Data to Improve Disk Performance" (CS-TR-283-90), as pure functions. [`Access`] says how
//! often each cylinder is accessed under a layout, [`Arm`] what the seeks cost, [`fit_mixture`] which mixture of normal
//! distributions comes closest to a measured skew.
//!
//! Knows no trace and no plan. `docs/believing/clustering.md` says where it departs from the paper, and why.

mod access;
mod arm;
mod fit;

pub use access::{Access, Bell, Mixture, PERFECT, curve_of};
pub use arm::{Arm, Light};
pub use fit::{Fit as MixtureFit, fit as fit_mixture};
