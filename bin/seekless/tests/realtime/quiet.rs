//! Whether the machine leaves time to those who measure it: one test at a time, ahead of other
//! programs where that is allowed, with a watch that tells when it was not enough.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A sleep this much too long in one of 250: others had the processors.
const DISTURBED: Duration = Duration::from_micros(200);

static TURN: Mutex<()> = Mutex::new(());

/// The only one that measures until it is dropped.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder whose files are in memory, where the host has one: its own disk is not what is
/// measured.
pub(crate) fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Tries of a measurement: over when one was good; a failure when several were not though nobody
/// disturbed them; given up aloud where the machine is too busy to tell.
#[derive(Debug)]
pub(crate) struct Tries {
    /// Undisturbed misses that are a failure.
    misses: u32,
    /// Tries at most.
    most: u32,
    good: bool,
    disturbed: u32,
    undisturbed: u32,
}

impl Tries {
    pub(crate) const fn new(misses: u32, most: u32) -> Self {
        Self { misses, most, good: false, disturbed: 0, undisturbed: 0 }
    }

    /// Whether to try again.
    pub(crate) fn more(&self, label: &str) -> bool {
        assert!(!self.failed(), "{label}: not as modelled in any undisturbed try");
        let left = self.disturbed + self.undisturbed < self.most;
        if !self.good && !left {
            let (n, most) = (self.disturbed, self.most);
            eprintln!("SKIPPED {label}: others had the processors in {n} of {most} tries");
        }
        !self.good && left
    }

    fn failed(&self) -> bool {
        !self.good && self.undisturbed >= self.misses
    }

    /// A try, and how late sleeps were meanwhile.
    pub(crate) fn tried(&mut self, good: bool, late: Duration) {
        self.good = good;
        if late > DISTURBED {
            self.disturbed += 1;
        } else {
            self.undisturbed += 1;
        }
    }
}

/// What to put before a command so that it comes before others: nothing where that is not allowed.
pub(crate) fn ahead() -> &'static [&'static str] {
    const AHEAD: &[&str] = &["chrt", "-f", "50"];
    let allowed = Command::new(AHEAD[0]).args(&AHEAD[1..]).arg("true").output();
    if allowed.is_ok_and(|o| o.status.success()) { AHEAD } else { &[] }
}

/// A command that comes before others.
pub(crate) fn first(program: &str) -> Command {
    match ahead() {
        [chrt, options @ ..] => {
            let mut command = Command::new(chrt);
            command.args(options).arg(program);
            command
        }
        [] => Command::new(program),
    }
}

/// Sleeps by turns of a millisecond, and keeps by how much they were too long.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Watch {
    /// `first`: comes before other programs, as all that is measured does; else as any program,
    /// where something that is measured cannot come first.
    pub(crate) fn start(first: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            const SLEEP: Duration = Duration::from_millis(1);
            if let (true, [chrt, policy, priority]) = (first, ahead()) {
                let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
                let said = Command::new(chrt).args([policy, "-p", priority, &thread]).output();
                assert!(said.is_ok_and(|o| o.status.success()));
            }
            let mut late = Vec::new();
            while !told.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(SLEEP);
                late.push(began.elapsed().saturating_sub(SLEEP));
            }
            late
        });
        Self { stop, thread }
    }

    /// By how much one sleep of 250 was too long, or more: an answer takes several such waits.
    pub(crate) fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let mut late = self.thread.join().unwrap();
        late.sort_unstable();
        late.get((late.len() * 249).div_ceil(250).max(1) - 1).copied().unwrap_or_default()
    }
}

#[test]
fn undisturbed_misses_fail_and_disturbed_ones_do_not() {
    let (calm, busy) = (Duration::ZERO, DISTURBED * 2);
    let after = |tried: &[(bool, Duration)]| {
        let mut tries = Tries::new(3, 6);
        tried.iter().for_each(|&(good, late)| tries.tried(good, late));
        tries
    };
    assert!(
        after(&[(false, calm), (false, busy), (false, calm)]).more("nothing: a test of the tries")
    );
    assert!(after(&[(false, calm), (false, busy), (false, calm), (false, calm)]).failed());
    let given_up = after(&[(false, busy); 6]);
    assert!(!given_up.failed() && !given_up.more("nothing: a test of the tries"));
    let good = after(&[(false, calm), (false, calm), (true, busy)]);
    assert!(!good.failed() && !good.more("nothing: a test of the tries"));
}
