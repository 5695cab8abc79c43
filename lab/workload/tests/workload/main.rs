//! Workloads as others see them: what strace sees of their system calls, and what any bytes do to the readers.
#![allow(clippy::unwrap_used, reason = "tests fail by panic")]

mod replay;
