//! The specification of a study: devices, file systems with their options, workloads; and all cells
//! of this matrix.

mod read;
#[cfg(test)]
mod tests;

use serde::Deserialize;

use crate::host::{FsKind, FsTable};

/// A study's specification.
#[derive(Clone, Debug)]
pub struct StudySpec {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub about: String,
    /// Seed of all draws; run number `n` draws from seed + n.
    pub seed: u64,
    /// Least runs of each cell.
    pub least_runs: u32,
    /// Most runs of each cell, if the interval is too wide.
    pub most_runs: u32,
    /// Sufficient half-width of the 95% interval, as a share of the mean.
    pub half_width: f64,
    /// Seconds before measurement.
    pub warm_up_s: f64,
    /// Seconds of measurement.
    pub seconds: f64,
    /// Seconds of measuring power at rest, once.
    pub idle_s: f64,
    /// Power meters, as for `seekless-lab workload run --power`.
    pub power: String,
    /// Bytes of RAM for a workload and its page cache; `None` is the host's RAM.
    pub memory: Option<u64>,
    /// Whether file systems are checked after each run.
    pub check: bool,
    /// Devices.
    pub devices: Vec<DeviceSpec>,
    /// Workloads.
    pub workloads: Vec<WorkloadSpec>,
    /// File systems by name.
    pub kinds: FsTable,
    /// All cells, in order.
    pub cells: Vec<Cell>,
}

/// Combination of options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Combine {
    /// The default, and each option by itself: the paper's Table 2.
    #[default]
    OneAtATime,
    /// Every format option with every mount option.
    All,
}

/// A device of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSpec {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// Its size; unused for a block device.
    pub bytes: u64,
}

/// The kind of a device.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields are explained in the variant's text")]
pub enum DeviceKind {
    /// A sparse file of the study's folder behind a loop device; `direct_io` bypasses the host's
    /// page cache.
    Loop { direct_io: bool },
    /// A block device, whose content is lost.
    Block { path: String },
    /// A modelled disk in real time, `speed` times faster than real (`seekless disk emulate`).
    Emulated { disk: String, scheduler: String, speed: f64 },
    /// A volume of this project (`seekless serve`), with more arguments.
    Served { arguments: Vec<String> },
}

/// A workload of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSpec {
    /// Its name in tables.
    pub name: String,
    /// Name of a built-in workload, or path of a file.
    pub personality: String,
    /// As for `seekless-lab workload run`.
    pub scale: f64,
    /// As for `seekless-lab workload run`.
    pub threads: f64,
    /// Open loads in operations a second, for file systems with default options: power over load.
    pub rates: Vec<f64>,
}

/// One combination of the matrix, with several runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Device by name.
    pub device: String,
    /// File system by name.
    pub filesystem: String,
    /// Its short name.
    pub short: String,
    /// Format options by name.
    pub format: Vec<String>,
    /// Mount options by name.
    pub mount: Vec<String>,
    /// Workload by name.
    pub workload: String,
    /// Open load in operations a second; `None` is a closed load.
    pub rate: Option<f64>,
}

impl Cell {
    /// Its unique name within a study.
    pub fn id(&self) -> String {
        let rate = self.rate.map_or(String::new(), |r| format!("@{r}"));
        format!("{}/{}/{}{rate}", self.device, self.system(), self.workload)
    }

    /// File system and options in the paper's notation: `x-isz1k`, `e3-def`.
    pub(crate) fn system(&self) -> String {
        let options: Vec<_> = self.format.iter().chain(&self.mount).map(String::as_str).collect();
        let options = if options.is_empty() { "def".to_owned() } else { options.join("+") };
        format!("{}-{options}", self.short)
    }

    /// Whether the file system has default options.
    pub(crate) fn is_default(&self) -> bool {
        self.format.is_empty() && self.mount.is_empty()
    }
}

impl StudySpec {
    /// The file system of a cell.
    pub(crate) fn kind(&self, cell: &Cell) -> Option<&FsKind> {
        self.kinds.get(&cell.filesystem)
    }

    pub(crate) fn device(&self, cell: &Cell) -> Option<&DeviceSpec> {
        self.devices.iter().find(|d| d.name == cell.device)
    }

    pub(crate) fn workload(&self, cell: &Cell) -> Option<&WorkloadSpec> {
        self.workloads.iter().find(|w| w.name == cell.workload)
    }
}
