//! Jobs in parallel, one thread a processor.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The results of `each` for all jobs, in order. `progress` gets the number of finished jobs.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    jobs: &[T],
    each: impl Fn(&T) -> R + Sync,
    progress: &(dyn Fn(usize) + Sync),
) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len());
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Mutex<Vec<Option<R>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { break };
                    let result = each(job);
                    results.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(result);
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1);
                }
            });
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().flatten().collect()
}
