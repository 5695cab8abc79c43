//! The model alone: the same requests on a drive without a clock, and what is compared.

use std::collections::VecDeque;

use seekless_block::{Duration, Extent, Op, SimTime};
use seekless_disk::{Command, Disk, DiskSpec, Drive, Scheduler};

/// Latencies in milliseconds, in the order the requests ended, with `depth` of them in flight and
/// each end followed by the next request `think` later.
pub(crate) fn latencies(
    spec: &DiskSpec,
    scheduler: Scheduler,
    depth: usize,
    think: Duration,
    requests: &[Extent],
) -> Vec<f64> {
    let mut drive = Drive::new(Disk::new(spec).unwrap(), scheduler);
    let mut coming: VecDeque<SimTime> = std::iter::repeat_n(SimTime(0), depth).collect();
    let mut requests = requests.iter();
    let mut out = Vec::new();
    loop {
        let arrival = coming.front().copied().filter(|_| requests.len() > 0);
        let event = drive.next_event();
        match (arrival, event) {
            (Some(at), event) if event.is_none_or(|e| at < e) => {
                coming.pop_front();
                let extent = *requests.next().unwrap();
                let command = Command::new(0, Op::Read, extent);
                drive.submit(at, command).unwrap();
            }
            (_, Some(at)) => {
                while let Some(ended) = drive.poll(at) {
                    out.push(ended.finished.since(ended.submitted).as_millis_f64());
                    coming.push_back(ended.finished + think);
                }
            }
            (_, None) => return out,
        }
    }
}

/// Mean and 99th percentile, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    pub(crate) mean: f64,
    pub(crate) p99: f64,
}

impl Summary {
    pub(crate) fn of(latencies: &[f64]) -> Self {
        let mut sorted = latencies.to_vec();
        sorted.sort_by(f64::total_cmp);
        let p99 = sorted[(sorted.len() * 99).div_ceil(100) - 1];
        Self { mean: sorted.iter().sum::<f64>() / sorted.len() as f64, p99 }
    }

    /// The same with every answer `ms` later.
    pub(crate) fn later(self, ms: f64) -> Self {
        Self { mean: self.mean + ms, p99: self.p99 + ms }
    }

    /// Whether both numbers are within 5 % or 0.3 ms of the model's.
    pub(crate) fn is_close_to(self, model: Self) -> bool {
        let close = |a: f64, b: f64| (a - b).abs() <= f64::max(0.05 * b, 0.3);
        close(self.mean, model.mean) && close(self.p99, model.p99)
    }
}

#[test]
fn one_at_a_time_every_latency_is_that_of_the_disk() {
    // Twelve reads by hand on the disk itself: the think time passes on the platter, not on the
    // watch.
    let spec = seekless_disk::catalogue::get("atlas15k").unwrap();
    let requests: Vec<Extent> = (0..12u64).map(|i| Extent::new(i * i * 200_000, 8)).collect();
    for think in [Duration(0), Duration(123_456)] {
        let mut disk = Disk::new(&spec).unwrap();
        let mut now = SimTime(0);
        let expected: Vec<f64> = requests
            .iter()
            .map(|&extent| {
                let took = disk.access(now, Op::Read, extent).unwrap().total();
                now = now + took + think;
                took.as_millis_f64()
            })
            .collect();
        assert_eq!(latencies(&spec, Scheduler::Fcfs, 1, think, &requests), expected);
    }
}

#[test]
fn what_is_close_is_within_either_bound() {
    let s = |mean, p99| Summary { mean, p99 };
    assert!(s(5.29, 10.49).is_close_to(s(5.0, 10.0)));
    assert!(!s(5.31, 10.0).is_close_to(s(5.0, 10.0)));
    assert!(!s(5.0, 9.49).is_close_to(s(5.0, 10.0)));
    let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
    let found = Summary::of(&hundred);
    assert!((found.mean - 50.5).abs() < 1e-9 && (found.p99 - 99.0).abs() < 1e-9, "{found:?}");
}
