//! `seekless disk validate`: compares a disk's model with measured requests, or with a folder of
//! reference runs. This module reads the files and shows the results.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use seekless_disk::validate::{
    Arrival, Comparison, Loop, Measured, Measurement, Recorded, compare, compare_measured,
    parse_arrivals, parse_measured, parse_recorded, replay,
};
use seekless_disk::{Disk, DiskSpec, Scheduler};
use seekless_report::{Cell, Column, Table, Unit};
use serde_json::{Value, json};

use seekless_cli::{output, text};

use super::import;

const SCHEMA: &str = "seekless.disk-validate/1";

/// Compare a disk's model with measured requests, or with a folder of reference runs
///
/// With --disk, INPUT is a trace of measured requests, one a line: R|W Hit|Miss|Doub|Trip SECTOR
/// SECTORS SERVICE_US THINK_US. The model serves the same requests. Each request arrives THINK_US
/// after the end of the request before.
///
/// Without --disk, INPUT is a folder of references: mech/ has runs of DiskSim's mechanics, and
/// --drives has the measured drives.
///
/// The demerit figure is the root mean square of the horizontal distance between two distributions
/// of times.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  seekless disk validate --disk cheetah9lp.toml cheetah9LP.trace.zst --json -
  seekless disk validate ../shared/reference")]
pub(crate) struct Args {
    /// A trace of measured requests, or a folder of references
    input: PathBuf,
    /// The disk to compare: a name from `seekless disk list`, or the path of a TOML file
    #[arg(long)]
    disk: Option<String>,
    /// Folder of drive descriptions and their measured requests [default: INPUT/../traces/disks]
    #[arg(long, value_name = "DIR", conflicts_with = "disk")]
    drives: Option<PathBuf>,
    /// Write the numbers as JSON (schema seekless.disk-validate/1) to FILE, or to standard output
    /// with -
    #[arg(long, value_name = "FILE|-", value_parser = seekless_cli::args::out_file())]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let (value, tables) = match &args.disk {
        Some(name) => one(&seekless_cli::disk::plain(name)?, &args.input)?,
        None if args.input.is_dir() => folder(args)?,
        None => bail!(
            "{} is no folder of references; to compare with measured requests, name the disk: --disk NAME",
            args.input.display()
        ),
    };
    if output::json_beside(args.json.as_deref(), &value)? { output::tables(tables) } else { Ok(()) }
}

fn one(spec: &DiskSpec, trace: &Path) -> anyhow::Result<(Value, Vec<Table>)> {
    let m = measured(spec, trace)?;
    let mut value = json!({ "schema": SCHEMA, "disk": spec.name });
    numbers(&mut value, &m);
    let table = Table::new("Measured and modelled service times", columns("disk"))
        .row(cells(&spec.name, &m));
    Ok((value, vec![table]))
}

/// Adds the numbers of a measurement to a JSON object.
fn numbers(value: &mut Value, m: &Measurement) {
    value["requests"] = m.requests.into();
    value["measured_ms_mean"] = m.measured_ms_mean.into();
    value["model_ms_mean"] = m.model_ms_mean.into();
    value["demerit_ms"] = m.demerit_ms.into();
    value["demerit_share"] = m.demerit_share.into();
}

fn columns(first: &str) -> Vec<Column> {
    vec![
        Column::text(first),
        Column::number("requests", Unit::Count),
        Column::number("measured mean", Unit::Seconds).digits(4),
        Column::number("model's mean", Unit::Seconds).digits(4),
        Column::number("demerit", Unit::Seconds).digits(3),
        Column::number("of mean", Unit::Share).digits(3),
    ]
}

fn cells(name: &str, m: &Measurement) -> [Cell; 6] {
    [
        Cell::from(name),
        Cell::from(m.requests as u64),
        Cell::from(m.measured_ms_mean / 1e3),
        Cell::from(m.model_ms_mean / 1e3),
        Cell::from(m.demerit_ms / 1e3),
        Cell::from(m.demerit_share),
    ]
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

/// A run of the reference simulator, by the name of its file.
struct Run {
    name: String,
    disk: String,
    workload: String,
    scheduler: Scheduler,
}

/// The ending of the file with a run's results.
const RESULTS: &str = ".req.csv.zst";

impl Run {
    /// From `DISK_mech_WORKLOAD[_drv_POLICY|_POLICY].req.csv.zst`.
    fn of(file: &str) -> Option<anyhow::Result<Self>> {
        let name = file.strip_suffix(RESULTS)?;
        let (disk, rest) = name.split_once("_mech_")?;
        let (workload, policy) = rest.split_once('_').unwrap_or((rest, "fcfs"));
        let policy = policy.strip_prefix("drv_").unwrap_or(policy);
        let policy = policy.parse().map_err(anyhow::Error::msg);
        Some(policy.with_context(|| format!("{file}: its policy")).map(|scheduler| Self {
            name: name.to_owned(),
            disk: disk.to_owned(),
            workload: workload.to_owned(),
            scheduler,
        }))
    }

    /// The arrival of its requests: mixes 16 at a time, sequential requests one by one, others at
    /// their own times.
    fn mode(&self) -> Loop {
        match self.workload.as_str() {
            w if w.contains("open") || w.starts_with("rand") => Loop::Open,
            w if w.starts_with("seq") => Loop::Closed(1),
            w if w.starts_with("mix") => Loop::Closed(16),
            _ => Loop::Open,
        }
    }

    fn compare(&self, mech: &Path, drives: &Path) -> anyhow::Result<Comparison> {
        let model = text::beside(&drives.join("x"), &format!("{}.model", self.disk))?;
        let spec = import::import(&model)?;
        let trace = mech.join(format!("{}_{}.trace.zst", self.disk, self.workload));
        let results = mech.join(format!("{}{RESULTS}", self.name));
        let requests: Vec<Arrival> =
            parse_arrivals(&trace.display().to_string(), &text::read(&trace)?)?;
        let recorded = parse_recorded(&results.display().to_string(), &text::read(&results)?)?;
        ensure!(!recorded.is_empty(), "{} holds no completed request", results.display());
        let ours = replay(Disk::new(&spec)?, self.scheduler, self.mode(), &requests)?;
        Ok(compare(&ours, &recorded))
    }
}

fn folder(args: &Args) -> anyhow::Result<(Value, Vec<Table>)> {
    let mech = args.input.join("mech");
    let drives = args.drives.clone().unwrap_or_else(|| args.input.join("../traces/disks"));
    let mut runs = Vec::new();
    for file in text::names(&mech)? {
        if let Some(run) = Run::of(&file) {
            runs.push(run?);
        }
    }
    let mut mechanical = Vec::new();
    let mut table = mechanical_table();
    for run in &runs {
        let c = run.compare(&mech, &drives).with_context(|| format!("run {}", run.name))?;
        let by_service = run.scheduler == Scheduler::Sptf;
        let times = |r: &Recorded| {
            json!({
                "seek_ms": r.seek, "rotation_ms": r.rotation,
                "transfer_ms": r.transfer, "response_ms": r.response,
            })
        };
        mechanical.push(json!({
            "run": run.name,
            "scheduler": run.scheduler.to_string(),
            "requests": c.requests,
            "reference": times(&c.reference),
            "model": times(&c.model),
            "response_demerit_share": c.response_demerit,
            "service_demerit_share": c.service_demerit,
            "judged_by": if by_service { "service" } else { "response" },
        }));
        let both = |f: fn(&Recorded) -> f64, places: usize| {
            Cell::from(format!("{:.places$} / {:.places$}", f(&c.reference), f(&c.model)))
        };
        table = table.row([
            Cell::from(format!("{} {} {}", run.disk, run.workload, run.scheduler)),
            both(|r| r.seek, 3),
            both(|r| r.rotation, 3),
            both(|r| r.transfer, 3),
            both(|r| r.response, 2),
            Cell::from(c.response_demerit),
            Cell::from(c.service_demerit),
        ]);
    }
    let (real, real_table) = real_drives(args, &drives)?;
    ensure!(
        !mechanical.is_empty() || !real.is_empty(),
        "{}: neither runs in mech/ nor measured drives in {}",
        args.input.display(),
        drives.display()
    );
    let value = json!({
        "schema": SCHEMA,
        "folder": args.input.display().to_string(),
        "mechanical": mechanical,
        "drives": real,
    });
    Ok((value, vec![table, real_table]))
}

fn mechanical_table() -> Table {
    let columns = ["seek ms", "rotation ms", "transfer ms", "response ms"].map(Column::text);
    let mut all = vec![Column::text("run")];
    all.extend(columns);
    all.push(Column::number("response off", Unit::Share).digits(2));
    all.push(Column::number("service off", Unit::Share).digits(2));
    Table::new("Mechanics: the reference simulator's means / ours", all).note(
        "Off: the demerit figure over the reference's mean. SPTF is judged by its service times: its schedules diverge with \
         the reference's drifting phase.",
    )
}

/// Every drive with a description and measured requests.
fn real_drives(args: &Args, drives: &Path) -> anyhow::Result<(Vec<Value>, Table)> {
    let published = published(&args.input.join("real/summary.csv"))?;
    let mut values = Vec::new();
    let mut all = columns("drive");
    all.push(Column::number("DiskSim's demerit", Unit::Seconds).digits(3));
    let mut table = Table::new("Real drives: measured service times and ours", all);
    let names = text::names(drives)?;
    for specs in names.iter().filter(|n| n.ends_with(".diskspecs")) {
        let stem = specs.trim_end_matches(".diskspecs");
        let stem = stem.strip_suffix("_validate").unwrap_or(stem);
        let Some(trace) = names.iter().find(|n| {
            n.strip_prefix(stem).is_some_and(|r| [".trace", ".trace.zst", ".trace.gz"].contains(&r))
        }) else {
            continue;
        };
        let spec = import::import(&drives.join(specs))?;
        let m = measured(&spec, &drives.join(trace))?;
        let theirs = published.iter().find(|p| p.0 == stem).map(|p| p.1);
        let mut value = json!({ "drive": stem });
        numbers(&mut value, &m);
        value["reference_demerit_ms"] = json!(theirs);
        values.push(value);
        let theirs = theirs.map_or(Cell::Empty, |ms| Cell::from(ms / 1e3));
        table = table.row(cells(stem, &m).into_iter().chain([theirs]));
    }
    Ok((values, table))
}

/// Drive and published demerit in milliseconds, from columns `name` and `published_rms_ms`; empty
/// without the file.
fn published(path: &Path) -> anyhow::Result<Vec<(String, f64)>> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let read = text::read(path)?;
    let mut lines = read.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| {
        head.iter()
            .position(|h| *h == name)
            .with_context(|| format!("{}:1: no column '{name}'", path.display()))
    };
    let (name, ms) = (column("name")?, column("published_rms_ms")?);
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        Some((fields.get(name)?.to_string(), fields.get(ms)?.parse().ok()?))
    };
    Ok(lines.filter_map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_by_the_names_of_their_files() {
        let run = |f: &str| Run::of(f).unwrap().unwrap();
        let r = run("atlas10k_mech_mix8k_drv_sptf.req.csv.zst");
        assert_eq!((r.disk.as_str(), r.workload.as_str()), ("atlas10k", "mix8k"));
        assert_eq!((r.scheduler, r.mode()), (Scheduler::Sptf, Loop::Closed(16)));
        let r = run("cheetah9lp_mech_mixopen8k_fcfs.req.csv.zst");
        assert_eq!((r.scheduler, r.mode()), (Scheduler::Fcfs, Loop::Open));
        assert_eq!(run("d_mech_seq64k.req.csv.zst").mode(), Loop::Closed(1));
        assert!(Run::of("summary.csv").is_none());
        assert!(Run::of("d_mech_x_drv_none.req.csv.zst").unwrap().is_err());
    }
}
