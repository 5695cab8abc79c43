//! Arguments shared by every command that reads a trace, and the parsers of sizes and shares.

use clap::{Args, ValueEnum};
use seekless_block::{Bytes, parse_size};
use seekless_disk::{Scheduler, SpinDown};
use seekless_layout::{Planning, Strategy, Training};
use seekless_sim::Replay;
use seekless_study::Learner;
use seekless_trace::{Event, OpenOptions};

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum EventArg {
    #[value(name = "Q", alias = "q")]
    Queue,
    #[value(name = "D", alias = "d")]
    Issue,
    #[value(name = "C", alias = "c")]
    Complete,
}

/// How a trace is read.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ReadArgs {
    /// Which event of a blktrace counts as a request: Q queued, D issued to the driver, C completed
    #[arg(long, value_enum, default_value = "Q", help_heading = "Reading the trace")]
    pub(crate) event: EventArg,
    /// Pass over malformed records and count them, instead of stopping at the first
    #[arg(long, help_heading = "Reading the trace")]
    pub(crate) lenient: bool,
}

impl ReadArgs {
    pub(crate) const fn options(self) -> OpenOptions {
        let event = match self.event {
            EventArg::Queue => Event::Queue,
            EventArg::Issue => Event::Issue,
            EventArg::Complete => Event::Complete,
        };
        OpenOptions { event, lenient: self.lenient }
    }
}

/// How a layout is learned.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct LearnArgs {
    /// In which order copies stand: most-connected (BORG's), heaviest-edge or many-starts, by what was used after what;
    /// organ-pipe, buckets, lazy, cylinder-shuffle, block-shuffle or hottest-first, by temperature alone
    #[arg(long, default_value_t, help_heading = "Learning")]
    pub(crate) strategy: Strategy,
    /// How much of the past counts: cumulative (all of it), decaying (half as much after a day) or partial (since
    /// the last plan)
    #[arg(long, default_value_t, help_heading = "Learning")]
    pub(crate) training: Training,
    /// What becomes of the plan in force: revise (it stays, but for what is worth its move) or anew (everything is laid
    /// anew each time, as BORG does)
    #[arg(long, default_value_t, help_heading = "Learning")]
    pub(crate) planning: Planning,
}

impl LearnArgs {
    pub(crate) const fn learner(self) -> Learner {
        let Self { strategy, training, planning } = self;
        Learner { strategy, training, planning }
    }
}

/// The system that serves a replayed trace, and how it is replayed.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SystemArgs {
    /// RAM for cached pages, the same for all that is compared
    #[arg(long, value_parser = ram, default_value = "16MiB")]
    pub(crate) cache: Bytes,
    /// A read that misses RAM and goes home reads on to at least this length
    #[arg(long, value_parser = size, default_value = "64KiB")]
    pub(crate) read_ahead: Bytes,
    /// A read served from a copy reads whole clusters of the learned layout; 0 = only what was asked
    #[arg(long, value_parser = size, default_value = "64KiB")]
    pub(crate) cluster: Bytes,
    /// The drive's scheduler: fcfs, sstf, look, clook, sptf, asptf or anticipatory
    #[arg(long, default_value = "fcfs")]
    pub(crate) scheduler: Scheduler,
    /// When the drive stops its platters: none, after so many SECONDS without work, or adaptive
    #[arg(long, value_name = "none|SECONDS|adaptive", default_value = "none")]
    pub(crate) spin_down: SpinDown,
    /// Closed loop: this many requests in flight, arrival times not used
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "open_loop",
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    queue_depth: u32,
    /// Open loop: requests come at their arrival times
    #[arg(long)]
    open_loop: bool,
}

impl SystemArgs {
    pub(crate) const fn replay(&self) -> Replay {
        if self.open_loop { Replay::Open } else { Replay::Closed { depth: self.queue_depth } }
    }
}

/// A size with a unit.
pub(crate) fn size(text: &str) -> Result<Bytes, String> {
    parse_size(text).map(Bytes).map_err(|e| e.to_string())
}

/// Largest modelled RAM. Each of its pages takes some 60 bytes of ours: a gigabyte in all.
const RAM_MAX: Bytes = Bytes(64 << 30);

/// A size of modelled RAM.
pub(crate) fn ram(text: &str) -> Result<Bytes, String> {
    match size(text)? {
        bytes if bytes > RAM_MAX => {
            Err(format!("{text} is more than {RAM_MAX}, the most there is"))
        }
        bytes => Ok(bytes),
    }
}

/// A share: `50%` or `0.5`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let (digits, factor) = text.strip_suffix('%').map_or((text, 1.0), |d| (d, 0.01));
    match digits.trim().parse::<f64>() {
        Ok(value) if (0.0..=1.0).contains(&(value * factor)) => Ok(value * factor),
        _ => Err(format!("'{text}' is not a share: write 50% or 0.5, between 0% and 100%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_as_people_write_them() {
        assert_eq!(share("50%"), Ok(0.5));
        assert_eq!(share("0.25"), Ok(0.25));
        assert_eq!(share("0"), Ok(0.0));
        for bad in ["", "%", "120%", "-1%", "nan", "half", "2"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }
}
