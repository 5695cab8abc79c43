//! Devices named on a command line: from the catalogue, or from a TOML file.

use std::path::Path;

use anyhow::bail;
use seekless_disk::{DeviceSpec, DiskSpec, Kind, catalogue};

use crate::similar_names::did_you_mean;
use crate::text;

/// The file of a device that is not in the catalogue.
pub fn file(name: &str) -> Option<&Path> {
    let is_file = name.ends_with(".toml") || name.contains('/');
    (is_file && !catalogue::names().any(|n| n == name)).then_some(Path::new(name))
}

/// The device of this name in the catalogue, or in a TOML file of this path.
pub fn named(name: &str) -> anyhow::Result<DeviceSpec> {
    if catalogue::names().any(|n| n == name) {
        return Ok(catalogue::device(name)?);
    }
    if let Some(path) = file(name) {
        return Ok(DeviceSpec::parse(name, &text::read(path)?)?);
    }
    let names: Vec<&str> = catalogue::names().collect();
    bail!(
        "no disk '{name}' in the catalogue{}: {}; or give the path of a .toml file",
        did_you_mean(name, names.iter().copied()),
        names.join(", ")
    )
}

/// As [`named`]; refuses everything but a disk with one arm and no media cache.
pub fn plain(name: &str) -> anyhow::Result<DiskSpec> {
    let spec = named(name)?;
    let kind = spec.kind();
    match spec {
        DeviceSpec::Disk(disk) if kind == Kind::Disk => Ok(disk),
        _ => bail!("{name} is of kind {kind}; this needs a disk with one arm, kind disk"),
    }
}
