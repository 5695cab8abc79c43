//! The group store from outside: normal use, and every power loss.
#![allow(clippy::unwrap_used)]

mod crash;
mod fixtures;
mod medium;
mod rules;
mod twin;
