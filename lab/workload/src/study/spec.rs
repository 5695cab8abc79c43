//! The specification of a study, from TOML: devices, file systems with their options, workloads;
//! and all cells of that matrix.

use crate::host::{FsKind, FsTable};
use serde::Deserialize;

/// A study's specification.
#[derive(Clone, Debug)]
pub struct StudySpec {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub about: String,
    /// Random seed; run number `n` uses seed + n.
    pub seed: u64,
    /// Minimum number of runs per cell.
    pub least_runs: u32,
    /// Maximum number of runs per cell, used while the interval is too wide.
    pub most_runs: u32,
    /// The half-width of the 95% interval that is sufficient, as a fraction of the mean.
    pub half_width: f64,
    /// Warm-up before each measurement, in seconds.
    pub warm_up_s: f64,
    /// Measured time, in seconds.
    pub seconds: f64,
    /// Time for measuring the idle power once, in seconds.
    pub idle_s: f64,
    /// Meters, in the form of `seekless-lab workload run --power`.
    pub power: String,
    /// Bytes of RAM for a workload and its page cache; `None` means the host's RAM.
    pub memory: Option<u64>,
    /// Whether to check file systems after each run.
    pub check: bool,
    /// Devices.
    pub devices: Vec<DeviceSpec>,
    /// Workloads.
    pub workloads: Vec<WorkloadSpec>,
    /// File systems, from the tables.
    pub kinds: FsTable,
    /// All cells of the matrix, in order.
    pub cells: Vec<Cell>,
}

/// The combination of options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// The default, and each option alone: the paper's Table 2.
    #[default]
    OneAtATime,
    /// Every combination of format options and mount options.
    All,
}

/// A device for file systems.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSpec {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: DeviceKind,
    /// Its size; a block device has its own.
    pub bytes: u64,
}

/// The kind of a device.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceKind {
    /// A sparse file in the study's folder, with a loop device.
    Loop {
        /// Whether the loop device bypasses the host's page cache.
        direct_io: bool,
    },
    /// A block device; its contents are lost.
    Block {
        /// Its path.
        path: String,
    },
    /// A modelled disk in real time (`seekless disk emulate`).
    Emulated {
        /// Name or file of the disk.
        disk: String,
        /// Its scheduler.
        scheduler: String,
        /// Speed factor relative to real time.
        speed: f64,
    },
    /// A volume of this project (`seekless serve`), with further arguments.
    Served {
        /// Arguments of `seekless serve`.
        arguments: Vec<String>,
    },
}

/// A workload of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSpec {
    /// Its name in tables.
    pub name: String,
    /// The name of a built-in workload, or a file.
    pub personality: String,
    /// Scale, as in `seekless-lab workload run`.
    pub scale: f64,
    /// Thread factor, as in `seekless-lab workload run`.
    pub threads: f64,
    /// Loads in operations per second, for file systems with default options: power over load.
    pub rates: Vec<f64>,
}

/// One combination, which is run several times.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Name of the device.
    pub device: String,
    /// Name of the file system.
    pub filesystem: String,
    /// Its short name.
    pub short: String,
    /// Names of its format options.
    pub format: Vec<String>,
    /// Names of its mount options.
    pub mount: Vec<String>,
    /// Name of the workload.
    pub workload: String,
    /// Open load in operations per second; `None` means a closed load.
    pub rate: Option<f64>,
}

impl Cell {
    /// The identifier of the cell in its study.
    #[must_use]
    pub fn id(&self) -> String {
        let rate = self.rate.map_or(String::new(), |r| format!("@{r}"));
        format!("{}/{}/{}{rate}", self.device, self.system(), self.workload)
    }

    /// File system and options as in the paper: `x-isz1k`, `e3-def`.
    #[must_use]
    pub fn system(&self) -> String {
        let options: Vec<_> = self.format.iter().chain(&self.mount).map(String::as_str).collect();
        let options = if options.is_empty() { "def".to_owned() } else { options.join("+") };
        format!("{}-{options}", self.short)
    }

    /// Whether the file system has its default options.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.format.is_empty() && self.mount.is_empty()
    }
}

impl StudySpec {
    /// The file system of a cell.
    #[must_use]
    pub fn kind(&self, cell: &Cell) -> Option<&FsKind> {
        self.kinds.get(&cell.filesystem)
    }

    /// The device of a cell.
    #[must_use]
    pub fn device(&self, cell: &Cell) -> Option<&DeviceSpec> {
        self.devices.iter().find(|d| d.name == cell.device)
    }

    /// The workload of a cell.
    #[must_use]
    pub fn workload(&self, cell: &Cell) -> Option<&WorkloadSpec> {
        self.workloads.iter().find(|w| w.name == cell.workload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = r#"
name = "t"
seconds = 3
[[device]]
name = "file"
kind = "loop"
size = "1GiB"
[[workload]]
personality = "webserver"
scale = 0.01
rates = [100, 200]
[[workload]]
personality = "my/oltp.f"
[[system]]
filesystem = "ext4"
format = ["blk1k"]
mount = ["noatime"]
[[system]]
filesystem = "xfs"
format = ["blk2k+agcnt64"]
"#;

    #[test]
    fn the_matrix_is_every_combination_once() {
        let spec = StudySpec::toml("t.toml", SPEC).unwrap();
        let ids: Vec<_> = spec.cells.iter().map(Cell::id).collect();
        assert_eq!(spec.cells.len(), 2 * 5 + 2 * 2, "{ids:?}");
        assert!(ids.contains(&"file/x-blk2k+agcnt64/oltp".to_owned()));
        assert!(ids.contains(&"file/e4-def/webserver@200".to_owned()));
        assert_eq!((spec.least_runs, spec.most_runs), (5, 5));
        let all =
            StudySpec::toml("t.toml", &format!("combine = 'all'\n{}", SPEC.trim_start())).unwrap();
        assert_eq!(all.cells.len(), 2 * 6 + 2 * 2);
        let one = SPEC.replace("\"xfs\"", "\"xfs\"\nworkloads = [\"oltp\"]");
        let one = StudySpec::toml("t.toml", &format!("memory = '64MiB'\n{}", one.trim_start()));
        let one = one.unwrap();
        assert_eq!((one.cells.len(), one.memory), (2 * 3 + 2 + 2, Some(64 << 20)));
        assert!(one.cells.iter().all(|c| c.filesystem != "xfs" || c.workload == "oltp"));
    }

    #[test]
    fn errors_give_the_position_and_the_allowed_values() {
        for (old, new, place, words) in [
            (
                "kind = \"loop\"",
                "kind = \"lop\"",
                "6:8",
                "expected one of `loop`, `block`, `emulated`, `served`",
            ),
            ("\"noatime\"", "\"noatimes\"", "17:10", "allowed: dtlg"),
            ("\"xfs\"", "\"xfss\"", "19:14", "allowed: ext2"),
            ("seconds = 3", "seconds = -3", "3:11", "seconds = -3 is out of range; allowed: 0.05"),
            ("scale", "scael", "10:1", "unknown field `scael`"),
            ("size = \"1GiB\"", "size = \"1 gib of it\"", "7:8", "is not a size"),
            ("size = \"1GiB\"", "path = \"/dev/sdz\"", "4:1", "needs 'size'"),
            ("name = \"t\"", "name = \"t/../x\"", "2:8", "a name is"),
            ("\"blk2k+agcnt64\"", "\"blk2k\", \"blk2k\"", "1:1", "twice"),
            ("\"xfs\"", "\"xfs\"\nworkloads = [\"web\"]", "20:14", "allowed: webserver, oltp"),
            ("[[device]]", "memory = \"1MiB\"\n[[device]]", "4:10", "16 MiB to 64 TiB"),
            ("[[device]]", "least_runs = 0\n[[device]]", "4:14", "1 to 1000"),
        ] {
            let text = SPEC.replacen(old, new, 1);
            assert_ne!(text, SPEC, "{old}");
            let e = StudySpec::toml("t.toml", &text).unwrap_err().to_string();
            assert!(e.starts_with(&format!("t.toml:{place}")) && e.contains(words), "{new}: {e}");
        }
    }
}
