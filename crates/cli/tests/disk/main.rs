//! `seekless disk` through the binary, as a person or a script uses it: what it prints, what it refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panic")]

mod faults;
mod support;
mod validate;
