//! A trace in Python: a file that is read again each time, or a table in memory.

use std::num::NonZero;

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_pyarrow::{PyArrowType, Table};
use pyo3::prelude::*;
use seekless_block::{Bytes, Duration};
use seekless_compare::{advise, grid, simulate, sweep};
use seekless_trace::stats::{StatOptions, characterize};
use seekless_trace::{Columns, Event, OpenOptions, Source, TraceError};

use crate::study::{NamedDisk, StudyArgs, axes, json};
use crate::work::watched;
use crate::{errors, table};

/// A trace, and how it is read.
#[pyclass(frozen, module = "seekless._native")]
pub(crate) struct Trace {
    source: Source,
    options: OpenOptions,
}

type Progress = Option<Py<PyAny>>;

#[pymethods]
impl Trace {
    /// A trace in a file: nothing is read yet.
    #[staticmethod]
    fn file(
        path: &str,
        event: &str,
        lenient: bool,
        columns: Option<&str>,
        header: bool,
    ) -> PyResult<Self> {
        let event = match event {
            "Q" => Event::Queue,
            "D" => Event::Issue,
            "C" => Event::Complete,
            other => return Err(errors::option(format!("event is '{other}'; expected Q, D or C"))),
        };
        let columns: Option<Columns> =
            columns.map(str::parse).transpose().map_err(errors::option)?;
        let columns = columns.map(|c| c.with_header(header));
        Ok(Self { source: Source::new(path), options: OpenOptions { event, lenient, columns } })
    }

    /// A trace from an Arrow stream with the columns of `table()`.
    #[staticmethod]
    fn from_stream(
        py: Python<'_>,
        name: &str,
        stream: PyArrowType<RecordBatchStreamReader>,
    ) -> PyResult<Self> {
        let reader = stream.0;
        let source = py.detach(|| table::source(name, reader)).map_err(|e| e.raise())?;
        Ok(Self { source, options: OpenOptions::default() })
    }

    /// The same trace, read into memory.
    fn held(&self, py: Python<'_>, progress: Progress) -> PyResult<Self> {
        let options = self.options;
        let source = watched(py, &self.source, progress.as_ref(), |source, done| {
            source.hold(&options, &mut |at| done.set(at))
        })?;
        // Its readers no longer end when this call is interrupted.
        Ok(Self { source: source.map_err(|e| errors::trace(&e))?.unstoppable(), options })
    }

    /// All requests as a table.
    fn table(&self, py: Python<'_>, progress: Progress) -> PyResult<PyArrowType<Table>> {
        let options = self.options;
        let table = watched(py, &self.source, progress.as_ref(), |source, done| {
            table::read(&source, &options, &mut |at| done.set(at))
        })?;
        Ok(PyArrowType(table.map_err(|e| e.raise())?))
    }

    /// Statistics, as JSON.
    fn stat(
        &self,
        py: Python<'_>,
        memory: u64,
        day_s: f64,
        size: Option<u64>,
        device: Option<String>,
        progress: Progress,
    ) -> PyResult<String> {
        if !(1e-3..=1e9).contains(&day_s) {
            return Err(errors::option(format!("day is {day_s} s; expected 0.001 to 1e9")));
        }
        let options = StatOptions {
            memory: Bytes(memory.max(16 << 20)),
            day: Duration((day_s * 1e9) as u64),
            size: size.map(Bytes),
            ..StatOptions::default()
        };
        let open = self.options;
        let path = self.source.path().to_owned();
        let summary = watched(py, &self.source, progress.as_ref(), |source, done| {
            let mut reader = source.open(&open)?;
            let mut summary =
                characterize(&mut reader, &options, device.as_deref(), &mut |at| done.set(at))?;
            if summary.trace.requests == 0 {
                let names = reader.devices().iter().map(|d| d.name.clone()).collect();
                return Err(match device {
                    Some(device) => TraceError::NoSuchDevice { path, device, names },
                    None => TraceError::Empty { path },
                });
            }
            summary.trace.path = source.path().display().to_string();
            Ok(summary)
        })?;
        json(&summary.map_err(|e| errors::trace(&e))?)
    }

    /// The outcome of a simulation, as JSON.
    fn simulate(&self, py: Python<'_>, args: StudyArgs, progress: Progress) -> PyResult<String> {
        let options = args.options(self.options)?;
        let outcome = watched(py, &self.source, progress.as_ref(), |source, done| {
            simulate(&source, &options, &mut |_, at| done.set(at))
        })?;
        json(&outcome.map_err(|e| errors::study(&e))?)
    }

    /// The outcome of each cell of a grid, as JSON, in order; the last axis changes fastest.
    fn sweep(
        &self,
        py: Python<'_>,
        args: StudyArgs,
        axes_of: Vec<(String, Vec<String>)>,
        workers: Option<usize>,
        progress: Progress,
    ) -> PyResult<Vec<String>> {
        let cells = grid(&args.options(self.options)?, &axes(&axes_of)?).map_err(errors::option)?;
        let workers = match workers {
            None => None,
            some => {
                Some(some.and_then(NonZero::new).ok_or_else(|| errors::option("workers is 0"))?)
            }
        };
        let outcomes = watched(py, &self.source, progress.as_ref(), |source, done| {
            sweep(&source, &cells, workers, &mut |_, at| done.set(at))
        })?;
        outcomes.map_err(|e| errors::study(&e))?.iter().map(json).collect()
    }

    /// The advice, as JSON.
    fn advise(
        &self,
        py: Python<'_>,
        args: StudyArgs,
        folds: u32,
        others: Vec<NamedDisk>,
        progress: Progress,
    ) -> PyResult<String> {
        let options = args.question(self.options, folds, &others)?;
        let advice = watched(py, &self.source, progress.as_ref(), |source, done| {
            advise(&source, &options, &mut |_, at| done.set(at))
        })?;
        json(&advice.map_err(|e| errors::study(&e))?)
    }
}
