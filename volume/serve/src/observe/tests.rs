//! An observer with a trace and a clock from the test.

use std::path::PathBuf;

use seekless_block::{Extent, Op, SimTime};

use super::*;

/// The next answers of the trace.
#[derive(Default)]
struct Script {
    not_ready: Option<String>,
    never: bool,
    refused: bool,
    requests: Vec<u64>,
    lost: u64,
    broken: bool,
    recording: bool,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Script>>);

impl Fake {
    fn with<T>(&self, change: impl FnOnce(&mut Script) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    fn hand(&self, each: &mut dyn FnMut(&Request)) {
        for at in self.with(|s| std::mem::take(&mut s.requests)) {
            each(&Request::new(SimTime(0), Op::Read, Extent::new(at, 8)));
        }
    }
}

fn error(what: &str) -> CaptureError {
    CaptureError::Tracing(seekless_host::tracing::TraceError::NoTracing { what: what.to_owned() })
}

impl Trace for Fake {
    fn ready(&mut self) -> Result<(), NotReady> {
        self.with(|s| match &s.not_ready {
            _ if s.never => {
                let (device, source) = (PathBuf::from("/dev/x"), error("a folder"));
                Err(NotReady::Ever(ServeError::Observe { device, source }))
            }
            Some(why) => Err(NotReady::Yet(why.clone())),
            None => Ok(()),
        })
    }

    fn start(&mut self) -> Result<(), CaptureError> {
        self.with(|s| {
            assert!(!s.recording, "started twice");
            s.lost = 0;
            s.recording = !s.refused;
            if s.refused { Err(error("no rights")) } else { Ok(()) }
        })
    }

    fn take(&mut self, each: &mut dyn FnMut(&Request)) -> Result<u64, CaptureError> {
        self.hand(each);
        self.with(|s| if s.broken { Err(error("ended")) } else { Ok(s.lost) })
    }

    fn stop(&mut self, each: &mut dyn FnMut(&Request)) {
        self.hand(each);
        self.with(|s| s.recording = false);
    }
}

/// An observer, its trace, and the time.
struct Case {
    observer: Observer,
    trace: Fake,
    now: Instant,
    learned: Vec<u64>,
}

impl Case {
    fn new() -> Self {
        let (trace, now) = (Fake::default(), Instant::now());
        let observer = Observer::new(Path::new("/dev/x"), Box::new(trace.clone()), now);
        Self { observer, trace, now, learned: Vec::new() }
    }

    /// Time passes in steps of a tenth of a second, with a look after each.
    fn pass(&mut self, tenths: u64) {
        for _ in 0..tenths {
            self.now += Duration::from_millis(100);
            let learned = &mut self.learned;
            self.observer.look(self.now, &mut |r| learned.push(r.extent.start.0));
        }
    }

    fn streams(&self) -> Streams {
        read(&self.observer.streams())
    }

    fn observes(&self) -> bool {
        let on = self.streams().observed == Some(PathBuf::from("/dev/x"));
        assert_eq!(on, self.trace.with(|s| s.recording), "shown and done differ");
        on
    }
}

#[test]
fn a_request_counts_from_one_source_only() {
    let mut c = Case::new();
    c.trace.with(|s| s.not_ready = Some("it is not there".to_owned()));
    c.pass(30);
    assert!(!c.observes() && c.observer.takes_own(c.now));
    assert_eq!(c.streams().note, "waiting for /dev/x: it is not there");
    c.trace.with(|s| s.not_ready = None);
    c.pass(11);
    assert!(c.observes() && !c.observer.takes_own(c.now));
    assert_eq!(c.streams().note, "");
    c.trace.with(|s| s.requests = vec![1, 2]);
    c.pass(1);
    assert_eq!(c.learned, [1, 2]);
    // The device goes: the rest of the trace counts, and the volume's requests do not count for a
    // while.
    c.trace.with(|s| (s.requests, s.not_ready) = (vec![3], Some("nothing is attached".to_owned())));
    c.pass(11);
    assert_eq!(c.learned, [1, 2, 3]);
    assert!(!c.observes());
    let left = c.now;
    assert!(!c.observer.takes_own(left), "it may be one that the trace held");
    assert!(c.observer.takes_own(left + LAG));
    // The device returns.
    c.trace.with(|s| s.not_ready = None);
    c.pass(11);
    assert!(c.observes());
}

#[test]
fn losses_and_ends_of_the_trace_are_said_and_it_is_tried_again_later() {
    for lost in [7, 0] {
        let mut c = Case::new();
        c.pass(1);
        assert!(c.observes(), "a device that is there is observed at once");
        c.trace.with(|s| (s.lost, s.broken) = (lost, lost == 0));
        c.pass(1);
        assert!(!c.observes());
        assert_eq!(c.streams().lost_events, lost);
        let word = if lost > 0 { "lost 7 events of /dev/x" } else { "ended" };
        assert!(c.streams().note.contains(word), "{}", c.streams().note);
        c.trace.with(|s| s.broken = false);
        c.pass(590);
        assert!(!c.observes(), "too soon");
        assert!(c.observer.takes_own(c.now));
        c.pass(11);
        assert!(c.observes());
        assert_eq!(c.streams().lost_events, lost, "what was lost stays counted");
    }
}

#[test]
fn what_cannot_be_observed_is_given_up() {
    let given_up = |c: &mut Case, word: &str| {
        c.trace.with(|s| (s.never, s.refused, s.not_ready) = (false, false, None));
        c.pass(1000);
        let note = c.streams().note;
        assert!(note.contains(word) && note.contains("after its next start"), "{word}: {note}");
        assert!(!c.observes() && c.observer.takes_own(c.now));
    };
    let mut c = Case::new();
    c.trace.with(|s| s.never = true);
    c.pass(1);
    given_up(&mut c, "a folder");
    let mut c = Case::new();
    c.trace.with(|s| s.refused = true);
    c.pass(1);
    given_up(&mut c, "no rights");
    // No device for ten minutes.
    let mut c = Case::new();
    c.trace.with(|s| s.not_ready = Some("it is not there".to_owned()));
    c.pass(5_980);
    assert!(c.streams().note.starts_with("waiting"));
    c.pass(30);
    given_up(&mut c, "it is not there; waited 10 minutes");
    // Another device of that size: requests reach the volume, none the trace.
    let mut c = Case::new();
    c.pass(1);
    for _ in 0..=UNSEEN_MAX {
        assert!(!c.observer.takes_own(c.now));
    }
    c.pass(1);
    given_up(&mut c, "name the device that clients use");
    // After one request in the trace it is the right device.
    let mut c = Case::new();
    c.pass(1);
    c.trace.with(|s| s.requests = vec![1]);
    c.pass(1);
    for _ in 0..2 * UNSEEN_MAX {
        c.observer.takes_own(c.now);
    }
    c.pass(1);
    assert!(c.observes());
}
