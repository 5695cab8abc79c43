//! The rules, one a file. Each is a pure function of the repository.

pub(crate) mod arrows;
pub(crate) mod format;
mod licences;
mod links;
mod manifests;
mod marks;
mod plain;
mod pure;
mod readme;
mod safety;
pub(crate) mod size;
mod tour;
pub(crate) mod unsafe_code;

use crate::repo::{Finding, Repo};

type Rule = fn(&Repo) -> Vec<Finding>;

/// Every rule with the name that its findings carry.
pub(crate) const ALL: &[(&str, Rule)] = &[
    ("arrows", arrows::check),
    ("pure", pure::check),
    ("size", size::check),
    ("marks", marks::check),
    ("licences", licences::check),
    ("manifests", manifests::check),
    ("readme", readme::check),
    ("links", links::check),
    ("format", format::check),
    ("safety", safety::check),
    ("tour", tour::check),
    ("plain", plain::check),
    ("unsafe", unsafe_code::check),
];
