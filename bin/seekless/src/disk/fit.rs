//! `seekless disk fit`: a disk's description from a trace with service times. This module gathers
//! samples, and writes, draws and prints the result.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use seekless_block::{Bytes, Duration, Op, Sectors};
use seekless_disk::fit::{Distance, Fit, FitError, FittedZone, Sample, SpeedFrom, fit};
use seekless_disk::validate::{Measured, parse_measured};
use seekless_report::{Basis, Table, Unit};
use seekless_trace::Source;
use serde_json::json;

use seekless_cli::args::{ReadArgs, size};
use seekless_cli::figures::access_figure;
use seekless_cli::output;
use seekless_cli::text;

/// Least milliseconds of an arm's longest seek: a change of heads takes longer.
const NO_ARM: f64 = 0.2;
/// Prefix of the path of a trace in the format of `disk validate`.
const MEASURED: &str = "measured:";

/// Describe a disk from a trace with service times
///
/// The method is that of FS2 (SOSP 2005, 4.2). The seek curve is the lower envelope of access time
/// over logical seek distance. The band above the envelope is one revolution high. Sequential reads
/// give the bandwidth of each zone. The trace should have single reads at random places, and some
/// sequential runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless disk fit msr:random-reads.csv -o mine.toml --plot mine.svg
  seekless simulate week.blkparse --disk mine.toml")]
pub(crate) struct Args {
    /// The trace: PATH, FORMAT:PATH, or - for standard input; its format must have service times.
    /// measured:PATH is a trace in the format of `disk validate`
    trace: String,
    /// Capacity of the disk [default: up to the last sector of the trace]
    #[arg(long, value_parser = size)]
    size: Option<Bytes>,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    to: FitOutputs,
}

/// The outputs of a fit.
#[derive(Debug, clap::Args)]
pub(super) struct FitOutputs {
    /// Path of the description, in TOML
    #[arg(short, long, value_name = "FILE.toml", value_parser = seekless_cli::args::out_file())]
    output: PathBuf,
    /// Draw access time over seek distance, as FS2's Figure 8
    #[arg(long, value_name = "FILE.svg", value_parser = seekless_cli::args::out_file())]
    plot: Option<PathBuf>,
    /// Name of the disk [default: the description's file name]
    #[arg(long)]
    name: Option<String>,
    /// Write the results as JSON (schema seekless.disk-fit/1) to FILE, or to standard output with -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let measured = args.trace.strip_prefix(MEASURED).map(PathBuf::from);
    let input = measured.unwrap_or_else(|| Source::new(&args.trace).path().to_owned());
    args.to.ensure_apart(&input)?;
    let samples = samples(args)?;
    let capacity = args.size.map_or(0, |b| b.sectors_ceil().0);
    args.to.hand_out(capacity, &samples, &format!("fitted to the accesses of {}", args.trace))
}

fn samples(args: &Args) -> anyhow::Result<Vec<Sample>> {
    let samples = match args.trace.strip_prefix(MEASURED) {
        Some(path) => measured(Path::new(path))?,
        None => traced(args)?,
    };
    ensure!(
        !samples.is_empty(),
        "{}: no read or write with a service time; a fit needs them",
        args.trace
    );
    Ok(samples)
}

/// The requests that `disk validate` compares with a model.
fn measured(path: &Path) -> anyhow::Result<Vec<Sample>> {
    let requests = parse_measured(&path.display().to_string(), &text::read(path)?)?;
    let sample =
        |m: Measured| Sample { op: m.op, extent: m.extent, service: Duration(m.service_ns) };
    Ok(requests.into_iter().map(sample).collect())
}

fn traced(args: &Args) -> anyhow::Result<Vec<Sample>> {
    let mut reader = Source::new(&args.trace).open(&args.read.options())?;
    let mut samples = Vec::new();
    let mut device = None;
    while let Some(record) = reader.next_record()? {
        let name = reader.devices().get(record.device as usize).map(|d| d.name.as_str());
        if args.read.device.as_deref().is_some_and(|wanted| name != Some(wanted)) {
            continue;
        }
        let first = *device.get_or_insert(record.device);
        if first != record.device {
            let names: Vec<&str> = reader.devices().iter().map(|d| d.name.as_str()).collect();
            bail!(
                "{} has several devices ({}): choose one with --device",
                args.trace,
                names.join(", ")
            );
        }
        if let (Op::Read | Op::Write, Some(service)) = (record.request.op, record.service) {
            samples.push(Sample { op: record.request.op, extent: record.request.extent, service });
        }
    }
    Ok(samples)
}

impl FitOutputs {
    fn name(&self) -> String {
        let stem = self.output.file_stem().map(|s| s.to_string_lossy().into_owned());
        let name = self.name.clone().or(stem).unwrap_or_default();
        let name: String =
            name.chars().map(|c| if c.is_ascii_graphic() { c } else { '-' }).collect();
        if name.is_empty() || name == "-" { "fitted".to_owned() } else { name }
    }

    /// Refuses an output that is also another one, or the input.
    pub(super) fn ensure_apart(&self, input: &Path) -> anyhow::Result<()> {
        let (json, output) = (self.json.as_deref(), Some(self.output.as_path()));
        ensure!(
            !(output::is_stdout(json) && output::is_stdout(output)),
            "the description and --json cannot both go to standard output: name a file for one of them"
        );
        output::ensure_apart([output, json, self.plot.as_deref()], [input])
    }

    /// Fits, then writes, draws and prints the result.
    pub(super) fn hand_out(
        &self,
        capacity: u64,
        samples: &[Sample],
        from: &str,
    ) -> anyhow::Result<()> {
        let (json, output) = (self.json.as_deref(), Some(self.output.as_path()));
        let fitted = fit(&self.name(), capacity, samples, from).map_err(|e| match e {
            FitError::TooFew { .. } => anyhow::Error::new(e).context("cannot fit a disk"),
            e => e.into(),
        })?;
        let longest = longest_seek(&fitted);
        ensure!(
            longest >= NO_ARM,
            "{from}: no seek of these accesses took more than {longest:.2} ms, so no arm moved: does the disk \
             have an arm, and do reads miss its cache?"
        );
        let toml = fitted.spec.to_toml().context("cannot write TOML")?;
        output::write(&self.output, &format!("# {from}.\n{toml}"))?;
        if let Some(path) = &self.plot {
            output::write(path, &access_figure(&fitted, Basis::Measured, from).svg())?;
        }
        if let Some(path) = json {
            output::json(path, &document(&fitted, from))?;
        }
        if output::is_stdout(output) || output::is_stdout(json) {
            return Ok(());
        }
        output::print(&told(&fitted))?;
        output::tables([&zones(&fitted)])
    }
}

/// The longest seek, ms.
fn longest_seek(fit: &Fit) -> f64 {
    fit.envelope.iter().map(|p| p.1).fold(0.0, f64::max)
}

/// The fit for programs; the description itself is in the TOML file.
fn document(fit: &Fit, from: &str) -> serde_json::Value {
    let zone = |z: &FittedZone| {
        json!({
            "first_sector": z.first,
            "end_sector": z.end,
            "bytes_per_s": z.sectors_per_second * 512.0,
            "sectors_per_track": z.sectors_per_track,
            "track_switch_ms": z.switch_ms,
        })
    };
    json!({
        "schema": "seekless.disk-fit/1",
        "name": fit.spec.name,
        "from": from,
        "capacity_bytes": fit.spec.capacity_sectors * 512,
        "rpm": fit.spec.mechanics.rpm,
        "rpm_from": match fit.speed_from {
            SpeedFrom::BackwardSteps => "backward-steps",
            SpeedFrom::BandHeight => "band-height",
        },
        "revolution_ms": fit.revolution_ms,
        "band_ms": fit.band_ms,
        "accesses": fit.points.len(),
        "envelope_sectors_ms": fit.envelope,
        "zones": fit.zones.iter().map(zone).collect::<Vec<_>>(),
    })
}

fn told(fit: &Fit) -> String {
    let from = match fit.speed_from {
        SpeedFrom::BackwardSteps => "from reads that step backwards",
        SpeedFrom::BandHeight => "from the height of the band",
    };
    let over = match fit.distance {
        Distance::Sectors => "sectors, cubic and line",
        Distance::Tracks => "tracks, a table",
    };
    let longest = longest_seek(fit);
    format!(
        "{}: {}, {:.2} rpm {from} (band {:.3} ms, revolution {:.3} ms), seeks up to {longest:.2} ms over {over}, {} accesses",
        fit.spec.name,
        Sectors(fit.spec.capacity_sectors).bytes(),
        fit.spec.mechanics.rpm,
        fit.band_ms,
        fit.revolution_ms,
        fit.points.len(),
    )
}

fn zones(fit: &Fit) -> Table {
    Table::of("Zones", &fit.zones)
        .number("from", Unit::Bytes, |z| z.first * 512)
        .number("to", Unit::Bytes, |z| z.end * 512)
        .number("MB/s", Unit::Number, |z| z.sectors_per_second * 512.0 / 1e6)
        .number("sectors a track", Unit::Count, |z| u64::from(z.sectors_per_track))
        .number("track switch", Unit::Seconds, |z| z.switch_ms / 1e3)
        .done()
}
