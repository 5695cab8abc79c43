//! The group store from outside: what it does when all goes well, and what every loss of power
//! leaves.
#![allow(clippy::unwrap_used)]

mod crash;
mod fixtures;
mod medium;
mod rules;
mod twin;
