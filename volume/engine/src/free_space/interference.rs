//! The cost of replication for clients, measured, and its budget (FS2, SOSP'05, 4.3.3: the first
//! run, which learns, is 1.7% slower). A client's request that arrives during a background I/O
//! waits for its end, then for the way of the head, and delays the requests behind it. All this
//! delay is *owed*. Clients' own waiting earns a small share of itself, and time without waiting
//! clients earns a smaller one.

use seekless_block::{Duration, SimTime};

/// A client's own waiting earns one part in this many: a quarter of a per cent. Hidden costs, such
/// as a lost read-ahead of the drive, may be several times as much.
const SHARE: i64 = 400;
/// Time without waiting clients earns one part in this many. Else a fast device, whose clients
/// hardly ever wait and hardly ever pause, would get no replicas.
const IDLE_SHARE: i64 = 1200;
/// The pause per nanosecond owed. The chance of a request during the next I/O falls with the time
/// since the last request.
const PATIENCE: u64 = 1000;
/// Most that is earned in advance, about the cost of one collision. Else many collisions could
/// follow quiet work.
const SAVED: i64 = 20_000_000;
/// Most that is owed, which is earned in at most twelve seconds. So the next I/O comes even if
/// clients never pause.
const OWED: i64 = 10_000_000;

/// Times in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Interference {
    /// The delay of clients, less what was earned.
    owed: i64,
    /// The fraction of a nanosecond earned.
    earned: i64,
    now: SimTime,
    /// The delay of a request that arrives now.
    lag: Duration,
    /// When the first client I/O in flight was requested.
    waiting_since: SimTime,
    /// When the last I/O of any kind ended.
    last_done: SimTime,
    /// When the first background I/O in flight was sent.
    background_since: SimTime,
}

impl Interference {
    /// Time passes, with this many client I/Os in flight.
    pub(crate) fn pass(&mut self, now: SimTime, clients: u32) {
        let passed = nanos(now.since(self.now));
        let worth = if clients == 0 { 1 } else { IDLE_SHARE / SHARE * i64::from(clients) };
        self.now = now;
        self.earned = self.earned.saturating_add(passed.saturating_mul(worth));
        self.owed = (self.owed - self.earned / IDLE_SHARE).max(-SAVED);
        self.earned %= IDLE_SHARE;
    }

    /// A client's request arrives, with this many client I/Os in flight.
    pub(crate) fn asked(&mut self, clients: u32) {
        if clients == 0 {
            (self.lag, self.waiting_since) = (Duration::ZERO, self.now);
        } else {
            self.owe(nanos(self.lag));
        }
    }

    /// A background I/O is sent, with this many in flight already.
    pub(crate) fn sent(&mut self, background: u32) {
        if background == 0 {
            self.background_since = self.now;
        }
    }

    /// An I/O has ended: a client's, or one of the background with this many client I/Os in flight.
    pub(crate) fn ended(&mut self, background: bool, clients: u32) {
        let began = self.last_done.max(self.background_since);
        self.last_done = self.now;
        if background && clients > 0 {
            // The way of the head back takes about as long as the I/O.
            let delay = self.now.since(began.max(self.waiting_since)) + self.now.since(began);
            self.lag += delay;
            self.owe(nanos(delay).saturating_mul(clients.into()));
        }
    }

    fn owe(&mut self, more: i64) {
        self.owed = self.owed.saturating_add(more).min(OWED);
    }

    /// How long after the last request the next background I/O may begin.
    pub(crate) fn pause(&self) -> Duration {
        Duration(self.owed.max(0).unsigned_abs().saturating_mul(PATIENCE))
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_collision_is_owed_by_all_who_wait_and_paid_by_what_clients_wait_anyway() {
        let mut all = Interference::default();
        all.pass(SimTime(100 * MS), 0);
        all.sent(0);
        all.pass(SimTime(103 * MS), 0);
        all.asked(0);
        all.pass(SimTime(110 * MS), 1);
        // The request waited for 7 ms, and the head is 10 ms away.
        all.ended(true, 1);
        assert_eq!(all.owed, 10 * MS as i64, "no more than ten seconds' pause");
        assert_eq!(all.pause(), Duration(10_000 * MS));
        // Another request comes before the first is done, and is as late.
        assert_eq!(all.lag, Duration(17 * MS));
        all.pass(SimTime(120 * MS), 1);
        all.ended(false, 0);
        // Six idle seconds earn half of the debt. Two waiting clients earn the other half in a
        // sixth of that time.
        let before = all.owed;
        all.pass(SimTime(6_120 * MS), 0);
        assert_eq!(all.owed, before - 5 * MS as i64);
        all.asked(0);
        assert_eq!(all.lag, Duration::ZERO);
        all.pass(SimTime(7_120 * MS), 2);
        assert!((all.owed - (before - 10 * MS as i64)).abs() <= 1, "{all:?}");
        assert_eq!(all.pause(), Duration::ZERO);
        all.pass(SimTime(100_000 * MS), 0);
        assert_eq!(all.owed, -SAVED);
    }

    #[test]
    fn who_comes_behind_one_that_waited_is_as_late() {
        let mut all = Interference::default();
        all.pass(SimTime(100 * MS), 0);
        all.sent(0);
        all.pass(SimTime(101 * MS), 0);
        all.asked(0);
        all.pass(SimTime(102 * MS), 1);
        all.ended(true, 1);
        let before = all.owed;
        all.asked(1);
        assert_eq!(all.owed - before, 3 * MS as i64, "1 ms waited, 2 ms away");
    }

    #[test]
    fn background_work_that_meets_no_client_costs_nothing() {
        let mut all = Interference::default();
        for i in 0..10 {
            all.pass(SimTime(i * 20 * MS), 0);
            all.sent(0);
            all.pass(SimTime((i * 20 + 9) * MS), 0);
            all.ended(true, 0);
        }
        assert!(all.owed <= 0 && all.pause() == Duration::ZERO, "{all:?}");
    }
}
