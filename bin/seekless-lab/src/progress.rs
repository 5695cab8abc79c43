//! Progress of a room's work, shown as a bar.

use indicatif::ProgressBar;
use seekless_cli::output;

/// Calls `work` with a reporter of progress; the bar is gone when the work ends.
pub(crate) fn with_bar<T>(work: impl FnOnce(&(dyn Fn(&str, u64, u64) + Sync)) -> T) -> T {
    let bar = output::bar();
    let result = work(&|what, done, all| show(&bar, what, done, all));
    bar.finish_and_clear();
    result
}

/// Shows the work at hand, the parts done, and all parts.
pub(crate) fn show(bar: &ProgressBar, what: &str, done: u64, all: u64) {
    bar.set_message(what.to_owned());
    bar.set_length(all.max(1));
    bar.set_position(done);
}
