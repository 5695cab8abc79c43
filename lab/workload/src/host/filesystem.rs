//! File systems as data: the commands that make, mount and check each, and the names of its
//! options.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config_text::{self, ConfigText, Parsed, TextError};

pub(crate) const BUILT_IN: &str = include_str!("../../filesystems.toml");

/// A file system.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FsKind {
    /// Its name in specifications.
    pub name: String,
    /// Its type in the kernel.
    pub kernel: String,
    /// The short name in tables, as in the paper: `e2`, `x`.
    pub short: String,
    /// Command that creates the file system; `{options}` and `{device}` are replaced.
    pub make: Vec<String>,
    /// Command that prints the version of the program that creates it.
    #[serde(default)]
    pub version: Vec<String>,
    /// Command that mounts it, if it is not `mount -t KERNEL -o OPTIONS DEVICE DIR`. `{options}`,
    /// `{device}` and `{dir}` are replaced.
    #[serde(default)]
    pub mount_by: Vec<String>,
    /// Command of this project that mounts a directory of it over itself, and prints `mounted`.
    /// `{seekless}` is this program, `{dir}` the directory, `{beside}` a path outside it on the same
    /// file system, and `{space}` a quarter of the free space there, at most 1 GiB.
    #[serde(default)]
    pub over: Vec<String>,
    /// Command that checks it without changes; it succeeds if there is no fault.
    #[serde(default)]
    pub check: Vec<String>,
    /// Minimum size of a device, in bytes.
    #[serde(default)]
    pub least_bytes: u64,
    /// Format options by name: arguments of the command.
    #[serde(default)]
    pub format: BTreeMap<String, Vec<String>>,
    /// Mount options by name.
    #[serde(default)]
    pub mount: BTreeMap<String, String>,
}

/// Most bytes of a store beside a mounted directory.
const SPACE_MOST: u64 = 1 << 30;

/// All known file systems.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FsTable {
    /// In the order of the file.
    pub filesystem: Vec<FsKind>,
}

impl FsTable {
    /// The built-in file systems.
    ///
    /// # Errors
    /// None: a test reads the table.
    pub fn built_in() -> Result<Self, TextError> {
        Self::toml("filesystems.toml", BUILT_IN)
    }

    pub(crate) fn toml(file: &str, text: &str) -> Parsed<Self> {
        let table: Self = config_text::toml(file, text)?;
        for kind in &table.filesystem {
            if kind.make.is_empty() || !kind.make.iter().any(|a| a == "{device}") {
                let name = &kind.name;
                let what =
                    format!("file system '{name}': its command 'make' must contain {{device}}");
                return ConfigText { file, text }.refuse(0, what);
            }
        }
        Ok(table)
    }

    /// Finds the file system with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&FsKind> {
        self.filesystem.iter().find(|f| f.name == name)
    }

    /// Adds file systems. If two have the same name, the new one replaces the old one.
    pub(crate) fn add(&mut self, other: Vec<FsKind>) {
        self.filesystem.retain(|f| !other.iter().any(|o| o.name == f.name));
        self.filesystem.extend(other);
    }
}

impl FsKind {
    /// Arguments for the format options with these names; `None` if one is not known.
    pub(crate) fn format_args(&self, names: &[String]) -> Option<Vec<String>> {
        let all: Option<Vec<_>> = names.iter().map(|n| self.format.get(n).cloned()).collect();
        all.map(|all| all.concat())
    }

    /// Mount options with these names; `None` if one is not known.
    pub(crate) fn mount_args(&self, names: &[String]) -> Option<Vec<String>> {
        names.iter().map(|n| self.mount.get(n).cloned()).collect()
    }

    fn fill(command: &[String], options: &[String], places: &[(&str, &Path)]) -> Vec<OsString> {
        let mut args = Vec::new();
        for word in command {
            match places.iter().find(|p| p.0 == word) {
                Some((_, path)) => args.push(path.as_os_str().to_owned()),
                None if word == "{options}" => args.extend(options.iter().map(OsString::from)),
                None => args.push(word.into()),
            }
        }
        args
    }

    pub(crate) fn make_command(&self, device: &Path, options: &[String]) -> Vec<OsString> {
        Self::fill(&self.make, options, &[("{device}", device)])
    }

    pub(crate) fn mount_command(
        &self,
        device: &Path,
        dir: &Path,
        options: &[String],
    ) -> Vec<OsString> {
        let places = [("{device}", device), ("{dir}", dir)];
        if !self.mount_by.is_empty() {
            return Self::fill(&self.mount_by, options, &places);
        }
        let mut command: Vec<String> = ["mount", "-t", &self.kernel].map(str::to_owned).to_vec();
        if !options.is_empty() {
            command.extend(["-o".to_owned(), options.join(",")]);
        }
        command.extend(["{device}", "{dir}"].map(str::to_owned));
        Self::fill(&command, &[], &places)
    }

    /// The command that mounts `dir` over itself, if there is one.
    pub(crate) fn over_command(
        &self,
        program: &Path,
        dir: &Path,
        beside: &Path,
    ) -> Option<Vec<OsString>> {
        let free = rustix::fs::statvfs(beside.parent().unwrap_or(dir));
        let free = free.map_or(0, |s| s.f_bavail * s.f_frsize);
        let space = PathBuf::from(format!("{}KiB", (free / 4).min(SPACE_MOST) >> 10));
        let places =
            [("{seekless}", program), ("{dir}", dir), ("{beside}", beside), ("{space}", &space)];
        (!self.over.is_empty()).then(|| Self::fill(&self.over, &[], &places))
    }

    pub(crate) fn check_command(&self, device: &Path) -> Option<Vec<OsString>> {
        (!self.check.is_empty()).then(|| Self::fill(&self.check, &[], &[("{device}", device)]))
    }

    /// The missing requirement on this host: the program that creates it, or the kernel's driver.
    pub fn missing(&self) -> Option<String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = self.make.first()?;
        if !std::env::split_paths(&path).any(|dir| dir.join(program).is_file()) {
            return Some(format!("the program {program} is not installed"));
        }
        if !self.mount_by.is_empty() {
            return None;
        }
        let known = || std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let is_known =
            |list: String| list.lines().any(|l| l.split_whitespace().last() == Some(&self.kernel));
        if is_known(known()) {
            return None;
        }
        let _ = super::attempt(&["modprobe", "-q", &self.kernel], Path::new("/"));
        (!is_known(known())).then(|| format!("the kernel has no driver for {}", self.kernel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_rows_of_the_paper() {
        let table = FsTable::built_in().unwrap();
        for (fs, format, mount) in [
            ("ext2", &["blk1k", "blk2k", "isz1k", "bg16k"][..], &["noatime"][..]),
            ("ext3", &["blk1k", "blk2k", "isz1k", "bg16k"], &["noatime", "dtlg", "wrbck"]),
            (
                "xfs",
                &["blk1k", "blk2k", "isz1k", "agcnt8", "agcnt32", "agcnt64", "agcnt128"],
                &["noatime"],
            ),
            ("reiserfs", &["blk1k", "blk2k"], &["noatime", "notail", "nolog", "wrbck", "dtlg"]),
        ] {
            let kind = table.get(fs).unwrap();
            assert!(format.iter().all(|o| kind.format.contains_key(*o)), "{fs}");
            assert!(mount.iter().all(|o| kind.mount.contains_key(*o)), "{fs}");
        }
        let xfs = table.get("xfs").unwrap();
        let args = xfs
            .make_command(Path::new("/dev/x y"), &xfs.format_args(&["blk2k".to_owned()]).unwrap());
        assert!(
            args.iter().any(|a| a == "size=2048") && args.last().unwrap() == "/dev/x y",
            "{args:?}"
        );
        let mount =
            xfs.mount_command(Path::new("/dev/x"), Path::new("/m"), &["noatime".to_owned()]);
        assert_eq!(mount, ["mount", "-t", "xfs", "-o", "noatime", "/dev/x", "/m"]);
        assert!(xfs.format_args(&["nosuch".to_owned()]).is_none());
        assert!(
            FsTable::toml("t", "[[filesystem]]\nname='x'\nkernel='x'\nshort='x'\nmake=['mkfs']")
                .is_err()
        );
        let error = FsTable::toml("t", "[[filesystem]]\nnome='x'").unwrap_err().to_string();
        assert!(error.starts_with("t:2:1") && error.contains("name"), "{error}");
    }
}
