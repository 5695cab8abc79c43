//! EEFS: its evaluation reproduced, Tables 1 to 3, Figures 5 and 6; or the same comparison over a
//! real trace of files. The paper's traces cannot be obtained: ours are made up to match Table 1.
//! Everything is modelled.

mod claims;
mod experiments;
mod group_module;
mod group_use;
mod moves;
mod printed;
mod replay;
mod report;
mod sensitivity;
mod simulation;
mod tables;

use std::path::PathBuf;

use seekless_block::Bytes;
use seekless_disk::SpinDown;

use crate::synth::FILE_DAYS;
use crate::{PaperError, Progress, Reproduction};

pub use replay::FilesError;

/// The settings of the comparison.
#[derive(Clone, Debug)]
pub struct EefsOptions {
    /// Requests, files, hours, memory and the interval between shuffles, as a multiple of a day's.
    pub scale: f64,
    /// Seed of the made-up days.
    pub seed: u64,
    /// A trace of files instead of the made-up days.
    pub trace: Option<PathBuf>,
    /// Memory of each system; `None` is the memory fitted to each day times the scale, and the
    /// paper's 128 MiB for a trace.
    pub cache: Option<Bytes>,
    /// The files of a whole made-up day lie evenly in this many directories; `None` is the number
    /// fitted to each day.
    pub directories: Option<u32>,
    /// Also runs INS and RES with different directories, memory and ways of writing.
    pub sensitivity: bool,
    /// Requests from one shuffle to the next; `None` is the paper's 100,000 times the scale, and a
    /// 24th of the light day, which has fewer requests in all.
    pub shuffle: Option<u64>,
    /// When the platters stop.
    pub spin_down: SpinDown,
    /// Name of the disk in the catalogue.
    pub disk: String,
    /// The fast file system delays no write.
    pub sync: bool,
    /// A program that writes a file from its beginning empties the file first.
    pub truncate: bool,
}

/// The comparison with these settings. `command` is the command line, for the report.
///
/// # Errors
/// If the scale is outside 0.001 to 1, the trace cannot be read, or a replay fails.
pub fn reproduce(
    asked: &EefsOptions,
    command: &str,
    progress: &Progress<'_>,
) -> Result<Reproduction, PaperError> {
    let options = experiments::options(asked)?;
    let compared = experiments::compared(asked, &options, progress)?;
    let depends = experiments::sensitivity(asked, &options, progress)?;
    let rare = experiments::rare(asked, &options, progress)?;
    let parts = FILE_DAYS.map(|day| experiments::part_of(&day, asked.scale));
    let claims = rare.map(|rare| claims::judged(&compared, parts, &rare)).transpose()?;
    let results =
        report::Shown { asked, options: &options, compared: &compared, depends: &depends, claims };
    Ok(results.reproduction(command))
}
