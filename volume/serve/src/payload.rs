//! Memory for the payload of long requests, which all clients share. Each client has a share of its
//! own for short requests; see [`crate::memory_shares`]. A request that does not fit waits, and
//! holds nothing while it waits. The one that waits longest comes first.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// So long may a client hold memory that others wait for, while its connection carries less than
/// [`LEAST_BYTES`].
pub(crate) const STALL_MOST: Duration = Duration::from_secs(30);
/// What a connection carries at least in that time: 35 kB a second.
pub(crate) const LEAST_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct PayloadPool {
    most: usize,
    /// Held by clients beyond their own shares, and by the requests of clients that have gone.
    used: usize,
    /// Clients that wait, by token.
    waiting: VecDeque<u64>,
    /// When the first of them became the first.
    since: Option<Instant>,
}

impl PayloadPool {
    pub(crate) const fn new(most: usize) -> Self {
        Self { most, used: 0, waiting: VecDeque::new(), since: None }
    }

    /// Whether the client may take `more` bytes now.
    fn fits(&self, token: u64, more: usize) -> bool {
        let first = self.waiting.front().is_none_or(|&first| first == token);
        more == 0 || first && self.used.saturating_add(more) <= self.most
    }

    /// Whether the client may take `more` bytes now. Otherwise it waits in line.
    pub(crate) fn admits(&mut self, token: u64, more: usize) -> bool {
        let fits = self.fits(token, more);
        if fits {
            self.withdraw(token);
        } else if !self.waiting.contains(&token) {
            self.waiting.push_back(token);
        }
        fits
    }

    /// Whether [`Self::admits`] would change anything.
    pub(crate) fn is_worth_a_try(&self, token: u64, more: usize) -> bool {
        self.fits(token, more) || !self.waiting.contains(&token)
    }

    /// The client does not wait any more.
    pub(crate) fn withdraw(&mut self, token: u64) {
        if let Some(at) = self.waiting.iter().position(|&t| t == token) {
            self.waiting.remove(at);
            if at == 0 {
                self.since = None;
            }
        }
    }

    /// Whether requests of disconnected clients hold too much memory for one more client: each
    /// client needs its own share.
    pub(crate) const fn is_swamped(&self) -> bool {
        self.used > self.most.saturating_add(self.most / 4)
    }

    /// A client holds `now` bytes instead of `before`.
    pub(crate) const fn hold(&mut self, before: usize, now: usize) {
        self.used = self.used - before + now;
    }

    /// A client has gone, which held `held` bytes. Its requests in flight go on with `rest` bytes.
    pub(crate) fn leave(&mut self, token: u64, held: usize, rest: usize) {
        self.hold(held, rest);
        self.withdraw(token);
    }

    /// A request of a client that has gone has ended.
    pub(crate) const fn ended(&mut self, bytes: usize) {
        self.hold(bytes, 0);
    }

    /// The client that waits longest.
    pub(crate) fn first(&self) -> Option<u64> {
        self.waiting.front().copied()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Since when the first client waits. `Err`: it has just become the first.
    pub(crate) fn waits_since(&mut self, now: Instant) -> Option<Result<Instant, ()>> {
        if self.waiting.is_empty() {
            self.since = None;
            return None;
        }
        Some(self.since.ok_or(()).inspect_err(|()| self.since = Some(now)))
    }

    /// The first client waits from now on, as if it had just become the first.
    pub(crate) const fn wait_again(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// Bytes held.
    #[cfg(test)]
    pub(crate) const fn used(&self) -> usize {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_longest_comes_first_and_nobody_overtakes() {
        let mut pool = PayloadPool::new(100);
        assert!(pool.admits(1, 60));
        pool.hold(0, 60);
        assert!(!pool.admits(2, 70));
        assert!(!pool.admits(3, 10), "it would fit, and comes later");
        assert!(pool.admits(3, 0), "what has its own share");
        assert_eq!((pool.first(), pool.waiting()), (Some(2), 1));
        assert!(!pool.admits(3, 10));
        pool.hold(60, 0);
        assert!(!pool.admits(3, 10));
        assert!(pool.admits(2, 70));
        pool.hold(0, 70);
        assert!(pool.admits(3, 10));
        assert_eq!(pool.first(), None);
    }

    #[test]
    fn what_a_client_leaves_behind_counts_until_it_ends() {
        let mut pool = PayloadPool::new(100);
        pool.hold(0, 50);
        pool.leave(1, 50, 130);
        assert!(pool.is_swamped() && pool.admits(2, 0) && !pool.admits(2, 1));
        pool.ended(120);
        assert!(!pool.is_swamped() && pool.admits(2, 90));
        pool.ended(10);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn the_time_of_waiting_begins_with_each_first() {
        let mut pool = PayloadPool::new(10);
        let now = Instant::now();
        assert_eq!(pool.waits_since(now), None);
        pool.hold(0, 10);
        assert!(!pool.admits(1, 5) && !pool.admits(2, 5));
        assert_eq!(pool.waits_since(now), Some(Err(())));
        let later = now + STALL_MOST;
        assert_eq!(pool.waits_since(later), Some(Ok(now)));
        assert!(!pool.admits(3, 5));
        pool.leave(3, 0, 0);
        assert_eq!(pool.waits_since(later), Some(Ok(now)), "who comes and goes changes nothing");
        pool.leave(1, 0, 0);
        assert_eq!(pool.waits_since(later), Some(Err(())));
    }
}
