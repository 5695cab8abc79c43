//! An area as a whole: make, attach, examine, repair. The other modules handle an attached area.

pub(crate) mod attach;
pub(crate) mod checkpoint_pages;
pub(crate) mod examine;
pub(crate) mod guarding;
pub(crate) mod proof;
pub(crate) mod recover;
mod recover_log;
pub(crate) mod salvage;
