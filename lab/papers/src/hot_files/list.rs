//! The list of hot files: plain data, kept as JSON between making the list and applying it.

use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use super::error::HotFilesError;

/// Name and version of a list.
const SCHEMA: &str = "seekless.cluster-list/1";

/// A hot file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HotFile {
    /// Its path below the mount point.
    pub path: String,
    /// Its inode number: a new file under the same name has another number.
    pub inode: u64,
    /// Bytes stored.
    pub stored: u64,
    /// Bytes transferred; older transfers count less.
    pub moved: u64,
}

impl HotFile {
    /// Bytes transferred per byte stored.
    pub fn temperature(&self) -> f64 {
        self.moved as f64 / self.stored.max(1) as f64
    }
}

/// Hot files, hottest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct List {
    schema: String,
    /// Where the file system was mounted, for people.
    pub mountpoint: String,
    /// Name of the trace, for people.
    pub trace: String,
    /// Share of these files in all bytes that the trace transferred of files here.
    pub share: f64,
    /// The files.
    pub files: Vec<HotFile>,
    /// Remarks for people.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl List {
    pub(super) fn new(mountpoint: String, trace: String) -> Self {
        let (files, notes) = (Vec::new(), Vec::new());
        Self { schema: SCHEMA.to_owned(), mountpoint, trace, share: 0.0, files, notes }
    }

    /// Reads and checks a list.
    ///
    /// # Errors
    /// If the file cannot be read, or is no list.
    pub fn read(path: &Path) -> Result<Self, HotFilesError> {
        let text = std::fs::read_to_string(path).map_err(|source| HotFilesError::Io {
            what: "read the list",
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|why| HotFilesError::List { path: path.to_owned(), why })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let list: Self = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if list.schema != SCHEMA {
            return Err(format!(
                "its schema is '{}', not {SCHEMA}: make a new list with --trace and --list",
                list.schema
            ));
        }
        for file in &list.files {
            let plain =
                Path::new(&file.path).components().all(|c| matches!(c, Component::Normal(_)));
            if !plain || file.path.is_empty() || file.path.contains('\0') {
                return Err(format!("'{}' is not a path below a mount point", file.path));
            }
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_back_and_other_texts_are_refused() {
        let mut list = List::new("/srv".into(), "t".into());
        list.files.push(HotFile { path: "a/b c".into(), inode: 12, stored: 4096, moved: 8192 });
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
