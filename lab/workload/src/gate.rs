//! A bounded counting semaphore, at which threads wait for each other. Posting and taking need one
//! atomic operation if no thread has to wait.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A counting semaphore with an upper bound: Filebench's semblock and sempost.
#[derive(Debug)]
pub(crate) struct Gate {
    posts: AtomicU64,
    holds: u64,
    waiting: AtomicU64,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Gate {
    pub(crate) const fn new(holds: u64) -> Self {
        Self {
            posts: AtomicU64::new(0),
            holds,
            waiting: AtomicU64::new(0),
            lock: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Adds posts; waits while they do not fit. Returns false if the run was stopped.
    pub(crate) fn post(&self, posts: u64, stop: &AtomicBool) -> bool {
        let holds = self.holds.max(posts);
        self.change(|p| (p + posts <= holds).then_some(p + posts), stop)
    }

    /// Takes posts; waits until they are available. Returns false if the run was stopped.
    pub(crate) fn take(&self, posts: u64, stop: &AtomicBool) -> bool {
        self.change(|p| p.checked_sub(posts), stop)
    }

    /// Wakes all waiting threads, so that they see a stop.
    pub(crate) fn wake(&self) {
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }

    fn change(&self, to: impl Fn(u64) -> Option<u64>, stop: &AtomicBool) -> bool {
        let try_now = || self.posts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, &to).is_ok();
        if !try_now() {
            let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
            self.waiting.fetch_add(1, Ordering::SeqCst);
            while !try_now() {
                if stop.load(Ordering::Relaxed) {
                    self.waiting.fetch_sub(1, Ordering::SeqCst);
                    return false;
                }
                let tick = Duration::from_millis(100);
                held = self
                    .changed
                    .wait_timeout(held, tick)
                    .map_or_else(|e| e.into_inner().0, |r| r.0);
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_post_is_taken_once_and_never_more_than_fit() {
        let (gate, stop, taken) = (Gate::new(10), AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..1000).for_each(|_| assert!(gate.post(1, &stop))));
            }
            for _ in 0..2 {
                s.spawn(|| {
                    for _ in 0..400 {
                        assert!(gate.take(5, &stop));
                        taken.fetch_add(5, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!((taken.load(Ordering::Relaxed), gate.posts.load(Ordering::Relaxed)), (4000, 0));
        stop.store(true, Ordering::Relaxed);
        assert!(!gate.take(1, &stop));
        assert!(gate.post(10, &stop));
        assert!(!gate.post(1, &stop));
    }
}
