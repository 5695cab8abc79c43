//! Signals that end a long command in order.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A flag that SIGINT and SIGTERM set. The second of them ends the process at once.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// The same, but while `waits` is set, the first of them ends the process at once too.
pub fn stop_flag_unless(waits: &Arc<AtomicBool>) -> anyhow::Result<Arc<AtomicBool>> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(waits))?;
    }
    stop_flag()
}

/// Calls `act` with each of these signals, in a thread of its own, until `act` returns false.
pub fn on_signal(
    signals: &[i32],
    mut act: impl FnMut(i32) -> bool + Send + 'static,
) -> anyhow::Result<()> {
    let mut signals = Signals::new(signals).context("cannot listen to signals")?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || while signals.forever().next().is_some_and(&mut act) {})
        .context("cannot start a thread for signals")?;
    Ok(())
}
