//! Workloads by name: built in, or in a file.

use std::io;
use std::path::{Path, PathBuf};

use crate::personality::preset;
use crate::{Personality, TextError, presets};

/// Why there is no workload of a name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum NamedError {
    #[error("'{name}' is neither a file nor a workload; there are: {known}")]
    Unknown { name: String, known: String },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is not a text file", .0.display())]
    NoText(PathBuf),
    #[error(transparent)]
    Text(#[from] TextError),
}

/// The workload of this name, or in the file of this path: TOML, or Filebench's language if its
/// name ends with `.f`.
///
/// # Errors
/// If there is no such workload, or the file is none.
pub fn named(name: &str) -> Result<Personality, NamedError> {
    if let Some(found) = preset(name) {
        return Ok(found?);
    }
    let path = Path::new(name);
    if !path.exists() {
        let known = presets().iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
        return Err(NamedError::Unknown { name: name.to_owned(), known });
    }
    let bytes =
        std::fs::read(path).map_err(|source| NamedError::Read { path: path.to_owned(), source })?;
    let text = String::from_utf8(bytes).map_err(|_| NamedError::NoText(path.to_owned()))?;
    let is_wml = path.extension().is_some_and(|e| e == "f");
    Ok(if is_wml { Personality::wml(name, &text)? } else { Personality::toml(name, &text)? })
}
