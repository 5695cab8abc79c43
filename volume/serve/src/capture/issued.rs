//! Requests issued to a driver. Each is held until it completes, to measure the disk's time. Order
//! is that of issuing. A request that never completes as issued (a driver may split it) goes on
//! without a time.

use std::collections::{HashMap, VecDeque};

use super::recorder::Event;

/// Most requests held: more than any queue; beyond that the oldest goes on.
const HELD_MAX: usize = 1 << 16;
/// Longest wait for a completion: twice SCSI's default time limit.
const WAIT_NS: u64 = 60_000_000_000;

/// Requests under way.
#[derive(Debug, Default)]
pub(super) struct Issued {
    held: VecDeque<HeldEvent>,
    /// Number of the first request in `held`.
    first: u64,
    /// Numbers of open requests by first sector and length; the earliest first.
    open: HashMap<(u64, u32), VecDeque<u64>>,
    latest: u64,
}

#[derive(Debug)]
struct HeldEvent {
    event: Event,
    state: IssuedState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IssuedState {
    /// Given to the driver at this time.
    Since(u64),
    /// Returned by the driver, which will get it again.
    Back,
    /// Completed after this time.
    Took(u64),
}

impl Issued {
    /// The driver gets a request.
    pub(super) fn issue(&mut self, event: Event) {
        self.latest = self.latest.max(event.time);
        if let Some(number) = self.find(&event, true) {
            self.at(number).state = IssuedState::Since(event.time);
            return;
        }
        let number = self.first + self.held.len() as u64;
        self.open.entry(key(&event)).or_default().push_back(number);
        self.held.push_back(HeldEvent { event, state: IssuedState::Since(event.time) });
    }

    /// The driver returned a request, without space for it.
    pub(super) fn requeue(&mut self, event: &Event) {
        if let Some(number) = self.find(event, false) {
            self.at(number).state = IssuedState::Back;
        }
    }

    pub(super) fn complete(&mut self, event: &Event) {
        self.latest = self.latest.max(event.time);
        let Some(number) = self.find(event, false) else { return };
        let held = self.at(number);
        if let IssuedState::Since(start) = held.state {
            held.state = IssuedState::Took(event.time.saturating_sub(start));
        }
        self.close(key(event), number);
    }

    /// The next request in order that is complete or too old; any request if `all`. With it, the
    /// nanoseconds from the last issue to the completion.
    pub(super) fn next(&mut self, all: bool) -> Option<(Event, Option<u64>)> {
        let head = self.held.front()?;
        let took = if let IssuedState::Took(ns) = head.state { Some(ns) } else { None };
        let old = self.latest.saturating_sub(head.event.time) > WAIT_NS;
        if took.is_none() && !all && !old && self.held.len() <= HELD_MAX {
            return None;
        }
        let event = self.held.pop_front()?.event;
        if took.is_none() {
            self.close(key(&event), self.first);
        }
        self.first += 1;
        Some((event, took))
    }

    /// The earliest such request that the driver has, or with `back` has returned.
    fn find(&self, event: &Event, back: bool) -> Option<u64> {
        let numbers = self.open.get(&key(event))?;
        let state = |n: u64| self.held[(n - self.first) as usize].state;
        numbers.iter().copied().find(|&n| (state(n) == IssuedState::Back) == back)
    }

    fn at(&mut self, number: u64) -> &mut HeldEvent {
        &mut self.held[(number - self.first) as usize]
    }

    fn close(&mut self, key: (u64, u32), number: u64) {
        if let Some(numbers) = self.open.get_mut(&key) {
            numbers.retain(|&n| n != number);
            if numbers.is_empty() {
                self.open.remove(&key);
            }
        }
    }
}

const fn key(event: &Event) -> (u64, u32) {
    (event.sector, event.sectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time: u64, sector: u64) -> Event {
        Event { time, sector, sectors: 8, ..Event::default() }
    }

    fn drain(issued: &mut Issued, all: bool) -> Vec<(u64, u64, Option<u64>)> {
        std::iter::from_fn(|| issued.next(all)).map(|(e, took)| (e.time, e.sector, took)).collect()
    }

    #[test]
    fn requests_wait_for_their_completion_in_order() {
        let mut i = Issued::default();
        i.issue(event(10, 100));
        i.issue(event(20, 200));
        i.complete(&event(50, 200));
        assert_eq!(drain(&mut i, false), [], "the first is under way");
        i.complete(&event(60, 100));
        assert_eq!(drain(&mut i, false), [(10, 100, Some(50)), (20, 200, Some(30))]);
        // Two equal requests, an unknown completion, and the rest at the end.
        i.issue(event(70, 300));
        i.issue(event(80, 300));
        i.complete(&event(81, 999));
        i.complete(&event(90, 300));
        assert_eq!(drain(&mut i, false), [(70, 300, Some(20))]);
        assert_eq!(drain(&mut i, true), [(80, 300, None)]);
        assert!(i.open.is_empty() && i.held.is_empty());
    }

    #[test]
    fn what_a_driver_gave_back_is_one_request() {
        let mut i = Issued::default();
        i.issue(event(10, 100));
        i.requeue(&event(11, 100));
        i.complete(&event(12, 100)); // not with the driver: nothing completes
        i.issue(event(30, 100));
        i.complete(&event(35, 100));
        assert_eq!(drain(&mut i, false), [(10, 100, Some(5))]);
        assert!(i.open.is_empty());
    }

    #[test]
    fn what_never_completes_holds_nobody_up_for_ever() {
        let mut i = Issued::default();
        i.issue(event(0, 1));
        i.issue(event(5, 2));
        i.complete(&event(6, 2));
        assert_eq!(drain(&mut i, false), []);
        i.issue(event(WAIT_NS + 1, 3));
        assert_eq!(drain(&mut i, false), [(0, 1, None), (5, 2, Some(1))]);
        let mut i = Issued::default();
        for n in 0..=HELD_MAX as u64 + 4 {
            i.issue(event(n, n));
        }
        assert_eq!(drain(&mut i, false).len(), 5);
        assert_eq!(i.open.len(), HELD_MAX);
    }
}
