//! `seekless disk` through the binary, as a person or a script uses it: what it prints, what it refuses.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "tests fail by panic"
)]

mod faults;
mod fit;
mod support;
mod validate;
