//! Workloads seen from outside: their system calls as seen by strace, and any bytes given to the
//! parsers.
#![allow(clippy::unwrap_used, reason = "tests fail by panic")]

mod replay;
