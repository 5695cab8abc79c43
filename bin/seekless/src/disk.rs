//! `seekless disk`: the catalogue. Each verb that does more than show has its own file.

mod emulate;
mod fit;
mod import;
mod probe;
mod validate;

use clap::Subcommand;
use seekless_disk::{DeviceSpec, Kind, PowerStates, Summary, catalogue};
use seekless_report::{Table, Unit};

use seekless_cli::disk::named;
use seekless_cli::output;

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    /// List the disks of the catalogue
    #[command(
        after_help = "Examples:\n  seekless disk list\n  seekless disk list --json | jq '.disks[].name'"
    )]
    List {
        /// As JSON (schema seekless.disks/1)
        #[arg(long)]
        json: bool,
    },
    /// Show a disk's description, with the source of every value
    #[command(
        after_help = "Examples:\n  seekless disk show exos-x20\n  seekless disk show wd800jb > mine.toml"
    )]
    Show {
        /// A name from the list, or the path of a TOML file
        name: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    Import(import::Args),
    Validate(validate::Args),
    Fit(fit::Args),
    Probe(probe::Args),
    Emulate(emulate::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args {
        Args::List { json } => list(*json),
        Args::Import(args) => import::run(args),
        Args::Validate(args) => validate::run(args),
        Args::Fit(args) => fit::run(args),
        Args::Probe(args) => probe::run(args),
        Args::Emulate(args) => emulate::run(args),
        Args::Show { name, json: true } => {
            let spec = named(name)?;
            let mut value = serde_json::to_value(&spec)?;
            if let (Some(time), Some(object)) = (break_even_s(&spec), value.as_object_mut()) {
                object.insert("break_even_s".to_owned(), time.into());
            }
            output::print(&serde_json::to_string_pretty(&value)?)
        }
        Args::Show { name, json: false } => {
            let spec = named(name)?;
            match catalogue::text(name) {
                Some(text) => output::print(text)?,
                None => output::print(&spec.to_toml()?)?,
            }
            // As a comment, so that the output stays a valid description.
            break_even_s(&spec).map_or(Ok(()), |s| {
                output::print(&format!(
                    "\n# Break-even: stopping the platters saves energy in idle times above {s:.1} s."
                ))
            })
        }
    }
}

fn list(json: bool) -> anyhow::Result<()> {
    let mut devices =
        catalogue::names().map(catalogue::device).collect::<Result<Vec<DeviceSpec>, _>>()?;
    devices.sort_by_key(|spec| Kind::ALL.iter().position(|k| *k == spec.kind()));
    if json {
        let value = serde_json::json!({ "schema": "seekless.disks/1", "disks": devices });
        return output::print(&serde_json::to_string_pretty(&value)?);
    }
    let all = devices.iter().map(|spec| anyhow::Ok((spec, spec.summary()?)));
    let all = all.collect::<anyhow::Result<Vec<(&DeviceSpec, Summary)>>>()?;
    let known = |x: Option<f64>| x.unwrap_or(f64::NAN);
    let table = Table::of("Disks", &all)
        .text("name", |(spec, _)| spec.name())
        .text("kind", |(spec, _)| spec.kind().name())
        .text("capacity", |(spec, _)| spec.capacity().bytes().to_string())
        .number("rpm", Unit::Count, |(_, s)| known(s.rpm))
        .number("latency", Unit::Seconds, |(_, s)| s.latency_ms / 1e3)
        .number("MB/s", Unit::Number, |(_, s)| s.stream_mb_s)
        .number("idle", Unit::Watts, |(_, s)| known(s.idle_w))
        .number("$ a month", Unit::Number, |(_, s)| known(s.usd_per_month))
        .number("$ a million reads", Unit::Number, |(_, s)| known(s.usd_per_million_reads))
        .done();
    output::tables([&table])?;
    output::print(
        "latency: the mean seek of a disk, else that of a read; MB/s: reading in sequence, a disk on its outermost zone",
    )
}

/// The idle seconds after which spinning down saves energy, if known.
fn break_even_s(spec: &DeviceSpec) -> Option<f64> {
    let DeviceSpec::Disk(disk) = spec else { return None };
    PowerStates::new(&disk.power).break_even().map(seekless_block::Duration::as_secs_f64)
}
