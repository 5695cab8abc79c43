//! Compares the model with references: replays a workload and compares two sets of times.
//!
//! Input is text and output is numbers; files, printing and the limits for a good match belong to
//! the caller.

use seekless_block::{Extent, Op, SimTime};

use crate::disk::{Disk, DiskError};
use crate::drive::{Command, Completion, Drive};
use crate::scheduler::Scheduler;

/// A reference text that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct TextError {
    /// The caller's name for the text.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The fault and the expected text.
    pub what: String,
}

/// A request of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time of arrival (open loop).
    pub at: SimTime,
    /// Read or write.
    pub op: Op,
    /// The sectors.
    pub extent: Extent,
}

/// The arrival of requests at the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// Open loop: each request at its own time.
    Open,
    /// Closed loop: this many requests in flight; each completion starts the next.
    Closed(usize),
}

/// One line of a text with columns separated by whitespace or commas.
struct Columns<'a> {
    file: &'a str,
    line: usize,
    fields: Vec<&'a str>,
}

impl Columns<'_> {
    fn get<T: std::str::FromStr>(&self, column: usize, name: &str) -> Result<T, TextError> {
        let field = self.fields.get(column).copied().unwrap_or("");
        field.parse().map_err(|_| TextError {
            file: self.file.to_owned(),
            line: self.line,
            what: format!("column {} should be {name}, found '{field}'", column + 1),
        })
    }

    /// Nanoseconds from a decimal number in units of `unit` nanoseconds.
    fn time(&self, column: usize, unit: f64, name: &str) -> Result<u64, TextError> {
        let v: f64 = self.get(column, name)?;
        Ok((v * unit).round() as u64)
    }
}

fn lines<'a>(file: &'a str, text: &'a str) -> impl Iterator<Item = Columns<'a>> {
    text.lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty() && !l.trim_start().starts_with('#'))
        .map(move |(i, l)| Columns {
            file,
            line: i + 1,
            fields: l
                .split(|c: char| c.is_whitespace() || c == ',')
                .filter(|f| !f.is_empty())
                .collect(),
        })
}

/// Parses DiskSim's default trace format: `arrival_ms device sector sectors flags`; bit 0 of the
/// flags means a read.
pub fn parse_arrivals(file: &str, text: &str) -> Result<Vec<Arrival>, TextError> {
    lines(file, text)
        .map(|c| {
            let flags: u32 = u32::from_str_radix(c.fields.get(4).unwrap_or(&""), 16)
                .or_else(|_| c.get(4, "flags (hexadecimal)"))?;
            Ok(Arrival {
                at: SimTime(c.time(0, 1e6, "the arrival in milliseconds")?),
                op: if flags & 1 == 1 { Op::Read } else { Op::Write },
                extent: Extent::new(c.get(2, "a sector")?, c.get(3, "a number of sectors")?),
            })
        })
        .collect()
}

/// A request measured on a real drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Read or write.
    pub op: Op,
    /// The sectors.
    pub extent: Extent,
    /// Service time of the drive, in nanoseconds.
    pub service_ns: u64,
    /// Time from the end of the request to the next request, in nanoseconds.
    pub think_ns: u64,
}

/// Maximum time in a line, in microseconds: about 31 years.
const LONGEST_US: f64 = 1e15;

/// Parses a trace of measured requests: `R|W Hit|Miss|... sector sectors service_us think_us`. The
/// second column, the supposed state of the drive's buffer, is optional.
pub fn parse_measured(file: &str, text: &str) -> Result<Vec<Measured>, TextError> {
    lines(file, text)
        .map(|c| {
            let error = |what: String| TextError { file: file.to_owned(), line: c.line, what };
            let op = match c.fields.first().copied().unwrap_or("") {
                "R" | "r" => Op::Read,
                "W" | "w" => Op::Write,
                other => return Err(error(format!("column 1 should be R or W, found '{other}'"))),
            };
            let told = c.fields.get(1).is_some_and(|f| f.parse::<f64>().is_err());
            let first = if told { 2 } else { 1 };
            let time = |column: usize, name: &str| -> Result<u64, TextError> {
                let us: f64 = c.get(column, name)?;
                if (0.0..=LONGEST_US).contains(&us) {
                    return Ok((us * 1e3).round() as u64);
                }
                Err(error(format!("column {} should be {name}, found {us}", column + 1)))
            };
            let sectors: u64 = c.get(first + 1, "a number of sectors")?;
            if sectors == 0 {
                return Err(error(format!(
                    "column {} should be a number of sectors, found 0",
                    first + 2
                )));
            }
            Ok(Measured {
                op,
                extent: Extent::new(c.get(first, "a sector")?, sectors),
                service_ns: time(first + 2, "the service time in microseconds")?,
                think_ns: time(first + 3, "the think time in microseconds")?,
            })
        })
        .collect()
}

/// Replays a whole workload. Completions are in the order of their ends; `tag` is the index of the
/// request.
pub fn replay(
    disk: Disk,
    scheduler: Scheduler,
    mode: Loop,
    requests: &[Arrival],
) -> Result<Vec<Completion>, DiskError> {
    let mut drive = Drive::new(disk, scheduler);
    let mut out = Vec::with_capacity(requests.len());
    let command = |tag: usize| {
        let Arrival { op, extent, .. } = requests[tag];
        Command::new(tag as u64, op, extent)
    };
    let mut next = match mode {
        Loop::Open => 0,
        Loop::Closed(depth) => depth.min(requests.len()),
    };
    for tag in 0..next {
        drive.submit(SimTime(0), command(tag))?;
    }
    loop {
        let event = drive.next_event();
        match (mode, requests.get(next)) {
            (Loop::Open, Some(r)) if event.is_none_or(|at| r.at < at) => {
                drive.submit(r.at, command(next))?;
                next += 1;
                continue;
            }
            _ => {}
        }
        let Some(at) = event else { return Ok(out) };
        while let Some(c) = drive.poll(at) {
            out.push(c);
            if mode != Loop::Open && next < requests.len() {
                drive.submit(at, command(next))?;
                next += 1;
            }
        }
    }
}

/// Replays measured requests one at a time, each `think` after the end of the request before.
/// Returns the modelled service times in milliseconds.
fn replay_measured(disk: Disk, requests: &[Measured]) -> Result<Vec<f64>, DiskError> {
    let mut drive = Drive::new(disk, Scheduler::Fcfs);
    let mut now = SimTime(0);
    let mut out = Vec::with_capacity(requests.len());
    for (tag, r) in requests.iter().enumerate() {
        let command = Command::new(tag as u64, r.op, r.extent);
        drive.submit(now, command)?;
        while let Some(at) = drive.next_event() {
            if let Some(c) = drive.poll(at) {
                out.push(c.finished.since(c.submitted).as_millis_f64());
                now = SimTime(c.finished.0.saturating_add(r.think_ns));
            }
        }
    }
    Ok(out)
}

/// A drive's measured service times and the model's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Number of requests compared.
    pub requests: usize,
    /// Mean service time of the drive.
    pub measured_ms_mean: f64,
    /// Mean service time of the model.
    pub model_ms_mean: f64,
    /// Demerit between the two, after Ruemmler and Wilkes.
    pub demerit_ms: f64,
    /// Demerit divided by the measured mean.
    pub demerit_share: f64,
}

/// Replays measured requests and compares the service times.
pub fn compare_measured(disk: Disk, requests: &[Measured]) -> Result<Measurement, DiskError> {
    let model = replay_measured(disk, requests)?;
    let real: Vec<f64> = requests.iter().map(|r| r.service_ns as f64 / 1e6).collect();
    let (measured_ms_mean, demerit_ms) = (mean(&real), demerit(&real, &model));
    Ok(Measurement {
        requests: requests.len(),
        measured_ms_mean,
        model_ms_mean: mean(&model),
        demerit_ms,
        demerit_share: demerit_ms / measured_ms_mean,
    })
}

/// The demerit figure of Ruemmler and Wilkes (IEEE Computer, March 1994): the root mean square of
/// the horizontal distance between two distributions, in the unit of the samples. If the samples
/// have different sizes, they are compared at evenly spaced quantiles, as many as the larger sample
/// has values.
fn demerit(a: &[f64], b: &[f64]) -> f64 {
    let sorted = |x: &[f64]| {
        let mut x = x.to_vec();
        x.sort_by(f64::total_cmp);
        x
    };
    let (a, b) = (sorted(a), sorted(b));
    let n = a.len().max(b.len());
    if a.is_empty() || b.is_empty() {
        return f64::NAN;
    }
    let quantile = |x: &[f64], i: usize| {
        let at = (i as f64 + 0.5) / n as f64 * x.len() as f64 - 0.5;
        let low = at.max(0.0).floor() as usize;
        let high = (low + 1).min(x.len() - 1);
        x[low] + (x[high] - x[low]) * (at - low as f64).clamp(0.0, 1.0)
    };
    let sum: f64 = (0..n).map(|i| (quantile(&a, i) - quantile(&b, i)).powi(2)).sum();
    (sum / n as f64).sqrt()
}

/// Mean of a sample; NaN if it is empty.
pub fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

/// The recorded times of one request of a reference run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recorded {
    /// Seek in milliseconds.
    pub seek: f64,
    /// Rotation in milliseconds.
    pub rotation: f64,
    /// Transfer in milliseconds.
    pub transfer: f64,
    /// Response: milliseconds from arrival to completion.
    pub response: f64,
}

impl Recorded {
    /// Sum of seek, rotation and transfer, in milliseconds.
    pub fn service(&self) -> f64 {
        self.seek + self.rotation + self.transfer
    }

    fn of(c: &Completion) -> Self {
        Self {
            seek: c.access.seek.as_millis_f64(),
            rotation: c.access.rotation.as_millis_f64(),
            transfer: c.access.transfer.as_millis_f64(),
            response: c.finished.since(c.submitted).as_millis_f64(),
        }
    }
}

/// Parses a reference run: comma-separated, with a header that names `seek_ms`, `rotlat_ms`,
/// `xfer_ms`, `complete_ms` and `response_ms`. Requests that never completed (-1) are left out.
pub fn parse_recorded(file: &str, text: &str) -> Result<Vec<Recorded>, TextError> {
    let mut all = lines(file, text);
    let names: Vec<&str> = all.next().map(|c| c.fields).unwrap_or_default();
    let column = |name: &str| {
        names.iter().position(|n| *n == name).ok_or_else(|| TextError {
            file: file.to_owned(),
            line: 1,
            what: format!("the header has no column '{name}'"),
        })
    };
    let (s, r, x) = (column("seek_ms")?, column("rotlat_ms")?, column("xfer_ms")?);
    let (done, response) = (column("complete_ms")?, column("response_ms")?);
    let mut out = Vec::new();
    for c in all {
        if c.get::<f64>(done, "milliseconds")? >= 0.0 {
            out.push(Recorded {
                seek: c.get(s, "milliseconds")?,
                rotation: c.get(r, "milliseconds")?,
                transfer: c.get(x, "milliseconds")?,
                response: c.get(response, "milliseconds")?,
            });
        }
    }
    Ok(out)
}

/// The model and its reference: means in milliseconds, demerits as fractions of the reference's
/// mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Number of requests compared.
    pub requests: usize,
    /// Means of the reference.
    pub reference: Recorded,
    /// Means of the model.
    pub model: Recorded,
    /// Demerit of the response times, divided by the reference's mean response time.
    pub response_demerit: f64,
    /// Demerit of the service times, divided by the reference's mean service time.
    pub service_demerit: f64,
}

/// Compares a replay with a reference run of the same workload. The reference ends before its last
/// requests in flight complete; as many of the model's last requests are left out.
pub fn compare(ours: &[Completion], reference: &[Recorded]) -> Comparison {
    let ours: Vec<Recorded> = ours.iter().take(reference.len()).map(Recorded::of).collect();
    let means = |x: &[Recorded]| {
        let of = |f: fn(&Recorded) -> f64| mean(&x.iter().map(f).collect::<Vec<_>>());
        Recorded {
            seek: of(|r| r.seek),
            rotation: of(|r| r.rotation),
            transfer: of(|r| r.transfer),
            response: of(|r| r.response),
        }
    };
    let column = |x: &[Recorded], f: fn(&Recorded) -> f64| x.iter().map(f).collect::<Vec<f64>>();
    let share = |f: fn(&Recorded) -> f64| {
        let theirs = column(reference, f);
        demerit(&column(&ours, f), &theirs) / mean(&theirs)
    };
    Comparison {
        requests: ours.len(),
        reference: means(reference),
        model: means(&ours),
        response_demerit: share(|r| r.response),
        service_demerit: share(Recorded::service),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demerit_figure_by_hand() {
        // Sorted: 1 2 3 4 against 1 2 3 8: one is off by 4, so the root mean square is 2.
        assert_eq!(demerit(&[4.0, 1.0, 3.0, 2.0], &[8.0, 3.0, 1.0, 2.0]), 2.0);
        assert_eq!(demerit(&[5.0; 7], &[6.0; 3]), 1.0);
        // All values shifted by 0.5.
        let a: Vec<f64> = (0..100).map(f64::from).collect();
        let b: Vec<f64> = (0..100).rev().map(|i| f64::from(i) + 0.5).collect();
        assert!((demerit(&a, &b) - 0.5).abs() < 1e-12);
        assert!(demerit(&[], &[1.0]).is_nan());
    }
}
