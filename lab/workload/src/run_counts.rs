//! The counts of a run: operations, bytes and latencies by step, turns of flows, and processor use.
//! Each thread counts separately; the counts are added at the end.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Maximum latency that is counted, in ns: one hour. Latencies have two significant digits.
const LONGEST: u64 = 3_600_000_000_000;

pub(crate) fn histogram() -> Histogram<u32> {
    // The bounds are constants in the allowed range; without bounds the histogram grows by itself.
    Histogram::new_with_bounds(1, LONGEST, 2).unwrap_or_else(|_| {
        let fallback = Histogram::new(2);
        fallback.unwrap_or_else(|_| unreachable!("two digits are always allowed"))
    })
}

/// The duration of an operation, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean_s: f64,
    /// Median.
    pub p50_s: f64,
    /// 95th percentile.
    pub p95_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// Maximum.
    pub max_s: f64,
}

/// The operations with one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpCount {
    /// Name of the step.
    pub name: String,
    /// Number of operations that ended in the measured time.
    pub count: u64,
    /// Bytes that they read or wrote.
    pub bytes: u64,
    /// Their durations.
    pub latency: Latency,
}

/// The use of all processors, as fractions of their time (/proc/stat).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// Time in programs.
    pub user: f64,
    /// Time in the kernel, including interrupts.
    pub system: f64,
    /// Idle time with I/O in progress.
    pub iowait: f64,
    /// Idle time.
    pub idle: f64,
    /// Time taken by the host of a virtual machine.
    pub steal: f64,
}

impl CpuUse {
    /// The fraction in use.
    pub fn busy(&self) -> f64 {
        self.user + self.system
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The measured time in seconds, without the warm-up.
    pub seconds: f64,
    /// Number of counted operations that ended in this time.
    pub operations: u64,
    /// Operations per second.
    pub ops_per_s: f64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Number of reads; a whole file counts as one.
    pub reads: u64,
    /// Number of writes and appends; a whole file counts as one.
    pub writes: u64,
    /// Counts by name, in the order of the flows.
    pub steps: Vec<OpCount>,
    /// Turns of each flow. Under an open load their duration starts at the time they were due,
    /// otherwise at their beginning.
    pub turns: Vec<OpCount>,
    /// Operations in each second.
    pub each_second: Vec<u64>,
    /// Processor use in the measured time.
    pub cpu: CpuUse,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    sum_ns: u128,
    histogram: Option<Box<Histogram<u32>>>,
}

impl Tally {
    pub(crate) fn add(&mut self, ns: u64, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
        self.sum_ns += u128::from(ns);
        let histogram = self.histogram.get_or_insert_with(|| Box::new(histogram()));
        histogram.saturating_record(ns.max(1));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.sum_ns += other.sum_ns;
        if let Some(theirs) = &other.histogram {
            match &mut self.histogram {
                // All histograms have the same bounds, so no value is out of range.
                Some(ours) => drop(ours.add(&**theirs)),
                None => self.histogram = Some(theirs.clone()),
            }
        }
    }

    pub(crate) fn summary(&self, name: &str) -> OpCount {
        let of = |q: f64| {
            let h = self.histogram.as_ref();
            h.map_or(0.0, |h| h.value_at_quantile(q).min(h.max()) as f64 / 1e9)
        };
        let mean_s =
            if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 / 1e9 };
        let latency =
            Latency { mean_s, p50_s: of(0.5), p95_s: of(0.95), p99_s: of(0.99), max_s: of(1.0) };
        OpCount { name: name.to_owned(), count: self.count, bytes: self.bytes, latency }
    }
}

/// Ticks of the processors by state: user, system, iowait, idle, steal. `None` if the host does not
/// report them.
pub(crate) fn cpu_ticks(stat: &str) -> Option<[u64; 5]> {
    let line = stat.lines().find(|l| l.starts_with("cpu "))?;
    let n: Vec<u64> = line.split_whitespace().skip(1).map_while(|w| w.parse().ok()).collect();
    let get = |i: usize| n.get(i).copied().unwrap_or(0);
    (n.len() >= 4).then(|| [get(0) + get(1), get(2) + get(5) + get(6), get(4), get(3), get(7)])
}

/// The fractions between two readings.
pub(crate) fn cpu_use(before: [u64; 5], after: [u64; 5]) -> CpuUse {
    let part: Vec<f64> =
        after.iter().zip(before).map(|(a, b)| a.saturating_sub(b) as f64).collect();
    let all = part.iter().sum::<f64>().max(1.0);
    CpuUse {
        user: part[0] / all,
        system: part[1] / all,
        iowait: part[2] / all,
        idle: part[3] / all,
        steal: part[4] / all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_counted_by_state() {
        let a = cpu_ticks("cpu  10 5 20 100 7 1 2 3 0 0\ncpu0 1 2 3 4\n").unwrap();
        assert_eq!(a, [15, 23, 7, 100, 3]);
        let u = cpu_use([0; 5], a);
        assert!((u.busy() - 38.0 / 148.0).abs() < 1e-12 && (u.iowait - 7.0 / 148.0).abs() < 1e-12);
        assert_eq!(cpu_ticks("intr 1 2"), None);
        assert_eq!(cpu_ticks("cpu  x"), None);
    }

    #[test]
    fn tallies_add_up() {
        let (mut a, mut b) = (Tally::default(), Tally::default());
        (1..=100).for_each(|i| a.add(i * 1000, 1));
        (1..=100).for_each(|i| b.add(i * 1_000_000, 2));
        a.merge(&b);
        let s = a.summary("x");
        assert_eq!((s.count, s.bytes), (200, 300));
        assert!((s.latency.mean_s - (50.5e-6 + 50.5e-3) / 2.0).abs() < 1e-9);
        assert!((s.latency.p50_s - 100e-6).abs() < 2e-6, "{s:?}");
        assert!((s.latency.max_s - 0.1).abs() < 1e-3);
        let mut empty = Tally::default();
        empty.merge(&b);
        assert_eq!(empty.summary("").count, 100);
    }
}
