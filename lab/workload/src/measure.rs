//! What a run counts: operations, bytes and latencies by step, turns of flows, the use of the processors. Each
//! thread counts for itself; it is added up at the end.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Latencies are kept from this on, in ns, to two digits; an hour is the longest.
const LONGEST: u64 = 3_600_000_000_000;

pub(crate) fn histogram() -> Histogram<u32> {
    // The bounds are constants within what it allows; without bounds it grows by itself.
    Histogram::new_with_bounds(1, LONGEST, 2).unwrap_or_else(|_| {
        let fallback = Histogram::new(2);
        fallback.unwrap_or_else(|_| unreachable!("two digits are always allowed"))
    })
}

/// How long something took, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean_s: f64,
    /// Half took no longer.
    pub p50_s: f64,
    /// 95 of 100 took no longer.
    pub p95_s: f64,
    /// 99 of 100 took no longer.
    pub p99_s: f64,
    /// The longest.
    pub max_s: f64,
}

/// The operations of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpCount {
    /// As the step is called.
    pub name: String,
    /// How many ended within the time measured.
    pub count: u64,
    /// Bytes they read or wrote.
    pub bytes: u64,
    /// How long they took.
    pub latency: Latency,
}

/// The use of all processors, as shares of their time (/proc/stat).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// In programs.
    pub user: f64,
    /// In the kernel, interrupts included.
    pub system: f64,
    /// Idle, with I/O under way.
    pub iowait: f64,
    /// Idle.
    pub idle: f64,
    /// Taken by the host of a virtual machine.
    pub steal: f64,
}

impl CpuUse {
    /// Of it in use.
    #[must_use]
    pub fn busy(&self) -> f64 {
        self.user + self.system
    }
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The time measured, warm-up apart.
    pub seconds: f64,
    /// Operations that ended in it, those that count.
    pub operations: u64,
    /// Of them in a second.
    pub ops_per_s: f64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads, whole files as one.
    pub reads: u64,
    /// Writes and appends, whole files as one.
    pub writes: u64,
    /// By name, in the order of the flows.
    pub steps: Vec<OpCount>,
    /// Turns of each flow: from when they were due, under an open load, else from their beginning.
    pub turns: Vec<OpCount>,
    /// Operations in each second.
    pub each_second: Vec<u64>,
    /// Over the time measured.
    pub cpu: CpuUse,
}

/// Counts of one name.
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
                // The bounds are the same for all: nothing can be out of them.
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

/// Ticks of the processors by state: user, system, iowait, idle, steal. None where the host does not say.
pub(crate) fn cpu_ticks(stat: &str) -> Option<[u64; 5]> {
    let line = stat.lines().find(|l| l.starts_with("cpu "))?;
    let n: Vec<u64> = line.split_whitespace().skip(1).map_while(|w| w.parse().ok()).collect();
    let get = |i: usize| n.get(i).copied().unwrap_or(0);
    (n.len() >= 4).then(|| [get(0) + get(1), get(2) + get(5) + get(6), get(4), get(3), get(7)])
}

/// The shares between two readings.
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
    fn ticks_are_told_apart() {
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
