//! Whether the machine leaves time to those who measure it: one test at a time, ahead of other programs where
//! that is allowed, with a watch that tells when it was not enough.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A sleep this much too long in one of a hundred: others had the processors.
pub(crate) const DISTURBED: Duration = Duration::from_micros(500);

static TURN: Mutex<()> = Mutex::new(());

/// The only one that measures until it is dropped.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Sleeps by turns of a millisecond, as any program of no privilege, and keeps by how much they were too long.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            const SLEEP: Duration = Duration::from_millis(1);
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

    /// By how much one sleep of a hundred was too long, or more.
    pub(crate) fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        let mut late = self.thread.join().unwrap();
        late.sort_unstable();
        late.get((late.len() * 99).div_ceil(100).max(1) - 1).copied().unwrap_or_default()
    }
}
