//! `seekless disk`: the catalogue, and disks named on a command line. Each verb that does more than show has a
//! file of its own.

mod fit;
mod import;
mod probe;
mod text;
mod validate;

use std::path::Path;

use anyhow::bail;
use clap::Subcommand;
use seekless_block::{Duration, Sectors};
use seekless_disk::{DiskSpec, PowerStates, catalogue};
use seekless_report::{Cell, Column, Table, Unit};

pub(crate) use fit::figure;

use crate::output;

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    /// List the disks of the catalogue
    List {
        /// As JSON (schema seekless.disks/1)
        #[arg(long)]
        json: bool,
    },
    /// Show a disk's description, with the source of every value
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
}

/// The disk of this name in the catalogue, or in a TOML file of this path.
pub(crate) fn named(name: &str) -> anyhow::Result<DiskSpec> {
    if catalogue::names().any(|n| n == name) {
        return Ok(catalogue::get(name)?);
    }
    if name.ends_with(".toml") || name.contains('/') {
        let text = text::read(Path::new(name))?;
        return Ok(DiskSpec::parse(name, &text)?);
    }
    let names: Vec<&str> = catalogue::names().collect();
    bail!(
        "no disk '{name}' in the catalogue: {}; or give the path of a .toml file",
        names.join(", ")
    )
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args {
        Args::List { json: true } => {
            let disks: Result<Vec<DiskSpec>, _> = catalogue::names().map(catalogue::get).collect();
            let value = serde_json::json!({ "schema": "seekless.disks/1", "disks": disks? });
            output::print(&serde_json::to_string_pretty(&value)?)
        }
        Args::List { json: false } => {
            let mut table = Table::new(
                "Disks",
                vec![
                    Column::text("name"),
                    Column::text("disk"),
                    Column::number("capacity", Unit::Bytes),
                    Column::number("rpm", Unit::Count),
                ],
            );
            for name in catalogue::names() {
                let spec = catalogue::get(name)?;
                let bytes = Sectors(spec.capacity_sectors).bytes().0;
                table = table.row([
                    Cell::from(name),
                    Cell::from(spec.title),
                    Cell::from(bytes),
                    Cell::from(spec.mechanics.rpm),
                ]);
            }
            output::print(&table.terminal(output::width(), output::colour()))
        }
        Args::Import(args) => import::run(args),
        Args::Validate(args) => validate::run(args),
        Args::Fit(args) => fit::run(args),
        Args::Probe(args) => probe::run(args),
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
            // A comment: what is printed stays a description.
            break_even_s(&spec).map_or(Ok(()), |s| {
                output::print(&format!(
                    "\n# Break-even: resting instead of idling saves energy from {s:.1} s on."
                ))
            })
        }
    }
}

/// From how many seconds without work spinning down saves energy, where that is known.
fn break_even_s(spec: &DiskSpec) -> Option<f64> {
    PowerStates::new(&spec.power).break_even().map(Duration::as_secs_f64)
}
