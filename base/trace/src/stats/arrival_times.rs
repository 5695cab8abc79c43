//! Arrival times: intervals between requests, and counts in windows of several lengths. A time that
//! decreases counts as the latest time so far.

use super::summary::{Burst, TimeSummary};
use super::value_histogram::ValueHistogram;

/// Lengths of windows in nanoseconds: 10 ms to 1,000 s.
const WINDOWS: [u64; 6] =
    [10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000, 1_000_000_000_000];

#[derive(Clone, Copy, Debug, Default)]
struct Windows {
    length: u64,
    /// Number of the present window, and its end.
    index: u64,
    end: u64,
    count: u64,
    squares: f64,
    peak: u64,
}

impl Windows {
    const fn new(length: u64) -> Self {
        Self { length, index: 0, end: length, count: 0, squares: 0.0, peak: 0 }
    }

    #[inline]
    fn add(&mut self, at: u64) {
        if at >= self.end {
            self.close();
            self.index = at / self.length;
            self.end = (self.index + 1).saturating_mul(self.length);
        }
        self.count += 1;
    }

    fn close(&mut self) {
        self.squares += (self.count as f64).powi(2);
        self.peak = self.peak.max(self.count);
        self.count = 0;
    }

    /// The trace ends somewhere in its last window: that one is left out. `None` if fewer than two
    /// are left.
    fn finish(self, requests: u64) -> Option<Burst> {
        let (windows, requests) = (self.index, requests - self.count);
        let mean = requests as f64 / windows as f64;
        let variance = self.squares / windows as f64 - mean * mean;
        (windows > 1 && requests > 0).then(|| Burst {
            window_s: self.length as f64 / 1e9,
            windows,
            dispersion: variance.max(0.0) / mean,
            peak: self.peak,
            peak_to_mean: self.peak as f64 / mean,
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Times {
    between: ValueHistogram,
    windows: [Windows; WINDOWS.len()],
    first: Option<u64>,
    latest: u64,
    requests: u64,
    backwards: u64,
}

impl Times {
    pub(super) fn new() -> Self {
        Self { windows: WINDOWS.map(Windows::new), ..Self::default() }
    }

    /// A request at `at` nanoseconds. Returns the time used, from the first request.
    #[inline]
    pub(super) fn add(&mut self, at: u64) -> u64 {
        let first = *self.first.get_or_insert(at);
        let at = at.saturating_sub(first);
        if self.requests > 0 {
            self.backwards += u64::from(at < self.latest);
            self.between.add(at.saturating_sub(self.latest));
        }
        self.latest = self.latest.max(at);
        self.requests += 1;
        for windows in &mut self.windows {
            windows.add(self.latest);
        }
        self.latest
    }

    pub(super) const fn backwards(&self) -> u64 {
        self.backwards
    }

    /// Time from the first request to the latest, in seconds.
    pub(super) fn span_s(&self) -> f64 {
        self.latest as f64 / 1e9
    }

    pub(super) fn finish(&self) -> TimeSummary {
        let span = self.span_s();
        TimeSummary {
            interarrival_s: self.between.finish(1e-9),
            requests_per_s: (span > 0.0).then(|| self.requests as f64 / span),
            bursts: self.windows.iter().filter_map(|w| w.finish(self.requests)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request each millisecond for 1,001 s: as many in each whole window.
    #[test]
    fn a_perfectly_regular_trace_has_no_bursts() {
        let mut times = Times::new();
        for ms in 0..1_001_000 {
            times.add(ms * 1_000_000);
        }
        let bursts = times.finish().bursts;
        let found: Vec<_> = bursts.iter().map(|b| (b.window_s, b.windows, b.peak)).collect();
        let whole = [
            (0.01, 100_099, 10),
            (0.1, 10_009, 100),
            (1.0, 1_000, 1_000),
            (10.0, 100, 10_000),
            (100.0, 10, 100_000),
        ];
        assert_eq!(found, whole);
        for burst in bursts {
            assert_eq!((burst.dispersion, burst.peak_to_mean), (0.0, 1.0), "{burst:?}");
        }
    }
}
