//! What the programs `seekless` and `seekless-lab` share: arguments, output for people and
//! programs, devices by name, man pages, one question to a running server. It decides nothing about
//! data.
#![forbid(unsafe_code)]

pub mod args;
pub mod disk;
pub mod figures;
pub mod manual;
pub mod moved;
pub mod output;
pub mod signals;
pub mod text;
