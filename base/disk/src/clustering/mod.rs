//! Accesses and arm movements when hot data is clustered: Staelin and Garcia-Molina, "Clustering
//! Active Disk Data to Improve Disk Performance" (CS-TR-283-90), as pure functions. [`Access`] has
//! the access frequency of each cylinder under a layout, [`Arm`] the cost of the seeks.
//! [`fit_mixture`] finds the mixture of normal distributions that is closest to a measured skew.
//! `docs/believing/clustering.md` explains the differences from the paper.

mod access;
mod arm;
mod fit;

pub use access::{Access, Bell, Mixture, PERFECT};
pub use arm::{Arm, Light};
pub use fit::{Fit as MixtureFit, fit as fit_mixture};
