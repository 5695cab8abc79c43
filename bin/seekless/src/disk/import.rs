//! `seekless disk import`: converts DiskSim's drive descriptions to catalogue entries. This module
//! finds the files, and reads the new entry back as a check.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use seekless_disk::{DiskSpec, import_disksim};
use serde_json::json;

use seekless_cli::output;
use seekless_cli::text;

/// Turn a drive description of DiskSim 4.0 into a catalogue entry
///
/// The command searches the folder of the description for files that the description names with
/// `source`, or as seek curve. If the drive's file has no bus time, the command takes this time
/// from the .parv file in the same folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless disk import cheetah9LP.diskspecs -o cheetah9lp.toml
  seekless simulate week.blkparse --disk cheetah9lp.toml")]
pub(crate) struct Args {
    /// A .diskspecs; a .parv, for its first drive; or a .model for the mechanism alone
    file: PathBuf,
    /// Path of the entry; - is standard output
    #[arg(short, long, value_name = "FILE.toml", default_value = "-", value_parser = seekless_cli::args::out_file())]
    output: PathBuf,
    /// Write the entry as JSON (schema seekless.disk-import/1) to FILE, or, in place of the entry,
    /// to standard output with -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let json = args.json.as_deref();
    let json_alone = output::is_stdout(json) && output::is_stdout(Some(&args.output));
    let entry = (!json_alone).then_some(args.output.as_path());
    output::ensure_apart([entry, json], [args.file.as_path()])?;
    let spec = import(&args.file)?;
    let toml = spec.to_toml().context("cannot write TOML")?;
    let head = format!("# {}, imported from {}.\n", spec.title, args.file.display());
    let text = head + &toml;
    DiskSpec::parse(&args.output.display().to_string(), &text)?;
    if let Some(path) = entry {
        output::write(path, &text)?;
    }
    json.map_or(Ok(()), |path| {
        let file = args.file.to_string_lossy();
        let document = json!({ "schema": "seekless.disk-import/1", "file": file, "disk": spec });
        output::json(path, &document)
    })
}

/// The disk a description describes.
fn import(file: &Path) -> anyhow::Result<DiskSpec> {
    let read = text::read(file)?;
    let mut open = |wanted: &str| {
        text::beside(file, wanted).and_then(|p| text::read(&p)).map_err(|e| format!("{e:#}"))
    };
    Ok(import_disksim(&file.display().to_string(), &read, &mut open)?)
}
