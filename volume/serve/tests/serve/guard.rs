//! The guard of the adaptive policy: with more disk time than the vanilla system, the volume stops
//! to read ahead, and goes on when the loss is small.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use seekless_block::{Bytes, Request};
use seekless_serve::client::Client;
use seekless_serve::status::Busy;
use seekless_serve::{About, Backing, Builder, IoSample, Learning, ServerHandle, Shadow};

use crate::client;

/// Seconds of disk time: actual, vanilla.
#[derive(Clone, Default)]
struct Times(Arc<[AtomicU64; 2]>);

impl Times {
    fn seconds(&self, i: usize) -> Busy {
        Busy { seek_s: self.0[i].load(SeqCst) as f64, ..Busy::default() }
    }
}

impl Shadow for Times {
    fn request(&mut self, _: &Request) {}
    fn io(&mut self, _: &IoSample) {}
    fn now(&self) -> Option<(Busy, f64)> {
        Some((self.seconds(0), 0.0))
    }
    fn vanilla(&self) -> Result<Busy, String> {
        let lost = self.0[1].load(SeqCst) == u64::MAX;
        if lost { Err("the test ended it".to_owned()) } else { Ok(self.seconds(1)) }
    }
    fn note(&self) -> String {
        "set by the test".to_owned()
    }
}

/// Waits until the policy stands aside, or is in use.
fn wait(server: &ServerHandle, bypassing: bool) {
    let begun = Instant::now();
    let board = server.board().unwrap();
    while board.status().adaptive.as_ref().unwrap().guard.unwrap().bypassing != bypassing {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", board.status().adaptive);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads 200 pages in order; returns the pages that were read ahead.
fn read_on(server: &ServerHandle, client: &mut Client, first: u64) -> u64 {
    let before = server.stats().unwrap().engine.prefetched;
    for page in first..first + 200 {
        client.read(page * 4096, 4096).unwrap();
    }
    server.stats().unwrap().engine.prefetched - before
}

#[test]
fn a_policy_that_is_behind_stands_aside_and_returns() {
    let times = Times::default();
    let shadow = times.clone();
    let server = Builder::new(Backing::Memory(Bytes(64 << 20)))
        .area(Bytes(8 << 20))
        .engine(|config| config.cache_bytes = Bytes(4 << 20))
        .learning(Learning::default())
        .watched(About::default(), Some(Box::new(|_| Ok(Box::new(shadow)))))
        .spawn()
        .unwrap();
    let mut client = client(&server);
    assert_eq!(server.policy().name().name(), "adaptive");
    assert!(read_on(&server, &mut client, 0) > 0);
    times.0[0].store(10, SeqCst);
    wait(&server, true);
    assert_eq!(read_on(&server, &mut client, 4000), 0);
    times.0[0].store(10_010, SeqCst);
    times.0[1].store(10_000, SeqCst);
    wait(&server, false);
    assert!(server.board().unwrap().status().verdict.is_some());
    assert!(read_on(&server, &mut client, 8000) > 0);
    let events = server.board().unwrap().events().events;
    // Without a vanilla system nobody can say that the policy is not behind.
    times.0[1].store(u64::MAX, SeqCst);
    wait(&server, true);
    let verdict = server.board().unwrap().status().verdict.clone();
    assert!(verdict.is_none(), "of what was: {verdict:?}");
    assert_eq!(read_on(&server, &mut client, 12_000), 0);
    let events = events.into_iter().chain(server.board().unwrap().events().events);
    let events: Vec<_> = events.collect();
    for word in ["stands aside", "returns", "without a guard: the test ended it"] {
        assert!(events.iter().any(|e| e.text.contains(word)), "{events:?}");
    }
    let adaptive = server.board().unwrap().status().adaptive.clone().unwrap();
    assert!(adaptive.trail_bytes > 0 && adaptive.guard.unwrap().worst_excess_s >= 10.0);
}

/// A disk so large that no model stands in for it.
#[test]
fn a_policy_that_nothing_can_guard_stands_aside() {
    let about = About { stand_in: true, ..About::default() };
    let server = Builder::new(Backing::Memory(Bytes(64 << 20)))
        .area(Bytes(8 << 20))
        .engine(|config| config.cache_bytes = Bytes(4 << 20))
        .learning(Learning::default())
        .watched(about, Some(Box::new(|_| Err("no such disk".to_owned()))))
        .spawn()
        .unwrap();
    let mut client = client(&server);
    let begun = Instant::now();
    let told = || server.board().unwrap().events().events;
    while !told().iter().any(|e| e.text.contains("stands aside")) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", told());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(read_on(&server, &mut client, 0), 0);
}
