//! The verbs that need no live disk, run as a person runs them: the built binary, its exit code, what it
//! prints where. Knows nothing of the code behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod advise;
mod bad;
mod clustering;
mod contract;
mod convert;
mod devices;
mod exports;
mod groups;
mod honest;
mod judged;
mod papers;
mod support;
