//! An area as a whole: making one, attaching one, looking at one, mending one. What happens to an area that is
//! attached is not here.

pub(crate) mod attach;
pub(crate) mod checkpoint_pages;
pub(crate) mod examine;
pub(crate) mod guarding;
pub(crate) mod proof;
pub(crate) mod recover;
mod recover_log;
pub(crate) mod salvage;
