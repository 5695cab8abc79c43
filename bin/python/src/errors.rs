//! Errors as Python's exceptions: they carry the message, and the file and the position in it.

use std::error::Error;
use std::path::Path;

use pyo3::prelude::*;
use pyo3::types::PyType;
use seekless_compare::StudyError;
use seekless_trace::{TraceError, TracePosition};

/// A class of `seekless.errors`.
fn raise(class: &str, args: (String, Option<String>, Option<String>)) -> PyErr {
    Python::attach(|py| {
        let class = py.import("seekless.errors").and_then(|m| m.getattr(class));
        match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
            Ok(class) => PyErr::from_type(class, args),
            Err(error) => error,
        }
    })
}

/// A wrong argument.
pub(crate) fn option(message: impl Into<String>) -> PyErr {
    raise("OptionError", (message.into(), None, None))
}

/// An error and its causes.
fn chain(error: &dyn Error) -> String {
    let all = std::iter::successors(Some(error), |&e| e.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

pub(crate) fn trace(error: &TraceError) -> PyErr {
    let (path, place) = place_of(error);
    let path = path.map(|p| p.display().to_string());
    raise("TraceError", (chain(error), path, place.map(|p| p.to_string())))
}

pub(crate) fn study(error: &StudyError) -> PyErr {
    match error {
        StudyError::Trace(error) => trace(error),
        error => raise("SeeklessError", (chain(error), None, None)),
    }
}

fn place_of(error: &TraceError) -> (Option<&Path>, Option<TracePosition>) {
    match error {
        TraceError::Malformed(bad) => (Some(&bad.path), Some(bad.place)),
        TraceError::Read { path, place, .. } => (Some(path), Some(*place)),
        TraceError::Unsorted { path, place, .. } => (Some(path), *place),
        TraceError::NotGenerated { .. } => (None, None),
        TraceError::Open { path, .. }
        | TraceError::UnknownFormat { path, .. }
        | TraceError::Ambiguous { path, .. }
        | TraceError::NotOfFiles { path, .. }
        | TraceError::NoColumns { path }
        | TraceError::Empty { path }
        | TraceError::NoSuchEvent { path, .. }
        | TraceError::NoSuchDevice { path, .. }
        | TraceError::Store { path, .. }
        | TraceError::NoTimes { path }
        | TraceError::Join { path, .. }
        | TraceError::Stopped { path }
        | TraceError::WriteFailed { path, .. }
        | TraceError::Write { path, .. } => (Some(path), None),
    }
}
