//! Long work beside Python: it runs without the GIL, Ctrl-C ends it, and progress is shown.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use seekless_trace::Source;

/// Time between two looks for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// The progress of a stage.
#[derive(Debug, Default)]
pub(crate) struct Done {
    read: AtomicU64,
    total: AtomicU64,
}

impl Done {
    pub(crate) fn set(&self, at: seekless_trace::Progress) {
        self.total.store(at.total, Ordering::Relaxed);
        self.read.store(at.read, Ordering::Relaxed);
    }

    fn share(&self) -> f64 {
        let (read, total) = (self.read.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        if total == 0 { 0.0 } else { (read as f64 / total as f64).min(1.0) }
    }
}

/// Does the work on a thread of its own. An exception of a signal handler or of `progress`, which
/// gets shares from 0 to 1, stops the readers of the source and so ends the work.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    source: &Source,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(Source, &Done) -> T + Send,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let source = source.clone().stopped_by(Arc::clone(&stop));
    let done = Done::default();
    py.detach(|| {
        thread::scope(|scope| {
            let caller = thread::current();
            let done = &done;
            let worker = scope.spawn(move || {
                let result = work(source, done);
                caller.unpark();
                result
            });
            let mut failed = None;
            while !worker.is_finished() {
                thread::park_timeout(LOOK);
                if failed.is_none() && !worker.is_finished() {
                    failed = look(progress, done).err();
                    stop.store(failed.is_some(), Ordering::Relaxed);
                }
            }
            let result = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            failed.map_or(Ok(result), Err)
        })
    })
}

fn look(progress: Option<&Py<PyAny>>, done: &Done) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        progress.map_or(Ok(()), |call| call.call1(py, (done.share(),)).map(drop))
    })
}
