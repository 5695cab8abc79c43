//! Jobs in parallel.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::rolling::threads;

/// The results of `each` for all jobs, in order, on `workers` threads; none = one per processor.
/// `progress` gets the number of finished jobs.
pub fn in_parallel<T: Sync, R: Send>(
    jobs: &[T],
    workers: Option<NonZero<usize>>,
    each: impl Fn(&T) -> R + Sync,
    progress: &(dyn Fn(usize) + Sync),
) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results: Mutex<Vec<Option<R>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads(workers).min(jobs.len()) {
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
