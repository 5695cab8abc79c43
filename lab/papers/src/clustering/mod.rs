//! The clustering paper (Staelin and Garcia-Molina, "Clustering Active Disk Data to Improve Disk
//! Performance", CS-TR-283-90): the expected rotational delay of several requests in one cylinder
//! ([`Rotation`], counted exactly), a loaded disk, the paper's layouts by name
//! ([`Layout`]), its figures and its claims beside ours ([`reproduce`]). The module
//! [`seekless_disk::clustering`] has access distributions and seek distances.

mod claims;
mod figures;
mod load;
mod model;
mod named;
mod new_files;
mod report;
mod rotation;

use figures::{ClusteringFigure, Loaded, figures};
use load::{Load, Order, Point};

pub use figures::Effort;
pub use model::{Model, Modelled};
pub use named::Layout;
pub use report::reproduce;
pub use rotation::{Rotation, Start};
