//! The list of hot files: plain data, kept as JSON between making it and carrying it out.

use std::path::{Component, Path};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

/// Name and version of a list.
const SCHEMA: &str = "seekless.cluster-list/1";

/// A hot file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hot {
    /// Its path below the mount point.
    pub(crate) path: String,
    /// Its number in the file system: a file made anew under its name is another.
    pub(crate) inode: u64,
    /// Bytes it stores.
    pub(crate) stored: u64,
    /// Bytes of it that were moved, the past at less.
    pub(crate) moved: u64,
}

impl Hot {
    /// Bytes moved per byte stored.
    pub(crate) fn temperature(&self) -> f64 {
        self.moved as f64 / self.stored.max(1) as f64
    }
}

/// Hot files, hottest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct List {
    schema: String,
    /// Where it was mounted, for people.
    pub(crate) mountpoint: String,
    /// Which trace, for people.
    pub(crate) trace: String,
    /// Share of the bytes that the trace moved of files here which these files have.
    pub(crate) share: f64,
    pub(crate) files: Vec<Hot>,
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

impl List {
    pub(crate) fn new(mountpoint: String, trace: String) -> Self {
        let (files, notes) = (Vec::new(), Vec::new());
        Self { schema: SCHEMA.to_owned(), mountpoint, trace, share: 0.0, files, notes }
    }

    /// Reads a list and looks whether it is one.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the list {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is no list of hot files", path.display()))
    }

    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let list: Self = serde_json::from_str(text)?;
        if list.schema != SCHEMA {
            bail!(
                "its schema is '{}', not {SCHEMA}: make it anew with --trace and --list",
                list.schema
            );
        }
        for file in &list.files {
            let plain =
                Path::new(&file.path).components().all(|c| matches!(c, Component::Normal(_)));
            if !plain || file.path.is_empty() || file.path.contains('\0') {
                bail!("'{}' is no path below a mount point", file.path);
            }
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_is_written_and_nothing_else_is_taken() {
        let mut list = List::new("/srv".into(), "t".into());
        list.files.push(Hot { path: "a/b c".into(), inode: 12, stored: 4096, moved: 8192 });
        let text = serde_json::to_string(&list).unwrap();
        assert_eq!(List::parse(&text).unwrap(), list);
        for bad in ["/etc/passwd", "../x", "a/../../b", "", "a\\u0000b"] {
            let other = text.replace("a/b c", bad);
            assert!(List::parse(&other).is_err(), "{bad}");
        }
        for bad in ["", "{}", "[]", &text.replace("list/1", "list/2"), &text.replace("4096", "-1")]
        {
            assert!(List::parse(bad).is_err(), "{bad}");
        }
    }
}
