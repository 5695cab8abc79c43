//! `seekless disk validate`: compares a disk's model with measured requests. This module reads the
//! requests and shows the result.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use seekless_disk::validate::{Measured, Measurement, compare_measured, parse_measured};
use seekless_disk::{Disk, DiskSpec};
use seekless_report::{Column, Table, Unit};
use serde_json::json;

use seekless_cli::{output, text};

/// Compare a disk's model with measured requests
///
/// INPUT is a trace of measured requests, one a line: R|W Hit|Miss|Doub|Trip SECTOR SECTORS
/// SERVICE_US THINK_US. The model serves the same requests. Each request arrives THINK_US after the
/// end of the request before.
///
/// The demerit figure compares the two distributions of service times. This figure is the root mean
/// square of the horizontal distance between their curves.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless disk validate --disk cheetah9lp.toml cheetah9LP.trace.zst --json -")]
pub(crate) struct Args {
    /// A trace of measured requests
    input: PathBuf,
    /// The disk to compare: a name from `seekless disk list`, or the path of a TOML file
    #[arg(long, value_name = "NAME")]
    disk: String,
    /// Write the numbers as JSON (schema seekless.disk-validate/1) to FILE, or to standard output
    /// with -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let inputs = seekless_cli::disk::file(&args.disk).into_iter().chain([args.input.as_path()]);
    output::ensure_apart([args.json.as_deref()], inputs)?;
    let spec = seekless_cli::disk::plain(&args.disk)?;
    let m = measured(&spec, &args.input)?;
    let value = json!({
        "schema": "seekless.disk-validate/1",
        "disk": spec.name,
        "requests": m.requests,
        "measured_ms_mean": m.measured_ms_mean,
        "model_ms_mean": m.model_ms_mean,
        "demerit_ms": m.demerit_ms,
        "demerit_share": m.demerit_share,
    });
    if !output::json_beside(args.json.as_deref(), &value)? {
        return Ok(());
    }
    let mean = |name| Column::number(name, Unit::Seconds).digits(4);
    let table = Table::of("Measured and modelled service times", [&m])
        .text("disk", |_| spec.name.as_str())
        .number("requests", Unit::Count, |m| m.requests as u64)
        .column(mean("measured mean"), |m| m.measured_ms_mean / 1e3)
        .column(mean("model's mean"), |m| m.model_ms_mean / 1e3)
        .number("demerit", Unit::Seconds, |m| m.demerit_ms / 1e3)
        .number("of mean", Unit::Share, |m| m.demerit_share);
    output::tables([&table.done()])
}

/// A disk's model beside the requests of a trace.
fn measured(spec: &DiskSpec, trace: &Path) -> anyhow::Result<Measurement> {
    let name = trace.display().to_string();
    let requests = parse_measured(&name, &text::read(trace)?)?;
    ensure!(!requests.is_empty(), "{name} holds no request");
    ensure!(
        requests.iter().any(|r| r.service_ns > 0),
        "{name}: every service time is 0; expected microseconds in column 5"
    );
    let past = |r: &Measured| {
        r.extent.start.0.checked_add(r.extent.len.0).is_none_or(|end| end > spec.capacity_sectors)
    };
    if let Some(i) = requests.iter().position(past) {
        bail!(
            "{name}: request {} ({}) passes the end of {}, which has {} sectors",
            i + 1,
            requests[i].extent,
            spec.name,
            spec.capacity_sectors
        );
    }
    let disk = Disk::new(spec)?;
    compare_measured(disk, &requests).with_context(|| format!("cannot replay {name}"))
}
