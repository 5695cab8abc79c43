//! Parts of both programs: arguments, output, devices by name, man pages, signals.
#![forbid(unsafe_code)]

pub mod args;
pub mod disk;
pub mod figures;
pub mod manual;
pub mod output;
pub mod signals;
pub mod similar_names;
pub mod tables;
pub mod text;
