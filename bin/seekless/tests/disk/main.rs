//! `seekless disk` through the binary, as a person or a script uses it: what it prints, what it refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // helpers outside #[test] functions may panic too

mod faults;
mod fit;
mod support;
mod validate;
