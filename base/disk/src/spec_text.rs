//! Reads and writes disk specifications as TOML. Errors name file, line, field and the allowed
//! values.

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::device::{DeviceSpec, Kind};
use crate::spec::{DiskSpec, Source};
use crate::spec_check::{Checked, RangeError};
use crate::volume_spec::VolumeSpec;

/// A specification that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {field}: {what}")]
pub struct SpecError {
    /// The caller's name for the text.
    pub file: String,
    /// Line, from 1. It is 1 if something is missing from the whole text.
    pub line: usize,
    /// Dotted path of the field, if known.
    pub field: String,
    /// The fault and the allowed values.
    pub what: String,
}

struct Text<'a> {
    file: &'a str,
    text: &'a str,
}

impl Text<'_> {
    fn error(&self, offset: usize, field: String, what: String) -> SpecError {
        let before = self.text.as_bytes().iter().take(offset);
        let line = 1 + before.filter(|&&b| b == b'\n').count();
        SpecError { file: self.file.to_owned(), line, field, what }
    }

    fn table(&self) -> Result<Spanned<DeTable<'_>>, SpecError> {
        DeTable::parse(self.text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            self.error(at, "TOML".to_owned(), e.message().to_owned())
        })
    }

    fn read<S: DeserializeOwned>(
        &self,
        check: fn(&S) -> Checked,
        sources: fn(&S) -> &[Source],
    ) -> Result<S, SpecError> {
        let table = self.table()?;
        let table = table.get_ref();
        let spec: S = toml::from_str(self.text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            // An error in a whole table is at its bracket, before its name.
            let field = (at..at + 3).find_map(|at| path_at(table, at));
            let field = field.unwrap_or_else(|| "file".to_owned());
            self.error(at, field, e.message().to_owned())
        })?;
        check(&spec).map_err(|RangeError { field, found, allowed }| {
            let what = format!("{found} is out of range; allowed: {allowed}");
            self.error(nearest(table, &field), field, what)
        })?;
        if let Some(field) = unsourced(sources(&spec), table) {
            let what = "has no source; name it in the `fields` of a [[source]]".to_owned();
            return Err(self.error(nearest(table, &field), field, what));
        }
        Ok(spec)
    }

    fn disk(&self) -> Result<DiskSpec, SpecError> {
        self.read(DiskSpec::validate, |s| &s.sources)
    }
}

impl DeviceSpec {
    /// Reads and checks a specification of any kind. `kind` names the kind; without it, the device
    /// is a disk.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        let source = Text { file, text };
        let table = source.table()?;
        let kind = match table.get_ref().get("kind") {
            None => Kind::Disk,
            Some(value) => {
                let name = value.get_ref().as_str().unwrap_or_default();
                Kind::ALL.into_iter().find(|k| k.name() == name).ok_or_else(|| {
                    let all = Kind::ALL.map(Kind::name).join(", ");
                    let what = format!("is not a kind of device; allowed: {all}");
                    source.error(value.span().start, "kind".to_owned(), what)
                })?
            }
        };
        if kind.is_mechanical() {
            source.disk().map(Self::Disk)
        } else {
            source.read(VolumeSpec::validate, |s| &s.sources).map(Self::Volume)
        }
    }

    /// Formats the specification as TOML that [`Self::parse`] reads.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}

impl DiskSpec {
    /// Reads and checks a specification. `file` is the name of the text in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        Text { file, text }.disk()
    }

    /// Formats the specification as TOML that [`Self::parse`] reads.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}

/// The first value without a source.
fn unsourced(sources: &[Source], table: &DeTable<'_>) -> Option<String> {
    let covered = |path: &str| {
        sources.iter().flat_map(|s| &s.fields).any(|f| {
            path.strip_prefix(f.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    };
    let mut missing = None;
    walk(table, "", &mut |path, _, value| {
        let leaf = !matches!(value.get_ref(), DeValue::Table(_))
            && !path.starts_with("source")
            && !["kind", "name", "title", "seek.kind", "operations.rule"].contains(&path)
            && !is_table_array(value.get_ref());
        // Sources name zones without their index.
        let bare: String = strip_indices(path);
        if leaf && missing.is_none() && !covered(&bare) {
            missing = Some(path.to_owned());
        }
    });
    missing
}

fn strip_indices(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            c if !inside => out.push(c),
            _ => {}
        }
    }
    out
}

fn is_table_array(value: &DeValue<'_>) -> bool {
    matches!(value, DeValue::Array(a) if a.iter().any(|v| matches!(v.get_ref(), DeValue::Table(_))))
}

/// Calls `f` for every value that has a key, with the dotted path of the value and the byte where
/// the key begins. Outer values come first.
fn walk<'a, 't>(
    table: &'a DeTable<'t>,
    prefix: &str,
    f: &mut impl FnMut(&str, usize, &'a Spanned<DeValue<'t>>),
) {
    for (key, value) in table {
        let name = key.get_ref();
        let path = if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
        f(&path, key.span().start, value);
        match value.get_ref() {
            DeValue::Table(inner) => walk(inner, &path, f),
            DeValue::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    let path = format!("{path}[{i}]");
                    if let DeValue::Table(inner) = item.get_ref() {
                        walk(inner, &path, f);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The path of the innermost value at a byte.
fn path_at(table: &DeTable<'_>, offset: usize) -> Option<String> {
    let mut best: Option<(Range<usize>, String)> = None;
    walk(table, "", &mut |path, start, value| {
        let span = start..value.span().end;
        let tighter = best.as_ref().is_none_or(|(b, _)| span.len() <= b.len());
        if span.contains(&offset) && tighter {
            best = Some((span, path.to_owned()));
        }
    });
    best.map(|b| b.1)
}

/// The byte of a field, or of the nearest table around it.
fn nearest(table: &DeTable<'_>, field: &str) -> usize {
    let mut best = (0, 0);
    walk(table, "", &mut |path, _, value| {
        let around = field
            .strip_prefix(path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']));
        if around && path.len() >= best.0 {
            best = (path.len(), value.span().start);
        }
    });
    best.1
}
