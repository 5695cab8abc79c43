//! The clustering paper (Staelin and Garcia-Molina, "Clustering Active Disk Data to Improve Disk
//! Performance", CS-TR-283-90): the expected rotational delay of several requests in one cylinder
//! ([`Rotation`], counted exactly), a loaded disk ([`Load`]), the paper's layouts by name
//! ([`Layout`]), its figures and its claims beside ours ([`reproduce`]). The module
//! [`seekless_disk::clustering`] has access distributions and seek distances.

mod claims;
mod figures;
mod load;
mod named;
mod report;
mod rotation;

use claims::{ClusteringClaim, claims};
use figures::{ClusteringFigure, figures};

pub use figures::{Effort, Loaded};
pub use load::{Load, Order, Point};
pub use named::Layout;
pub use report::reproduce;
pub use rotation::{Exact, Rotation, Start};
pub use seekless_disk::clustering::{Access, Arm, Light};
